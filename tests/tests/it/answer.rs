//! Questions of sessions, answered through becket: the first answer counts, and nothing is answered twice.

use std::fs;
use std::io::Write;
use std::process::Child;
use std::time::Instant;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, finish, start};
use rustix::process::Signal;
use serde_json::{Value, json};

const SESSION: &str = "0e9a1c2e-5f3a-4f0e-9a5b-1c2d3e4f5a6b";
const OTHER: &str = "1f9a1c2e-5f3a-4f0e-9a5b-1c2d3e4f5a6b";

/// A Claude Code that shows its dialog while the hook waits.
const CLAUDE: &str = "claude-code_2-1-325_harness";

/// A world in which sessions ask.
struct AskingWorld {
    world: World,
}

impl AskingWorld {
    fn new(config: &str) -> Self {
        let world = World::new();
        fs::create_dir_all(&world.becket_home).expect("a becket home");
        fs::write(world.path("config.toml"), config).expect("a config");
        world.start_daemon();
        Self { world }
    }

    /// Sends an event whose hook may wait.
    fn begin(&self, session: &str, event: &str, fields: &Value) -> Child {
        let mut payload = json!({
            "session_id": session, "hook_event_name": event, "cwd": self.world.home,
            "transcript_path": "/nowhere.jsonl",
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        let mut shim = self.world.shim(event);
        shim.env("AI_AGENT", CLAUDE);
        let mut child = start(shim);
        let mut stdin = child.stdin.take().expect("stdin");
        stdin
            .write_all(payload.to_string().as_bytes())
            .expect("an event");
        child
    }

    /// Has a session ask whether it may run this command. Returns the waiting hook, once becket lists the question.
    fn asks(&self, session: &str, command: &str) -> Child {
        let input = json!({"command": command});
        let child = self.begin(session, "PermissionRequest", &permission(&input));
        self.wait_for(|rows| rows.iter().any(|row| row["input"] == input));
        child
    }

    fn questions(&self) -> Vec<Value> {
        serde_json::from_str(&self.world.run(&["answer", "--json"])).expect("JSON")
    }

    #[track_caller]
    fn wait_for(&self, probe: impl Fn(&[Value]) -> bool) {
        let met = wait::until(PATIENCE, || probe(&self.questions()).then_some(()));
        assert!(met.is_some(), "{:#?}", self.questions());
    }

    /// Returns the decisions about permissions, as the log has them.
    fn decisions(&self) -> Vec<Value> {
        let events = self.world.events();
        let asked = events
            .iter()
            .filter(|event| event["event"] == "PermissionRequest");
        asked.map(|event| event["decision"].clone()).collect()
    }
}

fn permission(input: &Value) -> Value {
    json!({
        "tool_name": "Bash", "tool_input": input, "prompt_id": "p1",
        "permission_suggestions": [{"type": "addRules", "behavior": "allow", "destination": "localSettings",
            "rules": [{"toolName": "Bash", "ruleContent": "psql:*"}]}],
    })
}

#[track_caller]
fn ends(child: Child) -> Called {
    finish(child, Instant::now(), PATIENCE)
}

/// Returns the decision that Claude Code gets.
#[track_caller]
fn decision(child: Child) -> Value {
    let called = ends(child);
    let said: Value = serde_json::from_str(&called.stdout).unwrap_or_default();
    assert_eq!(called.code, Some(0), "{called:?}");
    said["hookSpecificOutput"]["decision"].clone()
}

#[test]
fn a_permission_is_answered_from_the_command_line() {
    let asking = AskingWorld::new("");
    let world = &asking.world;
    let child = asking.asks(SESSION, "psql -f 1.sql");
    let row = asking.questions().remove(0);
    assert_eq!(
        (&row["tool"], &row["session_id"]),
        (&json!("Bash"), &json!(SESSION))
    );
    let id = row["id"].to_string();
    assert_eq!(world.sessions()[0]["question"], row["id"]);
    let listed = world.run(&["answer"]);
    assert!(listed.contains("$ psql -f 1.sql"), "{listed}");
    assert!(
        listed.contains("always allows: Bash(psql:*) (localSettings)"),
        "{listed}"
    );
    assert!(world.run(&["answer", &id, "yes"]).contains("sent"));
    assert_eq!(decision(child), json!({"behavior": "allow"}));
    assert!(asking.questions().is_empty());
    let row = &world.sessions()[0];
    assert_eq!(
        (&row["question"], &row["status"]),
        (&Value::Null, &json!("working"))
    );

    let child = asking.asks(SESSION, "psql -f 2.sql");
    world.run(&["answer", "0e9a", "no", "--reason", "use the other file"]);
    let denied = json!({"behavior": "deny", "message": "use the other file"});
    assert_eq!(decision(child), denied);

    let child = asking.asks(SESSION, "psql -f 3.sql");
    let said = world.run(&["answer", SESSION, "always"]);
    assert!(said.contains("Bash(psql:*)"), "{said}");
    let rules = permission(&json!({}))["permission_suggestions"].clone();
    let allowed = json!({"behavior": "allow", "updatedPermissions": rules});
    assert_eq!(decision(child), allowed);

    let decisions = asking.decisions();
    let answers: Vec<&Value> = decisions.iter().map(|it| &it["answer"]).collect();
    assert_eq!(answers, ["allow", "deny", "allow"]);
    assert!(
        decisions.iter().all(|it| it["by"] == "person:command"),
        "{decisions:?}"
    );

    // An answer that comes too late.
    let late = world.output(&["answer", &id, "yes"]);
    assert_eq!(late.status.code(), Some(3), "{late:?}");
}

#[test]
fn a_question_of_claude_is_answered_with_an_option_or_a_text() {
    let asking = AskingWorld::new("");
    let asked = json!([{"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Blue", "description": "calm"}, {"label": "Red", "description": "loud"}]}]);
    let fields = json!({"tool_name": "AskUserQuestion", "tool_input": {"questions": asked}});
    let answers = [
        (vec!["--choose", "2"], "Red"),
        (vec!["--choose", "blue"], "Blue"),
        (vec!["--text", "neither: green"], "neither: green"),
    ];
    for (words, answer) in answers {
        let child = asking.begin(SESSION, "PermissionRequest", &fields);
        asking.wait_for(|rows| rows.len() == 1);
        let refused = asking.world.output(&["answer", SESSION, "yes"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let unknown = asking
            .world
            .output(&["answer", SESSION, "--choose", "Pink"]);
        assert!(
            String::from_utf8_lossy(&unknown.stderr).contains("Blue, Red"),
            "{unknown:?}"
        );
        let mut args = vec!["answer", SESSION];
        args.extend(words);
        asking.world.run(&args);
        let decision = decision(child);
        assert_eq!(decision["behavior"], "allow");
        assert_eq!(
            decision["updatedInput"]["answers"],
            json!({"Which colour?": answer})
        );
        assert_eq!(decision["updatedInput"]["questions"], asked);
    }
}

#[test]
fn an_answer_in_the_terminal_ends_the_question() {
    let asking = AskingWorld::new("");
    let input = json!({"command": "make"});
    let call =
        json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": "t1", "prompt_id": "p1"});
    let other = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t2", "prompt_id": "p1"});
    for event in [
        "PostToolUse",
        "PostToolUseFailure",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ] {
        ends(asking.begin(SESSION, "PreToolUse", &other));
        ends(asking.begin(SESSION, "PreToolUse", &call));
        let mut child = asking.asks(SESSION, "make");
        // The end of a call that was sent in parallel is no answer.
        ends(asking.begin(SESSION, "PostToolUse", &other));
        assert!(child.try_wait().expect("a state").is_none(), "{event}");
        ends(asking.begin(SESSION, event, &call));
        assert!(ends(child).is_silent(), "{event}");
        assert!(asking.questions().is_empty(), "{event}");
    }
    assert!(asking.decisions().iter().all(Value::is_null));
}

#[test]
fn a_question_ends_with_its_hook_and_with_the_daemon() {
    let asking = AskingWorld::new("");
    let world = &asking.world;
    // Esc in the dialog ends the hook.
    let mut child = asking.asks(SESSION, "make");
    child.kill().expect("a kill");
    child.wait().expect("an end");
    asking.wait_for(<[Value]>::is_empty);
    // The dialog stays open when the daemon ends, in whatever way.
    let child = asking.asks(SESSION, "make one");
    world.run(&["daemon", "stop"]);
    assert!(ends(child).is_silent());
    world.start_daemon();
    let child = asking.asks(SESSION, "make two");
    world.signal_daemon(Signal::KILL);
    assert!(ends(child).is_silent());
    assert!(asking.questions().is_empty());
}

#[test]
fn a_hook_and_a_guard_answer_before_a_person() {
    let config = r#"
[hooks.decides]
on = "PermissionRequest"
tools = "Bash"
run = """grep -q 'make yes' && echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}'"""
"#;
    let asking = AskingWorld::new(config);
    let yes = permission(&json!({"command": "make yes"}));
    let child = asking.begin(SESSION, "PermissionRequest", &yes);
    assert_eq!(decision(child), json!({"behavior": "allow"}));
    let child = asking.asks(SESSION, "make maybe");
    let runs: Value =
        serde_json::from_str(&asking.world.run(&["hooks", "recent", "--json"])).expect("JSON");
    assert_eq!(runs.as_array().map(Vec::len), Some(2), "{runs:#}");
    asking.world.run(&["answer", SESSION, "yes"]);
    assert_eq!(decision(child), json!({"behavior": "allow"}));
    let forbidden = permission(&json!({"command": "rm -rf /"}));
    let child = asking.begin(SESSION, "PermissionRequest", &forbidden);
    assert_eq!(decision(child)["behavior"], "deny");
}

#[test]
fn questions_that_no_person_could_see_are_not_held() {
    let asking = AskingWorld::new("");
    let input = permission(&json!({"command": "make"}));
    let mut shim = asking.world.shim("PermissionRequest");
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "0")
        .env("AI_AGENT", CLAUDE);
    let mut child = start(shim);
    let mut stdin = child.stdin.take().expect("stdin");
    let mut event = input.clone();
    event["session_id"] = json!(SESSION);
    event["hook_event_name"] = json!("PermissionRequest");
    stdin
        .write_all(event.to_string().as_bytes())
        .expect("an event");
    drop(stdin);
    assert!(ends(child).is_silent());

    // The dialog of a background subagent waits for the hook, so it is only listed.
    let mut subagents = input.clone();
    subagents["agent_id"] = json!("a1");
    let start = json!({"agent_id": "a1", "agent_type": "Explore"});
    ends(asking.begin(SESSION, "SubagentStart", &start));
    assert!(ends(asking.begin(SESSION, "PermissionRequest", &subagents)).is_silent());
    assert_eq!(asking.questions()[0]["can_be_answered"], false);
    let refused = asking.world.output(&["answer", SESSION, "yes"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("only the terminal"),
        "{refused:?}"
    );

    // The dialog of an older Claude Code may wait for the hook.
    let event = asking.world.tell(SESSION, "PermissionRequest", &input);
    assert!(event.is_silent());

    let off = AskingWorld::new("[answer]\nenabled = false\n");
    let child = off.begin(SESSION, "PermissionRequest", &input);
    assert!(ends(child).is_silent());
}

#[test]
fn ten_sessions_ask_at_once() {
    let asking = AskingWorld::new("");
    let session = |nth: usize| SESSION.replace("0e9a", &format!("{nth:04}"));
    let children: Vec<Child> = (0..10)
        .map(|nth| asking.asks(&session(nth), "make"))
        .collect();
    assert_eq!(asking.questions().len(), 10);
    for (nth, child) in children.into_iter().enumerate() {
        let given = if nth % 2 == 0 { "yes" } else { "no" };
        asking.world.run(&["answer", &session(nth), given]);
        let behavior = if nth % 2 == 0 { "allow" } else { "deny" };
        assert_eq!(decision(child)["behavior"], behavior, "{nth}");
    }
}

#[test]
fn a_session_cannot_answer_its_own_question() {
    let asking = AskingWorld::new("");
    let child = asking.asks(SESSION, "make");
    let mut inside = asking.world.becket(["answer", SESSION, "yes"]);
    let refused = inside.env("CLAUDECODE", "1").output().expect("becket");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // This test is now the Claude Code of another session: what it starts is below it.
    let mut shim = asking.world.shim("SessionStart");
    shim.env("CLAUDE_PID", std::process::id().to_string());
    let mut started = start(shim);
    let event =
        json!({"session_id": OTHER, "hook_event_name": "SessionStart", "source": "startup"});
    let mut stdin = started.stdin.take().expect("stdin");
    stdin
        .write_all(event.to_string().as_bytes())
        .expect("an event");
    drop(stdin);
    ends(started);
    let refused = asking.world.output(&["answer", SESSION, "yes"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("Claude Code"), "{why}");
    assert_eq!(asking.questions().len(), 1);
    drop(child);
}
