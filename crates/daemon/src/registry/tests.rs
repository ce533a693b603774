use std::collections::BTreeMap;

use becket_wire::rpc::AskReply;
use becket_wire::rpc::SeenAt;
use becket_wire::session::{Display, Status};
use becket_wire::{EventId, Place, Version};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;

/// A registry on a database of its own, and a clock that goes on with every event.
struct Desk {
    registry: Registry,
    connection: Connection,
    now: i64,
    pid: u32,
    _home: TempDir,
}

impl Desk {
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

    /// Another daemon takes over.
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

    /// An event that is heard later than it happened.
    fn heard(&mut self, session: &str, event: &str, more: &serde_json::Value, happened: i64) {
        self.now += 10;
        let mut envelope = self.envelope();
        let heard = EventTime {
            at: envelope.at,
            id: envelope.id,
        };
        (envelope.at, envelope.id) = (happened, EventId::new(happened, [0; 2]));
        self.apply(&payload(session, event, more), &envelope, Some(heard));
    }

    /// An event of a session.
    fn event(&mut self, session: &str, event: &str, more: &serde_json::Value) -> Option<Applied> {
        self.now += 10;
        self.apply(&payload(session, event, more), &self.envelope(), None)
    }

    /// Applies it, and writes it as the writer would.
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

    /// Writes what is to be written, as the core does with each commit.
    fn write(&mut self) {
        let sessions = self.registry.unwritten();
        store::session::write(&self.connection, &sessions).unwrap();
    }

    fn rows(&mut self) -> Vec<SessionRow> {
        let (reply, mut rows) = oneshot::channel();
        self.registry
            .answer(&self.connection, Asked::Live(reply), self.now);
        rows.try_recv().unwrap()
    }

    fn name(&mut self, session: &str, title: Option<String>) -> AskReply {
        let session = session.to_owned();
        self.told(|done| Asked::Name {
            session,
            title,
            done,
        })
    }

    fn told(&mut self, asked: impl FnOnce(oneshot::Sender<AskReply>) -> Asked) -> AskReply {
        let (done, mut told) = oneshot::channel();
        self.registry
            .answer(&self.connection, asked(done), self.now);
        told.try_recv().unwrap()
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
    let mut desk = Desk::new();
    desk.event(
        "a",
        "UserPromptSubmit",
        &json!({"prompt": "mend it", "cwd": "/tmp"}),
    );
    desk.event(
        "a",
        "SubagentStart",
        &json!({"agent_id": "x", "agent_type": "Explore"}),
    );
    desk.event(
        "a",
        "PermissionRequest",
        &json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    desk.event("b", "UserPromptSubmit", &json!({"prompt": "go"}));
    desk.event("b", "StopFailure", &json!({"error": "overloaded"}));
    let before = desk.rows();
    desk.restart();
    assert_eq!(desk.rows(), before);
    let displays: Vec<_> = before
        .iter()
        .map(|row| (&*row.session_id, row.display))
        .collect();
    assert_eq!(displays, [("b", Display::Error), ("a", Display::Attention)]);
    // And it goes on as if nothing had been.
    desk.event(
        "a",
        "PostToolUse",
        &json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    let after = desk.rows();
    assert_eq!(after[1].display, Display::Working);
    desk.restart();
    assert_eq!(desk.rows(), after, "and after the next one too");
}

#[test]
fn what_was_inferred_named_and_figured_is_there_after_a_restart_too() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let now = desk.now + 10;
    desk.registry.infer("a", &Inference::Interrupted, now);
    let figures = Figures {
        cost_usd: Some(0.5),
        ..Figures::default()
    };
    desk.registry.figures("a", &figures, None);
    let title = Some("the bridge".to_owned());
    let told = desk.name("a", title.clone());
    assert_eq!(told, AskReply::Done);
    desk.registry.figures_are_due();
    desk.write();
    assert!(desk.registry.unwritten().is_empty(), "once is enough");
    desk.restart();
    let row = desk.rows().remove(0);
    assert_eq!((&row.title, &row.figures), (&title, &figures));
    assert_eq!(
        (&row.status, row.inferred, row.interrupted),
        (&Status::Idle, true, true)
    );
}

#[test]
fn a_cleared_session_goes_on_in_the_same_line() {
    let mut desk = Desk::new();
    desk.event(
        "a",
        "SessionStart",
        &json!({"source": "startup", "cwd": "/tmp"}),
    );
    let title = Some("the bridge".to_owned());
    desk.name("a", title.clone());
    desk.event("a", "SessionEnd", &json!({"reason": "clear"}));
    desk.event("b", "SessionStart", &json!({"source": "clear"}));
    let rows = desk.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((&*rows[0].session_id, &*rows[0].line), ("b", "a"));
    assert_eq!(rows[0].prev_session_id.as_deref(), Some("a"));
    assert_eq!(rows[0].title, title);
    assert_eq!(rows[0].tmux_pane.as_deref(), Some("%3"));
}

#[test]
fn an_ended_session_stays_ended_when_it_is_no_longer_at_hand() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    desk.event("a", "SessionEnd", &json!({"reason": "other"}));
    desk.registry.forget(desk.now + AT_HAND + 1);
    assert!(desk.registry.sessions.is_empty());
    desk.event("a", "PostToolUse", &json!({"tool_name": "Bash"}));
    assert!(desk.rows().is_empty());
    desk.event("a", "SessionStart", &json!({"source": "resume"}));
    let row = desk.rows().remove(0);
    assert_eq!(
        row.last_prompt.as_deref(),
        Some("go"),
        "it is the same session"
    );
}

#[test]
fn an_unknown_event_and_an_end_make_no_session() {
    let mut desk = Desk::new();
    assert!(desk.event("a", "Surprise", &json!({})).is_none());
    assert!(
        desk.event("a", "SessionEnd", &json!({"reason": "other"}))
            .is_none()
    );
    assert!(desk.rows().is_empty());
}

#[test]
fn a_process_that_is_gone_ends_its_session() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut changes = desk.registry.changes.subscribe();
    let now = desk.now + 10;
    desk.registry.infer("a", &Inference::ProcessGone, now);
    assert!(desk.rows().is_empty());
    assert!(changes.try_recv().is_err(), "after the commit");
    desk.registry.tell_news(now);
    let row = changes.try_recv().unwrap();
    assert_eq!((row.ended_at, row.inferred), (Some(now), true));
    assert!(desk.registry.processes().is_empty());
}

#[test]
fn attention_that_was_looked_at_is_checked_for_five_minutes() {
    let mut desk = Desk::new();
    desk.event(
        "a",
        "PermissionRequest",
        &json!({"tool_name": "Bash", "tool_input": {}}),
    );
    assert_eq!(desk.rows()[0].display, Display::Attention);
    desk.now += 10;
    let pane = |pane: &str| SeenAt::Pane {
        tmux_socket: "/tmp/tmux/default".into(),
        pane: pane.into(),
    };
    desk.told(|done| Asked::Seen(pane("%4"), done));
    assert_eq!(desk.rows()[0].display, Display::Attention);
    desk.told(|done| Asked::Seen(pane("%3"), done));
    assert_eq!(desk.rows()[0].display, Display::Checked);
    desk.registry.unwritten();
    desk.registry.expire_seen(desk.now + 5 * 60_000);
    assert_eq!(desk.rows()[0].display, Display::Attention);
    assert_eq!(desk.registry.unwritten().len(), 1, "it is written and told");
}

#[test]
fn the_cost_of_a_session_goes_on_in_the_process_after_a_crash() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut cost = |pid, cost_usd| {
        let figures = Figures {
            cost_usd: Some(cost_usd),
            ..Figures::default()
        };
        let known = desk.registry.figures("a", &figures, Some((pid, None)));
        let known = known.and_then(|figures| figures.cost_usd);
        desk.registry.figures_are_due();
        desk.write();
        desk.restart();
        known
    };
    assert_eq!(cost(1, 1.25), Some(1.25));
    assert_eq!(cost(2, 0.0), Some(1.25));
    assert_eq!(cost(2, 0.5), Some(1.75));
}

#[test]
fn a_name_needs_a_beginning_that_one_session_has() {
    let mut desk = Desk::new();
    for id in ["abc", "abd"] {
        desk.event(id, "UserPromptSubmit", &json!({}));
    }
    let mut name = |prefix: &str| desk.name(prefix, None);
    assert_eq!(
        name("ab"),
        AskReply::Ambiguous(vec!["abc".into(), "abd".into()])
    );
    assert_eq!(name("abd"), AskReply::Done);
    assert_eq!(name("x"), AskReply::NoSuchSession("x".into()));
}

#[test]
fn what_claude_code_waits_for_counts_in_order_of_arrival() {
    let mut desk = Desk::new();
    let ask = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}});
    desk.heard("a", "PermissionRequest", &ask("ls"), 2_000);
    // Asked before the first, and heard after it: neither hides the other.
    desk.heard("a", "PermissionRequest", &ask("pwd"), 1_999);
    desk.heard("a", "PostToolUse", &ask("ls"), 2_001);
    assert_eq!(desk.rows()[0].display, Display::Attention);
    desk.heard("a", "PostToolUse", &ask("pwd"), 2_000);
    assert_eq!(desk.rows()[0].display, Display::Working);
}

#[test]
fn what_it_does_not_wait_for_counts_from_when_it_happened() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let before = desk.now - 1;
    desk.event("a", "Stop", &json!({}));
    let late = json!({"notification_type": "permission_prompt", "message": "permission"});
    desk.heard("a", "Notification", &late, before);
    assert_eq!(desk.rows()[0].display, Display::Done);
}

#[test]
fn without_room_the_session_that_was_quiet_longest_goes_and_comes_back() {
    let mut desk = Desk::new();
    desk.registry.room = 2;
    for id in ["a", "b"] {
        desk.event(id, "UserPromptSubmit", &json!({"prompt": id}));
    }
    desk.event("a", "Stop", &json!({}));
    desk.event("c", "UserPromptSubmit", &json!({}));
    let ids = |desk: &mut Desk| {
        let mut ids: Vec<String> = desk.rows().into_iter().map(|row| row.session_id).collect();
        ids.sort();
        ids.concat()
    };
    assert_eq!(ids(&mut desk), "ac");
    desk.event("b", "Stop", &json!({}));
    assert_eq!(ids(&mut desk), "bc");
    let back = desk.rows().into_iter().find(|row| row.session_id == "b");
    assert_eq!(back.unwrap().last_prompt.as_deref(), Some("b"));
    desk.event("c", "SessionEnd", &json!({"reason": "other"}));
    desk.event("a", "UserPromptSubmit", &json!({}));
    assert_eq!(ids(&mut desk), "ab", "one that has ended is not missed");
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
    desk.event("b", "SessionEnd", &json!({"reason": "clear"}));
    desk.pid = 77;
    desk.event("c", "SessionStart", &json!({"source": "clear"}));
    assert_eq!(desk.rows()[0].prev_session_id, None, "another process");
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
}

#[test]
fn what_could_not_be_written_is_written_later() {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({}));
    let title = Some("the bridge".to_owned());
    desk.name("a", title.clone());
    let unwritten = desk.registry.unwritten();
    desk.registry.not_written(&unwritten, Vec::new());
    assert_eq!(desk.registry.unwritten().len(), 1);
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
fn a_session_without_a_process_ends_after_a_quiet_hour() {
    let mut desk = Desk::new();
    desk.event("claude", "UserPromptSubmit", &json!({"prompt": "go"}));
    let payload = payload("by-hand", "UserPromptSubmit", &json!({"prompt": "go"}));
    let by_hand = Envelope {
        pid_is_claude: false,
        ..desk.envelope()
    };
    desk.apply(&payload, &by_hand, None).unwrap();
    let last = desk.now + 10;
    desk.registry.arrived("by-hand", last);
    desk.registry.end_quiet(last + QUIET - 1);
    assert_eq!(desk.rows().len(), 2);
    desk.registry.end_quiet(last + QUIET);
    let [row] = &desk.rows()[..] else {
        panic!("one is left");
    };
    assert_eq!(row.session_id, "claude");
    desk.now += 2 * QUIET;
    desk.event("by-hand", "UserPromptSubmit", &json!({"prompt": "on"}));
    assert_eq!(desk.rows().len(), 2, "the next event revives it");
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
    desk.registry.figures("a", &figures, None);
    let title = Some(huge.clone());
    desk.name("a", title.clone());
    let died = Inference::TurnDied { error: Some(huge) };
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    desk.registry.infer("a", &died, now + 15);
    desk.event("a", "SessionEnd", &every);
    assert!(desk.rows().is_empty());
    let state = serde_json::to_vec(&desk.registry.sessions["a"].session).unwrap();
    assert!(state.len() < 64 << 10, "{} bytes", state.len());
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
    desk.registry.infer("a", &Inference::Interrupted, at);
    assert_eq!(desk.rows()[0].display, Display::Done);
    let gone = desk.registry.processes();
    desk.registry.gone(&gone, 1_000_000);
    assert!(desk.rows().is_empty());
}

/// An event that hooks judge, taken in from the spool before they had ended, and completed by it.
fn completed(
    desk: &mut Desk,
    event: &str,
    more: &serde_json::Value,
    answer: Option<&str>,
) -> Option<DisplayChange> {
    desk.now += 2_000;
    let (payload, envelope) = (payload("a", event, more), desk.envelope());
    let applied = desk.apply(&payload, &envelope, None).unwrap();
    let head = Head::read(payload.as_bytes());
    let mut record = Record::new(envelope, &head, payload.as_bytes(), 0, Source::Alone);
    desk.registry
        .apply_outcome(&applied, &record, EventOutcome::Pending);
    record.took_us = Some(90_000_000);
    record.decision = answer.map(store::sample::decision);
    desk.registry.apply_late_outcome(&record)
}

#[test]
fn what_the_spool_completes_reaches_the_session() {
    let mut desk = Desk::new();
    let go = json!({"prompt": "go"});
    completed(&mut desk, "UserPromptSubmit", &go, None);
    assert_eq!(desk.rows()[0].display, Display::Working);
    completed(&mut desk, "UserPromptSubmit", &go, Some("block"));
    assert_eq!(desk.rows()[0].display, Display::Done, "it was not sent");
    completed(&mut desk, "UserPromptSubmit", &go, None);
    assert!(completed(&mut desk, "Stop", &json!({}), Some("block")).is_none());
    assert_eq!(desk.rows()[0].display, Display::Working, "it has to go on");
    let told = completed(&mut desk, "Stop", &json!({}), None).unwrap();
    assert_eq!(desk.rows()[0].display, Display::Done);
    let lasted = told.at - desk.now;
    assert_eq!((told.after, lasted), (Display::Done, 90_000));
}
