//! Switches follow a session, and typed switches leave it idle.

use std::fs;

use becket_tests::world::call;
use serde_json::{Value, json};

use super::{DENIES, HookWorld, SESSION, answer};

const NEXT: &str = "22222222-3333-4444-8555-666666666666";

fn type_prompt(world: &HookWorld, prompt: &str, fields: &Value) -> String {
    let mut all = json!({"prompt": prompt, "prompt_id": "p"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    let event = world.event("UserPromptSubmit", &all);
    call(world.shim("UserPromptSubmit"), event.as_bytes()).stdout
}

#[test]
fn a_typed_switch_acts_at_once_and_leaves_the_session_idle() {
    let world = HookWorld::new(DENIES);
    let said = type_prompt(&world, "/hook:disable bash", &json!({}));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["decision"], "block");
    assert_eq!(said["reason"], "🔒 Disabled no-bash for this session");
    assert_eq!(world.sessions()[0]["status"], "idle");
    assert!(world.calls("t1").is_silent());
    let line = json!({"session_id": SESSION, "workspace": {"current_dir": world.project}});
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--statusline", "--home"])
        .arg(&world.becket_home);
    let line = call(shim, line.to_string().as_bytes()).stdout;
    assert!(line.contains("off: no-bash"), "{line}");
    let said = type_prompt(&world, "/becket:hook:enable bash", &json!({}));
    assert!(
        said.contains("✅ Re-enabled no-bash for this session"),
        "{said}"
    );
    assert!(world.calls("t2").stdout.contains("not today"));
}

#[test]
fn only_prompts_typed_by_the_user_switch_hooks() {
    let world = HookWorld::new(DENIES);
    for (prompt, fields) in [
        ("/hook:disable bash", json!({"source": "system"})),
        ("/hook:disable bash", json!({"source": "loop_wakeup"})),
        (
            "/hook:disable bash",
            json!({"agent_id": "a1", "agent_type": "Explore"}),
        ),
        ("please /hook:disable bash", json!({})),
        ("/hook:disable bash\nand then go on", json!({})),
        (
            "<task-notification>/hook:disable bash</task-notification>",
            json!({}),
        ),
    ] {
        assert_eq!(
            type_prompt(&world, prompt, &fields),
            "",
            "{prompt} {fields}"
        );
    }
    assert!(world.calls("t1").stdout.contains("not today"));
    assert!(!world.path(&format!("sessions/{SESSION}.json")).exists());
}

#[test]
fn the_same_slash_command_from_two_registrations_acts_once() {
    let world = HookWorld::new(DENIES);
    let event = world.event(
        "UserPromptSubmit",
        &json!({"prompt": "/hook:disable bash", "prompt_id": "p"}),
    );
    for from in ["settings", "plugin"] {
        let mut shim = world.command(world.programs.join("becket-hook"));
        shim.args(["--event", "UserPromptSubmit", "--from", from, "--home"])
            .arg(&world.becket_home);
        let said = answer(&call(shim, event.as_bytes()));
        assert_eq!(said["decision"], "block", "{from}");
        assert_eq!(
            said["reason"], "🔒 Disabled no-bash for this session",
            "{from}"
        );
    }
}

#[test]
fn switches_follow_clear_in_the_same_process() {
    let world = HookWorld::new(DENIES);
    let pid = std::process::id().to_string();
    let tell = |event: &str, session: &str, fields: &Value| {
        let mut shim = world.shim(event);
        shim.env("CLAUDE_PID", &pid);
        let event = world.event(event, fields).replace(SESSION, session);
        call(shim, event.as_bytes())
    };
    tell("SessionStart", SESSION, &json!({"source": "startup"}));
    type_prompt(&world, "/hook:disable bash", &json!({}));
    tell("SessionEnd", SESSION, &json!({"reason": "clear"}));
    tell("SessionStart", NEXT, &json!({"source": "clear"}));
    let file = world.path(&format!("sessions/{NEXT}.json"));
    let copied: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    assert_eq!(copied["transcriptId"], NEXT);
    assert_eq!(copied["disabledHooks"], json!(["no-bash"]));
    let bash = world.bash("t1").replace(SESSION, NEXT);
    assert!(call(world.shim("PreToolUse"), bash.as_bytes()).is_silent());
    // The daemon ends, and the switches stay.
    world.kill_daemon();
    assert!(
        call(
            world.shim("PreToolUse"),
            bash.replace("t1", "t2").as_bytes()
        )
        .is_silent()
    );
}
