//! Coverage without Claude Code: made-up transcripts, and events through the real shim.

use std::fs;
use std::path::PathBuf;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Writes a transcript with these successful calls into Claude Code's config folder.
fn transcript(world: &World, file: &str, agent: Option<&str>, calls: &[&str]) -> PathBuf {
    let path = world.home.join(".claude/projects/-home-you-api").join(file);
    let lines = calls.iter().flat_map(|id| {
        let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "done"});
        [("assistant", call), ("user", result)]
    });
    let lines = lines.map(|(kind, block)| {
        let line = json!({
            "type": kind, "timestamp": Timestamp::now().to_string(), "cwd": "/home/you/api",
            "agentId": agent, "message": {"content": [block]},
        });
        format!("{line}\n")
    });
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for transcripts");
    fs::write(&path, lines.collect::<String>()).expect("a transcript");
    path
}

fn tell_call(world: &World, session: &str, transcript: &PathBuf, id: &str) {
    let fields = json!({
        "transcript_path": transcript, "cwd": "/home/you/api",
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": id,
    });
    assert!(world.tell(session, "PreToolUse", &fields).is_silent());
}

fn coverage(world: &World, args: &[&str]) -> Value {
    let mut all = vec!["guard", "coverage", "--json"];
    all.extend(args);
    serde_json::from_str(&world.run(&all)).expect("JSON")
}

const HEARD: &str = "3f2a1c9e-0000-4000-8000-000000000001";
const DEAF: &str = "5b7d1f20-0000-4000-8000-000000000002";

#[test]
fn calls_are_compared_for_each_agent_on_request_and_at_the_end() {
    let world = World::new();
    tell_call(&world, HEARD, &world.path("none"), "first");
    let file = transcript(&world, &format!("{HEARD}.jsonl"), None, &["a", "b"]);
    let child = format!("{HEARD}/subagents/agent-x1.jsonl");
    transcript(&world, &child, Some("x1"), &["c", "d"]);
    // A fork has the call of another session in its transcript.
    transcript(&world, &format!("{DEAF}.jsonl"), None, &["a", "e"]);
    for id in ["a", "b", "c"] {
        tell_call(&world, HEARD, &file, id);
    }

    let heard = coverage(&world, &["--session", &HEARD[..4]]);
    let agents = json!([{"agent_id": null, "calls": 2, "unseen": 0}, {"agent_id": "x1", "calls": 2, "unseen": 1}]);
    assert_eq!(heard[0]["agents"], agents, "{heard}");
    let call = &heard[0]["unseen_calls"][0];
    assert_eq!(
        (&call["tool_use_id"], &call["agent_id"]),
        (&json!("d"), &json!("x1"))
    );
    let all = coverage(&world, &[]);
    let counts = |nth: usize| (all[nth]["calls"].as_u64(), all[nth]["unseen"].as_u64());
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    assert_eq!(
        (counts(0), counts(1)),
        ((Some(4), Some(1)), (Some(2), Some(1)))
    );
    assert_eq!(
        coverage(&world, &["--since", "2099-01-01T00:00:00Z"]),
        json!([])
    );
    let missing = world.output(&["guard", "coverage", "--session", "77"]);
    assert_eq!(missing.status.code(), Some(3));
    let told = world.run(&["guard", "coverage"]);
    for line in [
        "3f2a1c9e  api      x1         2       1  Bash",
        "No guard saw 2 of 6 tool calls in 2 sessions.",
    ] {
        assert!(told.contains(line), "{told}");
    }

    // The daemon compares at the end of the session.
    assert!(
        world
            .tell(HEARD, "SessionEnd", &json!({"reason": "other"}))
            .is_silent()
    );
    let troubles = wait::until(PATIENCE, || {
        let row: Value = serde_json::from_str(&world.run(&["show", HEARD, "--json"])).ok()?;
        row["troubles"][0].as_str().map(str::to_owned)
    });
    let troubles = troubles.expect("a trouble of the session");
    assert!(
        troubles.contains("no guard saw 1 of its 4 tool calls"),
        "{troubles}"
    );
    // Doctor and the live view show the last day.
    let (_, told) = world.doctor();
    let checks = told["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|check| check["name"] == "coverage")
        .expect("coverage");
    let what = "no guard saw 2 of 6 tool calls of the last 24 hours";
    assert!(
        check["what"]
            .as_str()
            .is_some_and(|text| text.starts_with(what)),
        "{check}"
    );
    match Terminal::of(&world.becket::<&str>([]), (120, 20)) {
        Ok(view) => {
            view.wait_text("no guard saw 2 of 6 tool calls");
        }
        Err(why) => skip("coverage in the live view", &why),
    }
}

#[test]
fn without_a_daemon_the_spool_counts() {
    let world = World::new();
    let file = transcript(&world, &format!("{HEARD}.jsonl"), None, &["a", "b"]);
    let payload = json!({
        "session_id": HEARD, "hook_event_name": "PreToolUse", "transcript_path": file,
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "a",
    });
    let shim = world.standalone_shim("PreToolUse");
    call(shim, payload.to_string().as_bytes());
    let mut becket = world.becket(["guard", "coverage", "--json"]);
    let said = becket
        .env("BECKET_NO_DAEMON", "1")
        .output()
        .expect("becket runs");
    let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(
        (&said[0]["calls"], &said[0]["unseen"]),
        (&json!(2), &json!(1)),
        "{said}"
    );
}
