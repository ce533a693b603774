use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::Rest;

fn said(answer: &Answer) -> Value {
    let output = answer.render();
    assert_eq!((output.exit, output.stderr.len()), (0, 0));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn given(event: EventName, opinion: Opinion) -> Answer {
    let mut answer = Answer::silent(event);
    answer.give(opinion).unwrap();
    answer
}

fn deny() -> Opinion {
    Opinion::Deny {
        reason: "no".into(),
    }
}

fn allow() -> Opinion {
    Opinion::Allow {
        because: "rule 7".into(),
    }
}

fn input() -> Rest {
    Rest::from_iter([("command".to_owned(), json!("ls"))])
}

#[test]
fn nothing_to_say_is_silence() {
    for event in EventName::ALL {
        let mut answer = Answer::silent(event);
        answer.add_message("");
        assert!(answer.render().is_silent());
        assert_eq!(answer.decision(), None);
    }
}

#[test]
fn each_event_has_its_own_words_for_no() {
    let no = |event| Answer::refusal(event, "no").map(|answer| said(&answer));
    assert_eq!(
        no(EventName::PreToolUse),
        Some(json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no",
        }}))
    );
    assert_eq!(
        no(EventName::PermissionRequest),
        Some(json!({"hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": "no"},
        }}))
    );
    assert_eq!(
        no(EventName::Elicitation),
        Some(json!({"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "decline"}}))
    );
    for event in [
        EventName::Stop,
        EventName::UserPromptSubmit,
        EventName::PreCompact,
        EventName::ConfigChange,
    ] {
        assert_eq!(
            no(event),
            Some(json!({"decision": "block", "reason": "no"}))
        );
    }
    assert_eq!(no(EventName::SessionEnd), None);
    assert_eq!(no(EventName::from("CoffeeReady")), None);
}

#[test]
fn everything_has_its_place() {
    let mut answer = given(EventName::PreToolUse, allow());
    answer.change(Change::Input(input())).unwrap();
    answer.add_context("one").unwrap();
    answer.add_context("two").unwrap();
    answer.add_message("hear");
    answer.stop("enough");
    answer.stop("more");
    answer.add_terminal("\x07");
    assert_eq!(
        said(&answer),
        json!({
            "continue": false, "stopReason": "enough", "systemMessage": "hear", "terminalSequence": "\x07",
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow",
                "permissionDecisionReason": "rule 7", "updatedInput": {"command": "ls"},
                "additionalContext": "one\ntwo",
            },
        })
    );
}

#[test]
fn a_part_that_an_event_does_not_take_is_an_error() {
    let mut answer = Answer::silent(EventName::SessionEnd);
    let refused = answer.add_context("x").unwrap_err();
    assert_eq!(refused.to_string(), "a SessionEnd event takes no context");
    assert!(answer.give(deny()).is_err());
    assert!(answer.change(Change::Retry(true)).is_err());
    assert_eq!(answer, Answer::silent(EventName::SessionEnd));

    let defer = Opinion::Defer {
        reason: String::new(),
    };
    assert!(
        Answer::silent(EventName::PreModelSwitch)
            .give(defer)
            .is_err()
    );
    assert!(Answer::silent(EventName::Stop).give(allow()).is_err());
    assert!(
        Answer::silent(EventName::PreToolUse)
            .give(Opinion::Cancel)
            .is_err()
    );
}

/// The table of FACTS, turned: not which fields an event has, but which events have a field.
#[test]
fn each_field_has_its_events() {
    let with = |change: &Change| -> String {
        let takes =
            |event: &EventName| Answer::silent(event.clone()).change(change.clone()).is_ok();
        let events = EventName::ALL.into_iter().filter(takes);
        events.map(|event| event.to_string() + " ").collect()
    };
    let text = String::new;
    for (change, events) in [
        (Change::Input(input()), "PreToolUse "),
        (Change::ToolOutput(Value::Null), "PostToolUse "),
        (Change::McpToolOutput(Value::Null), "PostToolUse "),
        (Change::ClassifierContext(text()), "PostToolUse "),
        (
            Change::SessionTitle(text()),
            "UserPromptSubmit SessionStart ",
        ),
        (
            Change::SuppressPrompt(true),
            "UserPromptSubmit UserPromptExpansion ",
        ),
        (Change::FirstMessage(text()), "SessionStart "),
        (
            Change::WatchPaths(vec![]),
            "SessionStart CwdChanged FileChanged ",
        ),
        (Change::ReloadSkills(true), "SessionStart "),
        (Change::WorktreePath(text()), "WorktreeCreate "),
        (Change::Display(text()), "MessageDisplay "),
        (Change::Retry(true), "PermissionDenied "),
        (Change::Content(input()), "Elicitation ElicitationResult "),
        (Change::Permissions(vec![]), ""),
        (Change::Interrupt(true), ""),
    ] {
        assert_eq!(with(&change), events, "{}", change.key());
    }
    let context = |event: &EventName| Answer::silent(event.clone()).add_context("x").is_ok();
    let events = EventName::ALL.into_iter().filter(context);
    assert_eq!(
        events
            .map(|event| event.to_string() + " ")
            .collect::<String>(),
        "PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit \
         UserPromptExpansion SessionStart Stop SubagentStart SubagentStop PreCompact \
         PostModelSwitch Setup "
    );
}

#[test]
fn a_change_of_an_opinion_is_dropped_with_it() {
    let mut answer = Answer::silent(EventName::PermissionRequest);
    assert!(answer.change(Change::Input(input())).is_err());
    answer.give(allow()).unwrap();
    answer.change(Change::Input(input())).unwrap();
    assert!(answer.change(Change::Interrupt(true)).is_err());
    assert_eq!(
        said(&answer)["hookSpecificOutput"]["decision"],
        json!({"behavior": "allow", "updatedInput": {"command": "ls"}})
    );
    answer.give(deny()).unwrap();
    answer.change(Change::Interrupt(true)).unwrap();
    assert_eq!(
        said(&answer)["hookSpecificOutput"]["decision"],
        json!({"behavior": "deny", "message": "no", "interrupt": true})
    );
}

#[test]
fn instructions_for_a_compaction_are_plain_text() {
    let mut answer = Answer::silent(EventName::PreCompact);
    answer.add_context("keep the plan").unwrap();
    assert_eq!(answer.render().stdout, b"keep the plan");
    answer
        .give(Opinion::Block {
            reason: "no".into(),
        })
        .unwrap();
    assert_eq!(said(&answer), json!({"decision": "block", "reason": "no"}));

    let mut answer = Answer::silent(EventName::PreCompact);
    answer.add_context(r#" {"continue": false}"#).unwrap();
    assert_eq!(answer.render().stdout, br#"note:  {"continue": false}"#);
}

fn read(event: EventName, exit: i32, stdout: &str) -> Result<Answer, AnswerError> {
    Answer::read(event, exit, stdout.as_bytes(), b"because\n")
}

#[test]
fn exit_codes_are_read_as_claude_code_reads_them() {
    let decision = |event, exit| {
        let answer = read(event, exit, "{\"continue\": false}")?;
        Ok(answer
            .decision()
            .map(|(name, why)| (name, why.map(str::to_owned))))
    };
    let refused = |name| Ok(Some((name, Some("because".to_owned()))));
    let failed = |exit| {
        Err(AnswerError::Failed {
            exit,
            stderr: "because".into(),
        })
    };
    assert_eq!(decision(EventName::PreToolUse, 2), refused("deny"));
    assert_eq!(decision(EventName::Stop, 2), refused("block"));
    assert_eq!(decision(EventName::PreModelSwitch, 2), refused("deny"));
    assert_eq!(
        decision(EventName::ElicitationResult, 2),
        refused("decline")
    );
    assert_eq!(decision(EventName::PermissionRequest, 2), failed(2));
    assert_eq!(decision(EventName::SessionStart, 2), failed(2));
    assert_eq!(decision(EventName::WorktreeCreate, 1), failed(1));
    assert_eq!(decision(EventName::PreToolUse, 1), failed(1));
    assert_eq!(decision(EventName::PreToolUse, -9), failed(-9));
    assert_eq!(decision(EventName::PreToolUse, 0), Ok(Some(("stop", None))));
}

#[test]
fn plain_text_is_context_only_where_it_is() {
    for event in EventName::ALL {
        let answer = read(event.clone(), 0, " {not json\n").unwrap();
        let expected = match event {
            EventName::UserPromptSubmit
            | EventName::UserPromptExpansion
            | EventName::SessionStart
            | EventName::PostModelSwitch
            | EventName::PreCompact => Some("context"),
            EventName::PostCompact => Some("message"),
            EventName::WorktreeCreate => Some("change"),
            _ => None,
        };
        assert_eq!(answer.decision().map(|(name, _)| name), expected, "{event}");
        assert!(read(event, 0, " \n").unwrap().render().is_silent());
    }
    let answer = read(EventName::UserPromptSubmit, 0, "[1]").unwrap();
    assert_eq!(answer.contexts(), ["[1]"]);
}

#[test]
fn json_is_read_as_claude_code_reads_it() {
    let opinion = |event, json: Value| {
        read(event, 0, &json.to_string()).map(|answer| answer.opinion().cloned())
    };
    let own = |event: &str, mut fields: Value| {
        fields["hookEventName"] = event.into();
        json!({"hookSpecificOutput": fields})
    };
    let pre = EventName::PreToolUse;
    let deny = Ok(Some(deny()));

    let mut json = own(
        "PreToolUse",
        json!({"permissionDecision": "deny", "permissionDecisionReason": "no", "new": 1, "retry": 5}),
    );
    json["newer"] = json!({});
    assert_eq!(opinion(pre.clone(), json), deny);
    let old = json!({"decision": "block", "reason": "no"});
    assert_eq!(opinion(pre.clone(), old.clone()), deny);
    let mut both = own("PreToolUse", json!({"permissionDecision": "allow"}));
    both["decision"] = "block".into();
    both["reason"] = "no".into();
    assert_eq!(opinion(pre.clone(), both), deny);
    assert_eq!(opinion(EventName::SessionEnd, old.clone()), Ok(None));
    assert_eq!(opinion(EventName::PermissionRequest, old), Ok(None));
    let approve = json!({"decision": "approve", "reason": "rule 7"});
    assert_eq!(opinion(pre.clone(), approve.clone()), Ok(Some(allow())));
    assert_eq!(opinion(EventName::Stop, approve), Ok(None));
    assert_eq!(
        opinion(pre, json!({"async": true, "decision": "block"})),
        Ok(None)
    );

    let request = own(
        "PermissionRequest",
        json!({"decision": {"behavior": "allow", "updatedInput": {"command": "ls"}, "interrupt": 5}}),
    );
    let answer = read(EventName::PermissionRequest, 0, &request.to_string()).unwrap();
    assert_eq!(answer.decision(), Some(("allow", None)));
    assert_eq!(answer.changes(), [Change::Input(input())]);
}

#[test]
fn wrong_json_is_an_error_with_a_hint() {
    let why = |json: Value| {
        read(EventName::PreToolUse, 0, &json.to_string())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        why(json!({"hookSpecificOutput": {"hookEventName": "Stop"}})),
        "the hook answered \"Stop\" to PreToolUse (hookEventName must be \"PreToolUse\")"
    );
    assert_eq!(
        why(json!({"hookSpecificOutput": {"additionalContext": "x"}})),
        "the hook's hookSpecificOutput has no hookEventName (it must be \"PreToolUse\")"
    );
    assert_eq!(
        why(json!({"continue": "no"})),
        "the hook's continue must be true or false"
    );
    assert_eq!(
        why(json!({"decision": "maybe"})),
        "the hook's decision must be \"block\" or \"approve\""
    );
    let own = |key: &str, value: Value| {
        why(json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", key: value}}))
    };
    assert_eq!(
        own("permissionDecision", json!("perhaps")),
        "the hook's permissionDecision must be allow, deny, ask or defer"
    );
    assert_eq!(
        own("updatedInput", json!("ls")),
        "the hook's updatedInput must be an object"
    );
    assert_eq!(
        why(json!({"suppressOutput": 1})),
        "the hook's suppressOutput must be true or false"
    );
    let paths =
        r#"{"hookSpecificOutput": {"hookEventName": "CwdChanged", "watchPaths": ["a", 1]}}"#;
    assert_eq!(
        read(EventName::CwdChanged, 0, paths)
            .unwrap_err()
            .to_string(),
        "the hook's watchPaths must be a list of strings"
    );
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert_eq!(
        read(EventName::PreToolUse, 0, &deep),
        Err(AnswerError::TooDeep)
    );
}

fn any_opinion() -> impl Strategy<Value = Opinion> {
    "\\PC{0,9}".prop_flat_map(|reason| {
        let because = reason.clone();
        prop::sample::select(vec![
            Opinion::Deny {
                reason: reason.clone(),
            },
            Opinion::Ask {
                reason: reason.clone(),
            },
            Opinion::Defer {
                reason: reason.clone(),
            },
            Opinion::Allow { because },
            Opinion::Block {
                reason: reason.clone(),
            },
            Opinion::Accept,
            Opinion::Decline { reason },
            Opinion::Cancel,
        ])
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    ("\\PC{0,9}", any::<bool>()).prop_flat_map(|(text, flag)| {
        let object = Rest::from_iter([("permissionDecision".to_owned(), json!(text))]);
        prop::sample::select(vec![
            Change::Input(object.clone()),
            Change::ToolOutput(json!([text, flag])),
            Change::McpToolOutput(Value::Null),
            Change::ClassifierContext(text.clone()),
            Change::SessionTitle(text.clone()),
            Change::SuppressPrompt(flag),
            Change::FirstMessage(text.clone()),
            Change::WatchPaths(vec![text.clone()]),
            Change::ReloadSkills(flag),
            Change::WorktreePath(text.clone()),
            Change::Display(text),
            Change::Retry(flag),
            Change::Content(object),
            Change::Permissions(vec![json!({"behavior": "allow"})]),
            Change::Interrupt(flag),
        ])
    })
}

/// Any answer that can be built: whatever the event does not take is refused on the way.
fn any_answer() -> impl Strategy<Value = Answer> {
    let event = prop::sample::select([&EventName::ALL[..], &["CoffeeReady".into()]].concat());
    let texts = || prop::collection::vec("[a-z{}\"\\\\]([a-z {}\"\n]{0,9}[a-z])?", 0..3);
    (
        event,
        prop::collection::vec(any_opinion(), 0..6),
        prop::collection::vec(any_change(), 0..9),
        texts(),
        texts(),
        prop::option::of("\\PC{0,9}"),
        "\\PC{0,3}",
    )
        .prop_map(
            |(event, opinions, changes, contexts, messages, stop, bell)| {
                let mut answer = Answer::silent(event);
                for opinion in opinions {
                    let _ = answer.give(opinion);
                }
                for change in changes {
                    let _ = answer.change(change);
                }
                for context in contexts {
                    let _ = answer.add_context(context);
                }
                for message in messages {
                    answer.add_message(message);
                }
                if let Some(reason) = stop {
                    answer.stop(reason);
                }
                answer.add_terminal(&bell);
                answer
            },
        )
}

proptest! {
    #[test]
    fn no_answer_has_unintended_parts(answer in any_answer()) {
        let output = answer.render();
        prop_assert_eq!(output.is_silent(), answer.decision().is_none());
        prop_assert_eq!(output.exit, 0);
        if output.is_silent() {
            return Ok(());
        }
        let Ok(json @ Value::Object(_)) = serde_json::from_slice(&output.stdout) else {
            prop_assert_eq!(answer.event(), &EventName::PreCompact);
            prop_assert!(answer.stopped().is_none() && answer.opinion().is_none());
            return Ok(());
        };
        let own = &json["hookSpecificOutput"];
        prop_assert!(own.is_null() || own["hookEventName"] == answer.event().as_str());
        prop_assert_eq!(json["continue"] == false, answer.stopped().is_some());

        let allows = own["permissionDecision"] == "allow" || own["decision"]["behavior"] == "allow";
        prop_assert_eq!(allows, matches!(answer.opinion(), Some(Opinion::Allow { .. })));
        prop_assert!(json["decision"] != "approve");

        let said = [&own["permissionDecision"], &own["decision"]["behavior"], &own["action"], &json["decision"]];
        let said: Vec<_> = said.into_iter().filter(|value| !value.is_null()).collect();
        let meant: Vec<_> = answer.opinion().map(Opinion::name).into_iter().collect();
        prop_assert_eq!(said, meant);
    }

    #[test]
    fn another_reason_is_the_same_opinion(opinion in any_opinion(), text in "\\PC{1,9}") {
        let (name, reason) = (opinion.name(), opinion.reason().map(str::to_owned));
        let other = opinion.clone().with_reason(text.clone());
        prop_assert_eq!(other.name(), name);
        let takes_none = matches!(opinion, Opinion::Accept | Opinion::Cancel);
        prop_assert_eq!(other.reason(), (!takes_none).then_some(text.as_str()));
        prop_assert_eq!(other.with_reason(reason.unwrap_or_default()), opinion);
    }

    #[test]
    fn a_written_answer_reads_the_same(answer in any_answer()) {
        let output = answer.render();
        let again = Answer::read(answer.event().clone(), 0, &output.stdout, b"").unwrap();
        prop_assert_eq!(again.render(), output);
        prop_assert_eq!(again.decision().map(|said| said.0), answer.decision().map(|said| said.0));
        prop_assert_eq!(again.changes().len(), answer.changes().len());
    }
}
