//! Other people's hooks in Claude Code's settings, moved into becket's config as named hooks, and
//! back again.
//!
//! `wish`, `named` and `table` are pure. `found` looks at the files, `apply` and `undo` change them:
//! the config first, so that a crash in between leaves a hook that runs twice, never one that is
//! lost.

mod apply;
mod found;
mod named;
mod table;
#[cfg(test)]
mod tests;
mod undo;
mod wish;

pub use apply::{Change, Moved, adopt, any as any_adopted};
pub use found::{Found, json, list_table, look, stays};
pub use named::{Named, Why, is_assignment, is_interpreter, numbers};
pub use undo::{Undone, undo};
