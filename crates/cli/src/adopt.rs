//! Moves other programs' hooks from Claude Code's settings into becket's config as named hooks, and
//! back again.
//!
//! `parsed_entry`, `candidate`, `naming` and `config_table` are pure. `search` reads the files,
//! `adoption` and `undo` change them: the config first, so that a crash in between leaves a hook that
//! runs twice, never one that is lost.

mod adoption;
mod candidate;
mod config_table;
mod hook_list;
mod naming;
mod parsed_entry;
mod record;
mod search;
#[cfg(test)]
mod tests;
mod undo;

pub use adoption::{Adoption, adopt};
pub use candidate::{HookCandidate, Obstacle};
pub use hook_list::{json, list_table, numbers};
pub use naming::{is_assignment, is_interpreter};
pub use record::is_any_adopted;
pub use search::{ForeignHooks, find_hooks};
pub use undo::{UndoneAdoption, undo};
