//! A hermetic becket: home, programs and daemon that belong to one test.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use becket_wire::{Place, json};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait::{self, PATIENCE};

/// The `--from` argument of the registration that `becket up` writes.
pub const FROM_SETTINGS: [&str; 2] = ["--from", "settings"];

#[derive(Debug)]
pub struct World {
    /// The user's home, with `.claude` and `.becket` in it.
    pub home: PathBuf,
    pub becket_home: PathBuf,
    /// `becket` and `becket-hook`, side by side.
    pub programs: PathBuf,
    root: TempDir,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// The output, exit code and duration of a hook call.
#[derive(Debug)]
pub struct Called {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Called {
    fn new(output: &Output, took: Duration) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took,
        }
    }

    /// Returns true if the call gave no opinion: nothing on stdout, exit 0.
    pub fn is_silent(&self) -> bool {
        self.code == Some(0) && self.stdout.is_empty()
    }

    /// Returns true if the call gave no opinion and reported nothing: nothing on stderr either.
    pub fn is_quiet(&self) -> bool {
        self.is_silent() && self.stderr.is_empty()
    }
}

impl World {
    /// Creates a world with a recorded environment for the daemon, as by `becket up`. Without it, the
    /// daemon would use the real HOME.
    pub fn new() -> Self {
        let world = Self::bare();
        let made = fs::DirBuilder::new().mode(0o700).create(&world.becket_home);
        made.expect("a home");
        let home = world.home.display();
        fs::write(world.path("environment"), format!("HOME={home}\0")).expect("a record");
        world
    }

    /// Creates a world in which becket has never run.
    pub fn bare() -> Self {
        // A short path: the socket's name must fit its address.
        let root = tempfile::Builder::new()
            .prefix("bkt")
            .tempdir_in("/tmp")
            .expect("a temp folder");
        let home = root.path().join("home");
        let programs = root.path().join("bin");
        fs::create_dir_all(home.join(".claude")).expect("a home");
        fs::create_dir_all(&programs).expect("a folder for programs");
        for (name, built) in [("becket", becket()), ("becket-hook", shim())] {
            place_program(&built, &programs.join(name));
        }
        Self {
            becket_home: home.join(".becket"),
            home,
            programs,
            root,
        }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.becket_home.join(name)
    }

    /// Returns a command in a cleared environment that knows this world only.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs.display()),
            )
            .env("LANG", "C.UTF-8")
            .env("CLAUDE_CONFIG_DIR", self.home.join(".claude"))
            .env("BECKET_HOME", &self.becket_home)
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    pub fn becket<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(self.programs.join("becket"));
        command.args(args);
        command
    }

    /// Returns the shim as `becket up` registers it for an event.
    pub fn shim(&self, event: &str) -> Command {
        let mut command = self.command(self.programs.join("becket-hook"));
        command
            .args(["--event", event])
            .args(FROM_SETTINGS)
            .arg("--home")
            .arg(&self.becket_home);
        command
    }

    /// Returns the shim of an event, which judges without a daemon.
    pub fn standalone_shim(&self, event: &str) -> Command {
        let mut shim = self.shim(event);
        shim.env("BECKET_NO_DAEMON", "1");
        shim
    }

    /// Runs a becket verb, which must succeed, and returns its stdout.
    pub fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "becket {args:?} ended with {}: {stderr}",
            output.status
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.becket(args).output().expect("becket runs")
    }

    /// Sends one event through the shim.
    pub fn send(&self, event: &str, payload: impl AsRef<[u8]>) -> Called {
        call(self.shim(event), payload.as_ref())
    }

    /// Sends an event of a session through the shim, with these additional fields.
    pub fn tell(&self, session: &str, event: &str, fields: &Value) -> Called {
        let mut payload = json!({"session_id": session, "hook_event_name": event});
        for (name, value) in fields.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        self.send(event, payload.to_string())
    }

    /// Returns the live sessions of `becket sessions --json`.
    pub fn sessions(&self) -> Vec<Value> {
        let text = self.run(&["sessions", "--json"]);
        serde_json::from_str(&text).expect("a list in JSON")
    }

    /// Returns the whole log of `becket events --json`.
    pub fn events(&self) -> Vec<Value> {
        let text = self.run(&["events", "--json", "--duplicates"]);
        text.lines()
            .map(|line| json::lenient(line).expect("a line of JSON"))
            .collect()
    }

    /// Returns `becket daemon status --json`.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.run(&["daemon", "status", "--json"])).expect("JSON")
    }

    /// Returns the exit code and the report of `becket doctor --json`.
    pub fn doctor(&self) -> (Option<i32>, Value) {
        let output = self.output(&["doctor", "--json"]);
        let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            panic!("doctor gives no JSON ({why}): {stderr}")
        });
        (output.status.code(), told)
    }

    pub fn start_daemon(&self) -> u32 {
        self.run(&["daemon", "start"]);
        self.daemon_pid().expect("a daemon")
    }

    /// Returns the pid in the daemon's lock file if that process runs.
    pub fn daemon_pid(&self) -> Option<u32> {
        let pid: u32 = fs::read_to_string(self.path("run/daemon.lock"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        program.starts_with(self.root.path()).then_some(pid)
    }

    /// Returns all daemons of this world, also those that wait for the lock.
    pub fn daemons(&self) -> Vec<u32> {
        let called = "\0daemon\0run\0";
        let is_ours = |pid: &u32| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            program.starts_with(self.root.path()) && line.contains(called)
        };
        fs::read_dir("/proc")
            .expect("processes")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(is_ours)
            .collect()
    }

    /// Sends the daemon a signal, if there is one.
    pub fn signal_daemon(&self, signal: Signal) -> Option<u32> {
        let pid = self.daemon_pid()?;
        kill_process(Pid::from_raw(i32::try_from(pid).ok()?)?, signal).ok()?;
        Some(pid)
    }

    /// Kills the daemon and waits until it is gone.
    pub fn kill_daemon(&self) {
        if let Some(pid) = self.signal_daemon(Signal::KILL) {
            let gone = wait::until(PATIENCE, || (!is_alive(pid)).then_some(()));
            assert!(gone.is_some(), "the daemon {pid} does not die");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.signal_daemon(Signal::KILL);
        let uid = rustix::process::getuid().as_raw();
        let temporary = Place::new(&self.becket_home).temporary(uid);
        drop(fs::remove_dir_all(temporary));
    }
}

/// Puts a program at another path, by a hard link or, across file systems, by `cp`. The test must not write
/// the copy itself: see `write_program`.
pub fn place_program(built: &Path, here: &Path) {
    if fs::hard_link(built, here).is_err() {
        let copied = Command::new("cp").arg(built).arg(here).status();
        let copied = copied.expect("cp runs");
        assert!(copied.success(), "copy {}: {copied}", built.display());
    }
}

/// Writes a program in sh. A shell writes the file, because a process that another thread starts meanwhile
/// would inherit the open file, and the system refuses to run a file that is open for writing.
pub fn write_program(path: &Path, body: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let mut sh = Command::new("/bin/sh");
    let written = sh.args(["-c", write, "sh", body]).arg(path).status();
    assert!(written.expect("a shell").success(), "{}", path.display());
}

/// Returns true if a process runs. A zombie does not, unless some of its threads are still ending: they
/// hold its files and sockets open.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let runs = stat
        .rsplit_once(')')
        .is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']));
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    runs || threads() > 1
}

/// Runs a hook command with `payload` on stdin.
pub fn call(command: Command, payload: &[u8]) -> Called {
    let began = Instant::now();
    let mut child = start(command);
    let mut stdin = child.stdin.take().expect("a stdin");
    let payload = payload.to_vec();
    // On a thread of its own: a program that answers before it has read everything must not block the test.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&payload)));
    let output = child.wait_with_output().expect("the hook ends");
    let took = began.elapsed();
    drop(writing.join());
    Called::new(&output, took)
}

/// Waits for a hook to end. One that does not end in time is killed and fails the test.
pub fn finish(child: Child, began: Instant, bound: Duration) -> Called {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (ended, waiting) = std::sync::mpsc::channel();
    let reaping = std::thread::spawn(move || drop(ended.send(child.wait_with_output())));
    let output = waiting.recv_timeout(bound);
    if output.is_err() {
        // The process has not been reaped, so its pid is not reused.
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
    }
    drop(reaping.join());
    match output {
        Ok(output) => Called::new(&output.expect("the hook ends"), began.elapsed()),
        Err(_) => panic!("the hook did not end within {bound:?}"),
    }
}

/// Starts a hook command with pipes for stdin, stdout and stderr.
pub fn start(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the hook starts")
}

/// Returns the `becket` of this test run.
fn becket() -> PathBuf {
    built("BECKET_TEST_BIN", &["becket"])
}

/// Returns the shim: the static build if there is one.
fn shim() -> PathBuf {
    built(
        "BECKET_TEST_SHIM",
        &[
            "../x86_64-unknown-linux-musl/shim/becket-hook",
            "becket-hook",
        ],
    )
}

fn built(variable: &str, names: &[&str]) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let test = std::env::current_exe().expect("this test has a file");
    let folder = test.parent().and_then(Path::parent).expect("target/debug");
    let found = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!(
            "{names:?} is not built; run ./test, or: scripts/build-shim && cargo build -p becket"
        )
    })
}

/// Returns the recorded payloads of the real Claude Code, by name.
pub fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/fixtures");
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("the fixtures")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                fs::read(entry.path()).expect("a fixture"),
            )
        })
        .collect();
    found.sort();
    assert!(found.len() > 60, "only {} fixtures", found.len());
    found
}
