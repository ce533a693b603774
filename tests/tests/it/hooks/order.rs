//! Hooks that run side by side, and rewriting hooks that run one after the other.

use std::fmt::Write;

use serde_json::json;

use super::{HookWorld, answer};

#[test]
fn hooks_of_one_event_run_side_by_side() {
    // Each hook waits until all have started: one after the other, none would end.
    let mut config = String::new();
    for n in 0..10 {
        let run = format!(
            "touch begun-{n}; while [ $(ls begun-* | wc -l) -lt 10 ]; do sleep 0.02; done; echo context {n}"
        );
        write!(
            config,
            "[hooks.h{n}]\non = \"UserPromptSubmit\"\nrun = \"{run}\"\ntimeout = \"50s\"\n"
        )
        .expect("a text");
    }
    let world = HookWorld::new(&config);
    let event = world.event(
        "UserPromptSubmit",
        &json!({"prompt": "go", "prompt_id": "p"}),
    );
    let called = world.send("UserPromptSubmit", event);
    let said = answer(&called);
    let context = said["hookSpecificOutput"]["additionalContext"]
        .as_str()
        .expect("context");
    let places: Vec<_> = (0..10)
        .map(|n| context.find(&format!("context {n}")))
        .collect();
    assert!(places.iter().all(Option::is_some), "{context}");
    assert!(places.is_sorted(), "in the order of the config: {context}");
    assert_eq!(world.recent().len(), 10);
}

#[test]
fn each_rewriting_hook_sees_the_input_of_the_one_before() {
    let rewrite = |word: &str| {
        format!(
            r#"cat > in-{word}; command=$(sed 's/.*"command":"\([^"]*\)".*/\1/' in-{word}); printf '{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","updatedInput":{{"command":"%s {word}"}}}}}}' "$command""#
        )
    };
    let world = HookWorld::new(
        r#"
[hooks.first]
on = "PreToolUse"
rewrites = true
run = ["PROJECT/first"]
[hooks.second]
on = "PreToolUse"
rewrites = true
run = ["PROJECT/second"]
[hooks.watcher]
on = "PreToolUse"
run = "cat > seen"
"#,
    );
    world.script("first", &rewrite("one"));
    world.script("second", &rewrite("two"));
    let said = answer(&world.calls("t1"));
    let input = &said["hookSpecificOutput"]["updatedInput"]["command"];
    assert_eq!(input, "echo hello one two");
    assert!(
        said["hookSpecificOutput"]
            .get("permissionDecision")
            .is_none()
    );
    let seen = std::fs::read_to_string(world.project.join("seen")).expect("a file");
    assert!(seen.contains("echo hello one two"), "{seen}");
}

#[test]
fn a_denial_outweighs_an_allow_and_both_are_recorded() {
    let say = |word: &str| {
        format!(
            r#"echo '{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", "permissionDecision": "{word}", "permissionDecisionReason": "because {word}"}}}}'"#
        )
    };
    let mut config = String::new();
    for word in ["allow", "deny", "ask"] {
        let run = say(word);
        write!(
            config,
            "[hooks.says-{word}]\non = \"PreToolUse\"\nrun = \"\"\"{run}\"\"\"\n"
        )
        .expect("a text");
    }
    let world = HookWorld::new(&config);
    let said = &answer(&world.calls("t1"))["hookSpecificOutput"];
    assert_eq!(said["permissionDecision"], "deny");
    assert_eq!(said["permissionDecisionReason"], "says-deny: because deny");
    let mut decisions: Vec<String> = world
        .recent()
        .iter()
        .map(|run| run["decision"].as_str().unwrap_or_default().to_owned())
        .collect();
    decisions.sort();
    assert_eq!(decisions, ["allow", "ask", "deny"]);
}
