//! The names under which becket records an answer of its own, where no hook and no guard decided. No hook can
//! have such a name.

/// A part of becket that answers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The config has errors.
    Config,
    Trust,
    /// A hook was switched on or off.
    Switch,
    /// A session needs its user from now on.
    Notice,
    /// A session that `becket run` started gets its id.
    Launch,
}

/// The prefix of becket's own names. The name of a hook has no colon.
pub const OWN: &str = "becket:";

/// The name for the context that an effort adds to every prompt and window: a routine, like becket's own
/// answers.
pub const EFFORT_CONTEXT: &str = "effort:context";

impl Account {
    pub const ALL: [Self; 5] = [
        Self::Config,
        Self::Trust,
        Self::Switch,
        Self::Notice,
        Self::Launch,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Trust => "trust",
            Self::Switch => "switch",
            Self::Notice => "notice",
            Self::Launch => "launch",
        }
    }

    /// Returns the name that a decision records.
    pub fn by(self) -> String {
        format!("{OWN}{}", self.word())
    }
}

/// The prefix of a guard's name in decisions.
const GUARD: &str = "guard:";

/// Returns the name of a guard in decisions.
pub fn guard_name(id: &str) -> String {
    format!("{GUARD}{id}")
}

/// Returns the id of the guard that decided, if one did.
pub fn guard_id(by: &str) -> Option<&str> {
    by.strip_prefix(GUARD)
}

/// Returns true if becket itself answered, not a hook or a guard.
pub fn is_own(by: &str) -> bool {
    by.starts_with(OWN) || by == EFFORT_CONTEXT
}

/// Formats the name for people.
pub fn in_words(by: &str) -> String {
    match by.strip_prefix(OWN) {
        Some(word) => format!("becket ({word})"),
        None => by.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_found_by_its_name() {
        assert_eq!(guard_id(&guard_name("no-prod")), Some("no-prod"));
        assert_eq!(guard_id("no-prod"), None);
    }

    #[test]
    fn becket_is_distinguished_from_hooks_with_similar_names() {
        for account in Account::ALL {
            let (by, word) = (account.by(), account.word());
            assert!(is_own(&by) && !is_own(word), "{by}");
            assert_eq!(in_words(&by), format!("becket ({word})"));
            assert_eq!(in_words(word), word);
        }
    }
}
