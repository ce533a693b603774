//! Sends made-up events of many working sessions, of every kind that changes the state of a session.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use becket_wire::rpc::{Envelope, encode_event};
use becket_wire::{EventId, Version};
use serde_json::{Value, json};

use crate::client::Client;
use crate::event::{now_ms, start_of_this_process};
use crate::world::World;

const PROJECTS: usize = 40;
/// One in this many sessions has subagents that never end.
const SUBAGENT_EVERY: usize = 5;

/// The number of events in a turn.
const TURN_EVENTS: usize = 7;

/// Returns the name and the fields of an event of a turn.
fn turn_event(at: usize, session: usize) -> (&'static str, Value) {
    match at {
        0 => {
            let prompt = "Make the totals of the orders right";
            ("UserPromptSubmit", json!({"prompt": prompt}))
        }
        1 => ("PreToolUse", tool_fields("Bash", session)),
        2 => ("PostToolUse", tool_fields("Bash", session)),
        3 => ("PreToolUse", tool_fields("Edit", session)),
        4 => ("PermissionRequest", tool_fields("Edit", session)),
        5 => ("PostToolUse", tool_fields("Edit", session)),
        _ => ("Stop", json!({"stop_hook_active": false})),
    }
}

fn tool_fields(tool: &str, session: usize) -> Value {
    let command = format!("cargo test -p part-{session} -- --quiet; ").repeat(20);
    json!({
        "tool_name": tool,
        "tool_use_id": format!("toolu_{session:012}"),
        "tool_input": {"command": command, "file_path": format!("/home/user/{session}.rs")},
    })
}

/// The sessions of one world.
#[derive(Debug)]
pub struct SyntheticSessions {
    size: usize,
    home: String,
    transcripts: PathBuf,
    pid_start: u64,
    /// The number of events that `next` has sent.
    sent: usize,
    /// The number of all events, from which their ids are made.
    made: u64,
}

impl SyntheticSessions {
    /// Begins this number of sessions.
    pub fn begin(world: &World, client: &mut Client, size: usize) -> Result<Self> {
        let transcripts = world.root().join("transcripts");
        fs::create_dir_all(&transcripts)?;
        let mut sessions = Self {
            size,
            home: world.place.home().to_string_lossy().into_owned(),
            transcripts,
            pid_start: start_of_this_process()?,
            sent: 0,
            made: 0,
        };
        for session in 0..size {
            fs::write(sessions.transcript(session), "")?;
            let title = format!("Part {session} of the work");
            let model = "claude-opus-4-8";
            let start = json!({"source": "startup", "model": model, "session_title": title});
            sessions.send(client, session, "SessionStart", start)?;
            sessions.send(
                client,
                session,
                "UserPromptSubmit",
                json!({"prompt": title}),
            )?;
            if session % SUBAGENT_EVERY == 0 {
                for (agent, kind) in [("a", "Explore"), ("b", "Plan")] {
                    let id = format!("{agent}{session:015}");
                    let start = json!({"agent_id": id, "agent_type": kind});
                    sessions.send(client, session, "SubagentStart", start)?;
                }
            }
        }
        Ok(sessions)
    }

    /// Sends the next event, of the next session.
    pub fn next(&mut self, client: &mut Client) -> Result<()> {
        let (session, turn) = (self.sent % self.size, self.sent / self.size);
        let (event, mut more) = turn_event((turn + session) % TURN_EVENTS, session);
        self.sent += 1;
        // Some of the calls belong to a subagent.
        if session % SUBAGENT_EVERY == 0 && event.ends_with("ToolUse") {
            more["agent_id"] = json!(format!("a{session:015}"));
            more["agent_type"] = json!("Explore");
        }
        self.send(client, session, event, more)
    }

    fn transcript(&self, session: usize) -> PathBuf {
        self.transcripts.join(format!("{session}.jsonl"))
    }

    fn send(
        &mut self,
        client: &mut Client,
        session: usize,
        event: &str,
        more: Value,
    ) -> Result<()> {
        let project = format!("/home/user/project-{:02}", session % PROJECTS);
        let mut payload = json!({
            "session_id": format!("f1ee7000-0000-4000-8000-{session:012x}"),
            "transcript_path": self.transcript(session),
            "cwd": project,
            "permission_mode": "default",
            "hook_event_name": event,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut payload, more) {
            all.extend(more);
        }
        let now = now_ms();
        self.made += 1;
        let spread = self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let envelope = Envelope {
            id: EventId::new(now, [spread >> 48, spread]),
            at: now,
            version: Version::current(),
            event: Some(event.to_owned()),
            from: Some("settings".to_owned()),
            home: self.home.clone(),
            pid: std::process::id(),
            pid_start: Some(self.pid_start),
            pid_is_claude: true,
            pid_parent: None,
            variables: BTreeMap::from([("CLAUDE_PROJECT_DIR".to_owned(), project)]),
            cut: None,
        };
        client.event(&encode_event(&envelope, payload.to_string().as_bytes())?)
    }
}
