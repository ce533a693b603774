//! Edits Claude Code's settings files without touching anything in them that is not ours.
//!
//! `register`, `unregister` and `inspect` are pure: text in, text out. `init` and `uninit` are the
//! same on files, with a lock, a backup and a record of what was there before.

mod change;
mod document;
mod entries;
mod registration;
mod status_line;
#[cfg(test)]
pub mod tests;

pub use change::{
    Backup, Outcome, edit_text, init, keeps_changing, line_is_unwanted, print_diff, read,
    registration_for, registration_of, snapshot, status_line_before, take_lock, text_of, unified,
    uninit, unreadable, unwritable, without_us,
};
pub use document::SettingsError;
pub use entries::{
    Foreign, Inspection, State, foreign, inspect, is_any_registered, make_synchronous, put_back,
    record_path, take_out,
};
pub use registration::{
    REGISTERED, Registration, Scope, SettingsFile, StatusLine, Strict, files, is_registered_here,
    named_hooks, refresh, registered_homes, synchronous_events, with_registration,
};
pub use status_line::{Standing, words};
