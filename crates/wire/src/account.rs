//! On whose account becket answers where no hook and no guard decides: words that no hook can have
//! for its name.

/// A part of becket that says something by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The config has something wrong in it.
    Config,
    /// A project waits to be trusted.
    Trust,
    /// A hook was switched.
    Switch,
    /// A session begins to need its person.
    Notice,
    /// A session that `becket run` started is told its id.
    Launch,
}

/// A hook's name has no colon in it.
pub const OWN: &str = "becket:";

/// What an effort tells its agent with every prompt and window: a routine, like what becket itself says.
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

    /// As decisions name it.
    pub fn by(self) -> String {
        format!("{OWN}{}", self.word())
    }
}

/// Whether becket itself is meant, no hook and no guard.
pub fn is_own(by: &str) -> bool {
    by.starts_with(OWN) || by == EFFORT_CONTEXT
}

/// The same for a person.
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
    fn becket_is_told_from_hooks_that_are_called_alike() {
        for account in Account::ALL {
            let (by, word) = (account.by(), account.word());
            assert!(is_own(&by) && !is_own(word), "{by}");
            assert_eq!(in_words(&by), format!("becket ({word})"));
            assert_eq!(in_words(word), word);
        }
    }
}
