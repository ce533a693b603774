//! The log of events: one SQLite database with one writer and many readers, and the spool of events that no
//! daemon has stored yet.

mod checkpoint;
mod denied;
pub(crate) mod effort;
mod figures;
mod hook_runs;
mod key;
pub mod lost;
mod open;
mod queries;
mod record;
mod retention;
pub(crate) mod sessions;
pub mod spool;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use denied::{RanDenied, ran_denied};
pub use figures::{TurnFigures, figures};
pub use hook_runs::{LoggedRun, RunQuery, detour, is_explainable, last_explainable, runs};
pub use key::{existing_mask_key, mask_key};
pub use open::{OpenError, Opened, open, open_to_read};
pub(crate) use open::{inode, is_damage};
pub use queries::{
    CallsOf, EventBrief, calls_seen, count_events, events_between, events_in_brief, faults,
    find_events, first_event, payload, sessions_like,
};
pub use record::{Decision, EventRecord, not_whole};
pub use retention::Limits;
pub(crate) use sessions::StoredSession;
pub use sessions::{SessionFacts, SessionFilter, claude_above, has_ended, session_facts, sessions};
pub use write::Feed;
pub(crate) use write::{Batch, IntakeProgress, Reply, Store};
