//! A hermetic world: a home, programs and a daemon for one bench only.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use becket_wire::process::ARENAS;
use becket_wire::{Place, StartReport};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::args::BenchOptions;
use crate::client::Client;

/// The programs under test.
#[derive(Debug, Clone)]
pub struct Programs {
    pub becket: PathBuf,
    pub hook: PathBuf,
    /// The folder in which the homes of the worlds are made: its disk affects the figures.
    pub folder: PathBuf,
}

impl Programs {
    /// Returns the programs that were built beside this program (or beside the folder of test programs
    /// that contains it).
    pub fn built() -> Result<Self> {
        Self::named(None, None, "/tmp".into())
    }

    /// Returns the programs that the command line names, else those that were built.
    pub fn find(options: &BenchOptions) -> Result<Self> {
        Self::named(
            options.becket.clone(),
            options.hook.clone(),
            options.folder.clone(),
        )
    }

    fn named(becket: Option<PathBuf>, hook: Option<PathBuf>, folder: PathBuf) -> Result<Self> {
        let myself = std::env::current_exe().context("could not find this program")?;
        let near: Vec<&Path> = myself.ancestors().skip(1).take(3).collect();
        let becket = becket.or_else(|| find(&near, &["becket"]));
        let hook = hook.or_else(|| find(&near, &built_hooks()));
        let (Some(becket), Some(hook)) = (becket, hook) else {
            bail!(
                "becket and becket-hook are not built\nhint: cargo build --release -p becket && scripts/build-shim"
            );
        };
        Ok(Self {
            becket,
            hook,
            folder,
        })
    }
}

fn find<S: AsRef<Path>>(folders: &[&Path], names: &[S]) -> Option<PathBuf> {
    let paths = folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    paths.into_iter().find(|path| path.is_file())
}

/// Returns the paths in a target folder to which scripts/build-shim writes the shim.
fn built_hooks() -> [String; 3] {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    [
        format!("{target}/shim/becket-hook"),
        "static/shim/becket-hook".to_owned(),
        "shim/becket-hook".to_owned(),
    ]
}

/// A temporary folder with programs, a home and a project. Dropping it deletes the folder.
#[derive(Debug)]
pub struct World {
    root: TempDir,
    pub place: Place,
    pub hook: PathBuf,
    pub becket: PathBuf,
}

impl World {
    pub fn new(programs: &Programs) -> Result<Self> {
        // A short path, because the length of a socket's address is limited.
        let root = tempfile::Builder::new()
            .prefix("bkb")
            .tempdir_in(&programs.folder)
            .context("could not make a temp folder")?;
        let bin = root.path().join("bin");
        std::fs::create_dir_all(&bin)?;
        std::fs::create_dir_all(root.path().join("home"))?;
        for (program, name) in [
            (&programs.becket, "becket"),
            (&programs.hook, "becket-hook"),
        ] {
            std::fs::copy(program, bin.join(name))
                .with_context(|| format!("could not copy {}", program.display()))?;
        }
        std::fs::create_dir(root.path().join("project"))?;
        Ok(Self {
            place: Place::new(root.path().join("home/.becket")),
            hook: bin.join("becket-hook"),
            becket: bin.join("becket"),
            root,
        })
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the project folder of the sessions in this world.
    pub fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    pub fn socket(&self) -> PathBuf {
        self.place.socket(rustix::process::getuid().as_raw())
    }

    /// Makes a command whose environment is this world only, with the variables that Claude Code sets for
    /// a hook.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.root().join("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("BECKET_HOME", self.place.home())
            .env("CLAUDE_PROJECT_DIR", self.project())
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("CLAUDE_PID", std::process::id().to_string());
        command
    }

    /// Returns the arguments with which `becket up` registers the shim.
    pub fn hook_args(&self) -> Vec<String> {
        let home = self.place.home().to_string_lossy();
        [
            "--event",
            "PreToolUse",
            "--from",
            "settings",
            "--home",
            &home,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Starts the daemon, and waits until it listens.
    pub fn daemon(&self) -> Result<Daemon> {
        let child = self
            .command(&self.becket)
            .args(["daemon", "run"])
            .env(ARENAS.0, ARENAS.1)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the daemon")?;
        let mut daemon = Daemon {
            child,
            socket: self.socket(),
        };
        let stdout = daemon.child.stdout.as_mut().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match StartReport::read(&line) {
            StartReport::Ready => Ok(daemon),
            other => bail!("the daemon did not start: {other}"),
        }
    }
}

/// A running daemon. Dropping it ends the daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    socket: PathBuf,
}

/// The memory of a process, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    pub now: f64,
    pub peak: f64,
}

impl Daemon {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect(&self.socket)
    }

    /// Returns the memory of the daemon, or `None` where the system does not report it.
    pub fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        Some(Memory {
            now: mebibytes(&status, "VmRSS:")?,
            peak: mebibytes(&status, "VmHWM:")?,
        })
    }
}

/// Reads a field of `/proc/PID/status` in MiB.
fn mebibytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM, so that the daemon finishes its writes.
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.child.wait());
    }
}
