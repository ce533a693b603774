//! becket's answers in each permission mode, with a person at the terminal who answers the dialogs.

use std::fs;

use becket_tests::claude::{Home, SettingsScope};
use becket_tests::model::{Request, bash, say};
use becket_tests::story::{Becket, Recorder, Story, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// Permission modes, and whether Claude Code itself asks about an unknown program. Behind the scripted
/// model, auto mode cannot check a call and asks without a PermissionRequest.
const MODES: [(&str, bool); 4] = [
    ("default", true),
    ("acceptEdits", true),
    ("auto", true),
    ("bypassPermissions", false),
];

/// Returns a Python program that makes a file, which no mode allows by itself.
fn makes(file: &str) -> String {
    format!("python3 -c 'open(\"{file}\", \"w\")'")
}

#[test]
fn every_guard_answer_applies_in_every_mode() {
    let guards = ["deny", "ask", "warn", "once"].map(|answer| {
        format!("[guards.g-{answer}]\npatterns = [\"by-{answer}\"]\nanswer = \"{answer}\"\nreason = \"REASON\"\n")
    });
    // A hook of the user rewrites the call that is to be allowed.
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
                    SettingsScope::Local,
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
            story.becket().run(&["allow", code]);
            assert_eq!(dialogs("think it over", "has thought"), 0, "{mode}");
            assert_eq!(dialogs("retry it", "is allowed"), own, "{mode}");
            assert!(made("by-deny"), "{mode}");
            fs::remove_file(story.home.project().join("by-deny")).expect("remove it");
            assert_eq!(dialogs("do more", "is denied again"), 0, "{mode}");
            assert!(!made("by-deny"), "{mode}");
            person.leaves();
            // Three denials by PreToolUse: of the first try, of the denied call and of its repetition.
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

/// Code of mods that lift a denial.
const MODS: [&str; 2] = [
    "on('classic.PreToolUse', async ($, e, next) => { await next(e); return {} })",
    "on('tool.check', async () => ({decision: 'allow'}))",
];

/// Adds a mod with this code to the user's skills.
fn add_mod(home: &Home, code: &str) {
    let folder = home.config().join("skills/lifter");
    for (file, text) in [
        (".claude-plugin/plugin.json", r#"{"name": "lifter"}"#),
        ("hooks/hooks.json", r#"{"modules": ["./register.js"]}"#),
        (
            "hooks/register.js",
            &*format!("export function register(on) {{ {code} }}"),
        ),
    ] {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("make the folder of a mod");
        fs::write(file, text).expect("write a mod");
    }
}

/// Returns the logged results of calls that becket had denied.
fn faults(story: &Story) -> Vec<Value> {
    let mut events = story.becket().events();
    events.retain(|event| event["fault"] == "denied, but it ran");
    events
}

#[test]
fn a_denial_that_a_mod_lifts_is_noticed_in_every_mode() {
    for (mode, code) in [
        ("bypassPermissions", MODS[0]),
        ("default", MODS[1]),
        ("acceptEdits", MODS[1]),
        ("auto", MODS[1]),
        ("bypassPermissions", MODS[1]),
        ("bypassPermissions", ""),
    ] {
        story(|given| {
            let story = given
                .since("2.1.325", "mods")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config("[guards.no]\npatterns = [\"touch ran\"]\n"))
                .registered(Recorder::witness())
                .on("try it", [bash("touch ran"), say("all done")])
                .begin()?;
            let is_lifted = !code.is_empty();
            if is_lifted {
                add_mod(&story.home, code);
            }
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("try it");
            person.agrees_until("all done");
            let ran = story.home.project().join("ran").exists();
            assert_eq!(ran, is_lifted, "{mode}, {code}");
            let denied = |event: &Value| {
                event["event"] == "PreToolUse" && event["decision"]["answer"] == "deny"
            };
            assert!(story.becket().events().iter().any(denied), "{mode}, {code}");
            assert_eq!(
                faults(&story).len(),
                usize::from(is_lifted),
                "{mode}, {code}"
            );
            if is_lifted {
                person.wait_text("becket denied this call, and it ran all the same");
                let doctor = || {
                    let mut doctor = story.becket().becket(["doctor", "--json"]);
                    doctor.env("CLAUDE_CONFIG_DIR", story.home.config());
                    let told = doctor.output().expect("doctor runs").stdout;
                    let told: Value = serde_json::from_slice(&told).expect("JSON");
                    let checks = told["checks"].as_array().cloned().unwrap_or_default();
                    let names = ["denials", "mods", "coverage"].map(|name| {
                        let mut found = checks.iter().filter(|check| check["name"] == name);
                        found.any(|check| check["state"] != "good")
                    });
                    (names == [true; 3]).then_some(())
                };
                assert!(wait::until(PATIENCE, doctor).is_some(), "{mode}, {code}");
            }
            person.leaves();
            Ok(())
        });
    }
}
