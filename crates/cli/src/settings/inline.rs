//! Settings that go to Claude Code on its command line instead of into a file.

use std::path::Path;

use serde_json::{Value, json};

use super::document::{Document, Placed, SettingsError, plain_object, split_mark};
use super::registration::Registration;

/// Whether a settings file of this text has SessionStart told to the becket of this home, by a
/// program that is there.
pub fn is_registered(text: &str, home: &str) -> Result<bool, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    let names_home = |ours: &Placed<'_, '_>| {
        let args = ours.args().unwrap_or_default();
        let at = args.iter().position(|arg| *arg == "--home");
        at.is_none_or(|at| args.get(at + 1) == Some(&home))
    };
    let is_there = |ours: &Placed<'_, '_>| {
        let program = Path::new(ours.string("command").unwrap_or_default());
        !program.is_absolute() || program.exists()
    };
    Ok(document.ours().iter().any(|ours| {
        ours.counts && ours.event == "SessionStart" && names_home(ours) && is_there(ours)
    }))
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
        let both = with_registration(theirs, &registration()).unwrap();
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
    fn a_registration_counts_for_its_home_and_while_its_program_is_there() {
        let home = "/home/user/.becket";
        let text = |program: &str| {
            let program = program.to_owned();
            with_registration(
                "",
                &Registration {
                    program,
                    ..registration()
                },
            )
            .unwrap()
        };
        assert!(!is_registered(&text("/gone/becket-hook"), home).unwrap());
        let anywhere = text("becket-hook");
        assert!(is_registered(&anywhere, home).unwrap());
        assert!(!is_registered(&anywhere, "/another/home").unwrap());
        assert!(!is_registered("{}", home).unwrap());
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
