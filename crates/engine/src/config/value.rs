//! The values of keys: how serde reads those that TOML does not know, their schemas and their texts.

use std::fmt::Display;
use std::time::Duration;

use becket_wire::event::EventName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use toml::Value;

use crate::process::Program;

const SIZES: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];
const TIMES: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest list of events, globs or agents.
pub(super) const MOST_WORDS: usize = 100;

/// One text or a list of texts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Words(
    #[serde(deserialize_with = "read_words")]
    #[schemars(schema_with = "words_schema")]
    pub(super) Vec<String>,
);

/// Returns the texts of a text or of a list of texts.
pub(super) fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => (values.iter())
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn read_words<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<String>, D::Error> {
    Ok(words(&Value::deserialize(given)?))
}

fn words_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "title": "a text, or a list of texts",
        "type": ["string", "array"],
        "items": { "type": "string" },
    })
}

pub(super) fn events_schema(_: &mut SchemaGenerator) -> Schema {
    let events: Vec<&str> = EventName::ALL.iter().map(EventName::as_str).collect();
    let event = json!({ "type": "string", "examples": events });
    json_schema!({
        "title": "a text, or a list of texts",
        "type": ["string", "array"],
        "anyOf": [event, { "type": "array", "items": event }],
    })
}

/// Reads a text that a function parses.
pub(super) fn parsed<'de, D: Deserializer<'de>, T, E: Display>(
    given: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(given)?).map_err(Error::custom)
}

/// Reads a program of the user: a text for `sh`, or a list that runs as it is. A blank text is none.
pub(super) fn program<'de, D: Deserializer<'de>>(given: D) -> Result<Option<Program>, D::Error> {
    let value = Value::deserialize(given)?;
    let mut words = words(&value);
    if !value.is_array() {
        let line = words.pop().filter(|line| !line.trim().is_empty());
        return Ok(line.map(Program::Shell));
    }
    if words.first().is_none_or(String::is_empty) {
        let why = format!("expected {PROGRAM}, found a list without one");
        return Err(Error::custom(why));
    }
    Ok(Some(Program::List(words)))
}

pub(super) const PROGRAM: &str = "a command, or a list of a program and its arguments";

pub(super) fn program_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = words_schema(generator);
    schema.insert("title".to_owned(), PROGRAM.into());
    schema
}

const BYTES: &str = "a size like \"4GiB\", \"500MB\" or a number of bytes";

/// Reads a size: `"4GiB"`, `"500MB"`, or a number of bytes.
pub(super) fn bytes<'de, D: Deserializer<'de>>(given: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(given)?;
    let bytes = match &value {
        Value::String(text) => parse_bytes(text),
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        _ => None,
    };
    bytes.ok_or_else(|| Error::custom(unexpected(BYTES, &value)))
}

pub(super) fn bytes_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "title": BYTES,
        "type": ["string", "integer"],
        "minimum": 0,
        "pattern": "^[0-9]+ *([KMGTkmgt][iI]?)?[Bb]?$",
    })
}

/// Reads a time of at least `LEAST` milliseconds: `"30s"`, `"5m"`, `"1h30m"`, or `"never"`, which is none.
pub(super) fn time<'de, const LEAST: u64, D>(given: D) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(given)?;
    if text == "never" {
        return Ok(None);
    }
    let least = Duration::from_millis(LEAST);
    match parse_time(&text).filter(|time| *time >= least) {
        Some(time) => Ok(Some(time)),
        None => Err(Error::custom(unexpected(&times(LEAST), &text.into()))),
    }
}

fn times(least: u64) -> String {
    let least = time_text(Duration::from_millis(least));
    format!("a time like \"30s\", \"5m\", \"12h\" (at least {least}) or \"never\"")
}

pub(super) fn time_schema<const LEAST: u64>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "title": times(LEAST),
        "type": "string",
        "pattern": "^(never|([0-9]+(ms|s|m|h|d))+)$",
    })
}

/// Returns the text of a time, as it is written in a file.
pub(super) fn time_text(time: Duration) -> String {
    let mut rest = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in TIMES {
        if rest >= length {
            text += &format!("{}{unit}", rest / length);
        }
        rest %= length;
    }
    text
}

/// Returns the text of an error about a value of another form than the expected one.
pub(super) fn unexpected(expected: &str, found: &Value) -> String {
    format!("expected {expected}, found {}", found_text(found))
}

fn found_text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(values) if values.len() > MOST_WORDS => {
            format!("a list of more than {MOST_WORDS}")
        }
        Value::Array(values) => match values.iter().find(|value| !value.is_str()) {
            Some(other) => format!("{} in it", found_text(other)),
            None => "a list".to_owned(),
        },
        Value::Table(_) => "a table".to_owned(),
        other => other.to_string(),
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.trim_start();
    let (_, size) = (SIZES.iter()).find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*size)
}

fn parse_time(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split(rest)?;
        let end = after
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let (_, length) = TIMES.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.checked_mul(*length)?)?;
        rest = next;
    }
    (!text.is_empty()).then(|| Duration::from_millis(total))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_sizes() {
        for (text, expected) in [
            ("4GiB", Some(4 << 30)),
            ("500MB", Some(500_000_000)),
            ("1 tib", Some(1 << 40)),
            ("12", Some(12)),
            ("12B", Some(12)),
            ("", None),
            ("GiB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("4 GiBs", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn reads_times() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("250ms", Some(250)),
            ("7d", Some(604_800_000)),
            ("", None),
            ("5", None),
            ("m", None),
            ("5 m", None),
            ("-5m", None),
            ("5m3", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(
                parse_time(text),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_written_time_reads_the_same(number in any::<u64>(), shift in 0_u32..64) {
            let time = Duration::from_millis(number >> shift);
            prop_assert_eq!(parse_time(&time_text(time)), Some(time));
        }
    }
}
