//! A hermetic world: a home, programs and a daemon that belong to one bench alone.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use becket_wire::process::ARENAS;
use becket_wire::{Place, StartReport};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::args::Order;
use crate::client::Client;

/// The programs under test.
#[derive(Debug, Clone)]
pub struct Programs {
    pub becket: PathBuf,
    pub hook: PathBuf,
    /// Where the homes of their worlds are made: the disk counts too.
    pub folder: PathBuf,
}

impl Programs {
    /// What was built beside this program (or beside the folder of test programs that it is in).
    pub fn built() -> Result<Self> {
        Self::named(None, None, "/tmp".into())
    }

    /// What the command line names, else what was built.
    pub fn find(order: &Order) -> Result<Self> {
        Self::named(
            order.becket.clone(),
            order.hook.clone(),
            order.folder.clone(),
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

/// Where scripts/build-shim leaves the shim in a target folder.
fn built_hooks() -> [String; 3] {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    [
        format!("{target}/shim/becket-hook"),
        "static/shim/becket-hook".to_owned(),
        "shim/becket-hook".to_owned(),
    ]
}

#[derive(Debug)]
pub struct World {
    root: TempDir,
    pub place: Place,
    pub hook: PathBuf,
    pub becket: PathBuf,
}

impl World {
    pub fn new(programs: &Programs) -> Result<Self> {
        // A short path: the socket's name must fit its address.
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

    /// The folder of the project that the sessions of this world are in.
    pub fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    pub fn socket(&self) -> PathBuf {
        self.place.socket(rustix::process::getuid().as_raw())
    }

    /// A command that knows this world only, with the variables that Claude Code gives a hook.
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

    /// The shim as `becket init` registers it.
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

    /// Starts the daemon, and comes back when it listens.
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

/// A daemon of ours, ended when dropped.
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

    /// What it holds in memory; none where the system does not tell.
    pub fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
            Some(kib / 1024.0)
        };
        Some(Memory {
            now: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Orderly, so that what it leaves behind is whole.
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.child.wait());
    }
}
