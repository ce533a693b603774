//! Snapshots of a work tree, in git and beside everything that is the person's own: commits that no
//! branch knows, made with a temporary index, under refs of becket's (`refs/becket/checkpoints/…`).
//! Index, stash, HEAD, reflogs and the work tree itself stay as they are, and no hook of git's runs.

mod git;
mod keep;
mod present;
mod read;
mod restore;
#[cfg(test)]
mod tests;

pub use git::{Git, GitError};
pub use keep::{Made, Wish, make};
pub use present::Present;
pub use read::{Checkpoint, Found, Status, changes, find, list};
pub use restore::{Plan, holds, plan};

/// All checkpoints of a repository.
const REFS: &str = "refs/becket/checkpoints/";

/// Untracked files over this are not taken along.
pub const LARGEST_MB: u64 = 50;

/// So many of one session are kept.
pub const KEEP: usize = 10;
