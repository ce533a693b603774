//! A session's pane: going there, and typing into it, but only while its Claude Code has the
//! pane's terminal in front. Keys for a Claude Code that has ended would go to the person's shell.

pub mod conf;

#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use becket_daemon::tmux::{Server, TmuxError, Words, is_pane, words};
use becket_wire::session::SessionRow;
use rustix::process::{Pid, Signal};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::failure::{Code, Failure};
use crate::session::words::question;

/// Longer than anybody types as one line; tmux takes it as one argument.
const LONGEST_LINE: usize = 8 << 10;
/// How long typed text may take to show up in the pane, and how often it is looked for.
const ECHO: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(25);
/// So much of the end of a line is looked for on the screen.
const ECHOED: usize = 16;
/// What Claude Code shows for some 800 characters and more, without the space.
const PASTED: &str = "[Pastedtext";

/// The tmux that this program runs in.
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

    /// `TMUX` is the socket, the server's pid and a session's number.
    fn new(tmux: Option<&str>, pane: Option<String>) -> Self {
        let socket = tmux.and_then(|tmux| tmux.rsplitn(3, ',').nth(2));
        Self {
            socket: socket.map(PathBuf::from),
            pane: pane.filter(|pane| is_pane(pane)),
        }
    }

    /// The server's socket, for what makes sense only in there.
    pub fn must_be_inside(&self) -> Result<&Path> {
        self.socket.as_deref().ok_or_else(|| {
            Failure::new(Code::Failed, "this is not inside tmux")
                .hint("run it in a tmux pane")
                .into()
        })
    }
}

/// Shows the session's pane in the person's tmux.
pub fn jump(row: &SessionRow) -> Result<()> {
    jump_from(&CurrentTmux::read(), row)
}

/// Presses Escape in the session's pane.
pub fn interrupt(row: &SessionRow) -> Result<()> {
    let pane = Pane::of(row)?;
    pane.must_be_in_front(row)?;
    pane.run(&[pane.keys(&["Escape"])]).map(drop)
}

/// Fails where what is known of the session already forbids to send it a line. One that failed takes
/// it: its prompt is empty.
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
            Err(Failure::new(Code::Failed, what)
                .hint("answer it in its pane first")
                .into())
        }
    }
}

/// Types a line into the session's pane and sends it.
pub fn send_line(row: &SessionRow, text: &str) -> Result<()> {
    must_be_a_line(text)?;
    may_take_a_line(row)?;
    let pane = Pane::of(row)?;
    pane.must_be_in_front(row)?;
    let before = pane.shows(text)?;
    pane.run(&[pane.keys(&["-l", "--", text])])?;
    // Claude Code takes text and Enter at once for something pasted; and where the text does not
    // appear, something else has the input, which Enter might agree to.
    pane.wait_for(text, before)?;
    pane.must_be_in_front(row)?;
    pane.run(&[pane.keys(&["Enter"])]).map(drop)
}

/// Asks the session's Claude Code to end. It does so in an orderly way: its SessionEnd comes.
pub fn end(row: &SessionRow) -> Result<()> {
    ask_to_end(row)
}

fn jump_from(here: &CurrentTmux, row: &SessionRow) -> Result<()> {
    let pane = Pane::of(row)?;
    let shows = |what: &str| words(&[what, "-t", &pane.id]);
    pane.run(&[shows("select-window"), shows("select-pane")])?;
    if here.socket.as_deref() == Some(pane.socket.as_path()) {
        return pane.run(&[shows("switch-client")]).map(drop);
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
    server: Server,
    socket: PathBuf,
    id: String,
}

impl Pane {
    fn of(row: &SessionRow) -> Result<Self> {
        let id = row.tmux_pane.as_ref().filter(|id| is_pane(id));
        let (Some(id), Some(socket)) = (id, &row.tmux_socket) else {
            let what = "no tmux pane is known for this session";
            return Err(Failure::new(Code::Missing, what)
                .hint("start Claude Code inside tmux")
                .into());
        };
        Ok(Self {
            server: Server::inside(socket),
            socket: socket.into(),
            id: id.clone(),
        })
    }

    fn keys(&self, keys: &[&str]) -> Words {
        let target = ["send-keys", "-t", self.id.as_str()];
        target
            .iter()
            .chain(keys)
            .map(|word| (*word).to_owned())
            .collect()
    }

    fn run(&self, commands: &[Words]) -> Result<String> {
        self.server.run(commands).map_err(|why| self.failure(&why))
    }

    /// tmux answers for a pane that is not there, too, with nothing in every field.
    fn ask(&self, format: &str) -> Result<String> {
        let format = format!("#{{pane_id}} {format}");
        let said = self.run(&[words(&["display-message", "-p", "-t", &self.id, &format])])?;
        match said.trim_end_matches('\n').split_once(' ') {
            Some((id, rest)) if id == self.id => Ok(rest.to_owned()),
            _ => Err(self.gone()),
        }
    }

    /// Fails unless what is typed into this pane reaches that session's Claude Code, and only it.
    fn must_be_in_front(&self, row: &SessionRow) -> Result<()> {
        let (_, stat) = process(row)?;
        let said = self.ask("#{pane_dead} #{pane_synchronized} #{pane_in_mode} #{pane_tty}")?;
        let mut fields = said.splitn(4, ' ');
        let mut next = || fields.next().unwrap_or_default();
        let (dead, synchronized, in_mode, tty) = (next(), next(), next(), next());
        if dead == "1" || !stat.is_in_front_of(Path::new(tty)) {
            let what = format!("Claude Code is not in front in the pane {}", self.id);
            return Err(Failure::new(Code::Failed, what)
                .hint("what is sent there now would reach another program; `becket tmux jump` shows the pane")
                .into());
        }
        if synchronized == "1" {
            let what = format!("the pane {} is synchronized with others", self.id);
            return Err(Failure::new(Code::Failed, what)
                .hint("tmux set-option -w synchronize-panes off")
                .into());
        }
        if in_mode != "0" {
            // Else the keys would scroll.
            self.run(&[words(&["copy-mode", "-q", "-t", &self.id])])?;
        }
        Ok(())
    }

    /// How often the end of this text stands on the screen, or what Claude Code shows instead of
    /// a long one. A terminal breaks lines where it likes, so spaces do not count.
    fn shows(&self, text: &str) -> Result<usize> {
        let plain = |text: &str| {
            let letters = text.chars().filter(|c| !c.is_whitespace());
            letters.collect::<String>()
        };
        let text = plain(text);
        let last = text.char_indices().rev().nth(ECHOED - 1);
        let from = last.map_or(0, |(at, _)| at);
        let screen = self.run(&[words(&["capture-pane", "-p", "-J", "-t", &self.id])])?;
        let screen = plain(&screen);
        let count = |part: &str| screen.matches(part).count();
        Ok(count(&text[from..]) + count(PASTED))
    }

    fn wait_for(&self, text: &str, before: usize) -> Result<()> {
        let until = Instant::now() + ECHO;
        while self.shows(text)? <= before {
            if Instant::now() >= until {
                let what = format!(
                    "the text did not appear in the pane {}; Enter was not pressed",
                    self.id
                );
                return Err(Failure::new(Code::TimedOut, what)
                    .hint("look what has the input there")
                    .into());
            }
            pause();
        }
        Ok(())
    }

    fn gone(&self) -> anyhow::Error {
        let what = format!("the pane {} is gone", self.id);
        Failure::new(Code::Missing, what)
            .hint("its window was closed; `becket sessions` shows who is there")
            .into()
    }

    fn failure(&self, why: &TmuxError) -> anyhow::Error {
        let (code, hint) = match why {
            TmuxError::NoTmux => (Code::Failed, "install tmux, or put it on the PATH"),
            TmuxError::Gone(_) => (
                Code::Missing,
                "its terminal is closed; `becket sessions` shows who is there",
            ),
            TmuxError::Hangs(_) => (Code::TimedOut, "look at that tmux server: is it stopped?"),
            TmuxError::Refused(said) if said.starts_with("can't find pane") => {
                return self.gone();
            }
            TmuxError::Refused(said) if said.contains("no current client") => (
                Code::Failed,
                "no terminal is attached to that tmux server: tmux attach, then again",
            ),
            TmuxError::Refused(_) => (Code::Failed, "tmux 3.0 or newer is needed"),
        };
        Failure::new(code, why.to_string()).hint(hint).into()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a screen that cannot wake us"
)]
fn pause() {
    std::thread::sleep(LOOK);
}

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    ended: bool,
    group: i64,
    /// Its controlling terminal, as the kernel packs device numbers.
    terminal: u64,
    /// The group that this terminal listens to.
    in_front: i64,
    start: u64,
}

impl ProcessStat {
    /// The name in the line may hold anything, so fields are counted from its end.
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

    /// Whether what is typed into this terminal reaches the process.
    pub fn is_in_front_of(&self, terminal: &Path) -> bool {
        let device = fs::metadata(terminal).map(|found| found.rdev());
        let same = device.is_ok_and(|device| {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            unpacked(self.terminal) == (major, minor)
        });
        same && self.group == self.in_front
    }
}

/// Major and minor number of a device in `stat`'s form.
fn unpacked(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    (major as u32, minor as u32)
}

/// The session's process, if it lives and is the one that was meant: pids are used again.
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

/// Sends the session's process SIGTERM.
pub fn ask_to_end(row: &SessionRow) -> Result<()> {
    let (pid, _) = process(row)?;
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(|| gone(row))?;
    #[cfg(target_os = "linux")]
    {
        // Once it is open, the handle means this process and no later one with its number.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone(row))?;
        process(row)?;
        pidfd_send_signal(handle, Signal::TERM).map_err(|_| gone(row))
    }
    #[cfg(not(target_os = "linux"))]
    rustix::process::kill_process(pid, Signal::TERM).map_err(|_| gone(row))
}

fn gone(row: &SessionRow) -> anyhow::Error {
    let pid = row.pid.unwrap_or_default();
    Failure::new(
        Code::Missing,
        format!("the Claude Code of this session (process {pid}) has ended"),
    )
    .hint("becket sessions --all")
    .into()
}
