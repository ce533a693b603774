use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn silent(event: &EventName) -> Answer {
    Answer::silent(event.clone())
}

fn read(event: &EventName, json: &Value) -> Answer {
    Answer::read(event.clone(), 0, json.to_string().as_bytes(), b"").unwrap()
}

fn said(event: &EventName, hook: &str, json: &Value) -> HookAnswer {
    HookAnswer {
        hook: hook.to_owned(),
        answer: read(event, json),
    }
}

fn tool(decision: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "permissionDecision": decision, "permissionDecisionReason": reason}})
}

fn rendered(merged: &MergedAnswer) -> Value {
    serde_json::from_slice(&merged.answer.render().stdout).unwrap_or_default()
}

const PRE: EventName = EventName::PreToolUse;

/// Hooks a, b, … each with their JSON.
fn merged(event: &EventName, own: &Value, answers: &[Value]) -> MergedAnswer {
    let hooks = ["a", "b", "c", "d", "e"].iter().zip(answers);
    let answers: Vec<HookAnswer> = hooks.map(|(hook, json)| said(event, hook, json)).collect();
    merge(event, &read(event, own), &answers)
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
    let merged = merge(&PRE, &silent(&EventName::Stop), &[stop]);
    assert_eq!(
        merged,
        MergedAnswer {
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
fn without_a_user_an_ask_is_a_denial() {
    for (reason, told) in [
        (
            "sure?",
            "sure? (no user attends this session, so none can be asked)",
        ),
        ("", "no user attends this session, so none can be asked"),
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
    assert_eq!(contexts[0], "a: fine");
    assert_eq!(contexts[2], "c: fine");
    for long in [&contexts[1], &contexts[3]] {
        assert!(long.ends_with("\n[cut here; all of it is in /f]"), "{long}");
        assert!(long.chars().count() > 60, "{long}");
    }
    assert!(contexts.join("\n").chars().count() <= 200);
    assert_eq!(file.unwrap().1, answer.contexts().join("\n") + "\n");
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

fn any_event() -> impl Strategy<Value = EventName> {
    prop::sample::select([&EventName::ALL[..], &["CoffeeReady".into()]].concat())
}

fn any_opinion() -> impl Strategy<Value = Opinion> {
    "[a-z ]{0,6}".prop_flat_map(|reason| {
        let because = reason.clone();
        let with = |opinion: Opinion| opinion.with_reason(reason.clone());
        let empty = String::new;
        prop::sample::select(vec![
            with(Opinion::Deny { reason: empty() }),
            with(Opinion::Ask { reason: empty() }),
            with(Opinion::Defer { reason: empty() }),
            Opinion::Allow { because },
            with(Opinion::Block { reason: empty() }),
            Opinion::Accept,
            with(Opinion::Decline { reason: empty() }),
            Opinion::Cancel,
        ])
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    ("[a-z]{0,6}", any::<bool>()).prop_flat_map(|(text, flag)| {
        let object = Map::from_iter([("command".to_owned(), json!(text))]);
        prop::sample::select(vec![
            Change::Input(object.clone()),
            Change::ToolOutput(json!(text)),
            Change::SessionTitle(text.clone()),
            Change::SuppressPrompt(flag),
            Change::WatchPaths(vec![text.clone()]),
            Change::Display(text),
            Change::Retry(flag),
            Change::Content(object),
            Change::Interrupt(flag),
        ])
    })
}

/// Any answer to the event: what it does not take is refused on the way.
fn any_answer(event: EventName) -> impl Strategy<Value = Answer> {
    let texts = || prop::collection::vec("[a-z{}\"ö]{1,6}(\n[a-z]{1,3})?", 0..3);
    (
        prop::collection::vec(any_opinion(), 0..6),
        prop::collection::vec(any_change(), 0..4),
        texts(),
        texts(),
        prop::option::weighted(0.2, "[a-z]{0,6}"),
    )
        .prop_map(move |(opinions, changes, contexts, messages, stop)| {
            let mut answer = Answer::silent(event.clone());
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
            answer
        })
}

fn any_case() -> impl Strategy<Value = (EventName, Answer, Vec<HookAnswer>)> {
    any_event().prop_flat_map(|event| {
        let answers = prop::collection::vec(any_answer(event.clone()), 0..5);
        (Just(event.clone()), any_answer(event), answers).prop_map(|(event, own, answers)| {
            let said = |(n, answer)| HookAnswer {
                hook: format!("hook-{n}"),
                answer,
            };
            (
                event,
                own,
                answers.into_iter().enumerate().map(said).collect(),
            )
        })
    })
}

/// As a caller does who hears the answers in the order in which programs end.
fn in_declared_order(mut heard: Vec<(usize, HookAnswer)>) -> Vec<HookAnswer> {
    heard.sort_by_key(|(place, _)| *place);
    heard.into_iter().map(|(_, said)| said).collect()
}

fn opinions(own: &Answer, said: &[HookAnswer]) -> Vec<Opinion> {
    let all = std::iter::once(own).chain(said.iter().map(|said| &said.answer));
    all.filter_map(|answer| answer.opinion().cloned()).collect()
}

proptest! {
    #[test]
    fn the_order_in_which_hooks_end_changes_nothing(
        ((event, own, said), heard) in any_case().prop_flat_map(|case| {
            let heard: Vec<(usize, HookAnswer)> = case.2.iter().cloned().enumerate().collect();
            (Just(case), Just(heard).prop_shuffle())
        }),
    ) {
        let again = merge(&event, &own, &in_declared_order(heard));
        prop_assert_eq!(merge(&event, &own, &said), again);
    }

    #[test]
    fn a_no_always_wins((event, own, said) in any_case()) {
        let refuses = |opinion: &Opinion| matches!(opinion.name(), "deny" | "block" | "decline");
        let refused = opinions(&own, &said).iter().any(refuses);
        let merged = merge(&event, &own, &said);
        prop_assert_eq!(merged.answer.opinion().is_some_and(refuses), refused);
    }

    #[test]
    fn nothing_is_allowed_that_no_answer_allows((event, own, said) in any_case()) {
        let all = opinions(&own, &said);
        let merged = merge(&event, &own, &said);
        match merged.answer.opinion() {
            None => prop_assert!(all.is_empty()),
            Some(opinion) => {
                prop_assert!(all.iter().any(|one| one.name() == opinion.name()));
                if matches!(opinion, Opinion::Allow { .. } | Opinion::Accept) {
                    prop_assert!(all.iter().all(|one| one.name() == opinion.name()));
                }
            }
        }
    }

    #[test]
    fn silence_stays_silence(event in any_event(), hooks in 0_usize..4) {
        let silent = Answer::silent(event.clone());
        let said = HookAnswer { hook: "h".into(), answer: silent.clone() };
        let merged = merge(&event, &silent, &vec![said; hooks]);
        prop_assert!(merged.answer.render().is_silent());
        prop_assert_eq!(merged.by, None);
    }

    #[test]
    fn an_end_of_the_turn_always_wins((event, own, said) in any_case()) {
        let ends = own.stopped().is_some() || said.iter().any(|said| said.answer.stopped().is_some());
        let merged = merge(&event, &own, &said);
        prop_assert_eq!(merged.answer.stopped().is_some(), ends);
    }

    #[test]
    fn one_voice_alone_is_as_it_was((event, own, _) in any_case()) {
        let silent = HookAnswer { hook: "h".into(), answer: Answer::silent(event.clone()) };
        let merged = merge(&event, &own, &[silent]);
        prop_assert_eq!(merged.answer.render(), own.render());
        prop_assert_eq!(merged.by, None);
        let again = merge(&event, &merged.answer, &[]);
        prop_assert_eq!(again.answer, merged.answer);
    }

    #[test]
    fn what_was_merged_is_an_answer_that_claude_code_takes((event, own, said) in any_case()) {
        let merged = merge(&event, &own, &said).answer;
        let output = merged.render();
        let again = Answer::read(event, 0, &output.stdout, b"").unwrap();
        prop_assert_eq!(again.render(), output.clone());
        let name = |answer: &Answer| answer.decision().map(|said| said.0);
        prop_assert_eq!(name(&again), name(&merged));
        let is_object = |json: &Value| json.is_object();
        let json = serde_json::from_slice(&output.stdout).ok();
        let plain = merged.event() == &EventName::PreCompact || output.is_silent();
        prop_assert!(plain || json.as_ref().is_some_and(is_object));
    }

    #[test]
    fn every_hook_whose_word_counts_is_named((event, own, said) in any_case()) {
        let merged = merge(&event, &own, &said);
        let told = merged.answer.contexts().join("\n") + &merged.answer.messages().join("\n");
        for HookAnswer { hook, answer } in &said {
            let speaks = !answer.contexts().is_empty() || !answer.messages().is_empty();
            let named = format!("{hook}: ");
            prop_assert!(!speaks || told.contains(&named));
            let wins = answer.opinion().map(Opinion::name) == merged.answer.opinion().map(Opinion::name);
            let reason = merged.answer.opinion().and_then(Opinion::reason);
            if let (true, Some(reason)) = (wins && answer.opinion().is_some(), reason) {
                prop_assert!(reason.contains(hook.as_str()));
            }
        }
    }

    #[test]
    fn what_was_cut_fits_and_decides_the_same((event, own, said) in any_case(), limit in 40_usize..90) {
        let merged = merge(&event, &own, &said).answer;
        let (short, file) = fit(merged.clone(), limit, || PathBuf::from("/f"));
        let chars = |texts: &[String]| texts.join("\n").chars().count();
        prop_assert_eq!(short.opinion().map(Opinion::name), merged.opinion().map(Opinion::name));
        prop_assert_eq!(short.changes(), merged.changes());
        prop_assert_eq!(short.stopped().is_some(), merged.stopped().is_some());
        prop_assert_eq!(short.contexts().len(), merged.contexts().len());
        if file.is_none() {
            prop_assert_eq!(&short, &merged);
        }
        // Each that is cut still has to name the file.
        let names = 31 * (1 + merged.contexts().len().max(merged.messages().len()));
        prop_assert!(chars(short.contexts()) <= limit.max(names));
        prop_assert!(chars(short.messages()) <= limit.max(names));
        if let Some((_, whole)) = file {
            let long = [merged.contexts().join("\n"), merged.messages().join("\n")];
            for text in long.iter().filter(|text| text.chars().count() > limit) {
                prop_assert!(whole.contains(text));
            }
        }
    }
}
