//! The forms of config values, with their parsers and their texts.

use std::fmt;
use std::time::Duration;

use toml::de::DeValue;

const BINARY: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const DECIMAL: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];
const SPANS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest list of events, globs or agents.
const MOST_WORDS: usize = 100;

/// A value that was read and fits its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Number(u64),
    Bytes(u64),
    /// `None` is never.
    Span(Option<Duration>),
    Text(String),
    List(Vec<String>),
}

/// The form of a key's value.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    Bool,
    Number {
        min: u64,
        max: u64,
    },
    /// A size: `"4GiB"`, `"500MB"`, or a number of bytes.
    Bytes,
    /// A time: `"30s"`, `"5m"`, `"1h30m"`, or `"never"`.
    Span {
        min: Duration,
    },
    /// A text that this function accepts, given the last part of the key.
    Text(fn(&str, &str) -> Result<(), String>),
    /// A program of the user: a text for `sh`, or a list that runs as it is.
    Program,
    /// One text or a list of them, each of which this function accepts.
    Words(fn(&str) -> Result<(), String>),
}

impl Value {
    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the texts of a text or a list of texts.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::List(words) => words.clone(),
            _ => Vec::new(),
        }
    }
}

impl Form {
    /// Reads a value of a TOML file. `name` is the last part of its key.
    pub fn read(&self, name: &str, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (Self::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
            (Self::Number { .. } | Self::Bytes, DeValue::Integer(number)) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                self.number(number.map_err(|_| format!("expected {self}"))?)
            }
            (
                Self::Bytes | Self::Span { .. } | Self::Text(_) | Self::Program | Self::Words(_),
                DeValue::String(text),
            ) => self.read_text(name, text),
            (Self::Words(_), DeValue::Array(words)) if words.len() > MOST_WORDS => {
                Err(format!("expected at most {MOST_WORDS} texts"))
            }
            (Self::Words(check), DeValue::Array(words)) => {
                let words = self.texts(words)?;
                words.iter().try_for_each(|word| check(word))?;
                Ok(Value::List(words))
            }
            (Self::Program, DeValue::Array(words)) => {
                let words = self.texts(words)?;
                if words.first().is_none_or(String::is_empty) {
                    return Err(format!("expected {self}, found a list without one"));
                }
                Ok(Value::List(words))
            }
            _ => Err(format!("expected {self}, found {}", shown(value))),
        }
    }

    fn texts(&self, words: &[toml::Spanned<DeValue<'_>>]) -> Result<Vec<String>, String> {
        let texts = words.iter().map(|word| match word.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(format!("expected {self}, found {} in it", shown(other))),
        });
        texts.collect()
    }

    /// Reads a value of the environment or the command line.
    pub fn read_text(&self, name: &str, text: &str) -> Result<Value, String> {
        let value = match self {
            Self::Bool => match text {
                "true" | "1" => Some(Value::Bool(true)),
                "false" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::Number { .. } => match text.parse() {
                Ok(number) => return self.number(number),
                Err(_) => None,
            },
            Self::Bytes => bytes(text).map(Value::Bytes),
            Self::Span { .. } if text == "never" => Some(Value::Span(None)),
            Self::Span { min } => span(text)
                .filter(|span| span >= min)
                .map(|span| Value::Span(Some(span))),
            Self::Text(check) => {
                check(name, text)?;
                Some(Value::Text(text.to_owned()))
            }
            Self::Program => Some(Value::Text(text.to_owned())),
            Self::Words(check) => {
                check(text)?;
                Some(Value::Text(text.to_owned()))
            }
        };
        value.ok_or_else(|| format!("expected {self}, found {text:?}"))
    }

    fn number(&self, number: i128) -> Result<Value, String> {
        let value = match (self, u64::try_from(number)) {
            (Self::Number { min, max }, Ok(number)) if (*min..=*max).contains(&number) => {
                Some(Value::Number(number))
            }
            (Self::Bytes, Ok(number)) => Some(Value::Bytes(number)),
            _ => None,
        };
        value.ok_or_else(|| format!("expected {self}, found {number}"))
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("true or false"),
            Self::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Bytes => f.write_str("a size like \"4GiB\", \"500MB\" or a number of bytes"),
            Self::Span { min } => write!(
                f,
                "a time like \"30s\", \"5m\", \"12h\" (at least {}) or \"never\"",
                Value::Span(Some(*min))
            ),
            Self::Text(_) => f.write_str("a text"),
            Self::Program => f.write_str("a command, or a list of a program and its arguments"),
            Self::Words(_) => f.write_str("a text, or a list of texts"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::List(words) => write!(f, "{words:?}"),
            Self::Bytes(bytes) => {
                let mut units = BINARY.iter().chain(&DECIMAL);
                match units.find(|(_, size)| *bytes > 0 && bytes % size == 0) {
                    Some((unit, size)) => write!(f, "{}{unit}", bytes / size),
                    None => bytes.fmt(f),
                }
            }
            Self::Span(None) => f.write_str("never"),
            Self::Span(Some(span)) => {
                let mut rest = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                if rest == 0 {
                    return f.write_str("0s");
                }
                for (unit, length) in SPANS {
                    let many = rest / length;
                    rest %= length;
                    if many > 0 {
                        write!(f, "{many}{unit}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.trim_start();
    let size = match unit {
        "" | "B" => 1,
        _ => {
            let mut units = BINARY.iter().chain(&DECIMAL);
            units.find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1
        }
    };
    number.checked_mul(size)
}

fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split(rest)?;
        let end = after
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let (_, length) = SPANS.iter().find(|(name, _)| *name == unit)?;
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
            assert_eq!(bytes(text), expected, "{text}");
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
            assert_eq!(span(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_value_reads_the_same(number in any::<u64>(), shift in 0_u32..64) {
            let number = number >> shift;
            prop_assert_eq!(bytes(&Value::Bytes(number).to_string()), Some(number));
            let time = Duration::from_millis(number);
            prop_assert_eq!(span(&Value::Span(Some(time)).to_string()), Some(time));
        }
    }
}
