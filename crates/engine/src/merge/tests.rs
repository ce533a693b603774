use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::*;

fn silent(event: &EventName) -> Answer {
    Answer::silent(event.clone())
}

fn read(event: &EventName, json: &Value) -> Answer {
    Answer::read(event.clone(), 0, json.to_string().as_bytes(), b"").unwrap()
}

fn said(event: &EventName, hook: &str, json: &Value) -> Said {
    Said {
        hook: hook.to_owned(),
        answer: read(event, json),
    }
}

fn tool(decision: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "permissionDecision": decision, "permissionDecisionReason": reason}})
}

fn rendered(merged: &Merged) -> Value {
    serde_json::from_slice(&merged.answer.render().stdout).unwrap_or_default()
}

const PRE: EventName = EventName::PreToolUse;

/// Hooks a, b, … each with their JSON.
fn merged(event: &EventName, own: &Value, answers: &[Value]) -> Merged {
    let hooks = ["a", "b", "c", "d", "e"].iter().zip(answers);
    let answers: Vec<Said> = hooks.map(|(hook, json)| said(event, hook, json)).collect();
    merge(event, read(event, own), &answers)
}

#[test]
fn the_strictest_wins() {
    let of = |words: &[&str]| {
        let answers: Vec<Value> = words.iter().map(|word| tool(word, "")).collect();
        let merged = merged(&PRE, &json!({}), &answers);
        let name = merged.answer.opinion().map(Opinion::name);
        (name.unwrap_or_default(), merged.by.unwrap_or_default())
    };
    assert_eq!(of(&["allow", "ask", "defer", "deny"]), ("deny", "d".into()));
    assert_eq!(of(&["allow", "defer", "ask"]), ("defer", "b".into()));
    assert_eq!(of(&["ask", "allow"]), ("ask", "a".into()));
    assert_eq!(of(&["allow", "allow"]), ("allow", "a, b".into()));
    assert_eq!(of(&[]), ("", String::new()));
}

#[test]
fn becket_has_the_last_word() {
    let allow = [tool("allow", "fine")];
    for word in ["deny", "ask", "defer"] {
        let merged = merged(&PRE, &tool(word, "a guard"), &allow);
        assert_eq!(merged.answer.decision(), Some((word, Some("a guard"))));
        assert_eq!(merged.by, None);
    }
    let merged = merged(&PRE, &tool("deny", "a guard"), &[tool("deny", "not so")]);
    let reason = merged.answer.opinion().and_then(Opinion::reason);
    assert_eq!((reason, merged.by), (Some("a guard\na: not so"), None));
}

#[test]
fn all_that_is_said_is_told_with_its_name() {
    let post = EventName::PostToolUse;
    let one = json!({"decision": "block", "reason": "two errors\nin x.rs", "systemMessage": "hear",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "first"}});
    let two = json!({"decision": "block", "continue": false, "stopReason": "enough"});
    let three = json!({"continue": false, "systemMessage": "too",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "third"}});
    let merged = merged(&post, &json!({}), &[one, two, three]);
    assert_eq!(
        rendered(&merged),
        json!({
            "decision": "block", "reason": "a: two errors\nin x.rs\nb (it gave no reason)",
            "continue": false, "stopReason": "b: enough\nc (it gave no reason)",
            "systemMessage": "a: hear\nc: too",
            "hookSpecificOutput": {
                "hookEventName": "PostToolUse", "additionalContext": "a: first\nc: third",
            },
        })
    );
    assert_eq!(merged.by.as_deref(), Some("a, b"));
}

#[test]
fn the_last_declared_change_stands() {
    let input = |command: &str| json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": command}}});
    let merged = merged(
        &PRE,
        &json!({}),
        &[input("a"), tool("ask", "sure?"), input("c")],
    );
    assert_eq!(
        merged.answer.changes(),
        [Change::Input(Map::from_iter([(
            "command".into(),
            json!("c")
        )]))]
    );
    assert_eq!(merged.answer.opinion().map(Opinion::name), Some("ask"));
}

#[test]
fn paths_to_watch_come_together_and_flags_stay_set() {
    let start = EventName::SessionStart;
    let watch = |paths: &[&str], reload: bool| json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": paths, "reloadSkills": reload}});
    let merged = merged(
        &start,
        &json!({}),
        &[watch(&["/a", "/b"], true), watch(&["/b", "/c"], false)],
    );
    let own = &rendered(&merged)["hookSpecificOutput"];
    assert_eq!(own["watchPaths"], json!(["/a", "/b", "/c"]));
    assert_eq!(own["reloadSkills"], true);
}

#[test]
fn what_belongs_to_an_opinion_goes_with_it() {
    let ask = EventName::PermissionRequest;
    let decision = |decision: Value| json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
    let allow = decision(json!({"behavior": "allow", "updatedInput": {"command": "ls"}}));
    let deny = decision(json!({"behavior": "deny", "message": "no", "interrupt": true}));
    let both = merged(
        &ask,
        &json!({}),
        &[allow.clone(), deny, decision(json!({"behavior": "allow"}))],
    );
    assert_eq!(
        rendered(&both)["hookSpecificOutput"]["decision"],
        json!({"behavior": "deny", "message": "b: no", "interrupt": true})
    );
    let alone = merged(&ask, &json!({}), &[allow]);
    assert_eq!(
        rendered(&alone)["hookSpecificOutput"]["decision"]["updatedInput"],
        json!({"command": "ls"})
    );

    let server = EventName::Elicitation;
    let accept = json!({"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"x": 1}}});
    let decline =
        json!({"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "decline"}});
    let merged = merged(&server, &json!({}), &[accept, decline]);
    assert_eq!(
        rendered(&merged)["hookSpecificOutput"],
        json!({"hookEventName": "Elicitation", "action": "decline"})
    );
}

#[test]
fn an_answer_to_another_event_is_dropped() {
    let stop = said(
        &EventName::Stop,
        "a",
        &json!({"decision": "block", "systemMessage": "x"}),
    );
    let merged = merge(&PRE, silent(&EventName::Stop), &[stop]);
    assert_eq!(
        merged,
        Merged {
            answer: silent(&PRE),
            by: None
        }
    );
}

#[test]
fn whose_decision_it_is() {
    let by = |event: &EventName, own: Value, answers: &[Value]| merged(event, &own, answers).by;
    let tell = json!({"systemMessage": "x"});
    let context =
        json!({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "x"}});
    let stop = EventName::Stop;
    assert_eq!(by(&stop, json!({}), &[]), None);
    assert_eq!(
        by(&stop, json!({}), &[json!({}), tell.clone()]).as_deref(),
        Some("b")
    );
    assert_eq!(
        by(&stop, tell.clone(), std::slice::from_ref(&tell)),
        None,
        "becket's own comes first"
    );
    assert_eq!(by(&stop, tell.clone(), &[context]).as_deref(), Some("a"));
    assert_eq!(
        by(&stop, tell, &[json!({"continue": false})]).as_deref(),
        Some("a")
    );
}

#[test]
fn where_nobody_attends_a_question_is_a_no() {
    for (reason, told) in [
        (
            "sure?",
            "sure? (nobody attends this session, so nobody can be asked)",
        ),
        ("", "nobody attends this session, so nobody can be asked"),
    ] {
        let mut answer = read(&PRE, &tool("ask", reason));
        unattended(&mut answer);
        assert_eq!(answer.decision(), Some(("deny", Some(told))));
    }
    for word in ["allow", "defer", "deny"] {
        let mut answer = read(&PRE, &tool(word, "x"));
        unattended(&mut answer);
        assert_eq!(answer, read(&PRE, &tool(word, "x")));
    }
}

fn never() -> PathBuf {
    panic!("nothing is to be cut")
}

#[test]
fn what_fits_stays_as_it_is() {
    let mut answer = read(&PRE, &tool("deny", "ten chars!"));
    answer.add_context("12345").unwrap();
    answer.add_context("6789").unwrap();
    assert_eq!(fit(answer.clone(), 10, never), (answer, None));
}

#[test]
fn long_text_is_cut_at_a_line_and_says_where_all_of_it_is() {
    let lines: Vec<String> = (1..100).map(|n| format!("error {n}")).collect();
    let whole = lines.join("\n");
    let mut answer = silent(&EventName::Stop);
    answer
        .give(Opinion::Block {
            reason: whole.clone(),
        })
        .unwrap();
    answer.add_context("short").unwrap();
    let (short, file) = fit(answer, 74, || "/b/out.txt".into());
    let reason = short.opinion().and_then(Opinion::reason).unwrap();
    insta::assert_snapshot!(reason, @r"
    error 1
    error 2
    error 3
    error 4
    [cut here; all of it is in /b/out.txt]
    ");
    assert!(reason.chars().count() <= 74);
    assert_eq!(short.contexts(), ["short"]);
    assert_eq!(file, Some(("/b/out.txt".into(), format!("{whole}\n"))));
}

#[test]
fn a_long_context_does_not_push_out_the_short_ones() {
    let mut answer = silent(&EventName::Stop);
    for context in [
        "a: fine",
        &format!("b: {}", "x\n".repeat(500)),
        "c: fine",
        &"ö".repeat(500),
    ] {
        answer.add_context(context).unwrap();
    }
    let (short, file) = fit(answer.clone(), 200, || "/f".into());
    let contexts = short.contexts();
    assert_eq!(
        (contexts[0].as_str(), contexts[2].as_str()),
        ("a: fine", "c: fine")
    );
    for long in [&contexts[1], &contexts[3]] {
        assert!(long.ends_with("\n[cut here; all of it is in /f]"), "{long}");
        assert!(long.chars().count() > 60, "{long}");
    }
    assert!(contexts.join("\n").chars().count() <= 200);
    assert_eq!(file.unwrap().1, answer.contexts().join("\n") + "\n");
}

#[test]
fn several_long_texts_go_into_one_file() {
    let mut answer = silent(&EventName::Stop);
    answer.stop("s".repeat(50));
    answer.tell("m".repeat(50));
    let (short, file) = fit(answer, 40, || "/f".into());
    assert_eq!(
        short.messages(),
        ["mmmmmmmmm\n[cut here; all of it is in /f]"]
    );
    let (m, s) = ("m".repeat(50), "s".repeat(50));
    assert_eq!(
        file.unwrap().1,
        format!("== message ==\n{m}\n\n== stop ==\n{s}\n")
    );
}

#[test]
fn nothing_rings_for_an_end_that_does_not_come() {
    let rings = |text: &str| json!({"terminalSequence": text});
    let block = json!({"decision": "block", "reason": "on", "terminalSequence": "\u{7}"});
    let ends = json!({"continue": false, "stopReason": "enough"});
    let (own, other) = ("\u{1b}]9;own\u{7}", "\u{1b}]9;a\u{7}");
    for event in [EventName::Stop, EventName::SubagentStop] {
        let heard = |answers: &[Value]| {
            let merged = merged(&event, &rings(own), answers);
            merged.answer.terminal().to_owned()
        };
        assert_eq!(heard(&[rings(other)]), format!("{own}{other}"));
        assert_eq!(heard(&[rings(other), block.clone()]), "\u{7}");
        let all = heard(&[rings(other), block.clone(), ends.clone()]);
        assert_eq!(all, format!("{own}{other}\u{7}"));
    }
}
