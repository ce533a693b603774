//! Runs Claude Code as a child of this process, with the same terminal, process group, signals and
//! exit code as without becket, and decides whether to restart it.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_wire::process::process_state;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, DisableFocusChange, DisableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::LeaveAlternateScreen;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Code, Failure};
use crate::launch::follow::{Followed, TICK, until};
use crate::launch::launch_file::{is_alive, start_of};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The interval in which an ending process is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A process by pid and start time: a pid alone may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub start: u64,
}

impl Process {
    /// Returns the process that has this pid now.
    pub fn of(pid: u32) -> Self {
        let start = start_of(pid).unwrap_or(0);
        Self { pid, start }
    }
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    Signal(i32),
}

impl Exit {
    /// Returns the exit code as a shell reports it.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

pub fn spawn(
    program: &Path,
    words: &[OsString],
    cwd: &Path,
    variables: &[(&str, String)],
) -> Result<Process> {
    let child = Command::new(program)
        .args(words)
        .current_dir(cwd)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .spawn()
        .map_err(|why| {
            let what = format!("could not start {}: {why}", program.display());
            let hint = "see whether it starts by itself; then: becket doctor";
            Failure::new(Code::Failed, what).hint(hint)
        })?;
    // Only `wait` reaps the child, so its pid is not reused before.
    Ok(Process::of(child.id()))
}

/// Waits for the child's end. When it stops (Ctrl-Z), this process stops too, so that the shell
/// takes the terminal back; `fg` continues the whole process group.
pub fn wait(child: Process) -> io::Result<Exit> {
    let pid = Pid::from_raw(child.pid.cast_signed());
    loop {
        let status = match waitpid(pid, WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        };
        if let Some(code) = status.exit_status() {
            return Ok(Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        if let Some(signal) = status.terminating_signal() {
            return Ok(Exit::Signal(signal));
        }
        // It may have been continued since, together with this process.
        if status.stopped() && is_stopped(child.pid) {
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    process_state(&stat) == Some('T')
}

/// Ends a process: SIGTERM, five seconds, SIGKILL.
pub fn end(child: Process) {
    for signal in [Signal::TERM, Signal::KILL] {
        send(child, signal);
        let until = Instant::now() + GRACE;
        while is_alive(child.pid, child.start) && Instant::now() < until {
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }
}

/// Sends a signal if the process is still the same one.
fn send(child: Process, signal: Signal) {
    if is_alive(child.pid, child.start)
        && let Some(pid) = Pid::from_raw(child.pid.cast_signed())
    {
        let _ = kill_process(pid, signal);
    }
}

/// The signals of this process. The terminal sends SIGINT and SIGQUIT to the child as well, so they
/// must not end the launcher; SIGTERM and SIGHUP come to it alone and are passed on.
#[derive(Debug)]
pub struct SignalForwarder {
    target: Arc<Mutex<SignalTarget>>,
    heard: Receiver<i32>,
}

/// The process that gets the signals.
#[derive(Debug, Default)]
struct SignalTarget {
    child: Option<Process>,
    /// The last signal that came while there was no child.
    early: Option<Signal>,
}

impl SignalForwarder {
    pub fn listen() -> io::Result<Self> {
        // Signals that are ignored (nohup) stay ignored, here and in the child.
        let ignored = ignored_signals();
        let mut wanted = vec![SIGINT, SIGQUIT, SIGTERM, SIGHUP];
        wanted.retain(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = Signals::new(wanted)?;
        let target = Arc::new(Mutex::new(SignalTarget::default()));
        let (to, heard) = channel();
        let current = Arc::clone(&target);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let passed_on = match signal {
                    SIGTERM => Some(Signal::TERM),
                    SIGHUP => Some(Signal::HUP),
                    _ => None,
                };
                let mut target = lock(&current);
                match (target.child, passed_on) {
                    (Some(child), Some(signal)) => send(child, signal),
                    (None, Some(signal)) => target.early = Some(signal),
                    (_, None) => {}
                }
                drop(target);
                if to.send(signal).is_err() {
                    return;
                }
            }
        });
        Ok(Self { target, heard })
    }

    /// Sets the process to which signals are passed on. It gets the signal that came while it was started.
    pub fn pass_to(&self, child: Option<Process>) {
        let mut target = lock(&self.target);
        target.child = child;
        if let Some(child) = child
            && let Some(signal) = target.early.take()
        {
            send(child, signal);
        }
    }

    /// Returns true if the launcher itself got SIGTERM or SIGHUP since the last call.
    pub fn was_told_to_end(&self) -> bool {
        let mut heard = self.heard.try_iter();
        heard.any(|signal| signal == SIGTERM || signal == SIGHUP)
    }

    /// Waits until a time (milliseconds since 1970). Returns false if a signal arrived before.
    pub fn wait_until(&self, at: i64) -> bool {
        while now_ms() < at {
            if self.heard.recv_timeout(until(at).min(TICK)).is_ok() {
                return false;
            }
        }
        true
    }
}

fn lock(target: &Mutex<SignalTarget>) -> MutexGuard<'_, SignalTarget> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the signals that this process ignores, as a bit mask.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// The settings of the terminal, which are restored after a Claude Code that was killed.
#[derive(Debug)]
pub struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    pub fn read() -> Self {
        Self(tcgetattr(rustix::stdio::stdin()).ok())
    }

    /// Leaves the alternate screen, and restores mouse, cursor and settings.
    pub fn restore(&self) {
        if io::stdout().is_terminal() {
            let _ = execute!(
                io::stdout(),
                DisableMouseCapture,
                DisableBracketedPaste,
                DisableFocusChange,
                LeaveAlternateScreen,
                Show,
                Print("\r\n")
            );
        }
        if let Some(saved) = &self.0 {
            let stdin = rustix::stdio::stdin();
            let _ = tcsetattr(stdin, OptionalActions::Now, saved);
        }
    }
}

/// The number of restarts within [`RESTART_WINDOW`].
pub const MAX_RESTARTS: usize = 5;
const RESTART_WINDOW: Duration = Duration::from_secs(600);

/// The restarts that `--restart` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Never,
    AfterDeath,
    AfterDeathOrLimit,
}

/// The end of one Claude Code.
#[derive(Debug, Clone)]
pub struct Ending {
    pub exit: Exit,
    pub followed: Followed,
    /// True if the launcher got SIGTERM or SIGHUP.
    pub was_told_to_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    End,
    /// Claude Code died too often.
    GiveUp,
    /// Starts another session, which continues the effort.
    Fresh,
    Again {
        nth: usize,
        after: Duration,
        /// The end of the rate limit that cut off the turn.
        limit: Option<i64>,
    },
}

/// The restarts so far.
#[derive(Debug, Default)]
pub struct Restarts(Vec<Instant>);

impl Restarts {
    pub fn next(&mut self, policy: RestartPolicy, ending: &Ending, now: Instant) -> NextStep {
        let followed = &ending.followed;
        let fresh = followed.handover && !ending.was_left_by_user();
        let own = ending.is_expected() && !followed.limit_over && !fresh;
        let unwanted = followed.limit.is_some() && policy == RestartPolicy::AfterDeath;
        // A Claude Code that fails at once with an error of its own would fail again.
        let begun = followed.session.is_some() || matches!(ending.exit, Exit::Signal(_));
        if policy == RestartPolicy::Never || !begun || own || unwanted {
            return NextStep::End;
        }
        self.0
            .retain(|at| now.saturating_duration_since(*at) < RESTART_WINDOW);
        if self.0.len() >= MAX_RESTARTS {
            return NextStep::GiveUp;
        }
        let after = Duration::from_secs(1 << self.0.len());
        self.0.push(now);
        if fresh {
            return NextStep::Fresh;
        }
        NextStep::Again {
            nth: self.0.len(),
            after,
            limit: followed.limit.or(followed.limit_over.then_some(0)),
        }
    }
}

impl Ending {
    /// Returns true if the user left Claude Code or ended the launcher.
    fn was_left_by_user(&self) -> bool {
        let reason = self.followed.reason.as_deref();
        matches!(reason, Some("prompt_input_exit" | "logout")) || self.was_told_to_end
    }

    /// Returns true for an expected end: `/exit`, Ctrl-C, a closed terminal, or a plain `kill`.
    fn is_expected(&self) -> bool {
        self.was_left_by_user()
            || match self.exit {
                Exit::Code(code) => matches!(code, 0 | 129 | 130 | 131 | 143),
                Exit::Signal(signal) => [SIGINT, SIGQUIT, SIGTERM, SIGHUP].contains(&signal),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: RestartPolicy = RestartPolicy::AfterDeathOrLimit;

    fn session() -> Followed {
        Followed {
            session: Some("s1".to_owned()),
            ..Followed::default()
        }
    }

    fn killed() -> Ending {
        Ending {
            exit: Exit::Signal(9),
            followed: session(),
            was_told_to_end: false,
        }
    }

    #[test]
    fn after_a_handover_a_fresh_one_starts_unless_the_user_left() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let handed_over = |reason: Option<&str>| Ending {
            exit: Exit::Code(0),
            followed: Followed {
                reason: reason.map(str::to_owned),
                handover: true,
                ..session()
            },
            ..killed()
        };
        let left = handed_over(Some("prompt_input_exit"));
        assert_eq!(restarts.next(ON, &left, now), NextStep::End);
        let ended = handed_over(Some("other"));
        assert_eq!(
            restarts.next(RestartPolicy::Never, &ended, now),
            NextStep::End
        );
        // A context that is full at once does not start one after the other for ever.
        for _ in 0..MAX_RESTARTS {
            assert_eq!(restarts.next(ON, &ended, now), NextStep::Fresh);
        }
        assert_eq!(restarts.next(ON, &ended, now), NextStep::GiveUp);
    }

    #[test]
    fn what_the_user_ends_stays_ended() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let exit = |exit| Ending { exit, ..killed() };
        let left = Followed {
            reason: Some("prompt_input_exit".to_owned()),
            ..session()
        };
        for ending in [
            exit(Exit::Code(0)),
            exit(Exit::Code(130)),
            exit(Exit::Signal(SIGINT)),
            exit(Exit::Signal(SIGHUP)),
            exit(Exit::Signal(SIGTERM)),
            Ending {
                followed: left,
                ..exit(Exit::Code(1))
            },
            Ending {
                was_told_to_end: true,
                ..killed()
            },
            Ending {
                followed: Followed::default(),
                ..exit(Exit::Code(1))
            },
        ] {
            assert_eq!(restarts.next(ON, &ending, now), NextStep::End, "{ending:?}");
        }
        assert_eq!(
            restarts.next(RestartPolicy::Never, &killed(), now),
            NextStep::End
        );
    }

    #[test]
    fn a_death_is_answered_five_times_in_ten_minutes_each_later_than_the_last() {
        let mut restarts = Restarts::default();
        let began = Instant::now();
        let mut at = |seconds| restarts.next(ON, &killed(), began + Duration::from_secs(seconds));
        for (nth, seconds) in (1..).zip([1, 2, 4, 8, 16]) {
            let after = Duration::from_secs(seconds);
            let again = NextStep::Again {
                nth,
                after,
                limit: None,
            };
            assert_eq!(at(60 * nth as u64), again);
        }
        assert_eq!(at(599), NextStep::GiveUp);
        // The first one was ten minutes ago.
        assert!(matches!(at(661), NextStep::Again { nth: 5, .. }));
    }

    #[test]
    fn a_limit_is_waited_for_unless_the_user_left_or_does_not_want_it() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let limited = |exit| Ending {
            exit,
            followed: Followed {
                limit: Some(7),
                ..session()
            },
            ..killed()
        };
        let failed = limited(Exit::Code(1));
        let limit_of = |next| match next {
            NextStep::Again { limit, .. } => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit_of(restarts.next(ON, &failed, now)), Some(7));
        let left = limited(Exit::Code(0));
        assert_eq!(restarts.next(ON, &left, now), NextStep::End);
        let next = restarts.next(RestartPolicy::AfterDeath, &failed, now);
        assert_eq!(next, NextStep::End);
        let over = Ending {
            exit: Exit::Signal(SIGTERM),
            followed: Followed {
                limit_over: true,
                ..session()
            },
            ..killed()
        };
        assert_eq!(limit_of(restarts.next(ON, &over, now)), Some(0));
    }
}
