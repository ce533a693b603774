//! Settings that go to Claude Code on its command line instead of into a file.

use serde_json::{Value, json};

use super::document::{Document, SettingsError, plain_object, split_mark};
use super::registration::Registration;

/// Whether becket is registered in a settings file of this text.
pub fn is_registered(text: &str) -> Result<bool, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    Ok(document.ours().iter().any(|ours| ours.counts))
}

/// These settings as one line of JSON, with becket registered besides what is there.
pub fn with_registration(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let mut settings = document.root()?.map_or_else(|| json!({}), plain_object);
    document.hooks()?;
    for registered in registration.events() {
        document.groups(registered.event)?;
        let entry = registration.entry_from("run", registered, false);
        let entry: Value = serde_json::from_str(&entry).unwrap_or_default();
        let group = json!({"hooks": [entry]});
        match settings["hooks"][registered.event].as_array_mut() {
            Some(groups) => groups.push(group),
            None => settings["hooks"][registered.event] = json!([group]),
        }
    }
    Ok(settings.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::Strict;

    fn registration() -> Registration {
        Registration {
            program: "/opt/becket-hook".to_owned(),
            home: "/home/user/.becket".to_owned(),
            strict: Strict::Keep,
            status_line: false,
            claude: None,
            synchronous: BTreeSet::new(),
        }
    }

    #[test]
    fn becket_joins_what_the_user_gave() {
        let theirs = r#"{ // mine
            "model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]},
        }"#;
        assert!(!is_registered(theirs).unwrap());
        let both = with_registration(theirs, &registration()).unwrap();
        assert!(is_registered(&both).unwrap());
        let both: Value = serde_json::from_str(&both).unwrap();
        assert_eq!(both["model"], "opus");
        assert_eq!(both["hooks"]["Stop"][0]["hooks"][0]["command"], "beep");
        let ours = &both["hooks"]["Stop"][1]["hooks"][0];
        assert_eq!(ours["command"], "/opt/becket-hook");
        let args = [
            "--event",
            "Stop",
            "--from",
            "run",
            "--home",
            "/home/user/.becket",
        ];
        assert_eq!(ours["args"], json!(args));
    }

    #[test]
    fn settings_that_claude_code_would_not_take_are_not_guessed_at() {
        for wrong in ["[]", "{", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#] {
            assert!(
                with_registration(wrong, &registration()).is_err(),
                "{wrong}"
            );
        }
        assert!(with_registration("", &registration()).is_ok());
    }
}
