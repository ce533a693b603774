//! The status line in a settings file: ours is put in the place of the person's, and theirs is put
//! back byte for byte.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use crate::settings::document::{
    Container, Document, SettingsError, Splices, last, named, plain, split_mark, string,
};
use crate::settings::registration::Registration;

const KEY: &str = "statusLine";
/// Says in our command that there was one before.
const BESIDE: &str = "--beside";
/// Says that the refresh interval is the user's own: their program runs each time.
const OWN_REFRESH: &str = "--own-refresh";
/// The seconds between two calls by Claude Code while nothing happens.
const REFRESH: &str = "refreshInterval";

/// How the status line of a settings file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Missing,
    /// As `init` would write it.
    Found(String),
    /// Ours, but `init` would mend it.
    Different(String),
    /// Not ours.
    Theirs,
}

impl Standing {
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Different(_))
    }

    /// Ours, and there was one before it.
    pub fn is_beside(&self) -> bool {
        matches!(self, Self::Found(command) if has_flag(command, BESIDE))
    }
}

fn has_flag(command: &str, flag: &str) -> bool {
    command.split(' ').any(|word| word == flag)
}

/// The refresh interval of our status line in a settings file.
pub fn refresh_of(text: &str) -> Option<u64> {
    let document = Document::parse(split_mark(text).1).ok()?;
    let ours = standing(&document).filter(|property| is_ours(&property.value))?;
    plain(&ours.value)[REFRESH].as_u64()
}

/// The settings with our status line, in the place of one that stood there.
pub fn put(body: &str, registration: &Registration) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let Some(root) = document.root()? else {
        return Ok(body.to_owned());
    };
    let splices = match last(root, KEY) {
        Some(property) => {
            let wanted = wanted(&document, Some(&property.value), registration);
            let mut splices = Splices::default();
            if !says(&property.value, &wanted) {
                splices.replace(property.value.start()..property.value.end(), wanted);
            }
            splices
        }
        None => {
            let wanted = wanted(&document, None, registration);
            let write = |_: &str| format!("\"{KEY}\": {wanted}");
            Container::from(root).append(&document, write)
        }
    };
    Ok(splices.apply(body))
}

/// The settings without our status line; with the one that was there before, if there was one.
pub fn take_out(body: &str, before: Option<&str>) -> Result<String, SettingsError> {
    let mut body = body.to_owned();
    loop {
        let document = Document::parse(&body)?;
        let Some(root) = document.root()? else {
            return Ok(body);
        };
        let Some(ours) = named(root, KEY).find(|property| is_ours(&property.value)) else {
            return Ok(body);
        };
        let counts = |_: &&str| last(root, KEY).is_some_and(|last| last.range == ours.range);
        let splices = match before.filter(counts) {
            Some(before) => {
                let mut splices = Splices::default();
                splices.replace(ours.value.start()..ours.value.end(), before);
                splices
            }
            None => Container::from(root).remove(&document, ours),
        };
        body = splices.apply(&body);
    }
}

/// The status line that counts, as it is written, if it is not ours.
pub fn theirs<'a>(document: &Document<'a>) -> Option<&'a str> {
    let value = &standing(document)?.value;
    (!is_ours(value)).then(|| &document.text[value.start()..value.end()])
}

/// What a status line runs, as it is written.
pub fn command_of(value: &str) -> Option<String> {
    let value: serde_json::Value = match Document::parse(value) {
        Ok(document) => plain(&Value::Object(document.root().ok()??.clone())),
        Err(_) => return None,
    };
    let is_command = value["type"] == "command";
    let command = value["command"].as_str().filter(|_| is_command)?;
    (!command.trim().is_empty()).then(|| command.to_owned())
}

pub fn inspect(document: &Document<'_>, registration: &Registration) -> Standing {
    let Some(property) = standing(document) else {
        return Standing::Missing;
    };
    let Some(command) = our_command(&property.value) else {
        return Standing::Theirs;
    };
    let wanted = wanted(document, Some(&property.value), registration);
    if says(&property.value, &wanted) {
        Standing::Found(command.to_owned())
    } else {
        Standing::Different(command.to_owned())
    }
}

fn standing<'d, 'a>(document: &'d Document<'a>) -> Option<&'d ObjectProp<'a>> {
    document.root().ok()?.and_then(|root| last(root, KEY))
}

/// Whether a status line is becket's: known by the program's name.
pub fn is_ours(value: &Value<'_>) -> bool {
    our_command(value).is_some()
}

fn our_command<'d>(value: &'d Value<'_>) -> Option<&'d str> {
    let object = value.as_object()?;
    let command =
        string(object, "command").filter(|_| string(object, "type") == Some("command"))?;
    let words = words(command)?;
    let (program, args) = words.split_first()?;
    let ours = match program.rsplit('/').next()? {
        "becket-hook" => args.iter().any(|arg| arg == "--statusline"),
        "becket" => args.first().is_some_and(|verb| verb == "statusline"),
        _ => false,
    };
    ours.then_some(command)
}

/// What should stand there: our command, and everything else that the person had said of it.
fn wanted(document: &Document<'_>, now: Option<&Value<'_>>, registration: &Registration) -> String {
    let object = now.and_then(Value::as_object);
    let refresh = object.and_then(|object| last(object, REFRESH));
    let written = registration.refresh_written;
    let seconds = refresh.and_then(|refresh| plain(&refresh.value).as_u64());
    let (beside, own_refresh) = match now.and_then(our_command) {
        Some(ours) => (
            has_flag(ours, BESIDE),
            has_flag(ours, OWN_REFRESH) || written.is_some() && written != seconds,
        ),
        None => {
            let text = now.map(|now| &document.text[now.start()..now.end()]);
            (text.is_some_and(|text| command_of(text).is_some()), true)
        }
    };
    let own_refresh = own_refresh && refresh.is_some();
    // Without a record of what `init` wrote, what stands there stays.
    let keeps_refresh = own_refresh || refresh.is_some() && written.is_none();
    let mut words = vec![registration.program.as_str(), "--statusline"];
    words.extend(beside.then_some(BESIDE));
    words.extend(own_refresh.then_some(OWN_REFRESH));
    words.extend(["--home", registration.home.as_str()]);
    let command = serde_json::Value::from(line(&words));
    let mut value = format!(r#"{{"type": "command", "command": {command}"#);
    for member in object.map(others).unwrap_or_default() {
        let name = member.name.as_str();
        if name != REFRESH || keeps_refresh {
            let name = serde_json::Value::from(name);
            value.push_str(&format!(", {name}: {}", plain(&member.value)));
        }
    }
    if let Some(seconds) = registration.refresh.filter(|_| !keeps_refresh) {
        value.push_str(&format!(", \"{REFRESH}\": {seconds}"));
    }
    value.push('}');
    value
}

/// Padding and the like.
fn others<'d, 'a>(object: &'d Object<'a>) -> Vec<&'d ObjectProp<'a>> {
    let counts = |property: &&ObjectProp<'a>| {
        let name = property.name.as_str();
        let is_last = last(object, name).is_some_and(|last| last.range == property.range);
        is_last && !matches!(name, "type" | "command")
    };
    object.properties.iter().filter(counts).collect()
}

/// Whether a status line says just this, however it is laid out.
fn says(value: &Value<'_>, wanted: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(wanted).is_ok_and(|wanted| wanted == plain(value))
}

/// The words as one line, quoted where they have to be.
pub fn line(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The words of a line; none if the shell would do more with it than split it.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.trim().chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '$' | '`' | '\\' => return None,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' | '*' | '?' | '#' => {
                return None;
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use crate::settings::Strict;

    use super::*;

    #[test]
    fn only_a_line_of_words_is_understood() {
        let split = |line| words(line).map(|words| words.join("|"));
        assert_eq!(
            split(" a  'b c' \"d e\"f \\' ").as_deref(),
            Some("a|b c|d ef|'")
        );
        for more in [
            "a | b", "a; b", "$HOME/x", "a \"$b\"", "a 'b", "a > b", "~/*", "a\\",
        ] {
            assert_eq!(split(more), None, "{more}");
        }
    }

    fn registration(refresh: Option<u64>, refresh_written: Option<u64>) -> Registration {
        Registration {
            program: "/opt/becket-hook".to_owned(),
            home: "/h".to_owned(),
            strict: Strict::Keep,
            status_line: true,
            refresh,
            refresh_written,
            claude: None,
            synchronous: BTreeSet::new(),
        }
    }

    #[test]
    fn the_users_own_refresh_interval_is_kept_and_ours_follows_the_config() {
        let ours = |flags: &str, refresh: &str| {
            format!(
                r#"{{"statusLine": {{"type": "command", "command": "/opt/becket-hook --statusline{flags} --home /h"{refresh}}}}}"#
            )
        };
        let theirs =
            r#"{"statusLine": {"type": "command", "command": "mine", "refreshInterval": 9}}"#;
        let two = r#", "refreshInterval": 2"#;
        let nine = r#", "refreshInterval": 9"#;
        for (now, config, written, expected) in [
            ("{}".to_owned(), Some(2), None, ours("", two)),
            ("{}".to_owned(), None, None, ours("", "")),
            (
                theirs.to_owned(),
                Some(2),
                None,
                ours(" --beside --own-refresh", nine),
            ),
            (
                theirs.replace(nine, ""),
                Some(2),
                None,
                ours(" --beside", two),
            ),
            // The config has changed since `init` wrote it, or the user has changed the settings.
            (ours("", nine), Some(2), Some(9), ours("", two)),
            (ours("", nine), None, Some(9), ours("", "")),
            (
                ours("", nine),
                Some(2),
                Some(5),
                ours(" --own-refresh", nine),
            ),
            (
                ours(" --own-refresh", nine),
                Some(2),
                Some(9),
                ours(" --own-refresh", nine),
            ),
            (ours("", nine), Some(2), None, ours("", nine)),
            (ours(" --own-refresh", ""), Some(2), Some(9), ours("", two)),
        ] {
            let written = put(&now, &registration(config, written)).unwrap();
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&written), value(&expected), "{now}");
        }
        assert_eq!(refresh_of(&ours("", two)), Some(2));
        assert_eq!(refresh_of(theirs), None);
    }

    proptest! {
        #[test]
        fn what_is_put_into_a_line_comes_out(words in proptest::collection::vec(".{0,12}", 0..4)) {
            let given: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert_eq!(crate::settings::status_line::words(&line(&given)), Some(words.clone()));
        }
    }
}
