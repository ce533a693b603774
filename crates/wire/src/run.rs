//! One run of a named hook, as it is kept and told.

use serde::{Deserialize, Serialize};

use crate::EventId;

/// What one hook did on one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    pub hook: String,
    /// The event that it ran on.
    pub event_id: EventId,
    pub event: String,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// When it was started: milliseconds since 1970.
    pub at: i64,
    pub took_us: i64,
    /// None if it did not end by itself.
    pub exit: Option<i32>,
    /// `ok`, `failed`, `timed out`, `killed`, `cancelled`, `cut off`, `async`, `not started`,
    /// `invalid`, `orphaned`; `running` as long as it is none of them, which is told and never kept.
    pub outcome: String,
    /// What it decided, in the words of the log; none for silence.
    pub decision: Option<String>,
    /// Bytes that it wrote, what was dropped included.
    pub said: u64,
    /// Why it failed, in a line or two.
    pub note: Option<String>,
}

/// Outcomes that are nobody's fault.
pub const FINE: [&str; 4] = ["ok", "async", CANCELLED, RUNNING];

/// The outcome of a run that was ended because nobody waited for it any more.
pub const CANCELLED: &str = "cancelled";

/// The outcome of a run that was ended because becket itself had to end.
pub const CUT_OFF: &str = "cut off";

/// The outcome of a run that outlived becket, which was killed.
pub const ORPHANED: &str = "orphaned";

/// The outcome of a run that is not over.
pub const RUNNING: &str = "running";

/// The outcome of a run that goes on in the background.
pub const UNDER_WAY: &str = "async";

impl RunRow {
    /// Whether more may be told of it.
    pub fn is_under_way(&self) -> bool {
        self.outcome == UNDER_WAY
    }

    /// Whether it was ended because nobody waited for it any more: neither done nor failed.
    pub fn was_cancelled(&self) -> bool {
        self.outcome == CANCELLED
    }

    /// Whether it was ended because becket itself had to end.
    pub fn was_cut_off(&self) -> bool {
        self.outcome == CUT_OFF
    }

    /// Whether the hook did not do what it was run for. A refusal is no failure.
    pub fn has_failed(&self) -> bool {
        !FINE.contains(&&*self.outcome)
    }
}
