//! Whether a project's `.becket/` counts: what it would run, pinned by content, approved once.

mod book;
mod command;
mod key;
mod line;
mod pin;
mod start;
mod watch;

use std::path::PathBuf;

pub use book::{Approval, Book, BookError, change};
pub use command::is_of_the_project;
pub use key::key_of;
pub(crate) use pin::hash_of;
pub use pin::{Change, How, Pins, Refusal, pins_of};
pub use start::Starts;
pub(crate) use start::{is_found_inside, is_led_astray, starts_unapproved};
pub use watch::Approved;
pub(crate) use watch::Watch;

/// Whether the person has said that a project counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    Yes,
    /// They had, but it is not what they approved any more.
    Changed,
    #[default]
    No,
}

/// The project that a config is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub folder: PathBuf,
    pub trust: Trust,
    /// There is something in its `.becket/` that would count.
    pub holds: bool,
}

impl Project {
    /// Why its `.becket/` does nothing, and what to do; nothing if there is none, or it counts.
    pub fn says(&self) -> Option<&'static str> {
        match (self.holds, self.trust) {
            (false, _) | (_, Trust::Yes) => None,
            (true, Trust::No) => Some(
                "This project's .becket/ is not trusted, so it does nothing. Run `becket trust` to see what it would run.",
            ),
            (true, Trust::Changed) => Some(
                "This project's .becket/ is not what you trusted, so it does nothing. Run `becket trust` to see what changed.",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
