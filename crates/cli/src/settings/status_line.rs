//! The status line in a settings file: becket's takes the place of the user's, which comes back byte
//! for byte.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use crate::settings::document::{
    Document, SettingsError, is_last, last, named, plain, plain_object, split_mark, string,
};
use crate::settings::registration::Registration;
use crate::settings::splice::{Container, Splices};

const KEY: &str = "statusLine";
/// The flag in becket's command that there was a status line before.
const BESIDE: &str = "--beside";
/// The flag that the refresh interval is the user's own, so that their program runs each time.
const OWN_REFRESH: &str = "--own-refresh";
/// The key for the seconds between two calls by Claude Code while nothing happens.
const REFRESH: &str = "refreshInterval";

/// The state of the status line in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusLineState {
    Missing,
    /// becket's command, as `init` would write it.
    Found(String),
    /// becket's command, but `init` would change it.
    Different(String),
    /// Another program's.
    Foreign,
}

impl StatusLineState {
    pub fn is_becket(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Different(_))
    }

    /// Returns true if it is becket's and there was another one before.
    pub fn is_beside(&self) -> bool {
        matches!(self, Self::Found(command) if has_flag(command, BESIDE))
    }
}

fn has_flag(command: &str, flag: &str) -> bool {
    command.split(' ').any(|word| word == flag)
}

/// Returns the refresh interval of becket's status line in a settings file.
pub fn refresh_of(text: &str) -> Option<u64> {
    let document = Document::parse(split_mark(text).1).ok()?;
    let value = &property(&document)?.value;
    becket_command(value)?;
    plain(value)[REFRESH].as_u64()
}

/// Returns the settings with becket's status line, in the place of one that was there.
pub fn put(body: &str, registration: &Registration) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let Some(root) = document.root()? else {
        return Ok(body.to_owned());
    };
    let present = last(root, KEY).map(|property| &property.value);
    let wanted = wanted_text(&document, present, registration);
    let splices = match present {
        Some(present) if is_equal(present, &wanted) => return Ok(body.to_owned()),
        Some(present) => Splices::one(present, wanted),
        None => Container::from(root).append(&document, format!("\"{KEY}\": {wanted}")),
    };
    Ok(splices.apply(body))
}

/// Returns the settings without becket's status line, and with the one `before` it.
pub fn take_out(body: &str, before: Option<&str>) -> Result<String, SettingsError> {
    let mut body = body.to_owned();
    loop {
        let document = Document::parse(&body)?;
        let Some(root) = document.root()? else {
            return Ok(body);
        };
        let Some(becket) = named(root, KEY).find(|property| is_becket_line(&property.value)) else {
            return Ok(body);
        };
        let splices = match before.filter(|_| is_last(root, becket)) {
            Some(before) => Splices::one(&becket.value, before),
            None => Container::from(root).remove(&document, becket),
        };
        body = splices.apply(&body);
    }
}

/// Returns the text of the status line that Claude Code reads, if it is not becket's.
pub fn foreign_text<'a>(document: &Document<'a>) -> Option<&'a str> {
    let value = &property(document)?.value;
    (!is_becket_line(value)).then(|| &document.text[value.start()..value.end()])
}

/// Returns the command of a status line from its text.
pub fn command_of(value: &str) -> Option<String> {
    let document = Document::parse(value).ok()?;
    let value = plain_object(document.root().ok()??);
    let is_command = value["type"] == "command";
    let command = value["command"].as_str().filter(|_| is_command)?;
    (!command.trim().is_empty()).then(|| command.to_owned())
}

pub fn inspect(document: &Document<'_>, registration: &Registration) -> StatusLineState {
    let Some(property) = property(document) else {
        return StatusLineState::Missing;
    };
    let Some(command) = becket_command(&property.value) else {
        return StatusLineState::Foreign;
    };
    let wanted = wanted_text(document, Some(&property.value), registration);
    if is_equal(&property.value, &wanted) {
        StatusLineState::Found(command.to_owned())
    } else {
        StatusLineState::Different(command.to_owned())
    }
}

/// Returns the status line that Claude Code reads.
fn property<'d, 'a>(document: &'d Document<'a>) -> Option<&'d ObjectProp<'a>> {
    last(document.root().ok()??, KEY)
}

/// Returns true if a status line is becket's, by the name of its program.
pub fn is_becket_line(value: &Value<'_>) -> bool {
    becket_command(value).is_some()
}

fn becket_command<'d>(value: &'d Value<'_>) -> Option<&'d str> {
    let object = value.as_object()?;
    if string(object, "type") != Some("command") {
        return None;
    }
    let command = string(object, "command")?;
    let words = words(command)?;
    let (program, args) = words.split_first()?;
    let is_becket = match program.rsplit('/').next()? {
        "becket-hook" => args.iter().any(|arg| arg == "--statusline"),
        "becket" => args.first().is_some_and(|verb| verb == "statusline"),
        _ => false,
    };
    is_becket.then_some(command)
}

/// Returns the text of the status line that `init` writes: becket's command, and every other field of
/// the one that is there.
fn wanted_text(
    document: &Document<'_>,
    present: Option<&Value<'_>>,
    registration: &Registration,
) -> String {
    let object = present.and_then(Value::as_object);
    let refresh = object.and_then(|object| last(object, REFRESH));
    let written = registration.refresh_written;
    let seconds = refresh.and_then(|refresh| plain(&refresh.value).as_u64());
    let (beside, own_refresh) = match present.and_then(becket_command) {
        Some(command) => (
            has_flag(command, BESIDE),
            has_flag(command, OWN_REFRESH) || written.is_some() && written != seconds,
        ),
        None => {
            let text = present.map(|value| &document.text[value.start()..value.end()]);
            (text.is_some_and(|text| command_of(text).is_some()), true)
        }
    };
    let own_refresh = own_refresh && refresh.is_some();
    // Without a record of the interval that `init` wrote, the present one stays.
    let keeps_refresh = own_refresh || refresh.is_some() && written.is_none();
    let mut words = vec![registration.program.as_str(), "--statusline"];
    words.extend(beside.then_some(BESIDE));
    words.extend(own_refresh.then_some(OWN_REFRESH));
    words.extend(["--home", registration.home.as_str()]);
    let command = serde_json::Value::from(line(&words));
    let mut value = format!(r#"{{"type": "command", "command": {command}"#);
    for member in object.map(other_members).unwrap_or_default() {
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

/// Returns the members besides the command, such as the padding.
fn other_members<'d, 'a>(object: &'d Object<'a>) -> Vec<&'d ObjectProp<'a>> {
    let mut members: Vec<_> = object.properties.iter().collect();
    members.retain(|member| {
        is_last(object, member) && !matches!(member.name.as_str(), "type" | "command")
    });
    members
}

/// Returns true if a status line has the same fields as `wanted`, in any layout.
fn is_equal(value: &Value<'_>, wanted: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(wanted).is_ok_and(|wanted| wanted == plain(value))
}

/// Joins words to a line for the shell, quoted where needed.
pub fn line(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let mut characters = word.chars();
    let is_plain = characters.all(|c| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c));
    if is_plain && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Splits a line into words. Returns `None` if the shell would do more with it than split it.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.trim().chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        end if end == c => break,
                        '$' | '`' | '\\' if c == '"' => return None,
                        inside => word.push(inside),
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
    fn only_a_plain_line_is_split() {
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
        fn words_reverses_line(words in proptest::collection::vec(".{0,12}", 0..4)) {
            let given: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert_eq!(crate::settings::status_line::words(&line(&given)), Some(words.clone()));
        }
    }
}
