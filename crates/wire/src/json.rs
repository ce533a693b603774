//! Reads JSON that strict parsers refuse: half an emoji, and values that are nested very deep.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// The levels of arrays and objects that are kept when a text is repaired.
pub const DEPTH: usize = 64;

/// The reason why a text is not JSON, and its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {why}")]
pub struct SyntaxError {
    line: usize,
    column: usize,
    pub(crate) why: String,
}

impl From<&serde_json::Error> for SyntaxError {
    fn from(error: &serde_json::Error) -> Self {
        let whole = error.to_string();
        let why = whole.split(" at line ").next().unwrap_or_default();
        Self {
            line: error.line(),
            column: error.column(),
            why: why.to_owned(),
        }
    }
}

/// Reads a value. Where the strict parser refuses `json`, it gets the [`repaired`] text.
pub fn lenient<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&repaired(json, DEPTH).0))
}

/// Replaces lone surrogates by U+FFFD, and values below that many levels by `null`. Returns true if a value
/// was cut so.
///
/// JavaScript writes a lone surrogate (`"\ud83d"`) when it cuts a text inside a character.
pub fn repaired(json: &str, levels: usize) -> (String, bool) {
    let bytes = json.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let (mut at, mut depth, mut in_string, mut is_cut) = (0, 0_usize, false, false);
    while let Some(byte) = bytes.get(at) {
        let before = depth;
        let mut end = at + 1;
        let mut lone = false;
        match byte {
            b'\\' if in_string => (end, lone) = escape(bytes, at),
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth.checked_sub(1) == Some(levels) {
                    is_cut = true;
                    out.extend_from_slice(b"null");
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if before.max(depth) <= levels {
            let text = if lone { br"\ufffd" } else { &bytes[at..end] };
            out.extend_from_slice(text);
        }
        at = end;
    }
    (String::from_utf8(out).unwrap_or_default(), is_cut)
}

/// Returns the end of the escape at `at`, and true if it is a surrogate without its other half.
fn escape(bytes: &[u8], at: usize) -> (usize, bool) {
    match (code_unit(bytes, at), code_unit(bytes, at + 6)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (at + 12, false),
        (Some(0xD800..=0xDFFF), _) => (at + 6, true),
        _ => (bytes.len().min(at + 2), false),
    }
}

/// Reads the number in `\uXXXX`.
fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(br"\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn half_an_emoji_is_a_replacement_character() {
        for (json, expected) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\uDE00\ud83d\ude00\ud83d""#, "\u{fffd}😀\u{fffd}"),
            (
                r#""\\ud83d \ud83d\\ \ud83d\n é""#,
                "\\ud83d \u{fffd}\\ \u{fffd}\n é",
            ),
        ] {
            assert_eq!(lenient::<String>(json).unwrap(), expected, "{json}");
        }
        assert!(lenient::<Value>(r#"{"a": "\ud83d"#).is_err());
    }

    #[test]
    fn deep_values_are_cut() {
        let nested = |levels: usize| {
            let (open, close) = (r#"{"[":["#.repeat(levels), "]}".repeat(levels));
            format!(r#"{{"x":{open}"}}"{close},"y":"\ud83d","z":1}}"#)
        };
        let (kept, is_cut) = repaired(&nested(31), DEPTH);
        assert!(kept.contains(r#"["}"]"#) && !is_cut, "{kept}");
        for levels in [32, 500_000] {
            let (text, is_cut) = repaired(&nested(levels), DEPTH);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(is_cut && text.contains(r#""[":null}"#));
            assert_eq!((&value["y"], &value["z"]), (&json!("\u{fffd}"), &json!(1)));
        }
    }
}
