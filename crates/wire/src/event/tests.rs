use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut fixtures: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    fixtures.sort();
    fixtures
}

#[test]
fn every_field_of_a_recorded_payload_is_known() {
    let mut names = BTreeSet::new();
    for (file, payload) in fixtures() {
        let event = Event::parse(&payload).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            !matches!(event, Event::Unknown { .. }),
            "{file} is not known"
        );
        assert!(event.rest().is_empty(), "{file}: {:?}", event.rest());
        assert!(
            file.starts_with(event.name().as_str()),
            "{file} is {}",
            event.name()
        );
        assert!(event.common().session_id.is_some(), "{file}");
        let head = crate::Head::read(&payload).unwrap();
        assert!(head.lacks().is_empty(), "{file} lacks {:?}", head.lacks());
        names.insert(event.name());
    }
    assert_eq!(names, BTreeSet::from(EventName::ALL));
    assert_eq!(names.len(), 33);
}

#[test]
fn parts_of_recorded_payloads_are_typed_to_the_bottom() {
    for (file, payload) in fixtures() {
        match Event::parse(&payload).unwrap() {
            Event::Stop(Stop {
                background_tasks, ..
            })
            | Event::SubagentStop(SubagentStop {
                background_tasks, ..
            }) => {
                for task in background_tasks.unwrap() {
                    assert!(task.rest.is_empty() && task.r#type.is_some(), "{file}");
                }
            }
            Event::PostToolBatch(batch) => {
                for call in batch.tool_calls.unwrap() {
                    assert!(call.rest.is_empty() && call.tool_name.is_some(), "{file}");
                }
            }
            Event::PreToolUse(PreToolUse {
                mcp_server: Some(server),
                ..
            }) => assert!(server.rest.is_empty() && server.source.as_deref() == Some("dynamic")),
            other => {
                if let Some(effort) = &other.common().effort {
                    assert!(effort.rest.is_empty() && effort.level.is_some(), "{file}");
                }
            }
        }
    }
}

fn parse(payload: &Value) -> Event {
    Event::parse(payload.to_string()).unwrap()
}

#[test]
fn unknown_fields_are_kept() {
    let event = parse(&json!({
        "hook_event_name": "CoffeeReady", "session_id": "s", "agent_id": "a", "cups": [1, 2.0],
    }));
    assert_eq!(event.name(), EventName::Other("CoffeeReady".into()));
    assert_eq!(event.common().agent_id.as_deref(), Some("a"));
    assert_eq!(event.rest()["cups"], json!([1, 2.0]));

    let event = parse(&json!({
        "hook_event_name": "SessionStart", "session_id": "s", "source": "dream", "mood": null,
        "permission_mode": "yolo", "effort": {"level": "x", "why": 1},
    }));
    assert_eq!(event.common().permission_mode, Some("yolo".into()));
    assert_eq!(event.common().effort.as_ref().unwrap().rest["why"], 1);
    assert_eq!(event.rest()["mood"], Value::Null);
    let Event::SessionStart(start) = event else {
        panic!("{event:?}");
    };
    assert_eq!(start.source.as_deref(), Some("dream"));
    assert_eq!(start.model, None);
}

#[test]
fn a_wrong_type_reads_as_absent_and_is_kept() {
    let tasks = json!([{"id": "t", "new": 1, "status": 5}, "no task", {"id": "u"}]);
    let event = parse(&json!({
        "hook_event_name": "Stop", "session_id": 7, "cwd": null, "stop_hook_active": "yes",
        "background_tasks": tasks, "session_crons": [{"id": "c", "schedule": 5, "new": {}}],
    }));
    assert_eq!(event.common().session_id, None);
    let Event::Stop(stop) = event else {
        panic!("{event:?}");
    };
    assert_eq!(stop.stop_hook_active, None);
    assert_eq!(stop.rest["stop_hook_active"], "yes");
    assert_eq!(stop.background_tasks, None);
    assert_eq!(stop.rest["background_tasks"], tasks);
    let crons = stop.session_crons.unwrap();
    assert_eq!(crons[0].id.as_deref(), Some("c"));
    assert_eq!(crons[0].rest["schedule"], 5);
}

#[test]
fn null_and_absent_are_two_things() {
    let instructions = |payload: Value| match parse(&payload) {
        Event::PreCompact(event) => event.custom_instructions,
        other => panic!("{other:?}"),
    };
    let name = "hook_event_name";
    assert_eq!(instructions(json!({name: "PreCompact"})), None);
    assert_eq!(
        instructions(json!({name: "PreCompact", "custom_instructions": null})),
        Some(None)
    );
    assert_eq!(
        instructions(json!({name: "PreCompact", "custom_instructions": "x"})),
        Some(Some("x".into()))
    );
}

#[test]
fn describes_the_error() {
    let why = |payload: &[u8]| Event::parse(payload).unwrap_err().to_string();
    assert_eq!(
        why(b""),
        "the event is not JSON (line 1, column 0: EOF while parsing a value)"
    );
    assert_eq!(
        why(b"{\"a\":\"\xff\"}"),
        "the event is not JSON (line 1, column 7: invalid unicode code point)"
    );
    assert_eq!(why(b"[1]"), "the event is JSON, but not an object");
    assert_eq!(why(b"{}"), "the event has no name (hook_event_name)");
    assert_eq!(
        why(b"{\"hook_event_name\":[]}"),
        "the event has no name (hook_event_name)"
    );
    assert_eq!(
        why(br#"{"hook_event_name":"PreToolUse","tool_name":["Bash"],"tool_input":{}}"#),
        "the PreToolUse event has no tool_name that can be read"
    );
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(
        why(format!("{{\"hook_event_name\":\"Stop\",\"x\":{deep}}}").as_bytes()),
        "the event is nested too deep (over 127 levels)"
    );
}

#[test]
fn a_cut_character_does_not_hide_a_call() {
    let payload = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm x # \ud83d"}}"#;
    let Ok(Event::PreToolUse(event)) = Event::parse(payload) else {
        panic!("not parsed");
    };
    assert_eq!(event.tool_input["command"], "rm x # \u{fffd}");
}

#[test]
fn matchers_are_those_of_claude_code() {
    let without: Vec<_> = EventName::ALL
        .into_iter()
        .filter(|name| !name.has_matcher())
        .collect();
    assert_eq!(
        without,
        [
            EventName::PostToolBatch,
            EventName::UserPromptSubmit,
            EventName::Stop,
            EventName::TeammateIdle,
            EventName::TaskCreated,
            EventName::TaskCompleted,
            EventName::WorktreeCreate,
            EventName::WorktreeRemove,
            EventName::CwdChanged,
            EventName::MessageDisplay,
        ]
    );
    for (file, payload) in fixtures() {
        let event = Event::parse(&payload).unwrap();
        if let Some(field) = event.name().matcher_field() {
            let whole: Value = serde_json::from_slice(&payload).unwrap();
            assert!(whole[field].is_string(), "{file}: {field}");
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop_oneof!["[a-z]{1,3}", Just("id".into()), Just("level".into())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever values the fields of a recorded event take, unknown fields are kept.
    #[test]
    fn no_payload_loses_unknown_fields(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..6),
        extra in prop::collection::btree_map("x_[a-z_]{1,8}", any_value(), 0..3),
    ) {
        let fixtures = fixtures();
        let mut payload: Value = serde_json::from_slice(&fixtures[which.index(fixtures.len())].1).unwrap();
        let object = payload.as_object_mut().unwrap();
        let keys: Vec<_> = object.keys().filter(|key| *key != NAME).cloned().collect();
        for (key, value) in changes {
            object.insert(keys[key.index(keys.len())].clone(), value);
        }
        object.extend(extra.clone());
        match Event::parse(payload.to_string()) {
            Ok(event) => {
                for (key, value) in extra {
                    prop_assert_eq!(&event.rest()[&key], &value);
                }
            }
            Err(error) => prop_assert!(matches!(error, EventError::Missing { .. }), "{}", error),
        }
    }
}
