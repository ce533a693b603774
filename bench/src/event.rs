//! Makes events with new ids. The shim gets the beginning of a call (a Bash command of 200 characters, or an
//! edit of 2 KB), and from time to time the end of all calls; the socket gets the end of an edit. So a session
//! has no more open calls than a real one.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use becket_wire::process::parent_and_start;
use becket_wire::rpc::{Envelope, encode_event};
use becket_wire::{EventId, Place, Version};
use serde_json::{Value, json};

/// The size of the payload of an edit.
pub const SIZE: usize = 2048;
/// The number of sessions over which the frames are spread.
const SESSIONS: u64 = 500;

/// The event of the frames.
const EVENT: &str = "PostToolUse";

const TOOL_USE_ID: &str = "toolu_bench_0000000000000000";
/// The session of all payloads.
pub const SESSION: &str = "0bec4e70-0000-4000-8000-000000000000";

pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// The tool call of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    Bash,
    Edit,
}

/// A command of 200 characters: eight programs.
const COMMAND: &str = "cd web && npm run build -- --mode production 2>&1 | tail -n 40 && grep -rn 'fn main' src \
                       --include='*.rs' | sort | uniq -c | head -20; git commit -am 'docs: describe how pages \
                       are built from parts an'";

/// Makes a payload in the form of Claude Code.
fn payload(event: &str, kind: PayloadKind) -> Vec<u8> {
    if kind == PayloadKind::Bash {
        let input = json!({"command": COMMAND, "description": "Build the pages"});
        return tool_payload(event, "Bash", &input);
    }
    let text = "What was found is written down, line by line. ";
    let missing = SIZE - edit_payload(event, "").len();
    edit_payload(event, &text.repeat(SIZE / text.len() + 1)[..missing])
}

fn edit_payload(event: &str, text: &str) -> Vec<u8> {
    let path = "/home/user/project/src/pages/notes.rs";
    let input = json!({"file_path": path, "old_string": "fn notes() {}", "new_string": text});
    tool_payload(event, "Edit", &input)
}

fn tool_payload(event: &str, tool: &str, input: &Value) -> Vec<u8> {
    json!({
        "session_id": SESSION,
        "transcript_path": format!("/home/user/.claude/projects/-home-user-project/{SESSION}.jsonl"),
        "cwd": "/home/user/project",
        "prompt_id": "f47f35a6-678d-479e-b558-6e937418b1e5",
        "permission_mode": "default",
        "effort": {"level": "medium"},
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": input,
        "tool_use_id": TOOL_USE_ID,
    })
    .to_string()
    .into_bytes()
}

/// Returns the position of a text that will be overwritten.
fn find(bytes: &[u8], text: impl AsRef<[u8]>) -> Result<usize> {
    let text = text.as_ref();
    bytes
        .windows(text.len())
        .position(|window| window == text)
        .with_context(|| format!("no {} in the event", String::from_utf8_lossy(text)))
}

fn write_hex(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

/// Payloads for the shim's stdin.
#[derive(Debug)]
pub struct Payloads {
    bytes: Vec<u8>,
    id_at: usize,
    count: u64,
}

impl Payloads {
    pub fn new(kind: PayloadKind) -> Result<Self> {
        let bytes = payload("PreToolUse", kind);
        let id_at = find(&bytes, TOOL_USE_ID)? + TOOL_USE_ID.len() - 16;
        Ok(Self {
            bytes,
            id_at,
            count: 0,
        })
    }

    pub fn next_payload(&mut self) -> &[u8] {
        self.count += 1;
        write_hex(&mut self.bytes[self.id_at..][..16], self.count);
        &self.bytes
    }

    /// Returns the payload that ends all calls so far.
    pub fn end() -> Vec<u8> {
        json!({"session_id": SESSION, "hook_event_name": "PostToolBatch", "tool_calls": []})
            .to_string()
            .into_bytes()
    }
}

/// Returns the start time of this process. Envelopes carry it because the daemon ends sessions whose process
/// has ended, and ignores their events.
pub fn start_of_this_process() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, start) = parent_and_start(&stat).context("no start of this process")?;
    Ok(start)
}

/// Frames for the socket, made from one template whose ids and time are overwritten: making a frame must
/// cost the client almost nothing, because it runs on the same cores.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    event_id: usize,
    at: usize,
    sent: usize,
    tool_use_id: usize,
    session: [usize; 2],
    count: u64,
    run: u8,
}

impl Frames {
    pub fn new(place: &Place) -> Result<Self> {
        let now = now_ms();
        let id = EventId::from_bytes([0xbe; 16]);
        let envelope = Envelope {
            id,
            at: now,
            version: Version::current(),
            event: Some(EVENT.into()),
            from: Some("settings".into()),
            home: place.home().to_string_lossy().into_owned(),
            pid: std::process::id(),
            pid_start: Some(start_of_this_process()?),
            pid_is_claude: true,
            pid_parent: None,
            variables: BTreeMap::from([
                ("CLAUDE_PROJECT_DIR".into(), "/home/user/project".into()),
                ("CLAUDE_CODE_ENTRYPOINT".into(), "cli".into()),
            ]),
            cut: None,
        };
        let bytes = encode_event(&envelope, &payload(EVENT, PayloadKind::Edit))?;
        let first = find(&bytes, SESSION)?;
        let second = first + 36 + find(&bytes[first + 36..], SESSION)?;
        Ok(Self {
            event_id: find(&bytes, id.to_string())?,
            at: find(&bytes, format!("\"at\":{now}"))? + 5,
            sent: find(&bytes, now.to_le_bytes())?,
            tool_use_id: find(&bytes, TOOL_USE_ID)? + TOOL_USE_ID.len() - 16,
            session: [first + 24, second + 24],
            bytes,
            count: 0,
            // Two runs in one home must not send the same ids.
            run: now as u8,
        })
    }

    /// Returns the next frame, with this time.
    pub fn next_frame(&mut self, now_ms: i64) -> &[u8] {
        self.count += 1;
        let count = self.count;
        let id = self.event_id_bytes(now_ms);
        let mut place = self.event_id;
        for (at, byte) in id.into_iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                place += 1;
            }
            write_hex(&mut self.bytes[place..][..2], byte.into());
            place += 2;
        }
        self.bytes[self.sent..][..8].copy_from_slice(&now_ms.to_le_bytes());
        let mut left = now_ms;
        for digit in self.bytes[self.at..][..13].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        write_hex(&mut self.bytes[self.tool_use_id..][..16], count);
        for place in self.session {
            write_hex(&mut self.bytes[place..][..12], count % SESSIONS);
        }
        &self.bytes
    }

    /// Returns a UUID of version 7 whose random part is spread like a random number.
    fn event_id_bytes(&self, now_ms: i64) -> [u8; 16] {
        let spread = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
        bytes[6] = 0x70;
        bytes[7] = self.run;
        bytes[8..].copy_from_slice(&spread.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use becket_wire::Head;
    use becket_wire::frame::Decoder;
    use becket_wire::rpc::Request;

    use super::*;

    #[test]
    fn every_frame_is_a_complete_event_with_new_ids() {
        let mut frames = Frames::new(&Place::new("/h")).unwrap();
        let (mut ids, mut calls, mut sessions) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for turn in 0..2000 {
            let mut decoder = Decoder::new();
            decoder.push(frames.next_frame(1_800_000_000_000 + turn));
            let frame = decoder.next_frame().unwrap().unwrap();
            let Ok(Request::Event(event)) = Request::from_frame(frame) else {
                panic!("not an event");
            };
            assert_eq!(event.payload.len(), SIZE);
            assert_eq!(event.envelope.at, 1_800_000_000_000 + turn);
            assert_eq!(event.sent, event.envelope.at);
            assert_eq!(event.envelope.id.at_ms(), event.envelope.at);
            let head = Head::read(&event.payload).unwrap();
            let session = head.session_id.unwrap().into_owned();
            assert!(head.transcript_path.unwrap().contains(&session));
            ids.insert(event.envelope.id);
            calls.insert(head.tool_use_id.unwrap().into_owned());
            sessions.insert(session);
        }
        assert_eq!((ids.len(), calls.len()), (2000, 2000));
        assert_eq!(sessions.len() as u64, SESSIONS);
    }

    #[test]
    fn every_payload_has_a_new_id_and_the_same_size() {
        for call in [PayloadKind::Bash, PayloadKind::Edit] {
            let mut payloads = Payloads::new(call).unwrap();
            let first = payloads.next_payload().to_vec();
            let second = payloads.next_payload().to_vec();
            assert_eq!(first.len(), second.len());
            assert_ne!(
                Head::read(&first).unwrap().tool_use_id,
                Head::read(&second).unwrap().tool_use_id
            );
        }
        assert_eq!(COMMAND.len(), 200);
    }
}
