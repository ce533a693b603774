//! A program in a real terminal: tmux on a socket of its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use tempfile::TempDir;

use crate::skip::Unavailable;
use crate::wait::{self, PATIENCE};

/// Columns and rows.
pub type Size = (u16, u16);

/// One program in one pane. Dropping it ends the server and the program.
#[derive(Debug)]
pub struct Terminal {
    socket: String,
    folder: TempDir,
    child: Option<Pid>,
}

/// The text of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen(pub String);

impl Screen {
    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

impl Terminal {
    /// Starts `command` with exactly `env`, besides the variables of tmux (`TMUX`, `TMUX_PANE`, `TERM`) and
    /// a HOME of its own: without one, a shell uses the real one.
    pub fn start(
        command: &[OsString],
        env: &[(String, String)],
        folder: &Path,
        size: Size,
    ) -> Result<Self, Unavailable> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut terminal = Self {
            socket: format!("becket-test-{}-{number}", std::process::id()),
            // A socket's path must be short, and no other test may find it.
            folder: TempDir::with_prefix("tmux-").expect("make a folder for the tmux socket"),
            child: None,
        };
        let started = terminal
            .tmux()
            .env("HOME", terminal.folder.path())
            .envs(env.iter().map(|(k, v)| (k, v)))
            .env("TMUX_TMPDIR", terminal.folder.path())
            .args([
                "start-server",
                ";",
                "set-option",
                "-g",
                "remain-on-exit",
                "on",
                ";",
            ])
            .args(["set-option", "-g", "default-terminal", "tmux-256color", ";"])
            .args(["set-option", "-s", "escape-time", "0", ";"])
            .args(["new-session", "-d", "-x", &size.0.to_string()])
            .args(["-y", &size.1.to_string(), "-c"])
            .arg(folder)
            .arg("--")
            .args(command.iter().map(|word| verbatim(word)))
            .output()
            .map_err(|e| Unavailable::new(format!("start tmux: {e}")))?;
        assert!(started.status.success(), "tmux new-session: {started:?}");
        terminal.child = terminal
            .ask("#{pane_pid}")
            .parse()
            .ok()
            .and_then(Pid::from_raw);
        Ok(terminal)
    }

    /// Starts a command with its environment, in its folder.
    pub fn of(command: &Command, size: Size) -> Result<Self, Unavailable> {
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let env = command.get_envs();
        let env: Vec<_> = env
            .filter_map(|(name, value)| Some((text(name), text(value?))))
            .collect();
        let folder = command.get_current_dir().unwrap_or(Path::new("/"));
        Self::start(&words, &env, folder, size)
    }

    /// Starts a command that ends by itself: its pane stays and shows `[ended CODE]`. On a busy machine
    /// tmux learns of the end of a program before it has read its last lines, closes the terminal and never
    /// shows them.
    pub fn that_ends(command: &Command, size: Size) -> Result<Self, Unavailable> {
        let mut shell = Command::new("/bin/sh");
        let line = "\"$@\"; echo \"[ended $?]\"; exec sleep 600";
        shell.args(["-c", line, "sh"]).arg(command.get_program());
        shell.args(command.get_args());
        let set = command.get_envs();
        shell.envs(set.filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        Self::of(&shell, size)
    }

    /// Returns the server's socket.
    pub fn socket(&self) -> PathBuf {
        PathBuf::from(self.ask("#{socket_path}"))
    }

    /// Returns the process in the first pane.
    pub fn child(&self) -> Option<Pid> {
        self.child
    }

    /// Runs a tmux command and returns its output, without the last line end.
    pub fn tmux_says(&self, args: &[&str]) -> String {
        let said = String::from_utf8_lossy(&self.run(args).stdout).into_owned();
        said.trim_end_matches('\n').to_owned()
    }

    /// Returns the screen.
    pub fn screen(&self) -> Screen {
        let shown = self.run(&["capture-pane", "-p"]);
        Screen(String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    /// Returns the screen with its scrolled-out lines.
    pub fn history(&self) -> Screen {
        let shown = self.run(&["capture-pane", "-p", "-S", "-"]);
        Screen(String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    /// Records every byte that the program sends to the terminal from now on.
    pub fn record(&self, file: &Path) {
        let file = file.to_str().expect("a path in UTF-8");
        self.run(&["pipe-pane", "-O", &format!("exec cat > '{file}'")]);
    }

    /// Types text unchanged, without Enter.
    pub fn type_text(&self, text: &str) {
        let text = verbatim(OsStr::new(text));
        self.run(&["send-keys", "-l", "--", &text.to_string_lossy()]);
    }

    /// Presses one key by its tmux name: `Enter`, `Escape`, `Up`, `C-c`, `BTab`.
    pub fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    /// Waits until `fits` accepts the screen; fails with the last screen.
    #[track_caller]
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Screen) -> bool) -> Screen {
        self.wait_at_most(PATIENCE, what, fits)
    }

    #[track_caller]
    pub fn wait_at_most(
        &self,
        bound: Duration,
        what: &str,
        fits: impl Fn(&Screen) -> bool,
    ) -> Screen {
        let found = wait::until(bound, || Some(self.screen()).filter(&fits));
        match found {
            Some(screen) => screen,
            None => panic!("the screen never showed {what}:\n{}", self.screen().0),
        }
    }

    /// Waits until the screen shows `text`.
    #[track_caller]
    pub fn wait_text(&self, text: &str) -> Screen {
        self.wait_for(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Returns the pid of the program.
    pub fn pid(&self) -> u32 {
        let child = self.child.map(Pid::as_raw_nonzero);
        child.map_or(0, |pid| pid.get().unsigned_abs())
    }

    /// Kills the program alone.
    pub fn kill(&self) {
        let killed = self.child.map(|child| kill_process(child, Signal::KILL));
        assert_eq!(killed, Some(Ok(())), "kill the program");
    }

    pub fn has_ended(&self) -> bool {
        self.ask("#{pane_dead}") == "1"
    }

    /// Waits until the program has ended and returns its exit code, or the shell's code for its signal.
    /// tmux 3.3a sometimes forgets the code for good (for nine of forty programs on a busy machine): an
    /// unknown code counts as success.
    #[track_caller]
    pub fn wait_end(&self) -> i32 {
        let ended = wait::until(PATIENCE, || self.has_ended().then_some(()));
        assert!(
            ended.is_some(),
            "the program did not end:\n{}",
            self.screen().0
        );
        // tmux knows that the program ended a moment before it knows the code.
        let how = || {
            let signal = self.ask("#{pane_dead_signal}").parse::<i32>();
            let status = self.ask("#{pane_dead_status}").parse();
            status.or(signal.map(|signal| 128 + signal)).ok()
        };
        wait::until(Duration::from_secs(2), how).unwrap_or(0)
    }

    fn ask(&self, format: &str) -> String {
        let answer = self.run(&["display-message", "-p", format]);
        String::from_utf8_lossy(&answer.stdout)
            .trim_end_matches('\n')
            .to_owned()
    }

    fn run(&self, args: &[&str]) -> Output {
        let done = self.tmux().args(args).output().expect("run tmux");
        assert!(done.status.success(), "tmux {args:?}: {done:?}");
        done
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMUX_TMPDIR", self.folder.path())
            .env("LANG", "C.UTF-8")
            .args(["-u", "-L", &self.socket, "-f", "/dev/null"])
            .stdin(Stdio::null());
        tmux
    }
}

/// Returns true if the process runs. A zombie does not count.
fn alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let ended = stat.is_ok_and(|stat| stat.contains(") Z "));
    !ended && test_kill_process(process).is_ok()
}

/// Escapes a last semicolon, which tmux takes for the end of its command.
fn verbatim(word: &OsStr) -> OsString {
    match word.to_str().and_then(|word| word.strip_suffix(';')) {
        Some(rest) => OsString::from(format!("{rest}\\;")),
        None => word.to_owned(),
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
        let Some(child) = self.child else { return };
        // tmux hangs up on the program, which may still have hooks to run at its end.
        let gone = || (!alive(child)).then_some(());
        if wait::until(Duration::from_secs(10), gone).is_none() {
            let _ = kill_process_group(child, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Option<Terminal> {
        let command = ["/bin/sh", "-c", script].map(OsString::from);
        let env = [("MARK".to_owned(), "seen".to_owned())];
        match Terminal::start(&command, &env, Path::new("/"), (80, 24)) {
            Ok(terminal) => Some(terminal),
            Err(why) => {
                crate::skip::skip("terminal", &why);
                None
            }
        }
    }

    #[test]
    fn types_reads_and_sees_the_end() {
        let Some(terminal) = shell("read line; echo \"got $line $MARK [${HOME%-*}]\"; exit 3")
        else {
            return;
        };
        terminal.type_text("a word; $x;");
        terminal.press("Enter");
        terminal.wait_text("got a word; $x; seen [/tmp/tmux]");
        terminal.wait_end();
    }

    #[test]
    fn ends_the_program_when_dropped() {
        let Some(terminal) = shell("echo ready; sleep 600") else {
            return;
        };
        terminal.wait_text("ready");
        let child = terminal.child.expect("a process in the pane");
        drop(terminal);
        assert!(!alive(child), "still there: {child:?}");
    }
}
