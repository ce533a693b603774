//! The rules that judge events, as pure functions, and the edges that feed them.

pub mod checkpoint;
pub mod config;
pub mod coverage;
pub mod effort;
pub mod git;
pub mod guard;
pub mod hooks;
pub mod judge;
pub mod limit;
pub mod local_time;
pub mod mask;
pub mod matcher;
pub mod merge;
pub mod notice;
pub mod pipeline;
pub mod price;
pub mod process;
pub mod program;
pub mod question;
pub mod replace;
pub mod session;
pub mod session_file;
mod stamp;
pub mod status;
pub mod statusline;
pub mod transcript;
pub mod trust;

pub use stamp::open_regular;

/// Returns true for a default value. It is for `skip_serializing_if` in a struct with `#[serde(default)]` that
/// is written with every event: with all fields, a session took two thirds more of the log.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Joins the first `most` items with commas, and counts the rest: `a, b and 3 more`.
pub(crate) fn join_first(mut items: impl Iterator<Item = String>, most: usize) -> String {
    let first: Vec<String> = items.by_ref().take(most).collect();
    match items.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
