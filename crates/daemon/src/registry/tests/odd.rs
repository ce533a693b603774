//! What nobody intends: races, floods, secrets, clocks that are set.

use super::*;

fn secret() -> String {
    format!("ghp_{}", "a1B2".repeat(9))
}

#[test]
fn a_restart_between_the_two_halves_of_a_clear_keeps_the_line() {
    let mut desk = Desk::new();
    desk.now = now_ms() - 1_000;
    desk.event("a", "SessionStart", &json!({"source": "startup"}));
    desk.event("a", "SessionEnd", &json!({"reason": "clear"}));
    desk.restart();
    assert!(desk.rows().is_empty());
    desk.event("b", "SessionStart", &json!({"source": "clear"}));
    assert_eq!(desk.rows()[0].line, "a");
}

#[test]
fn a_clear_whose_end_is_heard_late_keeps_the_line() {
    let mut desk = Desk::new();
    desk.event("a", "SessionStart", &json!({"source": "startup"}));
    desk.now += 10;
    let end = payload("a", "SessionEnd", &json!({"reason": "clear"}));
    let spooled = desk.envelope();
    desk.event("b", "SessionStart", &json!({"source": "clear"}));
    desk.pid = 77;
    desk.event("c", "SessionStart", &json!({"source": "startup"}));
    desk.apply(&end, &spooled, None);
    let lines: BTreeMap<_, _> = desk
        .rows()
        .into_iter()
        .map(|row| (row.session_id, row.line))
        .collect();
    let expected = [("b", "a"), ("c", "c")].map(|(id, line)| (id.into(), line.into()));
    assert_eq!(lines, BTreeMap::from(expected));
    assert_eq!(desk.registry.unwritten().len(), 1);
}

#[test]
fn what_could_not_be_written_is_written_later() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({}));
    let title = Some("the bridge".to_owned());
    let session = "a".to_owned();
    desk.told(|done| Asked::Name {
        session,
        title,
        done,
    });
    let unwritten = desk.registry.unwritten();
    desk.registry.not_written(&unwritten);
    assert_eq!(desk.registry.unwritten().len(), 1);
}

#[test]
fn what_is_told_late_hides_nothing_newer() {
    let mut desk = Desk::new();
    let mut changes = desk.registry.changes.subscribe();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    // It waits for its commit.
    let prompted = desk.registry.news("a", desk.now).unwrap();
    let now = desk.now + 10;
    desk.registry.infer("a", &Inference::ProcessGone, now, now);
    prompted.tell();
    let told = changes.try_recv().unwrap();
    assert_eq!(told.ended_at, Some(now));
    assert!(changes.try_recv().is_err(), "an older state comes after it");
}

#[test]
fn a_blocked_prompt_counts_from_when_it_was_heard() {
    let mut desk = Desk::new();
    desk.now += 10;
    let mut envelope = desk.envelope();
    let heard = Mark {
        at: envelope.at,
        id: envelope.id,
    };
    envelope.at -= 3;
    let prompt = payload("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut applied = desk.apply(&prompt, &envelope, Some(heard)).unwrap();
    desk.registry.prompt_blocked(&mut applied);
    assert_eq!(desk.rows()[0].display, Display::Done);
}

#[test]
fn a_process_that_is_gone_ends_no_session_that_has_another_by_now() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let gone = desk.registry.processes();
    desk.pid = 77;
    desk.event("a", "SessionStart", &json!({"source": "resume"}));
    let now = desk.now + 10;
    desk.registry.gone(&gone, now);
    assert_eq!(desk.rows().len(), 1);
    let gone = desk.registry.processes();
    desk.registry.gone(&gone, now);
    assert!(desk.rows().is_empty());
}

#[test]
fn no_secret_is_kept_wherever_it_stands() {
    let mut desk = Desk::new();
    let secret = secret();
    let title = format!("try {secret}");
    desk.event(
        "a",
        "UserPromptSubmit",
        &json!({"prompt": "go", "session_title": title}),
    );
    let agent = json!({"agent_id": "x", "agent_type": format!("as {secret}")});
    desk.event("a", "SubagentStart", &agent);
    desk.event(
        "a",
        "Elicitation",
        &json!({"mcp_server_name": format!("by {secret}")}),
    );
    desk.event("b", "UserPromptSubmit", &json!({"prompt": "go"}));
    let error = format!("bad key {secret}");
    desk.event("b", "StopFailure", &json!({"error": error}));
    desk.event("c", "UserPromptSubmit", &json!({"prompt": "go"}));
    desk.event(
        "c",
        "SessionEnd",
        &json!({"reason": format!("for {secret}")}),
    );
    for id in ["a", "b", "c"] {
        let session = &desk.registry.sessions[id].session;
        let state = serde_json::to_string(session).unwrap();
        assert!(!state.contains(&secret), "{state}");
        assert!(state.contains("masked:"), "{state}");
    }
}

#[test]
fn a_secret_across_the_end_of_a_prompt_is_not_kept_in_part() {
    let mut desk = Desk::new();
    let prompt = format!("{} {} and so on", "word ".repeat(97), secret());
    desk.event("a", "UserPromptSubmit", &json!({"prompt": prompt}));
    let kept = desk.rows().remove(0).last_prompt.unwrap();
    assert!(!kept.contains("ghp_"), "{kept}");
}

#[test]
fn huge_fields_make_no_huge_session() {
    let mut desk = Desk::new();
    let huge = "x".repeat(1 << 20);
    let applied = desk.event(&huge, "UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(applied.is_none() && desk.rows().is_empty());
    let every = json!({
        "prompt": huge, "session_title": huge, "cwd": format!("/{huge}"), "model": huge,
        "transcript_path": huge, "permission_mode": huge, "prompt_id": huge, "error": huge,
        "agent_type": huge, "agent_transcript_path": huge, "tool_name": huge, "tool_use_id": huge,
        "reason": huge, "source": huge, "mcp_server_name": huge, "elicitation_id": huge,
    });
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "Elicitation",
    ] {
        desk.event("a", event, &every);
    }
    let mut agent = every.clone();
    agent["agent_id"] = json!(huge);
    desk.event("a", "SubagentStart", &agent);
    desk.event("a", "StopFailure", &every);
    let now = desk.now;
    let figures = Figures {
        model_id: Some(huge.clone()),
        model_name: Some(huge.clone()),
        ..Figures::default()
    };
    desk.registry.figures("a", &figures, now);
    let title = Some(huge.clone());
    let session = "a".to_owned();
    desk.told(|done| Asked::Name {
        session,
        title,
        done,
    });
    let died = Inference::TurnDied { error: Some(huge) };
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    desk.registry.infer("a", &died, now + 15, now + 15);
    desk.event("a", "SessionEnd", &every);
    assert!(desk.rows().is_empty());
    let state = serde_json::to_vec(&desk.registry.sessions["a"].session).unwrap();
    assert!(state.len() < 64 << 10, "{} bytes", state.len());
}

#[test]
fn when_there_are_too_many_the_one_that_was_silent_longest_goes() {
    let mut desk = Desk::new();
    for number in 0..MAX_SESSIONS {
        let session = Session::new(&format!("s{number}"), desk.now + number as i64);
        let id = session.session_id.clone();
        desk.registry.sessions.insert(id, Live::new(session));
    }
    desk.now += 2 * MAX_SESSIONS as i64;
    assert!(desk.event("new", "UserPromptSubmit", &json!({})).is_some());
    assert_eq!(desk.registry.sessions.len(), MAX_SESSIONS);
    assert!(!desk.registry.sessions.contains_key("s0"));
    assert!(desk.registry.sessions.contains_key("s1"));
}

#[test]
fn a_clock_that_is_set_back_freezes_nothing() {
    let mut desk = Desk::new();
    desk.now = 10_000_000;
    let now = desk.now;
    desk.heard("a", "UserPromptSubmit", &json!({"prompt": "go"}), now);
    let agent = json!({"agent_id": "x", "agent_type": "Explore"});
    desk.heard("a", "SubagentStart", &agent, now);
    desk.now = 5_000_000;
    let now = desk.now;
    desk.heard("a", "SubagentStop", &agent, now);
    let ask = json!({"tool_name": "Bash", "tool_input": {}});
    desk.heard("a", "PermissionRequest", &ask, now);
    let row = desk.rows().remove(0);
    assert_eq!(row.display, Display::Attention);
    assert!(row.agents[0].ended_at.is_some(), "{row:?}");
    desk.heard("a", "UserPromptSubmit", &json!({"prompt": "on"}), now);
    assert_eq!(desk.rows()[0].last_prompt.as_deref(), Some("on"));
    let at = desk.now + 10;
    desk.registry.infer("a", &Inference::Interrupted, at, at);
    assert_eq!(desk.rows()[0].display, Display::Done);
    let gone = desk.registry.processes();
    desk.registry.gone(&gone, 1_000_000);
    assert!(desk.rows().is_empty());
}

#[test]
fn a_database_that_was_begun_anew_is_the_one_that_is_read() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "old"}));
    let database = desk.registry.place.database();
    for part in ["", "-wal", "-shm"] {
        let path = format!("{}{part}", database.display());
        drop(std::fs::rename(&path, format!("{path}.damaged")));
    }
    desk.connection = store::open(&database, 0).unwrap().connection;
    assert_eq!(desk.registry.unwritten().len(), 1, "it knows of none");
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "new"}));
    desk.event("a", "SessionEnd", &json!({"reason": "other"}));
    desk.registry.forget(desk.now + AT_HAND + 1);
    desk.event("a", "SessionStart", &json!({"source": "resume"}));
    assert_eq!(desk.rows()[0].last_prompt.as_deref(), Some("new"));
}

#[test]
fn of_those_that_were_quiet_equally_long_always_the_same_one_goes() {
    for _ in 0..20 {
        let mut desk = Desk::new();
        desk.registry.room = 4;
        for id in ["a", "b", "c", "d", "e"] {
            // All in one millisecond.
            desk.now = 1_000;
            desk.event(id, "UserPromptSubmit", &json!({}));
        }
        assert!(!desk.registry.sessions.contains_key("a"));
    }
}

#[test]
fn a_prompt_that_turns_out_to_be_blocked_later_leaves_its_session_idle() {
    let mut desk = Desk::new();
    let sent = now_ms() - 10_000;
    desk.now = sent;
    // It counts from its arrival, a little later than it was sent.
    desk.heard("a", "UserPromptSubmit", &json!({"prompt": "go"}), sent);
    assert_eq!(desk.rows()[0].display, Display::Working);
    assert!(desk.registry.prompt_was_blocked("a", sent));
    assert_ne!(desk.rows()[0].display, Display::Working);

    // What came after it is not taken back.
    desk.now = sent + 5_000;
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "again"}));
    assert!(!desk.registry.prompt_was_blocked("a", sent));
    assert_eq!(desk.rows()[0].display, Display::Working);
}
