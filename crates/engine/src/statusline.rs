//! The status line: what Claude Code says of a session for it, and the line that is printed.

mod answer;
mod part;
mod reading;
mod render;
mod template;
#[cfg(test)]
mod tests;

use becket_wire::session::Figures;

pub use answer::answer;
pub use reading::{MAX_PAYLOAD, Reading, Unread, figures};
pub use render::render;
pub use template::{Template, TemplateError};

/// What can be shown. What is not known, or not worth a word, is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    pub project: Option<String>,
    pub figures: Figures,
    /// Other sessions that need the person.
    pub waiting: usize,
    /// The hooks that are switched off in this session.
    pub off: Vec<String>,
    /// What is wrong, the worst first.
    pub wrong: Vec<String>,
}

impl Line {
    /// The line of what was read, or of why nothing could be.
    pub fn of(read: Result<Reading, Unread>) -> Self {
        match read {
            Ok(reading) => Self {
                project: reading.project,
                figures: reading.figures,
                ..Self::default()
            },
            Err(why) => Self {
                wrong: vec![why.to_string()],
                ..Self::default()
            },
        }
    }
}
