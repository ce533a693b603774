//! Runs commands on a tmux server through the `tmux` program, with a limit on time and output. Never starts a
//! server.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use becket_engine::process::{Bounds, run_command};
use thiserror::Error;

/// The time limit of a call. A server may be stopped or busy.
const BOUND: Duration = Duration::from_secs(2);
/// The largest output that is read: more than the list of any sensible number of panes.
const MOST_OUTPUT: usize = 1 << 20;

/// The reason why tmux failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TmuxError {
    #[error("there is no tmux on this machine's PATH")]
    NoTmux,
    #[error("the tmux server at {0} is gone")]
    Gone(String),
    #[error("the tmux server at {0} does not answer")]
    Hangs(String),
    #[error("tmux: {0}")]
    Refused(String),
}

/// A tmux command with its arguments.
pub type TmuxCommand = Vec<String>;

/// A tmux server, known by its socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TmuxServer {
    socket: PathBuf,
    /// True if `tmux` gets our environment, so that it knows the client and the pane that it is called from.
    inside: bool,
}

impl TmuxServer {
    /// Makes a server for a caller that runs in no pane, such as the daemon.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            inside: false,
        }
    }

    /// Makes a server for a program that may run in one of its panes.
    pub fn inside(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            inside: true,
        }
    }

    /// Runs commands by one call, up to the first that fails. Returns their output.
    pub fn run(&self, commands: &[TmuxCommand]) -> Result<String, TmuxError> {
        self.check_owner()?;
        let bounds = Bounds {
            time: Some(BOUND),
            bytes: MOST_OUTPUT,
            ..Bounds::default()
        };
        let done = run_command(&mut self.tmux(commands), b"", &bounds);
        let done = done.map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => TmuxError::NoTmux,
            _ => TmuxError::Refused(why.to_string()),
        })?;
        let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&done.stderr);
        match done.status {
            None => Err(TmuxError::Hangs(self.name())),
            Some(status) => self.check_status(status, stdout, stderr.trim()),
        }
    }

    fn tmux(&self, commands: &[TmuxCommand]) -> Command {
        let mut tmux = Command::new("tmux");
        if !self.inside {
            tmux.env_clear();
            let kept = ["PATH", "HOME"].map(|name| (name, std::env::var_os(name)));
            let kept = kept
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            tmux.envs(kept).env("LANG", "C.UTF-8");
        }
        tmux.arg("-u")
            .arg("-S")
            .arg(&self.socket)
            .args(join(commands));
        tmux
    }

    fn check_status(
        &self,
        status: ExitStatus,
        stdout: String,
        stderr: &str,
    ) -> Result<String, TmuxError> {
        if status.success() {
            return Ok(stdout);
        }
        let gone = [
            "no server running",
            "error connecting",
            "server exited",
            "lost server",
        ];
        if gone.iter().any(|part| stderr.starts_with(part)) {
            return Err(TmuxError::Gone(self.name()));
        }
        Err(TmuxError::Refused(stderr.to_owned()))
    }

    /// Returns an error unless the socket belongs to our user. Its path came from a session's environment.
    fn check_owner(&self) -> Result<(), TmuxError> {
        let is_ours = fs::metadata(&self.socket).is_ok_and(|socket| {
            socket.file_type().is_socket() && socket.uid() == rustix::process::geteuid().as_raw()
        });
        if self.socket.is_absolute() && is_ours {
            Ok(())
        } else {
            Err(TmuxError::Gone(self.name()))
        }
    }

    fn name(&self) -> String {
        self.socket.display().to_string()
    }
}

/// Joins commands into one argument list: with a `;` between two, and a `;` at the end of a word escaped.
fn join(commands: &[TmuxCommand]) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    for words in commands {
        if !args.is_empty() {
            args.push(";".into());
        }
        args.extend(words.iter().map(|word| match word.strip_suffix(';') {
            Some(rest) => format!("{rest}\\;").into(),
            None => word.into(),
        }));
    }
    args
}

/// Makes a command of its words.
pub fn tmux_command(words: &[&str]) -> TmuxCommand {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns true for a pane id such as `%3`, and for nothing that tmux could read as another target.
pub fn is_pane(id: &str) -> bool {
    let number = id.strip_prefix('%').unwrap_or_default();
    !number.is_empty() && number.len() < 10 && number.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_of_a_word_stay_in_it() {
        let commands = [
            tmux_command(&["display", "a;"]),
            tmux_command(&["x;y", "z"]),
        ];
        assert_eq!(join(&commands), ["display", "a\\;", ";", "x;y", "z"]);
    }

    #[test]
    fn a_pane_is_a_number() {
        assert!(is_pane("%0") && is_pane("%12345"));
        for other in ["", "%", "3", "%3;", "%3.1", "%-1", "{last}", "%12345678901"] {
            assert!(!is_pane(other), "{other}");
        }
    }

    #[test]
    fn a_path_that_is_not_our_socket_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file, folder.path().join("none"), "relative".into()] {
            let told = TmuxServer::new(&path).run(&[tmux_command(&["list-panes"])]);
            assert_eq!(told, Err(TmuxError::Gone(path.display().to_string())));
        }
    }
}
