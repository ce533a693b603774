//! The routing fields of a payload, borrowed from it. The rest is skipped without recursion and
//! stays as it came, byte for byte.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::event::required_fields;
use crate::json::{self, SyntaxError};

const COMMON: [&str; 3] = ["session_id", "transcript_path", "cwd"];
/// The number of unknown keys that are remembered. If a payload has more, no field counts as missing.
const OTHER_KEYS: usize = 32;
/// The longest path that the system takes (`PATH_MAX`). A longer one names no file, and would be kept and
/// copied many times.
const LONGEST_PATH: usize = 4096;

/// The fields that becket needs before it knows the event. A field that is missing, or of another type, is
/// `None`.
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
    pub notification_type: Option<Cow<'a, str>>,
    /// Of PreCompact, PostCompact and Setup.
    pub trigger: Option<Cow<'a, str>>,
    /// Of StopFailure and PostToolUseFailure.
    pub error: Option<Cow<'a, str>>,
    pub mcp_server_name: Option<Cow<'a, str>>,
    pub elicitation_id: Option<Cow<'a, str>>,
    /// Of a notification, and the question of an MCP server.
    pub message: Option<Cow<'a, str>>,
    pub model: Option<Cow<'a, str>>,
    pub to_model: Option<Cow<'a, str>>,
    pub session_title: Option<Cow<'a, str>>,
    pub prompt: Option<Cow<'a, str>>,
    pub new_cwd: Option<Cow<'a, str>>,
    pub teammate_name: Option<Cow<'a, str>>,
    pub agent_transcript_path: Option<Cow<'a, str>>,
    /// Of InstructionsLoaded and FileChanged.
    pub file_path: Option<Cow<'a, str>>,
    /// Of TaskCreated and TaskCompleted.
    pub task_subject: Option<Cow<'a, str>>,
    pub is_interrupt: Option<bool>,
    pub stop_hook_active: Option<bool>,
    /// Of Stop, SubagentStop and StopFailure.
    pub last_assistant_message: Option<Cow<'a, str>>,
    /// The JSON text of the payload.
    pub tool_input: Option<&'a str>,
    /// The JSON text of the payload.
    pub tool_response: Option<&'a str>,
    /// The JSON text of the payload.
    pub background_tasks: Option<&'a str>,
    /// One bit for each missing required field, in the order of `required`.
    lacking: u32,
}

/// Returns the fields that an event of this name must have.
fn required(event: &str) -> impl Iterator<Item = &'static str> {
    let own = required_fields(event);
    let common = if own.is_empty() { &[][..] } else { &COMMON };
    common.iter().chain(own).copied()
}

/// The target of a value of the payload, and its type.
enum Field<'h, 'a> {
    Text(&'h mut Option<Cow<'a, str>>),
    Flag(&'h mut Option<bool>),
    Json(&'h mut Option<&'a str>),
}

impl<'a> Field<'_, 'a> {
    fn take(self, raw: &'a RawValue) {
        match self {
            Self::Text(field) => *field = string(raw),
            Self::Flag(field) => *field = raw.get().parse().ok(),
            Self::Json(field) => *field = Some(raw.get()),
        }
    }

    fn is_set(&self) -> bool {
        match self {
            Self::Text(field) => field.is_some(),
            Self::Flag(field) => field.is_some(),
            Self::Json(field) => field.is_some(),
        }
    }
}

/// The reason why a payload has no head. The payload is kept all the same.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeadError {
    #[error("the event is empty")]
    Empty,
    #[error("the event is not UTF-8 (at byte {at})")]
    NotUtf8 { at: usize },
    #[error("the event is not JSON ({0})")]
    NotJson(SyntaxError),
    #[error("the event is JSON, but not an object")]
    NotAnObject,
}

impl From<serde_json::Error> for HeadError {
    fn from(error: serde_json::Error) -> Self {
        Self::NotJson(SyntaxError::from(&error))
    }
}

impl<'a> Head<'a> {
    /// Reads the head. The whole payload must be JSON, at any depth.
    pub fn read(payload: &'a [u8]) -> Result<Self, HeadError> {
        let text = std::str::from_utf8(payload).map_err(|error| HeadError::NotUtf8 {
            at: error.valid_up_to(),
        })?;
        match text.trim_ascii_start().as_bytes().first() {
            None => return Err(HeadError::Empty),
            Some(b'{') => {}
            Some(_) => {
                serde_json::from_str::<IgnoredAny>(text)?;
                return Err(HeadError::NotAnObject);
            }
        }
        let mut json = serde_json::Deserializer::from_str(text);
        // Values are skipped or taken raw; serde_json does both without recursion.
        let head = json.deserialize_map(HeadVisitor)?;
        json.end()?;
        Ok(head)
    }

    /// Returns the fields that every event of this name has and this one has not, or not as text where it
    /// should be. An event that becket does not know lacks nothing.
    pub fn lacks(&self) -> Vec<&'static str> {
        match self.event.as_deref() {
            None => vec!["hook_event_name"],
            Some(_) if self.lacking == 0 => Vec::new(),
            Some(event) => required(event)
                .enumerate()
                .filter(|(nth, _)| self.lacking & (1 << nth) != 0)
                .map(|(_, name)| name)
                .collect(),
        }
    }

    fn note_missing(&mut self, others: &[&str]) {
        let Some(event) = self.event.take() else {
            return;
        };
        for (nth, name) in required(&event).enumerate() {
            let is_present = match self.field(name) {
                Some(field) => field.is_set(),
                None => others.contains(&name),
            };
            self.lacking |= u32::from(!is_present) << nth;
        }
        self.event = Some(event);
    }

    fn field(&mut self, name: &str) -> Option<Field<'_, 'a>> {
        let text = match name {
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
            "notification_type" => &mut self.notification_type,
            "trigger" => &mut self.trigger,
            "error" => &mut self.error,
            "mcp_server_name" => &mut self.mcp_server_name,
            "elicitation_id" => &mut self.elicitation_id,
            "message" => &mut self.message,
            "model" => &mut self.model,
            "to_model" => &mut self.to_model,
            "session_title" => &mut self.session_title,
            "prompt" => &mut self.prompt,
            "new_cwd" => &mut self.new_cwd,
            "teammate_name" => &mut self.teammate_name,
            "agent_transcript_path" => &mut self.agent_transcript_path,
            "last_assistant_message" => &mut self.last_assistant_message,
            "file_path" => &mut self.file_path,
            "task_subject" => &mut self.task_subject,
            "is_interrupt" => return Some(Field::Flag(&mut self.is_interrupt)),
            "stop_hook_active" => return Some(Field::Flag(&mut self.stop_hook_active)),
            "tool_input" => return Some(Field::Json(&mut self.tool_input)),
            "tool_response" => return Some(Field::Json(&mut self.tool_response)),
            "background_tasks" => return Some(Field::Json(&mut self.background_tasks)),
            _ => return None,
        };
        Some(Field::Text(text))
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
        let mut others = [""; OTHER_KEYS];
        let mut count = 0;
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let name = string(key).unwrap_or_default();
            match head.field(&name) {
                Some(field) => field.take(map.next_value()?),
                None => {
                    if let (Some(place), Cow::Borrowed(name)) = (others.get_mut(count), name) {
                        *place = name;
                    }
                    count += 1;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let Head {
            cwd,
            new_cwd,
            transcript_path,
            agent_transcript_path,
            ..
        } = &mut head;
        for path in [cwd, new_cwd, transcript_path, agent_transcript_path] {
            path.take_if(|path| path.len() > LONGEST_PATH);
        }
        if let Some(others) = others.get(..count) {
            head.note_missing(others);
        }
        Ok(head)
    }
}

/// Reads a JSON string, borrowed where it has no escapes.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return json::lenient(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrows_if_possible() {
        let payload = br#" {"session_id":"s1","x":[{"session_id":"inner"}],"cwd":"/a\"b","tool_name":7,"hook_event_name":"Stop"} "#;
        let head = Head::read(payload).unwrap();
        assert!(matches!(head.session_id, Some(Cow::Borrowed("s1"))));
        assert_eq!(head.cwd.as_deref(), Some("/a\"b"));
        assert_eq!(head.event.as_deref(), Some("Stop"));
        assert_eq!(head.tool, None);
        let head = Head::read(br#"{"prompt":"\ud83d deploy"}"#).unwrap();
        assert_eq!(head.prompt.as_deref(), Some("\u{fffd} deploy"));
    }

    #[test]
    fn a_path_that_is_too_long_is_none() {
        let payload = |len: usize| format!(r#"{{"hook_event_name":"Stop","cwd":"{:/<len$}"}}"#, "");
        let (longest, longer) = (payload(LONGEST_PATH), payload(LONGEST_PATH + 1));
        assert!(Head::read(longest.as_bytes()).unwrap().cwd.is_some());
        let head = Head::read(longer.as_bytes()).unwrap();
        assert!(head.cwd.is_none() && head.lacks().contains(&"cwd"));
    }

    #[test]
    fn a_field_of_another_type_is_none() {
        let payload =
            br#"{"prompt":"long","error":"two\nlines","is_interrupt":true,"stop_hook_active":"yes",
            "tool_input":{"a": [1]},"background_tasks":[ ],"model":{"id":"m"},"trigger":null}"#;
        let head = Head::read(payload).unwrap();
        assert!(matches!(head.prompt, Some(Cow::Borrowed("long"))));
        assert_eq!(head.error.as_deref(), Some("two\nlines"));
        assert_eq!(head.is_interrupt, Some(true));
        assert_eq!(head.stop_hook_active, None);
        assert_eq!(head.tool_input, Some(r#"{"a": [1]}"#));
        assert_eq!(head.background_tasks, Some("[ ]"));
        assert_eq!((head.model, head.trigger), (None, None));
    }

    #[test]
    fn missing_fields_are_noted() {
        let lacks = |payload: &str| Head::read(payload.as_bytes()).unwrap().lacks().join(" ");
        let start = r#""session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"#;
        assert_eq!(lacks(r#"{"session_id":"s"}"#), "hook_event_name");
        assert_eq!(
            lacks(r#"{"hook_event_name":"Stop","stop_hook_active":false,"cwd":"/"}"#),
            "session_id transcript_path"
        );
        assert_eq!(
            lacks(&format!(
                r#"{{{start}"PostToolUse","tool_name":7,"tool_use_id":"t","tool_response":null}}"#
            )),
            "tool_name tool_input"
        );
        assert_eq!(lacks(&format!(r#"{{{start}"Newer"}}"#)), "");
        let many: String = (0..OTHER_KEYS).map(|n| format!(r#""k{n}":0,"#)).collect();
        let batch = |keys: &str| format!(r#"{{{keys}{start}"PostToolBatch","tool_calls":[]}}"#);
        assert_eq!(lacks(&batch("")), "");
        assert_eq!(lacks(&batch(&many)), "", "too many keys to tell");
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
            Err(HeadError::NotJson(_))
        ));
    }

    #[test]
    fn describes_the_error() {
        let why = |payload: &[u8]| Head::read(payload).unwrap_err().to_string();
        assert_eq!(why(b""), "the event is empty");
        assert_eq!(why(b" \n"), "the event is empty");
        assert_eq!(
            why(b"{\"a\":\"\xff\"}"),
            "the event is not UTF-8 (at byte 6)"
        );
        assert_eq!(why(b"[1]"), "the event is JSON, but not an object");
        assert_eq!(why(b"\"text\""), "the event is JSON, but not an object");
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
