use std::collections::BTreeMap;

use becket_wire::rpc::AskReply;
use becket_wire::rpc::SeenAt;
use becket_wire::session::{Display, Status};
use becket_wire::{EventId, Place, Version};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;

/// A registry with its own database, and a clock that advances with every event.
struct TestRegistry {
    registry: Registry,
    connection: Connection,
    now: i64,
    pid: u32,
    _home: TempDir,
}

impl TestRegistry {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path().join("home"));
        std::fs::create_dir_all(place.home()).unwrap();
        let connection = store::open(&place.database(), 0).unwrap().connection;
        Self {
            registry: Registry::open(&connection),
            connection,
            now: 1_000,
            pid: 4242,
            _home: home,
        }
    }

    /// Restarts the daemon.
    fn restart(&mut self) {
        self.registry = Registry::open(&self.connection);
    }

    fn envelope(&self) -> Envelope {
        Envelope {
            id: EventId::new(self.now, [0; 2]),
            at: self.now,
            version: Version::current(),
            event: None,
            from: None,
            home: "/home/user/.becket".to_owned(),
            pid: self.pid,
            pid_start: Some(17),
            pid_is_claude: true,
            pid_parent: None,
            variables: BTreeMap::from([
                ("TMUX".to_owned(), "/tmp/tmux/default,1,0".to_owned()),
                ("TMUX_PANE".to_owned(), "%3".to_owned()),
                ("CLAUDE_CODE_SESSION_ATTENDED".to_owned(), "1".to_owned()),
            ]),
            cut: None,
        }
    }

    /// Applies an event that arrives later than it happened.
    fn late_event(&mut self, session: &str, event: &str, more: &serde_json::Value, happened: i64) {
        self.now += 10;
        let mut envelope = self.envelope();
        let heard = EventTime {
            at: envelope.at,
            id: envelope.id,
        };
        (envelope.at, envelope.id) = (happened, EventId::new(happened, [0; 2]));
        self.apply(&payload(session, event, more), &envelope, Some(heard));
    }

    /// Applies an event of a session.
    fn event(&mut self, session: &str, event: &str, more: &serde_json::Value) -> Option<Applied> {
        self.now += 10;
        self.apply(&payload(session, event, more), &self.envelope(), None)
    }

    /// Applies an event, and writes its session as the writer would.
    fn apply(
        &mut self,
        payload: &str,
        envelope: &Envelope,
        heard: Option<EventTime>,
    ) -> Option<Applied> {
        let head = Head::read(payload.as_bytes()).unwrap();
        let database = &self.connection;
        let applied = self
            .registry
            .apply(database, &head, envelope, None, heard)?;
        self.write();
        Some(applied)
    }

    /// Writes the sessions that changed, as the core does with each commit.
    fn write(&mut self) {
        let sessions = self.registry.take_unwritten();
        store::sessions::write(&self.connection, &sessions).unwrap();
    }

    fn rows(&mut self) -> Vec<SessionRow> {
        let (reply, mut rows) = oneshot::channel();
        self.registry
            .answer(&self.connection, RegistryRequest::Live(reply), self.now);
        let mut rows = rows.try_recv().unwrap();
        rows.sort_by(|one, other| one.session_id.cmp(&other.session_id));
        rows
    }

    fn name(&mut self, session: &str, title: Option<String>) -> AskReply {
        let session = session.to_owned();
        self.ask(|done| RegistryRequest::Name {
            session,
            title,
            done,
        })
    }

    fn ask(
        &mut self,
        request: impl FnOnce(oneshot::Sender<AskReply>) -> RegistryRequest,
    ) -> AskReply {
        let (done, mut answer) = oneshot::channel();
        self.registry
            .answer(&self.connection, request(done), self.now);
        answer.try_recv().unwrap()
    }
}

fn payload(session: &str, event: &str, more: &serde_json::Value) -> String {
    let mut payload = json!({"session_id": session, "hook_event_name": event});
    let fields = more.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(fields);
    payload.to_string()
}

#[test]
fn a_restart_changes_nothing_that_a_person_can_see() {
    let mut test = TestRegistry::new();
    test.event(
        "a",
        "UserPromptSubmit",
        &json!({"prompt": "fix it", "cwd": "/tmp"}),
    );
    test.event(
        "a",
        "SubagentStart",
        &json!({"agent_id": "x", "agent_type": "Explore"}),
    );
    test.event(
        "a",
        "PermissionRequest",
        &json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    test.event("b", "UserPromptSubmit", &json!({"prompt": "go"}));
    test.event("b", "StopFailure", &json!({"error": "overloaded"}));
    let before = test.rows();
    test.restart();
    assert_eq!(test.rows(), before);
    let displays: Vec<_> = before
        .iter()
        .map(|row| (&*row.session_id, row.display))
        .collect();
    assert_eq!(displays, [("a", Display::Attention), ("b", Display::Error)]);
    // The sessions go on after the restart.
    test.event(
        "a",
        "PostToolUse",
        &json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    let after = test.rows();
    assert_eq!(after[0].display, Display::Working);
    test.restart();
    assert_eq!(test.rows(), after, "and after the next one too");
}

#[test]
fn inferences_names_and_figures_survive_a_restart() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let now = test.now + 10;
    test.registry.infer("a", &Inference::Interrupted, now);
    let figures = Figures {
        cost_usd: Some(0.5),
        ..Figures::default()
    };
    test.registry.set_figures("a", &figures, None);
    let title = Some("the bridge".to_owned());
    let told = test.name("a", title.clone());
    assert_eq!(told, AskReply::Done);
    test.registry.queue_figures();
    test.write();
    assert!(test.registry.take_unwritten().is_empty(), "once is enough");
    test.restart();
    let row = test.rows().remove(0);
    assert_eq!((&row.title, &row.figures), (&title, &figures));
    assert_eq!(
        (&row.status, row.inferred, row.interrupted),
        (&Status::Idle, true, true)
    );
}

#[test]
fn a_cleared_session_goes_on_in_the_same_line() {
    let mut test = TestRegistry::new();
    test.event(
        "a",
        "SessionStart",
        &json!({"source": "startup", "cwd": "/tmp"}),
    );
    let title = Some("the bridge".to_owned());
    test.name("a", title.clone());
    test.event("a", "SessionEnd", &json!({"reason": "clear"}));
    test.event("b", "SessionStart", &json!({"source": "clear"}));
    let rows = test.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((&*rows[0].session_id, &*rows[0].line), ("b", "a"));
    assert_eq!(rows[0].prev_session_id.as_deref(), Some("a"));
    assert_eq!(rows[0].title, title);
    assert_eq!(rows[0].tmux_pane.as_deref(), Some("%3"));
}

#[test]
fn an_ended_session_stays_ended_after_it_is_dropped() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    test.event("a", "SessionEnd", &json!({"reason": "other"}));
    test.registry.drop_ended(test.now + KEPT_AFTER_END + 1);
    assert!(test.registry.sessions.is_empty());
    test.event("a", "PostToolUse", &json!({"tool_name": "Bash"}));
    assert!(test.rows().is_empty());
    test.event("a", "SessionStart", &json!({"source": "resume"}));
    let row = test.rows().remove(0);
    assert_eq!(
        row.last_prompt.as_deref(),
        Some("go"),
        "it is the same session"
    );
}

#[test]
fn an_unknown_event_and_an_end_make_no_session() {
    let mut test = TestRegistry::new();
    assert!(test.event("a", "Surprise", &json!({})).is_none());
    assert!(
        test.event("a", "SessionEnd", &json!({"reason": "other"}))
            .is_none()
    );
    assert!(test.rows().is_empty());
}

#[test]
fn a_process_that_is_gone_ends_its_session() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut changes = test.registry.changes.subscribe();
    let now = test.now + 10;
    test.registry.infer("a", &Inference::ProcessGone, now);
    assert!(test.rows().is_empty());
    assert!(changes.try_recv().is_err(), "after the commit");
    test.registry.publish_changes(now);
    let row = changes.try_recv().unwrap();
    assert_eq!((row.ended_at, row.inferred), (Some(now), true));
    assert!(test.registry.processes().is_empty());
}

#[test]
fn a_waiting_session_that_was_seen_is_checked_for_five_minutes() {
    let mut test = TestRegistry::new();
    test.event(
        "a",
        "PermissionRequest",
        &json!({"tool_name": "Bash", "tool_input": {}}),
    );
    assert_eq!(test.rows()[0].display, Display::Attention);
    test.now += 10;
    let pane = |pane: &str| SeenAt::Pane {
        tmux_socket: "/tmp/tmux/default".into(),
        pane: pane.into(),
    };
    test.ask(|done| RegistryRequest::Seen(pane("%4"), done));
    assert_eq!(test.rows()[0].display, Display::Attention);
    test.ask(|done| RegistryRequest::Seen(pane("%3"), done));
    assert_eq!(test.rows()[0].display, Display::Checked);
    test.registry.take_unwritten();
    test.registry.forget_looks(test.now + 5 * 60_000);
    assert_eq!(test.rows()[0].display, Display::Attention);
    assert_eq!(
        test.registry.take_unwritten().len(),
        1,
        "it is written and told"
    );
}

#[test]
fn the_cost_of_a_session_adds_up_over_a_crash() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut cost = |pid, cost_usd| {
        let figures = Figures {
            cost_usd: Some(cost_usd),
            ..Figures::default()
        };
        let known = test.registry.set_figures("a", &figures, Some((pid, None)));
        let known = known.and_then(|figures| figures.cost_usd);
        test.registry.queue_figures();
        test.write();
        test.restart();
        known
    };
    assert_eq!(cost(1, 1.25), Some(1.25));
    assert_eq!(cost(2, 0.0), Some(1.25));
    assert_eq!(cost(2, 0.5), Some(1.75));
}

#[test]
fn a_prefix_has_to_match_one_session() {
    let mut test = TestRegistry::new();
    for id in ["abc", "abd"] {
        test.event(id, "UserPromptSubmit", &json!({}));
    }
    let mut name = |prefix: &str| test.name(prefix, None);
    assert_eq!(
        name("ab"),
        AskReply::Ambiguous(vec!["abc".into(), "abd".into()])
    );
    assert_eq!(name("abd"), AskReply::Done);
    assert_eq!(name("x"), AskReply::NoSuchSession("x".into()));
}

#[test]
fn events_that_claude_code_waits_for_count_in_order_of_arrival() {
    let mut test = TestRegistry::new();
    let ask = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}});
    test.late_event("a", "PermissionRequest", &ask("ls"), 2_000);
    // It was sent before the first and arrives after it: neither hides the other.
    test.late_event("a", "PermissionRequest", &ask("pwd"), 1_999);
    test.late_event("a", "PostToolUse", &ask("ls"), 2_001);
    assert_eq!(test.rows()[0].display, Display::Attention);
    test.late_event("a", "PostToolUse", &ask("pwd"), 2_000);
    assert_eq!(test.rows()[0].display, Display::Working);
}

#[test]
fn other_events_count_from_the_time_when_they_happened() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let before = test.now - 1;
    test.event("a", "Stop", &json!({}));
    let late = json!({"notification_type": "permission_prompt", "message": "permission"});
    test.late_event("a", "Notification", &late, before);
    assert_eq!(test.rows()[0].display, Display::Done);
}

#[test]
fn the_session_that_was_quiet_longest_is_dropped_and_comes_back() {
    let mut test = TestRegistry::new();
    test.registry.room = 2;
    for id in ["a", "b"] {
        test.event(id, "UserPromptSubmit", &json!({"prompt": id}));
    }
    test.event("a", "Stop", &json!({}));
    test.event("c", "UserPromptSubmit", &json!({}));
    let ids = |test: &mut TestRegistry| {
        let mut ids: Vec<String> = test.rows().into_iter().map(|row| row.session_id).collect();
        ids.sort();
        ids.concat()
    };
    assert_eq!(ids(&mut test), "ac");
    test.event("b", "Stop", &json!({}));
    assert_eq!(ids(&mut test), "bc");
    let back = test.rows().into_iter().find(|row| row.session_id == "b");
    assert_eq!(back.unwrap().last_prompt.as_deref(), Some("b"));
    test.event("c", "SessionEnd", &json!({"reason": "other"}));
    test.event("a", "UserPromptSubmit", &json!({}));
    assert_eq!(ids(&mut test), "ab", "one that has ended is not missed");
}

#[test]
fn a_restart_between_the_two_halves_of_a_clear_keeps_the_line() {
    let mut test = TestRegistry::new();
    test.now = now_ms() - 1_000;
    test.event("a", "SessionStart", &json!({"source": "startup"}));
    test.event("a", "SessionEnd", &json!({"reason": "clear"}));
    test.restart();
    assert!(test.rows().is_empty());
    test.event("b", "SessionStart", &json!({"source": "clear"}));
    assert_eq!(test.rows()[0].line, "a");
    test.event("b", "SessionEnd", &json!({"reason": "clear"}));
    test.pid = 77;
    test.event("c", "SessionStart", &json!({"source": "clear"}));
    assert_eq!(test.rows()[0].prev_session_id, None, "another process");
}

#[test]
fn a_clear_whose_end_is_heard_late_keeps_the_line() {
    let mut test = TestRegistry::new();
    test.event("a", "SessionStart", &json!({"source": "startup"}));
    test.now += 10;
    let end = payload("a", "SessionEnd", &json!({"reason": "clear"}));
    let spooled = test.envelope();
    test.event("b", "SessionStart", &json!({"source": "clear"}));
    test.pid = 77;
    test.event("c", "SessionStart", &json!({"source": "startup"}));
    test.apply(&end, &spooled, None);
    let lines: BTreeMap<_, _> = test
        .rows()
        .into_iter()
        .map(|row| (row.session_id, row.line))
        .collect();
    let expected = [("b", "a"), ("c", "c")].map(|(id, line)| (id.into(), line.into()));
    assert_eq!(lines, BTreeMap::from(expected));
}

#[test]
fn sessions_that_could_not_be_written_are_written_later() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({}));
    let title = Some("the bridge".to_owned());
    test.name("a", title.clone());
    let unwritten = test.registry.take_unwritten();
    test.registry.return_unwritten(&unwritten, Vec::new());
    assert_eq!(test.registry.take_unwritten().len(), 1);
}

#[test]
fn a_process_that_is_gone_ends_no_session_that_has_another_by_now() {
    let mut test = TestRegistry::new();
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let gone = test.registry.processes();
    test.pid = 77;
    test.event("a", "SessionStart", &json!({"source": "resume"}));
    let now = test.now + 10;
    test.registry.end_gone_processes(&gone, now);
    assert_eq!(test.rows().len(), 1);
    let gone = test.registry.processes();
    test.registry.end_gone_processes(&gone, now);
    assert!(test.rows().is_empty());
}

#[test]
fn a_session_without_a_process_ends_after_a_quiet_hour() {
    let mut test = TestRegistry::new();
    test.event("claude", "UserPromptSubmit", &json!({"prompt": "go"}));
    let payload = payload("by-hand", "UserPromptSubmit", &json!({"prompt": "go"}));
    let by_hand = Envelope {
        pid_is_claude: false,
        ..test.envelope()
    };
    test.apply(&payload, &by_hand, None).unwrap();
    let last = test.now + 10;
    test.registry.mark_arrival("by-hand", last);
    test.registry.end_quiet(last + QUIET - 1);
    assert_eq!(test.rows().len(), 2);
    test.registry.end_quiet(last + QUIET);
    let [row] = &test.rows()[..] else {
        panic!("one is left");
    };
    assert_eq!(row.session_id, "claude");
    test.now += 2 * QUIET;
    test.event("by-hand", "UserPromptSubmit", &json!({"prompt": "on"}));
    assert_eq!(test.rows().len(), 2, "the next event revives it");
}

#[test]
fn huge_fields_make_no_huge_session() {
    let mut test = TestRegistry::new();
    let huge = "x".repeat(1 << 20);
    let applied = test.event(&huge, "UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(applied.is_none() && test.rows().is_empty());
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
        test.event("a", event, &every);
    }
    let mut agent = every.clone();
    agent["agent_id"] = json!(huge);
    test.event("a", "SubagentStart", &agent);
    test.event("a", "StopFailure", &every);
    let now = test.now;
    let figures = Figures {
        model_id: Some(huge.clone()),
        model_name: Some(huge.clone()),
        ..Figures::default()
    };
    test.registry.set_figures("a", &figures, None);
    let title = Some(huge.clone());
    test.name("a", title.clone());
    let died = Inference::TurnDied { error: Some(huge) };
    test.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    test.registry.infer("a", &died, now + 15);
    test.event("a", "SessionEnd", &every);
    assert!(test.rows().is_empty());
    let state = serde_json::to_vec(&test.registry.sessions["a"].session).unwrap();
    assert!(state.len() < 64 << 10, "{} bytes", state.len());
}

#[test]
fn a_clock_that_is_set_back_freezes_nothing() {
    let mut test = TestRegistry::new();
    test.now = 10_000_000;
    let now = test.now;
    test.late_event("a", "UserPromptSubmit", &json!({"prompt": "go"}), now);
    let agent = json!({"agent_id": "x", "agent_type": "Explore"});
    test.late_event("a", "SubagentStart", &agent, now);
    test.now = 5_000_000;
    let now = test.now;
    test.late_event("a", "SubagentStop", &agent, now);
    let ask = json!({"tool_name": "Bash", "tool_input": {}});
    test.late_event("a", "PermissionRequest", &ask, now);
    let row = test.rows().remove(0);
    assert_eq!(row.display, Display::Attention);
    assert!(row.agents[0].ended_at.is_some(), "{row:?}");
    test.late_event("a", "UserPromptSubmit", &json!({"prompt": "on"}), now);
    assert_eq!(test.rows()[0].last_prompt.as_deref(), Some("on"));
    let at = test.now + 10;
    test.registry.infer("a", &Inference::Interrupted, at);
    assert_eq!(test.rows()[0].display, Display::Done);
    let gone = test.registry.processes();
    test.registry.end_gone_processes(&gone, 1_000_000);
    assert!(test.rows().is_empty());
}

/// Applies an event from the spool whose hooks still ran, then the record that completes it.
fn completed(
    test: &mut TestRegistry,
    event: &str,
    more: &serde_json::Value,
    answer: Option<&str>,
) -> Option<DisplayChange> {
    test.now += 2_000;
    let (payload, envelope) = (payload("a", event, more), test.envelope());
    let applied = test.apply(&payload, &envelope, None).unwrap();
    let head = Head::read(payload.as_bytes());
    let mut record = EventRecord::new(envelope, &head, payload.as_bytes(), 0, Source::Alone);
    test.registry
        .record_outcome(&applied, &record, EventOutcome::Pending);
    record.took_us = Some(90_000_000);
    record.decision = answer.map(store::tests::decision);
    test.registry.record_late_outcome(&record)
}

#[test]
fn a_decision_that_the_spool_completes_reaches_the_session() {
    let mut test = TestRegistry::new();
    let go = json!({"prompt": "go"});
    completed(&mut test, "UserPromptSubmit", &go, None);
    assert_eq!(test.rows()[0].display, Display::Working);
    completed(&mut test, "UserPromptSubmit", &go, Some("block"));
    assert_eq!(test.rows()[0].display, Display::Done, "it was not sent");
    completed(&mut test, "UserPromptSubmit", &go, None);
    assert!(completed(&mut test, "Stop", &json!({}), Some("block")).is_none());
    assert_eq!(test.rows()[0].display, Display::Working, "it has to go on");
    let told = completed(&mut test, "Stop", &json!({}), None).unwrap();
    assert_eq!(test.rows()[0].display, Display::Done);
    let lasted = told.at - test.now;
    assert_eq!((told.after, lasted), (Display::Done, 90_000));
}
