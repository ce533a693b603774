//! Edits Claude Code's settings files and touches only what is becket's.
//!
//! `register`, `unregister` and `inspect` are pure: text in, text out. `init` and `uninit` do the
//! same on files, with a lock, a backup and a record of the original.

mod document;
mod entries;
mod foreign;
mod inspection;
mod install;
mod record;
mod registration;
mod splice;
mod status_line;
#[cfg(test)]
pub mod tests;
mod text_file;

pub use document::SettingsError;
pub use entries::make_synchronous;
pub use foreign::{ForeignEntry, foreign, put_back, take_out};
pub use inspection::{EntryState, Inspection, inspect};
pub use install::{
    SettingsOutcome, init, is_status_line_unwanted, registration_for, registration_of,
    status_line_before, uninit, without_becket,
};
pub use record::{is_any_registered, record_folder, record_path, remove_record};
pub use registration::{
    REGISTERED, Registration, SettingsFile, SettingsScope, StatusLine, Strict, files,
    is_registered_here, named_hooks, registered_homes, with_registration,
};
pub use splice::newline;
pub use status_line::{StatusLineState, words};
pub use text_file::{
    FileChange, check_writable, edit_text, read, real_path, retry, snapshot, take_lock, text_of,
    unreadable,
};
