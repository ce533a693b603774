//! Other people's hooks in Claude Code's settings, moved into becket's config as named hooks, and
//! back again.
//!
//! `wish`, `name`, `named`, `table` and `choice` are pure. `found` looks at the files, `carry` and `undo` change
//! them: the config first, so that a crash in between leaves a hook that runs twice, never one that
//! is lost, and `record` knows the way back.

mod carry;
mod choice;
mod found;
mod list;
mod name;
mod named;
mod record;
mod table;
#[cfg(test)]
mod tests;
mod undo;
mod wish;

pub use carry::{Change, Moved, adopt};
pub use choice::numbers;
pub use found::{Found, look};
pub use list::{json, stays, table};
pub use named::{Named, Why};
pub use record::any as any_adopted;
pub use undo::{Undone, undo};
