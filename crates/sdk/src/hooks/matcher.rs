//! Which calls of its event a hook wants. Claude Code does the matching.

use serde_json::Value;

/// Which calls of its event a hook wants, in the matcher language of Claude Code.
///
/// Plain words are an exact list: `"Bash"`, `"Write|Edit"`. With other characters it is a regular
/// expression: `"mcp__.*"`. What is compared depends on the event: the tool's name for tool events,
/// the trigger for compactions. Events that have nothing to compare ignore the matcher.
///
/// A matcher that matches nothing is not an error, and its callback is never called. `"bash"` is one
/// (case counts), and so are permission rules: for `"Bash(git *)"`, match `"Bash"` and look at the
/// command in the callback.
///
/// ```
/// use becket_sdk::Matcher;
///
/// assert_eq!(Matcher::from("Bash"), Matcher::Pattern("Bash".to_owned()));
/// assert_eq!(Matcher::from("*"), Matcher::Any);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matcher {
    /// Every call.
    Any,
    /// Those that the pattern matches.
    Pattern(String),
}

impl Matcher {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Any => Value::Null,
            Self::Pattern(pattern) => pattern.as_str().into(),
        }
    }
}

impl From<&str> for Matcher {
    fn from(pattern: &str) -> Self {
        match pattern {
            "" | "*" => Self::Any,
            pattern => Self::Pattern(pattern.to_owned()),
        }
    }
}

impl From<String> for Matcher {
    fn from(pattern: String) -> Self {
        Self::from(pattern.as_str())
    }
}
