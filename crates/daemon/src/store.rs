//! What happened: one SQLite database with one writer thread, readers beside it, and the spool of
//! events that no daemon saw.

mod checkpoint;
mod double;
mod figures;
mod gather;
mod history;
mod inbox;
mod key;
mod open;
mod read;
mod record;
mod retain;
mod run;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod session;
pub mod spool;
mod write;

pub use figures::{TurnFigures, figures};
pub use history::{Brief, SessionFacts, events_in_brief, payload, session_facts};
pub use inbox::waiting as in_inbox;
pub use key::{existing_mask_key, mask_key};
pub use open::{OpenError, Opened, open, open_to_read};
pub(crate) use open::{inode, is_damage};
pub use read::{count, faults, find, knows_process, sessions_like};
pub use record::{Decision, Record, not_whole};
pub use retain::Limits;
pub use run::{FoundRun, RunQuery, detour, is_told_of, last_told, runs};
pub(crate) use session::last_revision;
pub use session::{Kept, Which, sessions};
pub(crate) use write::{Brought, LetThrough, Parts, Then, Tick};
pub use write::{Feed, Full, Writer};
