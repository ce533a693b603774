//! Edits Claude Code's settings files without touching anything in them that is not ours.
//!
//! `register`, `unregister` and `inspect` are pure: text in, text out. `init` and `uninit` are the
//! same on files, with a lock, a backup and a record of what was there before.

mod backup;
mod change;
mod diff;
mod document;
mod foreign;
mod inline;
mod inspect;
mod member;
mod record;
mod register;
mod registration;
mod scope;
mod shell;
mod splice;
mod status_line;
mod synchronous;
#[cfg(test)]
pub mod tests;
mod unregister;

pub use backup::Backup;
pub use change::{
    Outcome, init, line_is_unwanted, read, registration_for, registration_of, snapshot,
    status_line_before, take_lock, text_of, uninit, unreadable, unwritable, without_us,
};
pub use diff::{coloured, unified};
pub use document::SettingsError;
pub use foreign::{Foreign, foreign, put_back, take_out};
pub use inline::{is_registered, with_registration};
pub use inspect::{Inspection, State, inspect};
pub use register::make_synchronous;
pub use registration::{REGISTERED, Registration, StatusLine, Strict};
pub use scope::{Scope, SettingsFile, files};
pub use shell::words;
pub use status_line::Standing;
pub use synchronous::{events as synchronous_events, hooks as named_hooks};
