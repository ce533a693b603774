//! kill -9 at any moment: sessions are still shown as their events say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use becket_engine::session::{Session, SessionEvent};
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use becket_wire::rpc::Envelope;
use becket_wire::{Head, Version};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Random, rounds};

/// The number of kills in each round.
const KILLS: u64 = 5;
const SENDERS: u64 = 4;
const SESSIONS: u64 = 20;

/// The events of one turn, repeated by each session.
const TURN: [(&str, &str); 7] = [
    ("UserPromptSubmit", ""),
    ("PreToolUse", "Read"),
    ("PostToolUse", "Read"),
    ("PreToolUse", "Bash"),
    ("PermissionRequest", "Bash"),
    ("PostToolUse", "Bash"),
    ("StopFailure", ""),
];

#[test]
fn kills_change_no_visible_session() {
    let world = World::new();
    let mut chance = Random::new();
    let next: Vec<AtomicU64> = (0..SESSIONS).map(|_| AtomicU64::new(0)).collect();
    let mut wholly_checked = 0;
    for _ in 0..rounds(4) {
        kill_under_load(&world, &next, &mut chance);
        let shown = sessions(&world);
        wholly_checked += assert_matches_events(&shown, &world.events());
        world.kill_daemon();
        assert_eq!(sessions(&world), shown, "after another kill, at rest");
    }
    eprintln!("{wholly_checked} sessions checked wholly");
    assert!(wholly_checked > rounds(4), "only {wholly_checked}");
}

#[test]
fn names_and_figures_without_an_event_survive_kills_and_stops() {
    let world = World::new();
    send(&world, 0, 0);
    let id = sessions(&world)[0]["session_id"].clone();
    let id = id.as_str().expect("an id");
    world.run(&["name", id, "the bridge"]);
    sessions(&world);
    world.kill_daemon();
    assert_eq!(sessions(&world)[0]["title"], "the bridge", "after a kill");
    let mut line = world.command(world.programs.join("becket-hook"));
    line.args(["--statusline", "--home"])
        .arg(&world.becket_home);
    let figures = json!({"session_id": id, "cost": {"total_cost_usd": 0.5}});
    call(line, figures.to_string().as_bytes());
    world.run(&["daemon", "stop"]);
    assert_eq!(sessions(&world)[0]["cost_usd"], 0.5, "after an end");
}

/// Runs several senders, each with its own sessions, while the daemon is killed repeatedly.
fn kill_under_load(world: &World, next: &[AtomicU64], chance: &mut Random) {
    let end = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (end, sent) = (&end, &sent);
            scope.spawn(move || {
                let mine = || (sender..SESSIONS).step_by(SENDERS as usize);
                for session in mine().cycle() {
                    if end.load(Ordering::Relaxed) {
                        return;
                    }
                    let number = next[session as usize].fetch_add(1, Ordering::Relaxed);
                    send(world, session, number);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..KILLS {
            let enough = sent.load(Ordering::Relaxed) + chance.below(12);
            let more = || (sent.load(Ordering::Relaxed) >= enough).then_some(());
            let came =
                wait::until(PATIENCE, more).and(wait::until(PATIENCE, || world.daemon_pid()));
            chance.moment();
            world.signal_daemon(Signal::KILL);
            if came.is_none() {
                break;
            }
        }
        end.store(true, Ordering::Relaxed);
    });
}

fn send(world: &World, session: u64, number: u64) {
    let (event, tool) = TURN[(number % TURN.len() as u64) as usize];
    let turn = number / TURN.len() as u64;
    let payload = json!({
        "hook_event_name": event,
        "session_id": format!("0190a1b2-c3d4-7e5f-8a6b-{session:012}"),
        "prompt_id": format!("p{turn}"),
        "prompt": (event == "UserPromptSubmit").then(|| format!("prompt {turn}")),
        "tool_name": tool,
        "tool_use_id": format!("{tool}{turn}"),
        "tool_input": {},
        "error": "overloaded",
        "number": number,
        // Some events are judged in the daemon's pool.
        "filler": "x".repeat(if number.is_multiple_of(9) { 20_000 } else { 100 }),
    });
    let called = world.send(event, payload.to_string());
    assert!(called.is_silent(), "{called:?}");
}

/// Returns the sessions. A dying daemon with several threads is asked once more until its socket is gone.
fn sessions(world: &World) -> Vec<Value> {
    let answered = wait::until(PATIENCE, || {
        let output = world.output(&["sessions", "--json"]);
        output.status.success().then_some(output.stdout)
    });
    serde_json::from_slice(&answered.expect("an answer")).expect("JSON")
}

/// Compares every session with a fold of its own events. A session whose last turn went through the daemon
/// alone is compared wholly, and counted: where events overtook each other between daemon and spool, only
/// the last prompt does not depend on their order.
fn assert_matches_events(shown: &[Value], log: &[Value]) -> u64 {
    let mut by_session: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in log {
        let session = row["session_id"].as_str().expect("a session");
        by_session.entry(session).or_default().push(row);
    }
    let number = |row: &Value| row["payload"]["number"].as_u64();
    let mut wholly = 0;
    for (session, mut events) in by_session {
        events.sort_by_key(|row| number(row));
        let prompt = events
            .iter()
            .rposition(|row| row["event"] == "UserPromptSubmit")
            .expect("a prompt");
        let fold = fold(session, &events);
        let row = shown.iter().find(|row| row["session_id"] == session);
        let row = row.unwrap_or_else(|| panic!("{session} is not shown"));
        assert_eq!(row["last_prompt"], json!(fold.last_prompt), "{row}");
        if events[prompt..].iter().any(|row| row["source"] != "daemon") {
            continue;
        }
        let expected = fold.row(0);
        let said = ["status", "detail", "reason", "display", "error"].map(|name| &row[name]);
        let expected = [
            json!(expected.status.word()),
            json!(expected.status.detail()),
            json!(expected.status.reason()),
            json!(expected.display),
            json!(expected.error),
        ];
        assert_eq!(said, expected.each_ref(), "{row}\n{:#?}", &events[prompt..]);
        wholly += 1;
    }
    wholly
}

fn fold(id: &str, events: &[&Value]) -> Session {
    let mut session = Session::new(id, 0);
    for (at, row) in (0..).zip(events) {
        let payload = row["payload"].to_string();
        let head = Head::read(payload.as_bytes()).expect("a head");
        let envelope = Envelope {
            id: row["id"]
                .as_str()
                .and_then(|id| id.parse().ok())
                .expect("an id"),
            at,
            version: Version::current(),
            event: None,
            from: None,
            home: String::new(),
            pid: 1,
            pid_start: None,
            pid_is_claude: false,
            pid_parent: None,
            variables: BTreeMap::new(),
            cut: None,
        };
        session.apply(&SessionEvent::new(&head, &envelope));
    }
    session
}
