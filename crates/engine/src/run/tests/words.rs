//! What a run means.

use super::*;

fn ran(outcome: Outcome, stdout: &str, stderr: &str) -> Ran {
    Ran {
        hook: "h".into(),
        at: 7,
        took: Duration::from_micros(1_234_567),
        limit: Duration::from_secs(1),
        outcome,
        stdout: stdout.into(),
        stderr: stderr.into(),
        dropped: 0,
    }
}

fn row(ran: &Ran, event: &EventName) -> becket_wire::run::RunRow {
    let on = Occasion {
        event_id: EventId::new(5, [7; 2]),
        event,
        session_id: Some("s"),
        agent_id: None,
    };
    ran.row(on, &ran.answer(event))
}

#[test]
fn each_end_has_its_word_and_its_reason() {
    let deny =
        r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}"#;
    let mut flood = ran(
        Outcome::Exited(0),
        &format!("{{{}", " ".repeat(1 << 20)),
        "",
    );
    flood.stdout.truncate(1 << 20);
    flood.dropped = 1;
    let runs = [
        ran(Outcome::Exited(0), "", "chatter"),
        ran(Outcome::Exited(0), "plain", ""),
        ran(Outcome::Exited(0), deny, ""),
        ran(Outcome::Exited(2), "", "not so"),
        ran(Outcome::Exited(1), "", "broken"),
        ran(Outcome::Exited(137), "", ""),
        ran(Outcome::Exited(0), &deny[..40], ""),
        ran(Outcome::Exited(0), "{} and more", ""),
        ran(Outcome::Exited(0), r#"{"continue": 7}"#, ""),
        flood,
        ran(Outcome::Signalled(11), "", ""),
        ran(Outcome::Signalled(40), "", ""),
        ran(Outcome::TimedOut, deny, ""),
        ran(Outcome::Cancelled, deny, ""),
        ran(Outcome::CutOff, deny, ""),
        ran(Outcome::WentAsync, "{\"async\": true}\n", ""),
        ran(Outcome::NotStarted("x does not exist".into()), "", ""),
    ];
    let told: Vec<String> = (runs.iter().map(|ran| row(ran, &EventName::PreToolUse)))
        .map(|row| {
            let decision = row.decision.unwrap_or_default();
            let (exit, said, outcome) = (row.exit, row.said, row.outcome);
            let note = row.note.unwrap_or_default();
            format!(
                "{outcome}|{exit:?}|{decision}|{said}|{}",
                note.replace('\n', "⏎")
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    ok|Some(0)||7|
    ok|Some(0)||5|
    ok|Some(0)|deny|85|
    ok|Some(2)|deny|6|
    failed|Some(1)||6|the hook exited with 1: broken
    failed|Some(137)||0|the hook exited with 137 (that is how a shell tells of signal 9 (KILL))
    invalid|Some(0)||40|the hook's answer is no whole JSON: EOF while parsing a value at line 1 column 40
    invalid|Some(0)||11|the hook's answer is no whole JSON: trailing characters at line 1 column 4
    invalid|Some(0)||15|the hook's continue must be true or false
    invalid|Some(0)||1048577|the hook's answer is longer than 1 MiB
    killed|None||0|the hook was killed by signal 11 (SEGV)
    killed|None||0|the hook was killed by signal 40
    timed out|None||85|the hook was ended after its 1s: its time was up
    cancelled|None||85|
    cut off|None||85|becket ended before the hook did
    async|None||16|
    not started|None||0|the hook did not start: x does not exist
    ");
}

#[test]
fn a_denial_is_read_as_javascript_would_read_it() {
    let deny = br#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"na\xefve"}}"#;
    for before in ["", "\u{feff}", "\u{a0}", "\u{b}\u{c} \n"] {
        let mut ran = ran(Outcome::Exited(0), "", "");
        ran.stdout = [before.as_bytes(), deny].concat();
        // A byte that is no text, as from a file's name in another encoding.
        let at = ran.stdout.windows(5).position(|bytes| bytes == b"\\xefv");
        ran.stdout.splice(at.unwrap()..at.unwrap() + 4, [0xef]);
        let answer = ran.answer(&EventName::PreToolUse).unwrap();
        let (word, reason) = answer.decision().unwrap();
        assert_eq!((word, reason), ("deny", Some("na\u{fffd}ve")), "{before:?}");
    }
    let odd = ran(
        Outcome::Exited(0),
        r#"{"n": 1e999, "decision": "block"}"#,
        "",
    );
    assert!(
        odd.answer(&EventName::PreToolUse).is_err(),
        "never passed over"
    );
}

#[test]
fn a_failure_is_told_in_a_line_or_two() {
    let long = "long ".repeat(300_000);
    let told = ran(Outcome::Exited(1), "", &long).answer(&EventName::Stop);
    let told = told.unwrap_err();
    assert!(told.starts_with("the hook exited with 1: long long"));
    assert!(
        told.ends_with(" …") && told.chars().count() <= 502,
        "{told}"
    );
}

#[test]
fn a_row_says_on_what_and_how_long() {
    let row = row(&ran(Outcome::Exited(0), "", ""), &EventName::Stop);
    let event_id = EventId::new(5, [7; 2]);
    assert_eq!(
        (row.hook.as_str(), row.event.as_str(), row.event_id),
        ("h", "Stop", event_id)
    );
    assert_eq!((row.at, row.took_us), (7, 1_234_567));
    assert_eq!((row.session_id.as_deref(), row.agent_id), (Some("s"), None));
}

#[test]
fn whoever_had_to_be_ended_decides_nothing() {
    let block = r#"{"decision": "block", "reason": "no"}"#;
    let answer = |outcome| ran(outcome, block, "").answer(&EventName::Stop);
    let silent = Ok(Answer::silent(EventName::Stop));
    assert_ne!(answer(Outcome::Exited(0)), silent);
    assert_eq!(answer(Outcome::Cancelled), silent);
    assert_eq!(answer(Outcome::WentAsync), silent);
    assert!(answer(Outcome::TimedOut).is_err());
    assert!(answer(Outcome::Signalled(9)).is_err());
}

#[test]
fn what_is_said_in_the_background_is_read_without_its_beginning() {
    let answer = |stdout: &str| ran(Outcome::Exited(0), stdout, "").answer(&EventName::Stop);
    let silent = Ok(Answer::silent(EventName::Stop));
    assert_eq!(answer("{\"async\": true}\n"), silent);
    assert_eq!(answer("{\"async\": true}\nplain"), silent);
    let told = answer("{\"async\": true}\n{\"systemMessage\": \"done\"}\n").unwrap();
    assert_eq!(told.messages(), ["done"]);
}

#[test]
fn only_a_whole_line_that_says_so_goes_to_the_background() {
    let went = |stdout: &str| said::went_async(stdout.as_bytes());
    assert_eq!(went("{\"async\": true}\nrest"), Some((16, None)));
    assert_eq!(went(" {\"async\": true, \"x\": 1}"), Some((24, None)));
    let seconds = Some(Duration::from_millis(1500));
    assert_eq!(
        went("{\"async\":true,\"asyncTimeout\":1500}\n"),
        Some((35, seconds))
    );
    let day = Some(Duration::from_secs(24 * 3600));
    assert_eq!(
        went("{\"async\":true,\"asyncTimeout\":1e300}"),
        Some((35, day))
    );
    for stdout in [
        "",
        "\n{\"async\": true}",
        "{\"async\": true",
        "{\"async\": false}\n",
        "{\"async\": \"true\"}\n",
        "{\"x\": {\"async\": true}}\n",
        "text {\"async\": true}\n",
        "[{\"async\": true}]\n",
    ] {
        assert_eq!(went(stdout), None, "{stdout}");
    }
    let long = format!("{{\"async\": true, \"x\": \"{}\"}}\n", "x".repeat(5000));
    assert_eq!(went(&long), None);
}
