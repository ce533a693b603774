//! Edits Claude Code's settings files without touching anything in them that is not ours.
//!
//! `register`, `unregister` and `inspect` are pure: text in, text out. `init` and `uninit` are the
//! same on files, with a lock, a backup and a record of what was there before.

mod change;
mod diff;
mod document;
mod inspect;
mod member;
mod record;
mod register;
mod registration;
mod scope;
mod shell;
mod splice;
mod status_line;
#[cfg(test)]
mod tests;
mod unregister;

pub use change::{Outcome, init, line_is_unwanted, read, status_line_before, uninit};
pub use diff::{coloured, unified};
pub use inspect::{Inspection, State, inspect};
pub use registration::{Registration, StatusLine, Strict};
pub use scope::{Scope, SettingsFile, files};
pub use status_line::Standing;
