//! What becket answers in each permission mode, with a person at the terminal who answers the dialogs.

use std::fs;

use becket_tests::claude::Scope;
use becket_tests::model::{Request, bash, say};
use becket_tests::story::{Becket, Recorder, story};
use serde_json::{Value, json};

/// Permission modes, and whether Claude Code itself asks about a program that it does not know. Behind the
/// scripted model, auto mode cannot check a call and asks without a PermissionRequest.
const MODES: [(&str, bool); 4] = [
    ("default", true),
    ("acceptEdits", true),
    ("auto", true),
    ("bypassPermissions", false),
];

/// A Python program that makes a file, which no mode allows by itself.
fn makes(file: &str) -> String {
    format!("python3 -c 'open(\"{file}\", \"w\")'")
}

#[test]
fn every_answer_of_a_guard_holds_in_every_mode() {
    let guards = ["deny", "ask", "warn", "once"].map(|answer| {
        format!("[guards.g-{answer}]\npatterns = [\"by-{answer}\"]\nanswer = \"{answer}\"\nreason = \"REASON\"\n")
    });
    // A hook of the user's rewrites the call that is to be allowed.
    let rewritten = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "updatedInput": {"command": makes("by-deny") + " # rewritten"},
    }});
    let hook = format!(
        "[hooks.rewrite]\non = \"PreToolUse\"\nrun = '''grep -q by-deny && cat <<'END'\n{rewritten}\nEND\ntrue'''\n"
    );
    let config = guards.concat() + &hook;
    for (mode, asks) in MODES {
        story(|given| {
            let call = |file: &str| bash(&makes(file));
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    Scope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config(&config))
                .registered(Recorder::witness())
                .on("try to ask", [call("by-ask"), say("has asked")])
                .on("try to warn", [call("by-warn"), say("has warned")])
                .on(
                    "try once",
                    [call("by-once"), call("by-once"), say("tried twice")],
                )
                .on("try a denial", [call("by-deny"), say("was denied")])
                .on("think it over", [say("has thought")])
                .on("retry it", [call("by-deny"), say("is allowed")])
                .on("do more", [call("by-deny"), say("is denied again")])
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            let made = |file: &str| story.home.project().join(file).exists();
            let dialogs = |prompt: &str, said: &str| {
                person.submits(prompt);
                let dialogs = person.agrees_until(said);
                person.ready();
                dialogs
            };
            let own = usize::from(asks);
            assert_eq!(dialogs("try to ask", "has asked"), 1, "{mode}");
            assert!(made("by-ask"), "{mode}");
            assert_eq!(dialogs("try to warn", "has warned"), own, "{mode}");
            assert!(made("by-warn"), "{mode}");
            assert_eq!(dialogs("try once", "tried twice"), own, "{mode}");
            assert!(made("by-once"), "{mode}");
            assert_eq!(dialogs("try a denial", "was denied"), 0, "{mode}");
            assert!(!made("by-deny"), "{mode}");
            let why: Value =
                serde_json::from_str(&story.becket().run(&["why", "--json"])).expect("JSON");
            let code = why["allow_once"].as_str().expect("a code");
            story.becket().run(&["guard", "allow-once", code]);
            assert_eq!(dialogs("think it over", "has thought"), 0, "{mode}");
            assert_eq!(dialogs("retry it", "is allowed"), own, "{mode}");
            assert!(made("by-deny"), "{mode}");
            fs::remove_file(story.home.project().join("by-deny")).expect("remove it");
            assert_eq!(dialogs("do more", "is denied again"), 0, "{mode}");
            assert!(!made("by-deny"), "{mode}");
            person.leaves();
            // Three denials, by PreToolUse: of the first try, of the denied call and of its repetition.
            let events = story.becket().events();
            let denied = events
                .iter()
                .filter(|event| event["decision"]["answer"] == "deny");
            let denied: Vec<&Value> = denied.map(|event| &event["event"]).collect();
            assert_eq!(denied, ["PreToolUse"; 3], "{mode}");
            let is_rewritten = |event: &&Value| {
                let command = event["payload"]["tool_input"]["command"].as_str();
                event["event"] == "PostToolUse"
                    && command.is_some_and(|it| it.contains("# rewritten"))
            };
            assert_eq!(events.iter().filter(is_rewritten).count(), 1, "{mode}");
            let warned = |request: &Request| request.contains("g-warn warns: REASON");
            assert!(story.model.turns().iter().any(warned), "{mode}");
            Ok(())
        });
    }
}
