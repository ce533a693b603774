//! The template: parts in braces, and text between them. A part that is empty takes the text before
//! it along, so that no separator stands alone.

use std::fmt;

use super::part::{Part, clean};

/// A template that was read: each part with the text before it, and the text after the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    pub(super) slots: Vec<Slot>,
    pub(super) end: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// What parts it from what stands before: signs and blanks. Not shown at the line's beginning.
    pub(super) separator: String,
    /// What goes with the part itself.
    pub(super) label: String,
    pub(super) part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    /// A brace that is never closed, or closes nothing.
    Brace,
    Control,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => {
                write!(f, "a status line has no part {{{name}}}")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {{{nearest}}}?"),
                    None => {
                        let all = Part::ALL.map(|part| format!("{{{}}}", part.name()));
                        write!(f, "; there are {}", all.join(" "))
                    }
                }
            }
            Self::Brace => f.write_str("a brace stands alone; write {{ or }} for the sign itself"),
            Self::Control => f.write_str("a status line is one line of plain text"),
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if clean(text) != text {
            return Err(TemplateError::Control);
        }
        let mut template = Self::default();
        let mut before = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            before.push_str(&rest[..at]);
            let brace = &rest[at..];
            rest = if let Some(after) = brace.strip_prefix("{{") {
                before.push('{');
                after
            } else if let Some(after) = brace.strip_prefix("}}") {
                before.push('}');
                after
            } else {
                let inside = brace
                    .strip_prefix('{')
                    .and_then(|open| open.split_once('}'));
                let (name, after) = inside.ok_or(TemplateError::Brace)?;
                template.add(std::mem::take(&mut before), part(name)?);
                after
            };
        }
        before.push_str(rest);
        template.end = before;
        Ok(template)
    }

    fn add(&mut self, before: String, part: Part) {
        // What opens the line belongs to its first part as a whole.
        let words = if self.slots.is_empty() {
            0
        } else {
            before.find(char::is_alphanumeric).unwrap_or(before.len())
        };
        let mut separator = before;
        let label = separator.split_off(words);
        self.slots.push(Slot {
            separator,
            label,
            part,
        });
    }
}

fn part(name: &str) -> Result<Part, TemplateError> {
    let named = |part: &Part| part.name() == name.trim();
    Part::ALL.into_iter().find(named).ok_or_else(|| {
        let likeness = |part: Part| strsim::normalized_damerau_levenshtein(name, part.name());
        let nearest = Part::ALL
            .into_iter()
            .map(|part| (likeness(part), part.name()))
            .filter(|(likeness, _)| *likeness > 0.5)
            .max_by(|one, other| one.0.total_cmp(&other.0));
        TemplateError::Unknown {
            name: name.to_owned(),
            nearest: nearest.map(|(_, name)| name),
        }
    })
}
