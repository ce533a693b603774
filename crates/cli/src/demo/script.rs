//! The script of the demo: reads one step per line and makes the payloads that Claude Code sends.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The steps with their times in seconds. Steps before 0 are past when the demo starts.
const DAY: &str = include_str!("day.jsonl");

/// An event or a status line of the script.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedEvent {
    /// The time in milliseconds after the start of the demo, or before it if negative.
    pub at: i64,
    pub project: String,
    pub payload: ScriptedPayload,
}

impl ScriptedEvent {
    /// Returns true if this is the event of this name.
    pub fn is(&self, event: &str) -> bool {
        self.event_and_payload().0 == Some(event)
    }

    /// Returns the name of the event, or None for a status line, and the payload.
    pub fn event_and_payload(&self) -> (Option<&str>, &Value) {
        match &self.payload {
            ScriptedPayload::Event(name, payload) => (Some(name), payload),
            ScriptedPayload::StatusLine(payload) => (None, payload),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ScriptedPayload {
    /// An event: its name and payload.
    Event(String, Value),
    /// The input of a status line command.
    StatusLine(Value),
}

#[derive(Debug, Clone, Deserialize)]
struct Actor {
    cast: String,
    id: String,
    cwd: String,
    model: String,
    mode: Option<String>,
}

/// One line of the script, without the fields of the event itself.
#[derive(Debug, Clone, Deserialize)]
struct Step {
    at: i64,
    who: String,
    event: Option<String>,
    /// The tool of a call, which makes a PreToolUse and the events after it.
    call: Option<String>,
    input: Option<Value>,
    /// The seconds until the call succeeds. Without it the call fails, is denied, or goes on.
    took: Option<i64>,
    error: Option<String>,
    denied: Option<String>,
    #[serde(default)]
    asks: bool,
    agent: Option<(String, String)>,
    /// The context in percent and the cost in dollars.
    figures: Option<(f64, f64)>,
}

/// Reads the whole script, in order of time.
pub fn day() -> Result<Vec<ScriptedEvent>> {
    let mut actors: HashMap<String, (Actor, u32)> = HashMap::new();
    let mut events = Vec::new();
    for (number, line) in (1..).zip(DAY.lines()) {
        let context = || format!("line {number} of the demo's script");
        let value: Value = serde_json::from_str(line).with_context(context)?;
        if value.get("cast").is_some() {
            let actor: Actor = serde_json::from_value(value).with_context(context)?;
            actors.insert(actor.cast.clone(), (actor, 0));
            continue;
        }
        let step: Step = serde_json::from_value(value.clone()).with_context(context)?;
        let (actor, prompts) = actors.get_mut(&step.who).with_context(context)?;
        if step.event.as_deref() == Some("UserPromptSubmit") {
            *prompts += 1;
        }
        let context = StepContext {
            actor,
            prompt: *prompts,
            number,
        };
        context.expand(&step, &value, &mut events);
    }
    // A stable sort: of two events at the same time, the earlier line comes first.
    events.sort_by_key(|event| event.at);
    Ok(events)
}

struct StepContext<'a> {
    actor: &'a Actor,
    prompt: u32,
    /// The number of the line, from which ids are made.
    number: u32,
}

impl StepContext<'_> {
    fn expand(&self, step: &Step, line: &Value, events: &mut Vec<ScriptedEvent>) {
        let at = step.at * 1_000;
        let mut payloads = Vec::new();
        if let Some((percent, cost)) = step.figures {
            let line = self.status_line(percent, cost);
            payloads.push((at, ScriptedPayload::StatusLine(line)));
        }
        if let Some(event) = &step.event {
            let own = own_fields(event, line);
            payloads.push((at, self.event(event, step, own)));
        }
        if let Some(tool) = &step.call {
            payloads.push((at, self.call("PreToolUse", tool, step, &json!({}))));
            if step.asks {
                let request = self.call("PermissionRequest", tool, step, &json!({}));
                payloads.push((at + 20, without_call_id(request)));
            }
            if let Some(reason) = &step.denied {
                let own = json!({"reason": reason});
                payloads.push((at + 400, self.call("PermissionDenied", tool, step, &own)));
            }
            if let Some(error) = &step.error {
                let own = json!({"error": error, "is_interrupt": false});
                let failure = self.call("PostToolUseFailure", tool, step, &own);
                payloads.push((at + 8_000, failure));
            }
            if let Some(took) = step.took {
                let own = json!({
                    "tool_response": {"stdout": "", "stderr": "", "interrupted": false},
                    "duration_ms": took * 1_000,
                });
                let result = self.call("PostToolUse", tool, step, &own);
                payloads.push((at + took * 1_000, result));
            }
        }
        events.extend(payloads.into_iter().map(|(at, payload)| ScriptedEvent {
            at,
            project: self.actor.cwd.clone(),
            payload,
        }));
    }

    /// Makes an event of a tool call with the fields that all of them have, and its own fields.
    fn call(&self, event: &str, tool: &str, step: &Step, own: &Value) -> ScriptedPayload {
        let mut fields = Map::new();
        fields.insert("tool_name".into(), json!(tool));
        fields.insert("tool_input".into(), step.input.clone().unwrap_or_default());
        let id = format!("toolu_demo_{:04}", self.number);
        fields.insert("tool_use_id".into(), json!(id));
        fields.extend(own.as_object().cloned().unwrap_or_default());
        self.event(event, step, fields)
    }

    /// Makes an event with the fields that all events have.
    fn event(&self, event: &str, step: &Step, own: Map<String, Value>) -> ScriptedPayload {
        let actor = self.actor;
        let folder = actor.cwd.replace('/', "-");
        let mut payload = Map::new();
        let mut put = |name: &str, value: Value| payload.insert(name.to_owned(), value);
        put("session_id", json!(actor.id));
        let transcript = format!("/home/you/.claude/projects/{folder}/{}.jsonl", actor.id);
        put("transcript_path", json!(transcript));
        put("cwd", json!(actor.cwd));
        put("hook_event_name", json!(event));
        if self.prompt > 0 {
            let prompt = format!("{:08x}-0000-4000-8000-{}", self.prompt, &actor.id[24..]);
            put("prompt_id", json!(prompt));
        }
        let mode = actor.mode.as_deref().unwrap_or("default");
        put("permission_mode", json!(mode));
        if event == "SessionStart" {
            put("model", json!(actor.model));
        }
        if let Some((id, kind)) = &step.agent {
            put("agent_id", json!(id));
            put("agent_type", json!(kind));
        }
        payload.extend(own);
        ScriptedPayload::Event(event.to_owned(), Value::Object(payload))
    }

    fn status_line(&self, percent: f64, cost: f64) -> Value {
        let actor = self.actor;
        let name = actor.model.trim_start_matches("claude-");
        let name = name.replace("-5-5", " 5.5");
        let name = name[..1].to_uppercase() + &name[1..];
        let size = 200_000;
        let used = (percent / 100.0 * f64::from(size)) as u64;
        json!({
            "session_id": actor.id,
            "cwd": actor.cwd,
            "model": {"id": actor.model, "display_name": name},
            "workspace": {"current_dir": actor.cwd, "project_dir": actor.cwd, "added_dirs": []},
            "version": "2.1.325",
            "cost": {"total_cost_usd": cost, "total_duration_ms": 60_000, "total_api_duration_ms": 30_000, "total_lines_added": 40, "total_lines_removed": 12},
            "context_window": {
                "total_input_tokens": used,
                "total_output_tokens": 0,
                "context_window_size": size,
                "current_usage": {"input_tokens": used, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
                "used_percentage": percent,
                "remaining_percentage": 100.0 - percent,
            },
        })
    }
}

/// Removes the id of the call: a permission request has none.
fn without_call_id(mut payload: ScriptedPayload) -> ScriptedPayload {
    if let ScriptedPayload::Event(_, Value::Object(fields)) = &mut payload {
        fields.remove("tool_use_id");
    }
    payload
}

/// Returns the fields of this kind of event: those of the line, and those that Claude Code always sends.
fn own_fields(event: &str, line: &Value) -> Map<String, Value> {
    let own = match event {
        "Stop" => json!({"stop_hook_active": false, "background_tasks": [], "session_crons": []}),
        "SubagentStop" => json!({"stop_hook_active": false, "background_tasks": []}),
        _ => json!({}),
    };
    let mut own = own.as_object().cloned().unwrap_or_default();
    let ours = ["at", "who", "event", "agent", "figures"];
    let mut fields = line.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !ours.contains(&name.as_str()));
    own.extend(fields);
    own
}

#[cfg(test)]
mod tests {

    use becket_wire::event::{Event, EventName};

    use super::*;

    fn events(events: &[ScriptedEvent]) -> Vec<(&str, &Value)> {
        let told = events.iter().filter_map(|event| match &event.payload {
            ScriptedPayload::Event(name, payload) => Some((name.as_str(), payload)),
            ScriptedPayload::StatusLine(_) => None,
        });
        told.collect()
    }

    #[test]
    fn every_event_is_as_claude_code_sends_it() {
        for (name, payload) in events(&day().unwrap()) {
            let event = Event::parse(payload.to_string()).unwrap();
            assert!(!matches!(event.name(), EventName::Other(_)), "{name}");
            assert_eq!(event.name().as_str(), name);
            assert!(event.rest().is_empty(), "{name}: {:?}", event.rest());
            let common = event.common();
            for field in [&common.session_id, &common.transcript_path, &common.cwd] {
                assert!(field.is_some(), "{name}");
            }
        }
    }
}
