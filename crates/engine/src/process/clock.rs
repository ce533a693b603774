//! Decides when a program has to end: its time is up (TERM, grace, KILL), or another thread cancels it.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// The time between TERM and KILL for a program that was cancelled.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// The time for the last output to arrive once the program has ended. A process that it left behind may hold
/// the pipes open.
pub(super) const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(100);
/// The time for the kernel to end a killed program. A program that hangs in a dead file system cannot be
/// killed at all.
const KILL_WAIT: Duration = Duration::from_secs(1);
/// The longest time from the end of a program's time limit until becket stops waiting for it.
pub const ENDING: Duration = GRACE.saturating_add(KILL_WAIT);
/// The longest time limit.
const LONGEST_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// The reason for which a program had to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    TimedOut,
    /// The caller no longer waited for its answer.
    Cancelled,
    /// becket itself had to end.
    CutOff,
}

/// The next step to end a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockAction {
    Terminate,
    Kill,
    /// Stop waiting for it.
    Abandon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// It ended by itself, and its last output has not arrived yet.
    Draining,
    Terminated(EndReason),
    Killed(EndReason),
}

#[derive(Debug)]
pub(super) struct TerminationTimer {
    stage: Stage,
    /// The time limit.
    pub(super) limit: Duration,
    /// The time at which `act` has something to do.
    pub(super) next: Instant,
}

impl TerminationTimer {
    pub(super) fn start(now: Instant, timeout: Duration) -> Self {
        Self {
            stage: Stage::Running,
            limit: timeout,
            next: after(now, timeout),
        }
    }

    /// Sets a new time limit, counted from now.
    pub(super) fn set(&mut self, now: Instant, timeout: Duration) {
        if self.stage == Stage::Running {
            self.limit = timeout;
            self.next = after(now, timeout);
        }
    }

    pub(super) fn exited(&mut self, now: Instant) {
        if self.stage == Stage::Running {
            self.stage = Stage::Draining;
            self.next = now + LAST_OUTPUT_WAIT;
        }
    }

    #[must_use]
    pub(super) fn cancel(&mut self, now: Instant, why: EndReason) -> Option<ClockAction> {
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Terminated(why);
                self.next = now + SHORT_GRACE;
                return Some(ClockAction::Terminate);
            }
            Stage::Terminated(_) => self.next = self.next.min(now + SHORT_GRACE),
            Stage::Draining | Stage::Killed(_) => {}
        }
        None
    }

    #[must_use]
    pub(super) fn act(&mut self, now: Instant) -> Option<ClockAction> {
        if now < self.next {
            return None;
        }
        Some(match self.stage {
            Stage::Running => {
                self.stage = Stage::Terminated(EndReason::TimedOut);
                self.next = now + GRACE;
                ClockAction::Terminate
            }
            Stage::Terminated(reason) => {
                self.stage = Stage::Killed(reason);
                self.next = now + KILL_WAIT;
                ClockAction::Kill
            }
            Stage::Draining | Stage::Killed(_) => ClockAction::Abandon,
        })
    }

    /// Returns true if there is nothing to wait for: the program has ended, and its pipes are closed or no
    /// longer count.
    pub(super) fn is_over(&self, exited: bool, closed: bool) -> bool {
        match self.stage {
            Stage::Running => false,
            Stage::Draining | Stage::Terminated(_) => exited && closed,
            Stage::Killed(_) => exited,
        }
    }

    /// Returns the reason for which it had to be ended, if it had.
    pub(super) fn reason(&self) -> Option<EndReason> {
        match self.stage {
            Stage::Running | Stage::Draining => None,
            Stage::Terminated(reason) | Stage::Killed(reason) => Some(reason),
        }
    }
}

fn after(now: Instant, span: Duration) -> Instant {
    now + span.min(LONGEST_LIMIT)
}

/// The jobs of an event that are cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CancelScope {
    Nothing,
    /// The awaited jobs. Those in the background go on.
    Awaited,
    Everything,
    /// Everything, because becket itself ends.
    Shutdown,
}

impl CancelScope {
    /// Returns true if it ends a job that is awaited, or one that is not.
    pub(super) fn ends(self, awaited: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Awaited => awaited,
            Self::Everything | Self::Shutdown => true,
        }
    }

    /// Returns the reason that the ended jobs give.
    pub(super) fn reason(self) -> EndReason {
        match self {
            Self::Shutdown => EndReason::CutOff,
            Self::Nothing | Self::Awaited | Self::Everything => EndReason::Cancelled,
        }
    }
}

/// Ends the jobs of an event early, from another thread. Clones share one state.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<CancelState>,
    /// Wakes the threads that run jobs: a byte means `Awaited`, the end of the pipe means the rest. No thread reads
    /// the byte, so it wakes all of them. None without free descriptors: then no program can start either.
    wake_rx: Option<PipeReader>,
}

#[derive(Debug)]
struct CancelState {
    scope: CancelScope,
    wake_tx: Option<PipeWriter>,
}

impl Cancel {
    pub fn new() -> Self {
        let (wake_rx, wake_tx) = io::pipe().ok().unzip();
        let scope = CancelScope::Nothing;
        let state = Mutex::new(CancelState { scope, wake_tx });
        Self(Arc::new(Shared { state, wake_rx }))
    }

    /// Returns true if any jobs were to end.
    pub fn is_cancelled(&self) -> bool {
        self.scope() != CancelScope::Nothing
    }

    /// Ends all jobs, those in the background included.
    pub fn cancel(&self) {
        self.widen(CancelScope::Everything);
    }

    /// Ends all jobs because becket itself ends.
    pub fn cut_off(&self) {
        self.widen(CancelScope::Shutdown);
    }

    /// Ends the awaited jobs and no others.
    pub fn abandon(&self) {
        self.widen(CancelScope::Awaited);
    }

    fn widen(&self, scope: CancelScope) {
        let mut state = self.state();
        if scope <= state.scope {
            return;
        }
        state.scope = scope;
        if scope > CancelScope::Awaited {
            state.wake_tx = None;
        } else if let Some(wake_tx) = &mut state.wake_tx {
            let _ = wake_tx.write(b"!");
        }
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn scope(&self) -> CancelScope {
        self.state().scope
    }

    /// Returns the descriptor to poll for a change of the scope that the caller knows.
    pub(super) fn wake_rx(&self, known: CancelScope) -> Option<PollFd<'_>> {
        let flags = match known {
            CancelScope::Nothing => PollFlags::IN,
            // The end of a pipe is reported without a flag.
            CancelScope::Awaited => PollFlags::empty(),
            CancelScope::Everything | CancelScope::Shutdown => return None,
        };
        let wake_rx = self.0.wake_rx.as_ref()?;
        Some(PollFd::from_borrowed_fd(wake_rx.as_fd(), flags))
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn a_program_that_does_not_end_is_asked_then_killed_then_left() {
        let now = Instant::now();
        let mut clock = TerminationTimer::start(now, TIMEOUT);
        assert_eq!(clock.act(now + TIMEOUT / 2), None);
        let asked = now + TIMEOUT;
        assert_eq!(clock.act(asked), Some(ClockAction::Terminate));
        assert_eq!(clock.act(asked + GRACE / 2), None);
        assert!(!clock.is_over(true, false), "the pipes are open");
        assert!(clock.is_over(true, true));
        assert_eq!(clock.act(asked + GRACE), Some(ClockAction::Kill));
        assert!(!clock.is_over(false, true));
        assert!(
            clock.is_over(true, false),
            "pipes do not count after a kill"
        );
        assert_eq!(clock.act(asked + ENDING), Some(ClockAction::Abandon));
        assert_eq!(clock.reason(), Some(EndReason::TimedOut));
    }

    #[test]
    fn a_program_that_ended_leaves_a_moment_for_what_it_wrote() {
        let now = Instant::now();
        let mut clock = TerminationTimer::start(now, TIMEOUT);
        clock.exited(now);
        assert!(!clock.is_over(true, false));
        assert!(clock.is_over(true, true));
        assert_eq!(clock.cancel(now, EndReason::Cancelled), None);
        assert_eq!(
            clock.act(now + LAST_OUTPUT_WAIT),
            Some(ClockAction::Abandon)
        );
        assert_eq!(clock.reason(), None);
    }

    #[test]
    fn a_cancelled_program_has_a_shorter_grace() {
        let now = Instant::now();
        let mut clock = TerminationTimer::start(now, TIMEOUT);
        assert_eq!(
            clock.cancel(now, EndReason::Cancelled),
            Some(ClockAction::Terminate)
        );
        assert_eq!(clock.cancel(now, EndReason::CutOff), None);
        assert_eq!(clock.act(now + SHORT_GRACE), Some(ClockAction::Kill));
        assert_eq!(clock.reason(), Some(EndReason::Cancelled));

        let mut late = TerminationTimer::start(now, Duration::ZERO);
        assert_eq!(late.act(now), Some(ClockAction::Terminate));
        assert_eq!(late.cancel(now, EndReason::Cancelled), None);
        assert_eq!(late.act(now + SHORT_GRACE), Some(ClockAction::Kill));
        assert_eq!(late.reason(), Some(EndReason::TimedOut));
    }

    #[test]
    fn no_timeout_is_too_long_to_be_counted() {
        let now = Instant::now();
        let mut clock = TerminationTimer::start(now, Duration::MAX);
        assert_eq!(clock.act(now + TIMEOUT), None);
        clock.set(now, Duration::MAX);
        assert!(clock.next > now);
    }
}
