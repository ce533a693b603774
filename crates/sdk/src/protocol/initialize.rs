//! The first exchange: the hooks are registered, and the answer is checked.

use std::time::Duration;

use serde_json::{Value, json};

use super::link::Link;
use crate::Error;

/// The oldest version with stream-json in both directions and hook callbacks by id.
const OLDEST: [u32; 3] = [2, 0, 0];
const OLDEST_TEXT: &str = "2.0.0";

/// What Claude Code says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Greeting(pub(crate) Value);

impl Link {
    /// Registers the hooks and waits for the answer.
    pub(crate) async fn initialize(&self, limit: Duration) -> Result<Greeting, Error> {
        let registry = &self.service.registry;
        let mut body = json!({"subtype": "initialize"});
        if !registry.is_empty() {
            body["hooks"] = registry.to_json();
        }
        let greeting = Greeting(self.request(body, limit).await?);
        greeting.check_version()?;
        // A version that does not say so may have dropped them: that must not pass in silence.
        if !registry.is_empty() && greeting.0["hooks_applied"] != true {
            return Err(Error::HooksNotApplied);
        }
        Ok(greeting)
    }
}

impl Greeting {
    /// The version, if Claude Code says it.
    pub(crate) fn version(&self) -> Option<&str> {
        self.0["claude_code_version"].as_str()
    }

    fn check_version(&self) -> Result<(), Error> {
        match self.version() {
            Some(version) => check_version(version),
            None => Ok(()),
        }
    }
}

/// Fails for a version that is too old. What is no version passes: it is newer than this crate.
pub(crate) fn check_version(version: &str) -> Result<(), Error> {
    let parts = version.split(['.', '-', ' ']).map(str::parse::<u32>);
    let numbers: Vec<u32> = parts.map_while(Result::ok).collect();
    if numbers.len() < OLDEST.len() || numbers.as_slice() >= OLDEST.as_slice() {
        return Ok(());
    }
    Err(Error::TooOld {
        found: version.to_owned(),
        needed: OLDEST_TEXT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_refused() {
        for fine in ["2.0.0", "2.1.325", "3.0.0-beta", "10.0.0", "soon"] {
            assert!(check_version(fine).is_ok(), "{fine}");
        }
        for old in ["1.0.128", "1.9.9 (Claude Code)"] {
            assert!(
                matches!(check_version(old), Err(Error::TooOld { .. })),
                "{old}"
            );
        }
    }
}
