//! The author of a decision, as the log records it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::words;
use crate::question::AnsweredIn;

words! {
    /// A part of becket that answers by itself. `Config` reports errors of the config, `Switch` that a hook was
    /// switched on or off, `Notice` that a session needs its user, and `Launch` gives a session that `becket run`
    /// started its id.
    Account {
        Config = "config",
        Trust = "trust",
        Switch = "switch",
        Notice = "notice",
        Launch = "launch",
    }
}

/// The author of a decision. Its text is stored and shown; the name of a hook has no colon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Actor {
    /// becket itself, where no hook and no guard decided: `becket:ACCOUNT`.
    Becket(Account),
    /// A guard: `guard:ID`.
    Guard(String),
    /// A person, who answered in this place: `person:PLACE`.
    Person(AnsweredIn),
    /// A rule of the session's effort: `effort:RULE`.
    Effort(String),
    /// One hook or several: `a, b`.
    Hooks(String),
}

impl Actor {
    /// Returns the id of the guard that decided, if one did.
    pub fn guard(&self) -> Option<&str> {
        match self {
            Self::Guard(id) => Some(id),
            _ => None,
        }
    }

    /// Returns true for a routine answer: becket's own, or the context that an effort adds to every prompt and
    /// window.
    pub fn is_routine(&self) -> bool {
        match self {
            Self::Becket(_) => true,
            Self::Effort(rule) => rule == "context",
            Self::Guard(_) | Self::Person(_) | Self::Hooks(_) => false,
        }
    }

    /// Formats the author for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::Becket(account) => format!("becket ({account})"),
            Self::Person(place) => format!("you ({place})"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Becket(account) => write!(f, "becket:{account}"),
            Self::Guard(id) => write!(f, "guard:{id}"),
            Self::Person(place) => write!(f, "person:{place}"),
            Self::Effort(rule) => write!(f, "effort:{rule}"),
            Self::Hooks(names) => f.write_str(names),
        }
    }
}

impl From<String> for Actor {
    fn from(text: String) -> Self {
        match text.split_once(':') {
            Some(("becket", account)) => Self::Becket(account.into()),
            Some(("guard", id)) => Self::Guard(id.to_owned()),
            Some(("person", place)) => Self::Person(place.into()),
            Some(("effort", rule)) => Self::Effort(rule.to_owned()),
            _ => Self::Hooks(text),
        }
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_survives_its_text() {
        for (text, actor, words, is_routine) in [
            (
                "becket:notice",
                Actor::Becket(Account::Notice),
                "becket (notice)",
                true,
            ),
            (
                "becket:newer",
                Actor::Becket("newer".into()),
                "becket (newer)",
                true,
            ),
            (
                "guard:no-prod",
                Actor::Guard("no-prod".into()),
                "guard:no-prod",
                false,
            ),
            (
                "effort:context",
                Actor::Effort("context".into()),
                "effort:context",
                true,
            ),
            (
                "effort:plan",
                Actor::Effort("plan".into()),
                "effort:plan",
                false,
            ),
            (
                "notice, lint",
                Actor::Hooks("notice, lint".into()),
                "notice, lint",
                false,
            ),
        ] {
            assert_eq!(Actor::from(text.to_owned()), actor);
            assert_eq!(serde_json::to_value(&actor).unwrap(), text);
            assert_eq!(
                (actor.in_words(), actor.is_routine()),
                (words.to_owned(), is_routine)
            );
            assert_eq!(actor.guard(), text.strip_prefix("guard:"));
        }
    }
}
