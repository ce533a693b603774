//! The first exchange: the hooks are registered, and the answer is checked.

use std::time::Duration;

use serde_json::{Value, json};

use super::link::Link;
use crate::Error;

/// The oldest version with stream-json in both directions and hook callbacks by id.
const OLDEST: [u32; 3] = [2, 0, 0];
const OLDEST_TEXT: &str = "2.0.0";

impl Link {
    /// Registers the hooks, and returns Claude Code's answer.
    pub(crate) async fn initialize(&self, limit: Duration) -> Result<Value, Error> {
        let registry = &self.service.registry;
        let mut body = json!({"subtype": "initialize"});
        if !registry.is_empty() {
            body["hooks"] = registry.to_json();
        }
        let info = self.request(body, limit).await?;
        if let Some(version) = info["claude_code_version"].as_str() {
            check_version(version)?;
        }
        // A version that does not say so may have dropped them: that must not pass in silence.
        if !registry.is_empty() && info["hooks_applied"] != true {
            return Err(Error::HooksNotApplied);
        }
        Ok(info)
    }
}

/// Fails for a version that is too old. A text that is not a version passes: it is newer than this
/// crate.
fn check_version(version: &str) -> Result<(), Error> {
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
