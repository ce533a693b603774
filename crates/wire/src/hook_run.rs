//! One run of a named hook.

use serde::{Deserialize, Serialize};

use crate::EventId;
use crate::event::words;

words! {
    /// The outcome of a run: the text that is stored and shown. `Cancelled` means that becket ended the run
    /// because no client waited for it any more, `CutOff` that becket itself had to end, `Async` that the run
    /// goes on in the background, `Invalid` that its output is no answer, and `Orphaned` that it outlived a
    /// killed becket. `Running` is never stored.
    RunOutcome {
        Ok = "ok",
        Failed = "failed",
        TimedOut = "timed out",
        Killed = "killed",
        Cancelled = "cancelled",
        CutOff = "cut off",
        Async = "async",
        NotStarted = "not started",
        Invalid = "invalid",
        Orphaned = "orphaned",
        Running = "running",
    }
}

impl RunOutcome {
    /// The outcomes that are no failure.
    pub const SUCCESSES: [Self; 4] = [Self::Ok, Self::Async, Self::Cancelled, Self::Running];

    /// Returns true if the hook did not do its work. A refusal is no failure.
    pub fn is_failure(&self) -> bool {
        !Self::SUCCESSES.contains(self)
    }
}

/// The run of one hook on one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    pub hook: String,
    pub event_id: EventId,
    pub event: String,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// The start time: milliseconds since 1970.
    pub at: i64,
    pub took_us: i64,
    /// The exit code; none if the hook did not end by itself.
    pub exit: Option<i32>,
    pub outcome: RunOutcome,
    /// The decision, in the words of the log; none for silence.
    pub decision: Option<String>,
    /// The number of bytes that it wrote, those included that were dropped.
    pub said: u64,
    /// The reason of a failure, in a line or two.
    pub note: Option<String>,
}

impl RunRow {
    /// Returns true if the run goes on in the background.
    pub fn is_under_way(&self) -> bool {
        self.outcome == RunOutcome::Async
    }

    /// Returns true if becket ended the run because no client waited for it any more: it neither succeeded nor
    /// failed.
    pub fn was_cancelled(&self) -> bool {
        self.outcome == RunOutcome::Cancelled
    }

    /// Returns true if becket ended the run because becket itself had to end.
    pub fn was_cut_off(&self) -> bool {
        self.outcome == RunOutcome::CutOff
    }

    /// Returns true if the hook did not do its work. A refusal is no failure.
    pub fn has_failed(&self) -> bool {
        self.outcome.is_failure()
    }
}
