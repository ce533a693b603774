//! Many sessions at work: made-up events, of every kind that moves a session, spread over all.

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
/// Every so-manieth session has a subagent that goes on and on.
const WITH_SUBAGENTS: usize = 5;

/// So many events make a turn.
const TURN: usize = 7;

/// An event of a turn.
fn event(at: usize, session: usize) -> (&'static str, Value) {
    match at {
        0 => {
            let prompt = "Make the totals of the orders right";
            ("UserPromptSubmit", json!({"prompt": prompt}))
        }
        1 => ("PreToolUse", call("Bash", session)),
        2 => ("PostToolUse", call("Bash", session)),
        3 => ("PreToolUse", call("Edit", session)),
        4 => ("PermissionRequest", call("Edit", session)),
        5 => ("PostToolUse", call("Edit", session)),
        _ => ("Stop", json!({"stop_hook_active": false})),
    }
}

fn call(tool: &str, session: usize) -> Value {
    let command = format!("cargo test -p part-{session} -- --quiet; ").repeat(20);
    json!({
        "tool_name": tool,
        "tool_use_id": format!("toolu_{session:012}"),
        "tool_input": {"command": command, "file_path": format!("/home/user/{session}.rs")},
    })
}

/// The sessions of one world.
#[derive(Debug)]
pub struct Fleet {
    size: usize,
    home: String,
    transcripts: PathBuf,
    pid_start: u64,
    sent: usize,
    /// Events made: no two have the same id.
    made: u64,
}

impl Fleet {
    /// Begins so many sessions.
    pub fn begin(world: &World, client: &mut Client, size: usize) -> Result<Self> {
        let transcripts = world.root().join("transcripts");
        fs::create_dir_all(&transcripts)?;
        let mut fleet = Self {
            size,
            home: world.place.home().to_string_lossy().into_owned(),
            transcripts,
            pid_start: start_of_this_process()?,
            sent: 0,
            made: 0,
        };
        for session in 0..size {
            fs::write(fleet.transcript(session), "")?;
            let title = format!("Part {session} of the work");
            let model = "claude-opus-4-8";
            let start = json!({"source": "startup", "model": model, "session_title": title});
            fleet.send(client, session, "SessionStart", start)?;
            fleet.send(
                client,
                session,
                "UserPromptSubmit",
                json!({"prompt": title}),
            )?;
            if session % WITH_SUBAGENTS == 0 {
                for (agent, kind) in [("a", "Explore"), ("b", "Plan")] {
                    let id = format!("{agent}{session:015}");
                    let start = json!({"agent_id": id, "agent_type": kind});
                    fleet.send(client, session, "SubagentStart", start)?;
                }
            }
        }
        Ok(fleet)
    }

    /// The next event, of the next session.
    pub fn next(&mut self, client: &mut Client) -> Result<()> {
        let (session, turn) = (self.sent % self.size, self.sent / self.size);
        let (event, mut more) = event((turn + session) % TURN, session);
        self.sent += 1;
        // Some of the calls are those of a subagent.
        if session % WITH_SUBAGENTS == 0 && event.ends_with("ToolUse") {
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
