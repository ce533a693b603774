//! docs/reference/events.md, compared with the table of events and with how answers are read.

use becket_wire::answer::{Answer, Opinion};
use becket_wire::event::EventName;
use serde_json::{Value, json};

use super::page::{page, rows};

/// Every field of `hookSpecificOutput`, with a value that its event would take.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("permissionDecision", json!("deny")),
        ("decision", json!({"behavior": "deny"})),
        ("action", json!("accept")),
        ("additionalContext", json!("text")),
        ("updatedInput", json!({})),
        ("updatedToolOutput", json!("text")),
        ("updatedMCPToolOutput", json!("text")),
        ("classifierContext", json!("text")),
        ("sessionTitle", json!("text")),
        ("suppressOriginalPrompt", json!(true)),
        ("initialUserMessage", json!("text")),
        ("watchPaths", json!(["a"])),
        ("reloadSkills", json!(true)),
        ("retry", json!(true)),
        ("content", json!({})),
        ("worktreePath", json!("a")),
        ("displayContent", json!("text")),
    ]
}

fn read(event: &EventName, exit: i32, stdout: &str) -> Option<Answer> {
    Answer::read(event.clone(), exit, stdout.as_bytes(), b"no").ok()
}

/// The fields that change what the event is answered.
fn taken(event: &EventName) -> Vec<&'static str> {
    let silent = Answer::silent(event.clone());
    let is_taken = |name: &str, value: &Value| {
        let said = json!({"hookSpecificOutput": {"hookEventName": event.as_str(), name: value}});
        read(event, 0, &said.to_string()).is_some_and(|answer| answer != silent)
    };
    let mut taken: Vec<_> = (fields().into_iter())
        .filter(|(name, value)| is_taken(name, value))
        .map(|(name, _)| name)
        .collect();
    if taken.contains(&"permissionDecision") {
        taken.push("permissionDecisionReason");
    }
    taken.sort_unstable();
    taken
}

/// The table under a heading: one row an event, in the order in which becket has them.
fn table(heading: &str, columns: usize) -> Vec<Vec<String>> {
    let rows = rows(&page("docs/reference/events.md").section(heading));
    let table: Vec<_> = (rows.into_iter())
        .filter(|row| row.len() == columns)
        .map(|row| row.iter().map(|cell| cell.replace('`', "")).collect())
        .collect::<Vec<Vec<String>>>();
    let names: Vec<&str> = table.iter().map(|row| &*row[0]).collect();
    assert_eq!(names, EventName::ALL.each_ref().map(EventName::as_str));
    table
}

#[test]
fn every_event_is_there_with_what_matchers_see_and_how_long_it_waits() {
    for (event, row) in EventName::ALL.iter().zip(table("## When they fire", 4)) {
        let compared = match event {
            // Claude Code compares nothing there, becket does.
            EventName::PostToolBatch => "the tool_name of each call",
            EventName::FileChanged => "the last part of file_path",
            event => event.matcher_field().unwrap_or_default(),
        };
        let seconds = event.waits().as_secs();
        let waits = match (event.is_registered(), event.comes_late()) {
            (false, _) => "not registered".to_owned(),
            (true, true) => format!("{seconds} s, async"),
            (true, false) => format!("{seconds} s"),
        };
        assert_eq!(row[2..], [compared, &*waits], "{event}");
        assert!(!row[1].is_empty(), "{event}");
    }
}

#[test]
fn every_event_is_there_with_what_may_be_answered() {
    for (event, row) in EventName::ALL
        .iter()
        .zip(table("## What may be answered", 4))
    {
        let refusal = read(event, 2, "");
        let refusal = refusal.as_ref().and_then(Answer::opinion);
        let refusal = match refusal.map(Opinion::name) {
            Some("deny") => "denies",
            Some("block") => "blocks",
            Some("decline") => "declines",
            other => other.unwrap_or_default(),
        };
        let plain = read(event, 0, "text").expect("text is no failure");
        let plain = match (plain.contexts(), plain.messages(), plain.changes()) {
            ([_], [], []) => "context",
            ([], [_], []) => "message",
            ([], [], [_]) => "the folder",
            _ => "",
        };
        assert_eq!(row[1..3], [refusal, plain], "{event}");
        let cell = row[3].split(", ").filter(|name| !name.is_empty());
        let mut named: Vec<&str> = cell.collect();
        named.sort_unstable();
        assert_eq!(named, taken(event), "{event}");
    }
}
