//! Shows a session's tmux pane and types into it, but only while its Claude Code is in the foreground of the pane's
//! terminal. Keys for a Claude Code that has ended would go to the user's shell.

pub mod conf;

#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use becket_daemon::tmux::{TmuxCommand, TmuxError, TmuxServer, is_pane, tmux_command};
use becket_wire::session::SessionRow;
use rustix::process::{Pid, Signal};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::failure::{Code, Failure};
use crate::session::words::question;

/// The most bytes of a line, which tmux takes as one argument.
const LONGEST_LINE: usize = 8 << 10;
/// The time limit for typed text to appear in the pane.
const ECHO: Duration = Duration::from_secs(2);
/// The pause between two looks for it.
const LOOK: Duration = Duration::from_millis(25);
/// The number of characters at the end of a line that are looked for.
const ECHOED: usize = 16;
/// The text that Claude Code shows in place of about 800 characters and more, without the space.
const PASTED: &str = "[Pastedtext";

/// The tmux pane that this program runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentTmux {
    pub socket: Option<PathBuf>,
    pub pane: Option<String>,
}

impl CurrentTmux {
    pub fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::new(variable("TMUX").as_deref(), variable("TMUX_PANE"))
    }

    /// Parses `TMUX`, which holds the socket, the server's pid and a session's number.
    fn new(tmux: Option<&str>, pane: Option<String>) -> Self {
        let socket = tmux.and_then(|tmux| tmux.rsplitn(3, ',').nth(2));
        Self {
            socket: socket.map(PathBuf::from),
            pane: pane.filter(|pane| is_pane(pane)),
        }
    }

    /// Returns the server's socket. Fails outside of tmux.
    pub fn must_be_inside(&self) -> Result<&Path> {
        self.socket.as_deref().ok_or_else(|| {
            Failure::new(Code::Failed, "this is not inside tmux")
                .hint("run it in a tmux pane")
                .into()
        })
    }
}

/// Shows the session's pane in the user's tmux.
pub fn jump(row: &SessionRow) -> Result<()> {
    jump_from(&CurrentTmux::read(), row)
}

/// Presses Escape in the session's pane.
pub fn interrupt(row: &SessionRow) -> Result<()> {
    let pane = Pane::of(row)?;
    pane.must_be_in_front(row)?;
    pane.run(&[pane.keys(&["Escape"])]).map(drop)
}

/// Fails if the session has ended, has no pane, or asks a question. A session that failed takes a line: its prompt is
/// empty.
pub fn may_take_a_line(row: &SessionRow) -> Result<()> {
    if row.ended_at.is_some() {
        return Err(gone(row));
    }
    Pane::of(row)?;
    match question(row) {
        None => Ok(()),
        Some(question) => {
            let what =
                format!("it waits for an answer ({question}): a line would be taken for one");
            let hint = "answer it in its pane first";
            Err(Failure::new(Code::Failed, what).hint(hint).into())
        }
    }
}

/// Types a line into the session's pane and sends it.
pub fn send_line(row: &SessionRow, text: &str) -> Result<()> {
    must_be_a_line(text)?;
    may_take_a_line(row)?;
    let pane = Pane::of(row)?;
    pane.must_be_in_front(row)?;
    let before = pane.count_on_screen(text)?;
    pane.run(&[pane.keys(&["-l", "--", text])])?;
    // Claude Code treats text and Enter together as pasted text. And if the text does not appear, a dialog may have
    // the input, which Enter would confirm.
    pane.wait_for(text, before)?;
    pane.must_be_in_front(row)?;
    pane.run(&[pane.keys(&["Enter"])]).map(drop)
}

fn jump_from(here: &CurrentTmux, row: &SessionRow) -> Result<()> {
    let pane = Pane::of(row)?;
    pane.run(&[pane.targeted("select-window"), pane.targeted("select-pane")])?;
    if here.socket.as_deref() == Some(pane.socket.as_path()) {
        return pane.run(&[pane.targeted("switch-client")]).map(drop);
    }
    let session = pane.ask("#{session_attached} #{session_name}")?;
    match session.split_once(' ') {
        Some(("0", name)) => {
            let what = format!("no terminal shows the tmux session {name}, where it runs");
            let hint = format!("tmux -S {} attach -t {}", pane.socket.display(), pane.id);
            Err(Failure::new(Code::Failed, what).hint(hint).into())
        }
        _ => Ok(()),
    }
}

fn must_be_a_line(text: &str) -> Result<()> {
    let wrong = if text.trim().is_empty() {
        "there is nothing to send"
    } else if text.len() > LONGEST_LINE {
        "the line is longer than 8 KiB"
    } else if text.chars().any(char::is_control) {
        "the line holds a control character, which would be a key of its own"
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::Usage, wrong).into())
}

/// The pane of a session.
#[derive(Debug)]
struct Pane {
    server: TmuxServer,
    socket: PathBuf,
    id: String,
}

impl Pane {
    fn of(row: &SessionRow) -> Result<Self> {
        let id = row.tmux_pane.as_ref().filter(|id| is_pane(id));
        let (Some(id), Some(socket)) = (id, &row.tmux_socket) else {
            let what = "no tmux pane is known for this session";
            let hint = "start Claude Code inside tmux";
            return Err(Failure::new(Code::Missing, what).hint(hint).into());
        };
        Ok(Self {
            server: TmuxServer::inside(socket),
            socket: socket.into(),
            id: id.clone(),
        })
    }

    /// Makes a tmux command with this pane as its target.
    fn targeted(&self, command: &str) -> TmuxCommand {
        tmux_command(&[command, "-t", &self.id])
    }

    fn keys(&self, keys: &[&str]) -> TmuxCommand {
        tmux_command(&[&["send-keys", "-t", &self.id], keys].concat())
    }

    fn run(&self, commands: &[TmuxCommand]) -> Result<String> {
        self.server.run(commands).map_err(|why| self.failure(&why))
    }

    /// Returns a format of this pane. For a pane that does not exist, tmux leaves every field empty, which is an error
    /// here.
    fn ask(&self, format: &str) -> Result<String> {
        let format = format!("#{{pane_id}} {format}");
        let answer = self.run(&[tmux_command(&[
            "display-message",
            "-p",
            "-t",
            &self.id,
            &format,
        ])])?;
        match answer.trim_end_matches('\n').split_once(' ') {
            Some((id, rest)) if id == self.id => Ok(rest.to_owned()),
            _ => Err(self.gone()),
        }
    }

    /// Fails unless keys for this pane reach that session's Claude Code, and only it.
    fn must_be_in_front(&self, row: &SessionRow) -> Result<()> {
        let (_, stat) = process(row)?;
        let answer = self.ask("#{pane_dead} #{pane_synchronized} #{pane_in_mode} #{pane_tty}")?;
        let mut fields = answer.splitn(4, ' ');
        let [dead, synchronized, in_mode, tty] =
            std::array::from_fn(|_| fields.next().unwrap_or_default());
        if dead == "1" || !stat.is_in_front_of(Path::new(tty)) {
            let what = format!("Claude Code is not in front in the pane {}", self.id);
            let hint = "keys would reach another program now; `becket tmux jump` shows the pane";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        if synchronized == "1" {
            let what = format!("the pane {} is synchronized with others", self.id);
            let hint = "tmux set-option -w synchronize-panes off";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        if in_mode != "0" {
            // In copy mode the keys would scroll.
            self.run(&[tmux_command(&["copy-mode", "-q", "-t", &self.id])])?;
        }
        Ok(())
    }

    /// Counts the places on the screen with the end of this text, or with the mark that Claude Code shows for a long
    /// text. A terminal breaks lines anywhere, so spaces do not count.
    fn count_on_screen(&self, text: &str) -> Result<usize> {
        let text = without_spaces(text);
        let last = text.char_indices().rev().nth(ECHOED - 1);
        let from = last.map_or(0, |(at, _)| at);
        let screen = self.run(&[tmux_command(&["capture-pane", "-p", "-J", "-t", &self.id])])?;
        let screen = without_spaces(&screen);
        Ok(screen.matches(&text[from..]).count() + screen.matches(PASTED).count())
    }

    fn wait_for(&self, text: &str, before: usize) -> Result<()> {
        let until = Instant::now() + ECHO;
        while self.count_on_screen(text)? <= before {
            if Instant::now() >= until {
                let id = &self.id;
                let what =
                    format!("the text did not appear in the pane {id}; Enter was not pressed");
                let hint = "look at the pane: something else may have the input there";
                return Err(Failure::new(Code::TimedOut, what).hint(hint).into());
            }
            pause();
        }
        Ok(())
    }

    fn gone(&self) -> anyhow::Error {
        let what = format!("the pane {} is gone", self.id);
        let hint = "its window was closed; `becket sessions` lists the live sessions";
        Failure::new(Code::Missing, what).hint(hint).into()
    }

    fn failure(&self, why: &TmuxError) -> anyhow::Error {
        let (code, hint) = match why {
            TmuxError::NoTmux => (Code::Failed, "install tmux, or put it on the PATH"),
            TmuxError::Gone(_) => (
                Code::Missing,
                "its terminal is closed; `becket sessions` lists the live sessions",
            ),
            TmuxError::Hangs(_) => (Code::TimedOut, "look at that tmux server: is it stopped?"),
            TmuxError::Refused(why) if why.starts_with("can't find pane") => return self.gone(),
            TmuxError::Refused(why) if why.contains("no current client") => (
                Code::Failed,
                "no terminal is attached to that tmux server: tmux attach, then again",
            ),
            TmuxError::Refused(_) => (Code::Failed, "tmux 3.0 or newer is needed"),
        };
        Failure::new(code, why.to_string()).hint(hint).into()
    }
}

fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a screen that cannot wake us"
)]
fn pause() {
    std::thread::sleep(LOOK);
}

/// The state of a process in `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    ended: bool,
    group: i64,
    /// The controlling terminal, as the kernel packs device numbers.
    terminal: u64,
    /// The foreground process group of this terminal.
    in_front: i64,
    start: u64,
}

impl ProcessStat {
    /// Parses the line. The process's name may hold any character, so fields are counted from its end.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let mut number = |skip: usize| fields.nth(skip)?.parse::<i64>().ok();
        Some(Self {
            ended: matches!(state, "Z" | "X"),
            group: number(1)?,
            terminal: number(1)?.cast_unsigned(),
            in_front: number(0)?,
            start: number(13)?.cast_unsigned(),
        })
    }

    /// Returns true if keys that are typed into this terminal reach the process.
    pub fn is_in_front_of(&self, terminal: &Path) -> bool {
        fs::metadata(terminal).is_ok_and(|metadata| {
            let device = metadata.rdev();
            let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
            unpacked(self.terminal) == numbers && self.group == self.in_front
        })
    }
}

/// Splits a device number of `stat` into major and minor number.
fn unpacked(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    (major as u32, minor as u32)
}

/// Returns the session's process, if it lives and has the known start time. The system reuses pids.
pub fn process(row: &SessionRow) -> Result<(u32, ProcessStat)> {
    let (Some(pid), Some(start)) = (row.pid, row.pid_start) else {
        let what = "the process of this session is not known";
        return Err(Failure::new(Code::Missing, what).into());
    };
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match ProcessStat::parse(&line) {
        Some(stat) if stat.start == start && !stat.ended => Ok((pid, stat)),
        _ => Err(gone(row)),
    }
}

/// Asks the session's Claude Code to end, with SIGTERM. It still sends its SessionEnd.
pub fn end(row: &SessionRow) -> Result<()> {
    let (pid, _) = process(row)?;
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(|| gone(row))?;
    #[cfg(target_os = "linux")]
    {
        // An open handle refers to this process and to no later one with its pid.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone(row))?;
        process(row)?;
        pidfd_send_signal(handle, Signal::TERM).map_err(|_| gone(row))
    }
    #[cfg(not(target_os = "linux"))]
    rustix::process::kill_process(pid, Signal::TERM).map_err(|_| gone(row))
}

fn gone(row: &SessionRow) -> anyhow::Error {
    let pid = row.pid.unwrap_or_default();
    let what = format!("the Claude Code of this session (process {pid}) has ended");
    Failure::new(Code::Missing, what)
        .hint("becket sessions --all")
        .into()
}
