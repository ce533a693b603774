//! The routing fields of a payload, borrowed from it. The rest is skipped without recursion and
//! stays as it came, byte for byte.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What becket needs to know of an event before it knows the event. A field that is missing, or is
/// no string, is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head<'a> {
    pub session_id: Option<Cow<'a, str>>,
    pub agent_id: Option<Cow<'a, str>>,
    pub agent_type: Option<Cow<'a, str>>,
    /// `hook_event_name`
    pub event: Option<Cow<'a, str>>,
    /// `tool_name`
    pub tool: Option<Cow<'a, str>>,
    pub tool_use_id: Option<Cow<'a, str>>,
    pub prompt_id: Option<Cow<'a, str>>,
    pub cwd: Option<Cow<'a, str>>,
    pub transcript_path: Option<Cow<'a, str>>,
    pub permission_mode: Option<Cow<'a, str>>,
    /// Of SessionStart, ConfigChange and others.
    pub source: Option<Cow<'a, str>>,
    /// Of SessionEnd and PermissionDenied.
    pub reason: Option<Cow<'a, str>>,
}

/// Why a payload has no head. The payload is kept all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadError {
    Empty,
    NotUtf8 {
        at: usize,
    },
    NotJson {
        line: usize,
        column: usize,
        why: String,
    },
    NotAnObject,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the event is empty"),
            Self::NotUtf8 { at } => write!(f, "the event is not UTF-8 (at byte {at})"),
            Self::NotJson { line, column, why } => write!(
                f,
                "the event is not JSON (line {line}, column {column}: {why})"
            ),
            Self::NotAnObject => f.write_str("the event is JSON, but no object"),
        }
    }
}

impl std::error::Error for HeadError {}

impl<'a> Head<'a> {
    /// Reads the head. The whole payload is checked to be JSON, at any depth.
    pub fn read(payload: &'a [u8]) -> Result<Self, HeadError> {
        let text = std::str::from_utf8(payload).map_err(|error| HeadError::NotUtf8 {
            at: error.valid_up_to(),
        })?;
        match text.trim_ascii_start().as_bytes().first() {
            None => return Err(HeadError::Empty),
            Some(b'{') => {}
            Some(_) => return Err(not_an_object(text)),
        }
        let mut json = serde_json::Deserializer::from_str(text);
        // Values are skipped or taken raw, and serde_json does both without recursion.
        let head = json
            .deserialize_map(HeadVisitor)
            .map_err(|error| not_json(&error))?;
        json.end().map_err(|error| not_json(&error))?;
        Ok(head)
    }

    fn field(&mut self, name: &str) -> Option<&mut Option<Cow<'a, str>>> {
        Some(match name {
            "session_id" => &mut self.session_id,
            "agent_id" => &mut self.agent_id,
            "agent_type" => &mut self.agent_type,
            "hook_event_name" => &mut self.event,
            "tool_name" => &mut self.tool,
            "tool_use_id" => &mut self.tool_use_id,
            "prompt_id" => &mut self.prompt_id,
            "cwd" => &mut self.cwd,
            "transcript_path" => &mut self.transcript_path,
            "permission_mode" => &mut self.permission_mode,
            "source" => &mut self.source,
            "reason" => &mut self.reason,
            _ => return None,
        })
    }
}

fn not_an_object(text: &str) -> HeadError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => HeadError::NotAnObject,
        Err(error) => not_json(&error),
    }
}

fn not_json(error: &serde_json::Error) -> HeadError {
    let whole = error.to_string();
    let why = whole
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    HeadError::NotJson {
        line: error.line(),
        column: error.column(),
        why,
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
        let mut head = Head::default();
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            match head.field(&string(key).unwrap_or_default()) {
                Some(field) => *field = string(map.next_value::<&'de RawValue>()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(head)
    }
}

/// A JSON string, borrowed where it has no escapes.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrows_what_it_can() {
        let payload = br#" {"session_id":"s1","x":[{"session_id":"inner"}],"cwd":"/a\"b","tool_name":7,"hook_event_name":"Stop"} "#;
        let head = Head::read(payload).unwrap();
        assert!(matches!(head.session_id, Some(Cow::Borrowed("s1"))));
        assert_eq!(head.cwd.as_deref(), Some("/a\"b"));
        assert_eq!(head.event.as_deref(), Some("Stop"));
        assert_eq!(head.tool, None);
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = 2_000_000;
        let payload = format!(
            "{{\"x\":{}{},\"session_id\":\"s\"}}",
            "[".repeat(deep),
            "]".repeat(deep)
        );
        assert_eq!(
            Head::read(payload.as_bytes())
                .unwrap()
                .session_id
                .as_deref(),
            Some("s")
        );
        let payload = format!("{{\"x\":{}", "[".repeat(deep));
        assert!(matches!(
            Head::read(payload.as_bytes()),
            Err(HeadError::NotJson { .. })
        ));
    }

    #[test]
    fn says_what_is_wrong() {
        let why = |payload: &[u8]| Head::read(payload).unwrap_err().to_string();
        assert_eq!(why(b""), "the event is empty");
        assert_eq!(why(b" \n"), "the event is empty");
        assert_eq!(
            why(b"{\"a\":\"\xff\"}"),
            "the event is not UTF-8 (at byte 6)"
        );
        assert_eq!(why(b"[1]"), "the event is JSON, but no object");
        assert_eq!(why(b"\"text\""), "the event is JSON, but no object");
        assert_eq!(
            why(b"{\"a\": nope}"),
            "the event is not JSON (line 1, column 8: expected ident)"
        );
        assert_eq!(
            why(b"{} {}"),
            "the event is not JSON (line 1, column 4: trailing characters)"
        );
        assert_eq!(
            why(b"\0\0"),
            "the event is not JSON (line 1, column 1: expected value)"
        );
    }
}
