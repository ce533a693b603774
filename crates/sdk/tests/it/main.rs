//! The SDK without Claude Code: against recorded transcripts, and against a peer that a test drives.

mod background;
mod failures;
mod interrupts;
mod log;
mod matrix;
mod peer;
mod permission;
mod protocol;
mod recorded;
mod registration;
mod turns;
