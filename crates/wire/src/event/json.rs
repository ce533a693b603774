//! JSON as Claude Code and its hooks write it.

use serde_json::Value;
use serde_json::error::Category;

/// Why a text could not be read as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonError {
    Syntax {
        line: usize,
        column: usize,
        why: String,
    },
    /// Nested deeper than serde_json goes (128).
    TooDeep,
}

/// Reads one JSON value. A lone surrogate (`"\ud83d"`, which JavaScript writes when it cuts a text
/// inside a character) becomes U+FFFD: it must not hide the rest of an event from a guard.
pub(crate) fn parse(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).or_else(|error| {
        mend_surrogates(text)
            .and_then(|mended| serde_json::from_slice(&mended).ok())
            .ok_or_else(|| explain(&error))
    })
}

fn explain(error: &serde_json::Error) -> JsonError {
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or_default();
    // serde_json has no category of its own for this one.
    if error.classify() == Category::Syntax && why == "recursion limit exceeded" {
        return JsonError::TooDeep;
    }
    JsonError::Syntax {
        line: error.line(),
        column: error.column(),
        why: why.to_owned(),
    }
}

/// The same text with every lone surrogate replaced, or `None` if there is none.
fn mend_surrogates(text: &[u8]) -> Option<Vec<u8>> {
    let mut mended = Vec::with_capacity(text.len());
    let mut found = false;
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let len = match (byte, surrogate(rest)) {
            (b'\\', None) => 2,
            (_, None) => 1,
            (_, Some(0xd800..=0xdbff))
                if matches!(rest.get(6..).and_then(surrogate), Some(0xdc00..)) =>
            {
                12
            }
            (_, Some(_)) => {
                found = true;
                mended.extend_from_slice(b"\\ufffd");
                rest = &rest[6..];
                continue;
            }
        };
        let (head, tail) = rest.split_at(len.min(rest.len()));
        mended.extend_from_slice(head);
        rest = tail;
    }
    found.then_some(mended)
}

/// The surrogate whose escape (`\udXXX`) the text begins with.
fn surrogate(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_does_not_hide_the_rest() {
        let read = |text: &str| parse(text.as_bytes()).unwrap().as_str().unwrap().to_owned();
        assert_eq!(read(r#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(
            read(r#""\ude00\ud83d\ud83d\ude00b""#),
            "\u{fffd}\u{fffd}😀b"
        );
        assert_eq!(read(r#""\\ud83d\ud83dx""#), "\\ud83d\u{fffd}x");
        assert!(parse(br#""\ud8"#).is_err());
    }

    #[test]
    fn says_where_and_why() {
        assert_eq!(
            parse(b"{\"a\":\n nope}"),
            Err(JsonError::Syntax {
                line: 2,
                column: 3,
                why: "expected ident".into()
            })
        );
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(parse(deep.as_bytes()), Err(JsonError::TooDeep));
    }
}
