//! The corpus of calls, judged by the command hook and by the SDK's callbacks.

use std::fs;

use becket_sdk::Claude;
use becket_tests::corpus::{CorpusCall, calls};
use becket_tests::world::{World, call, write_program};
use serde_json::{Value, json};

use super::sdk::{ask, run};

const SESSIONS: [&str; 2] = [
    "a1b2c3d4-0000-4000-8000-000000000001",
    "a1b2c3d4-0000-4000-8000-000000000002",
];

/// The side of Claude Code in the SDK protocol: registers the callbacks, then asks about one call after the
/// other. The real Claude Code would run the calls that pass.
const CLAUDE: &str = r#"
read -r hello
id=$(printf '%s' "$hello" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"hooks_applied":true}}}\n' "$id"
read -r prompt
while read -r request <&3; do
    printf '%s\n' "$request"
    read -r reply
    printf '%s\n' "$reply" >&4
done 3< requests 4> replies
printf '{"type":"result","subtype":"success","result":"done","is_error":false}\n'
cat > /dev/null
"#;

/// Returns the answers of becket as a command hook.
fn over_hooks(world: &World, calls: &[CorpusCall]) -> Vec<Value> {
    let asked = calls.iter().enumerate().map(|(number, asked)| {
        let event = asked.event(SESSIONS[0], &world.home, number).to_string();
        let mut shim = world.shim("PreToolUse");
        shim.env("CLAUDE_CODE_SESSION_ATTENDED", "0");
        let called = call(shim, event.as_bytes());
        assert_eq!(called.code, Some(0), "{event}: {}", called.stderr);
        if called.stdout.is_empty() {
            return json!({});
        }
        serde_json::from_str(&called.stdout).expect("JSON")
    });
    asked.collect()
}

/// Returns the answers of becket as callbacks of the SDK (`.becket()`).
fn over_callbacks(world: &World, calls: &[CorpusCall]) -> Vec<Value> {
    let project = world.home.join("app");
    let program = world.programs.join("claude");
    write_program(&program, CLAUDE);
    let requests = calls.iter().enumerate().map(|(number, call)| {
        let input = call.event(SESSIONS[1], &world.home, number);
        let body =
            json!({"subtype": "hook_callback", "callback_id": "becket_PreToolUse", "input": input});
        json!({"type": "control_request", "request_id": number.to_string(), "request": body})
    });
    let requests: Vec<String> = requests.map(|request| format!("{request}\n")).collect();
    fs::write(project.join("requests"), requests.concat()).expect("requests");
    run(async {
        let builder = Claude::builder()
            .program(program)
            .env_clear()
            .env("HOME", &world.home)
            .env("PATH", "/usr/bin:/bin")
            .cwd(&project)
            .becket_program(world.programs.join("becket-hook"))
            .becket_home(&world.becket_home);
        let mut claude = builder.start().await.expect("start");
        ask(&mut claude, "look").await;
    });
    let replies = fs::read_to_string(project.join("replies")).expect("replies");
    let replies = replies.lines().map(|line| {
        let reply: Value = serde_json::from_str(line).expect("JSON");
        reply["response"]["response"].clone()
    });
    replies.collect()
}

fn stops(answer: &Value) -> bool {
    let decision = answer["hookSpecificOutput"]["permissionDecision"].as_str();
    matches!(decision, Some("deny" | "ask"))
}

#[test]
fn hook_and_callback_judge_the_corpus_alike() {
    let world = World::new();
    fs::create_dir_all(world.home.join("app/.git")).expect("a project");
    world.start_daemon();
    // All calls take a minute, so only `./test --all` sends them all.
    let every = match std::env::var_os("BECKET_TEST_ALL") {
        Some(_) => 1,
        None => 8,
    };
    let calls: Vec<CorpusCall> = calls(&world.home).into_iter().step_by(every).collect();
    let by_hook = over_hooks(&world, &calls);
    // Each part has the time limit of one client.
    let parts = calls.chunks(1000);
    let by_callback: Vec<_> = parts
        .flat_map(|part| over_callbacks(&world, part))
        .collect();
    assert_eq!(by_callback.len(), calls.len());
    let wrong: Vec<String> = (calls.iter().zip(&by_hook).zip(&by_callback))
        .filter(|((call, hook), callback)| hook != callback || call.stop != stops(hook))
        .map(|((call, hook), callback)| format!("{}\n  {hook}\n  {callback}", call.text()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_guide_names_every_guard_of_the_pack() {
    let guide = include_str!("../../../docs/guides/guards.md");
    let world = World::new();
    let guards: Value =
        serde_json::from_str(&world.run(&["guard", "list", "--json"])).expect("JSON");
    let guards = guards.as_array().expect("a list");
    let names = guards.iter().filter_map(|guard| guard["id"].as_str());
    let missing: Vec<&str> = names
        .filter(|name| !guide.contains(&format!("`{name}`")))
        .collect();
    assert!(guards.len() > 50 && missing.is_empty(), "{missing:?}");
}
