//! One run of a named hook.

use serde::{Deserialize, Serialize};

use crate::EventId;

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
    /// One of `ok`, `failed`, `timed out`, `killed`, `cancelled`, `cut off`, `async`, `not started`, `invalid`,
    /// `orphaned`. A run that has not ended is `running`, which is never stored.
    pub outcome: String,
    /// The decision, in the words of the log; none for silence.
    pub decision: Option<String>,
    /// The number of bytes that it wrote, those included that were dropped.
    pub said: u64,
    /// The reason of a failure, in a line or two.
    pub note: Option<String>,
}

/// The outcomes that are no failure.
pub const FINE: [&str; 4] = ["ok", "async", CANCELLED, RUNNING];

/// The outcome of a run that becket ended because no client waited for it any more.
pub const CANCELLED: &str = "cancelled";

/// The outcome of a run that becket ended because becket itself had to end.
pub const CUT_OFF: &str = "cut off";

/// The outcome of a run that outlived becket, which was killed.
pub const ORPHANED: &str = "orphaned";

/// The outcome of a run that has not ended.
pub const RUNNING: &str = "running";

/// The outcome of a run that goes on in the background.
pub const UNDER_WAY: &str = "async";

impl RunRow {
    /// Returns true if the run goes on in the background.
    pub fn is_under_way(&self) -> bool {
        self.outcome == UNDER_WAY
    }

    /// Returns true if becket ended the run because no client waited for it any more: it neither succeeded nor
    /// failed.
    pub fn was_cancelled(&self) -> bool {
        self.outcome == CANCELLED
    }

    /// Returns true if becket ended the run because becket itself had to end.
    pub fn was_cut_off(&self) -> bool {
        self.outcome == CUT_OFF
    }

    /// Returns true if the hook did not do its work. A refusal is no failure.
    pub fn has_failed(&self) -> bool {
        !FINE.contains(&&*self.outcome)
    }
}
