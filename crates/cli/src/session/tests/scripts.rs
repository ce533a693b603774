//! A session as scripts get it.

use std::collections::BTreeSet;

use becket_engine::session::json;
use becket_wire::session::SessionRow;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::made::{subagent_asks, unhooked};
use crate::session::turns::{Answered, Past, TouchedFile, Turn};
use crate::session::{past, stats};

#[test]
fn as_scripts_get_it() {
    let shown = |row: &SessionRow| serde_json::to_string_pretty(&json(row)).unwrap();
    insta::assert_snapshot!(shown(&subagent_asks()), @r#"
    {
      "session_id": "b2c3d4e5-0000-4000-8000-000000000001",
      "prev_session_id": null,
      "title": null,
      "status": "working",
      "detail": "Task",
      "reason": null,
      "status_since": "2026-11-15T08:59:20.000Z",
      "display": "attention",
      "waiting_for": "agent-2",
      "error": null,
      "background_tasks": 0,
      "project": "/home/you/play/api",
      "cwd": "/home/you/play/api",
      "model": "claude-opus-4-5-20251101",
      "permission_mode": "default",
      "attended": true,
      "pid": 4242,
      "alive": true,
      "hooked": true,
      "tmux_pane": null,
      "started_at": "2026-11-15T06:00:00.000Z",
      "last_activity": "2026-11-15T08:59:20.000Z",
      "ended_at": null,
      "end_reason": null,
      "inferred": false,
      "stale": false,
      "context_pct": 23.4,
      "cost_usd": 0.352,
      "effort": null,
      "last_prompt": "port the rate limiter to the new middleware, keep its tests",
      "transcript_path": null,
      "agents": [
        {
          "agent_id": "agent-1",
          "agent_type": "general-purpose",
          "parent": null,
          "status": "working",
          "detail": "Read",
          "reason": null,
          "started_at": "2026-11-15T08:58:48.000Z",
          "ended_at": null,
          "transcript_path": null,
          "status_since": "2026-11-15T08:59:48.000Z"
        },
        {
          "agent_id": "agent-2",
          "agent_type": "docs-researcher",
          "parent": null,
          "status": "attention",
          "detail": null,
          "reason": "Permission for WebFetch",
          "started_at": "2026-11-15T08:58:20.000Z",
          "ended_at": null,
          "transcript_path": null,
          "status_since": "2026-11-15T08:59:20.000Z"
        },
        {
          "agent_id": "agent-3",
          "agent_type": "Explore",
          "parent": "agent-1",
          "status": "working",
          "detail": "Grep",
          "reason": null,
          "started_at": "2026-11-15T08:58:57.000Z",
          "ended_at": null,
          "transcript_path": null,
          "status_since": "2026-11-15T08:59:57.000Z"
        },
        {
          "agent_id": "agent-0",
          "agent_type": "Plan",
          "parent": null,
          "status": "idle",
          "detail": null,
          "reason": null,
          "started_at": "2026-11-15T08:58:00.000Z",
          "ended_at": "2026-11-15T08:59:00.000Z",
          "transcript_path": null,
          "status_since": "2026-11-15T08:59:00.000Z"
        }
      ],
      "display_since": "2026-11-15T08:59:20.000Z",
      "waiting_reason": "Permission for WebFetch",
      "interrupted": false,
      "failed_tools": 0,
      "lines_added": null,
      "lines_removed": null,
      "duration_ms": null,
      "context_tokens": null,
      "context_size": null,
      "troubles": [],
      "tmux_socket": null,
      "line": "b2c3d4e5-0000-4000-8000-000000000001"
    }
    "#);
    insta::assert_snapshot!(shown(&unhooked()), @r#"
    {
      "session_id": null,
      "prev_session_id": null,
      "title": null,
      "status": null,
      "detail": null,
      "reason": null,
      "status_since": null,
      "display": null,
      "waiting_for": null,
      "error": null,
      "background_tasks": 0,
      "project": "/home/you/old",
      "cwd": "/home/you/old/src",
      "model": null,
      "permission_mode": null,
      "attended": null,
      "pid": 31337,
      "alive": true,
      "hooked": false,
      "tmux_pane": null,
      "started_at": "2026-11-13T07:00:00.000Z",
      "last_activity": null,
      "ended_at": null,
      "end_reason": null,
      "inferred": false,
      "stale": false,
      "context_pct": null,
      "cost_usd": null,
      "effort": null,
      "last_prompt": null,
      "transcript_path": null,
      "agents": [],
      "display_since": null,
      "waiting_reason": null,
      "interrupted": false,
      "failed_tools": 0,
      "lines_added": null,
      "lines_removed": null,
      "duration_ms": null,
      "context_tokens": null,
      "context_size": null,
      "troubles": [],
      "tmux_socket": null,
      "line": null
    }
    "#);
}

/// The names of DESIGN.md's session, in its order; more may follow.
#[test]
fn the_fields_are_those_of_the_design() {
    let text = serde_json::to_string(&json(&subagent_asks())).unwrap();
    let wanted = "session_id prev_session_id title status detail reason status_since display waiting_for \
        error background_tasks project cwd model permission_mode attended pid alive hooked tmux_pane \
        started_at last_activity ended_at end_reason inferred stale context_pct cost_usd effort \
        last_prompt transcript_path agents";
    let agent =
        "agent_id agent_type parent status detail reason started_at ended_at transcript_path";
    let mut from = 0;
    for name in wanted.split_whitespace().chain(agent.split_whitespace()) {
        let key = format!("\"{name}\":");
        let found = text[from..].find(&key);
        from += found.unwrap_or_else(|| panic!("{name} is missing or out of order"));
    }
}

/// The names of all fields: `agents[].status`.
fn fields(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let path = format!("{path}{name}");
                names.insert(path.clone());
                fields(inner, &format!("{path}."), names);
            }
        }
        Value::Array(list) => {
            let path = format!("{}[].", path.trim_end_matches('.'));
            for inner in list {
                fields(inner, &path, names);
            }
        }
        _ => {}
    }
}

#[test]
fn the_page_names_every_field_and_no_other() {
    let page = include_str!("../../../../../docs/reference/sessions-json.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect();
    let mut said = BTreeSet::new();
    let past = Past {
        turns: vec![Turn {
            tools: vec![("Bash".to_owned(), 1)],
            decisions: vec![Answered::default()],
            ..Turn::default()
        }],
        files: vec![TouchedFile::default()],
    };
    let (_folder, history) = stats::tests::database();
    let stats = stats::add_up(&history, None, 0, &TimeZone::UTC, &|_| true).unwrap();
    for value in [
        serde_json::to_value(json(&subagent_asks())).unwrap(),
        serde_json::to_value(past::json(&past, &[], 1)).unwrap(),
        serde_json::to_value(&stats.json()[0]).unwrap(),
    ] {
        fields(&value, "", &mut said);
    }
    assert_eq!(documented, said);
}
