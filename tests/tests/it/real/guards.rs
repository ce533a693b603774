//! Guards with the real Claude Code: the calls that they stop, and the calls that reach no guard.

use std::fs;

use becket_tests::claude::{Finished, SettingsScope};
use becket_tests::model::{HALF_EMOJI, Request, agent, bash, gate, say, tool, tools};
use becket_tests::story::{Becket, Given, Story, story};
use becket_tests::wait::{self, PATIENCE};
use rustix::process::Signal;
use serde_json::{Value, json};

const DESTROYS: &str = "rm -rf .git";
const REASON: &str = "This would delete";

/// Adds a model that tries to delete `.git`, by itself and through a subagent.
fn with_deleting_model(given: Given) -> Given {
    let delegates = agent("general-purpose", "inner job");
    given
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .on(
            "clean up",
            [gate("first").then(bash(DESTROYS)), delegates, say("done")],
        )
        .on("inner job", [bash(DESTROYS), say("inner done")])
}

/// Runs the program, and fails unless both tries were denied and the model read the reason.
#[track_caller]
fn assert_both_denied(story: &Story, run: impl FnOnce() -> Finished) {
    story.model.open("first");
    run().succeeded();
    assert!(story.home.project().join(".git/HEAD").exists());
    let turns = story.model.turns();
    let results = turns.iter().flat_map(Request::tool_results);
    let denied = results.filter(|result| result.is_error && result.text.contains(REASON));
    let mut ids: Vec<String> = denied.map(|result| result.id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2, "{}", story.summary());
    let events = story.becket().events();
    let is_denial = |event: &&Value| event["decision"]["answer"] == "deny";
    let denials: Vec<&Value> = events.iter().filter(is_denial).collect();
    assert_eq!(denials.len(), 2, "{denials:#?}");
    let guard = |event: &&Value| event["decision"]["by"] == "guard:delete-vital";
    assert!(denials.iter().all(guard), "{denials:#?}");
    assert!(denials.iter().any(|event| event["agent_id"].is_string()));
    let ran = |event: &Value| event["event"] == "PostToolUse" && event["tool"] == "Bash";
    assert!(!events.iter().any(ran), "{events:#?}");
}

#[test]
fn a_denial_holds_in_every_mode_and_in_a_subagent() {
    for mode in ["default", "bypassPermissions"] {
        story(|given| {
            let story = with_deleting_model(given).begin()?;
            assert_both_denied(&story, || story.print("clean up").mode(mode).run());
            Ok(())
        });
    }
}

#[test]
fn a_denial_holds_with_the_daemon_killed_or_stopped() {
    for signal in [Signal::KILL, Signal::STOP] {
        story(|given| {
            let story = with_deleting_model(given).begin()?;
            let running = story.print("clean up").mode("bypassPermissions").start();
            story.model.wait_at("first");
            let pid = story.becket().signal_daemon(signal).expect("a daemon");
            story.model.open("first");
            let finished = running.finish();
            if signal == Signal::STOP {
                assert_eq!(story.becket().signal_daemon(Signal::CONT), Some(pid));
            }
            assert_both_denied(&story, || finished);
            if signal == Signal::STOP {
                let events = story.becket().events();
                let mut calls = events.iter().filter(|event| event["event"] == "PreToolUse");
                assert!(calls.all(|call| call["source"] == "alone"), "{events:#?}");
            }
            Ok(())
        });
    }
}

#[test]
fn without_a_guards_answer_claude_code_asks_itself() {
    story(|given| {
        let story = given
            .on("make it", [bash("touch made"), say("all done")])
            .begin()?;
        let person = story.person()?;
        person.submits("make it");
        story.wait_event("PermissionRequest");
        assert!(!story.home.project().join("made").exists());
        person.chooses(1);
        person.wait_text("all done");
        assert!(story.home.project().join("made").exists());
        let decided = |event: &Value| !event["decision"].is_null();
        assert!(!story.becket().events().iter().any(decided));
        person.leaves();
        Ok(())
    });
}

/// In an attended session, `ask` raises Claude Code's dialog, also where Claude Code itself would not ask.
#[test]
fn ask_raises_the_dialog_in_every_mode() {
    for mode in ["default", "auto", "bypassPermissions"] {
        story(|given| {
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .file("notes/one.txt", "one")
                // Without it, Claude Code asks to confirm that mode.
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .on("tidy up", [bash("rm -rf notes"), say("all done")])
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("tidy up");
            person.wait_text("requires confirmation for this command");
            person.wait_text(REASON);
            let call = story.wait_event("PreToolUse");
            assert_eq!(call.text("permission_mode"), mode);
            assert!(story.home.project().join("notes/one.txt").exists());
            person.chooses(1);
            person.wait_text("all done");
            assert!(!story.home.project().join("notes").exists());
            person.leaves();
            Ok(())
        });
    }
}

/// The model calls `becket up` with a home of its own. The user agrees, and becket still refuses: the
/// home of the registration knows the Claude Code above it.
#[test]
fn the_model_cannot_register_becket_with_another_home() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let becket = Becket::default();
            let program = becket.world.programs.join("becket");
            let other = becket.world.root().join("other");
            let clears = "env -u CLAUDECODE -u CLAUDE_CODE_SESSION_ID";
            let init = format!(
                "{clears} {} init --home {}",
                program.display(),
                other.display()
            );
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .on("register it", [bash(&init), say("all done")])
                .registered(becket)
                .begin()?;
            let settings = story.home.config().join("settings.json");
            let before = fs::read_to_string(&settings).expect("settings");
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("register it");
            person.wait_text("requires confirmation for this command");
            person.wait_text("This registers becket with Claude Code");
            person.wait_text("run it in a terminal");
            person.chooses(1);
            person.wait_text("all done");
            let result = &story.model.turns()[1].tool_results()[0];
            let says = "from inside Claude Code (process";
            assert!(result.is_error && result.text.contains(says), "{result:?}");
            let after = fs::read_to_string(&settings).expect("settings");
            assert!(before == after && !other.exists());
            person.leaves();
            Ok(())
        });
    }
}

/// Commands that start Claude Code without hooks, with the guard's reason.
const UNHOOKED: [(&str, &str); 11] = [
    ("claude --safe-mode -p x", "without hooks"),
    ("claude --bare -p x", "without hooks"),
    ("claude --setting-sources project -p x", "leave hooks out"),
    ("claude --settings off.json -p x", "leave hooks out"),
    ("CLAUDE_CODE_SIMPLE=1 claude -p x", "without hooks"),
    ("CLAUDE_CODE_SAFE_MODE=1 claude -p x", "without hooks"),
    ("becket run --prompt x -- --bare", "without hooks"),
    ("npx @anthropic-ai/claude-code --bare -p x", "without hooks"),
    ("env -i PATH=/usr/bin claude -p x", "with other settings"),
    ("./uninstall", "takes becket out"),
    ("sh uninstall --force", "takes becket out"),
];

#[test]
fn starting_claude_code_without_hooks_is_asked_about() {
    let off = json!({"disableAllHooks": true}).to_string();
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let commands = UNHOOKED.iter().map(|(command, _)| bash(command));
            let story = given
                .file("off.json", &off)
                .on("start them", commands.chain([say("done")]))
                .begin()?;
            story.print("start them").mode(mode).run().succeeded();
            let turns = story.model.turns();
            for ((command, reason), turn) in UNHOOKED.iter().zip(&turns[1..]) {
                let result = &turn.tool_results()[0];
                let is_stopped = result.is_error && result.text.contains(reason);
                assert!(is_stopped, "{mode}, {command}: {result:?}");
            }
            Ok(())
        });
    }
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file("off.json", &off)
                .on(
                    "start it",
                    [
                        bash("claude --settings off.json -p x || echo ran"),
                        say("all done"),
                    ],
                )
                .on(
                    "once more",
                    [bash("claude --bare -p x"), say("that was it")],
                )
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("start it");
            person.wait_text("requires confirmation for this command");
            person.wait_text("leave hooks out");
            person.chooses(1);
            person.wait_text("all done");
            assert!(!story.model.turns()[1].tool_results()[0].is_error);
            person.submits("once more");
            person.wait_text("that was it");
            let turns = story.model.turns();
            let result = &turns[3].tool_results()[0];
            assert!(
                result.is_error && result.text.contains("without hooks"),
                "{result:?}"
            );
            person.leaves();
            Ok(())
        });
    }
}

/// Claude Code runs no hook of a settings file with a value of the wrong type, so the guard asks first.
#[test]
fn settings_that_claude_code_refuses_are_not_written_unasked() {
    story(|given| {
        let content = json!({"model": 5, "permissions": {"allow": ["Bash(becket why)"]}});
        let input = json!({"file_path": ".claude/settings.json", "content": content.to_string()});
        let story = given
            .since("2.1.325", "a settings file that is refused as a whole")
            .on("set it", [tool("Write", input), say("done")])
            .on("once more", [bash("echo heard"), say("done")])
            .begin()?;
        story
            .print("set it")
            .mode("bypassPermissions")
            .run()
            .succeeded();
        let result = &story.model.turns()[1].tool_results()[0];
        let says = "Claude Code would refuse";
        assert!(result.is_error && result.text.contains(says), "{result:?}");

        let settings = story.home.config().join("settings.json");
        let text = fs::read_to_string(&settings).expect("settings");
        let count = story.becket().events().len();
        for wrong in [
            json!({"model": 5}),
            json!({"disableAllHooks": null}),
            json!({"permissions": {"defaultMode": "nope"}}),
        ] {
            let mut all: Value = serde_json::from_str(&text).expect("JSON");
            let members = all.as_object_mut().expect("an object");
            members.extend(wrong.as_object().expect("an object").clone());
            fs::write(&settings, all.to_string()).expect("settings");
            story
                .print("once more")
                .mode("bypassPermissions")
                .run()
                .succeeded();
            assert_eq!(story.becket().events().len(), count, "{wrong}");
        }
        Ok(())
    });
}

/// Adds a call with input that strict parsers refuse, a call of the other shell tool, and a call whose text
/// is too long to be read.
fn odd_calls(given: Given) -> Given {
    let half = format!("{DESTROYS} # {HALF_EMOJI}");
    let monitor = json!({"command": DESTROYS, "description": "watch", "timeout_ms": 1000});
    let grows = format!("a=xx; {}touch made", "a=$a$a; ".repeat(20));
    given
        .since(
            "2.1.325",
            "the Monitor tool, and the dialog of a hook in auto mode",
        )
        .file(".git/HEAD", "ref: refs/heads/main\n")
        // Without it, Claude Code asks to confirm that mode.
        .settings(
            SettingsScope::Local,
            json!({"skipDangerousModePermissionPrompt": true}),
        )
        .on(
            "clean up",
            [
                bash(&half),
                tool("Monitor", monitor),
                bash(&grows),
                say("all done"),
            ],
        )
}

/// Asserts that Bash and Monitor were denied, and returns the decision about the last call.
#[track_caller]
fn after_denials(story: &Story) -> Value {
    assert!(story.home.project().join(".git/HEAD").exists());
    let events = story.becket().events();
    let calls = events.iter().filter(|event| event["event"] == "PreToolUse");
    let calls: Vec<&Value> = calls.collect();
    let tools: Vec<&Value> = calls.iter().map(|call| &call["tool"]).collect();
    assert_eq!(tools, ["Bash", "Monitor", "Bash"], "{calls:#?}");
    for call in &calls[..2] {
        assert_eq!(call["decision"]["by"], "guard:delete-vital", "{call:#}");
        assert_eq!(call["decision"]["answer"], "deny", "{call:#}");
    }
    calls[2]["decision"].clone()
}

#[test]
fn odd_calls_are_denied_in_every_mode() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let story = odd_calls(given).begin()?;
            story.print("clean up").mode(mode).run().succeeded();
            let last = after_denials(&story);
            assert_eq!(last["by"], "guard:unread-command", "{mode}: {last:#}");
            assert_eq!(last["answer"], "deny", "{mode}: {last:#}");
            assert!(!story.home.project().join("made").exists());
            Ok(())
        });
    }
}

#[test]
fn a_command_that_is_not_readable_raises_the_dialog_in_every_mode() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let story = odd_calls(given).begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("clean up");
            person.wait_text("could not read this call whole");
            let last = after_denials(&story);
            assert_eq!(last["by"], "guard:unread-command", "{mode}: {last:#}");
            assert_eq!(last["answer"], "ask", "{mode}: {last:#}");
            assert!(!story.home.project().join("made").exists());
            person.chooses(1);
            person.wait_text("all done");
            assert!(story.home.project().join("made").exists());
            person.leaves();
            Ok(())
        });
    }
}

#[test]
fn strict_blocks_when_the_shim_is_gone() {
    for (args, is_made) in [(&["--strict"][..], false), (&[], true)] {
        story(|given| {
            let story = given
                .needs(&["hook_on_failure_supported"])
                .on("make it", [bash("touch made"), say("done")])
                .registered(Becket::default().init(args))
                .begin()?;
            fs::remove_file(story.becket().programs.join("becket-hook")).expect("no shim");
            story
                .print("make it")
                .mode("bypassPermissions")
                .run()
                .succeeded();
            let result = &story.model.turns()[1].tool_results()[0];
            assert_eq!(result.is_error, !is_made, "{result:?}");
            assert_eq!(story.home.project().join("made").exists(), is_made);
            Ok(())
        });
    }
}

/// Returns `becket guard coverage --json` for the story's Claude Code: session id, hooked, calls, unseen.
fn coverage(story: &Story) -> Vec<Value> {
    let mut becket = story.becket().becket(["guard", "coverage", "--json"]);
    let said = becket
        .env("CLAUDE_CONFIG_DIR", story.home.config())
        .output();
    let said = said.expect("becket guard coverage runs");
    serde_json::from_slice(&said.stdout).unwrap_or_else(|why| panic!("{why}: {said:?}"))
}

fn counts(row: &Value) -> (bool, Vec<(u64, u64)>) {
    let count = |agent: &Value, field: &str| agent[field].as_u64().unwrap_or(0);
    let agents = row["agents"].as_array().cloned().unwrap_or_default();
    let agents = agents
        .iter()
        .map(|agent| (count(agent, "calls"), count(agent, "unseen")));
    (row["hooked"] == true, agents.collect())
}

#[test]
fn guards_see_every_call_that_runs() {
    story(|given| {
        let story = given
            .on(
                "do things",
                [
                    // A call of an unknown tool or with wrong input reaches no hook.
                    tools([bash("echo one"), tool("Nonesuch", json!({}))]),
                    tool("Bash", json!({"no": "command"})),
                    tools([bash("exit 3"), bash("echo beside")]),
                    agent("general-purpose", "inner job"),
                    say("done"),
                ],
            )
            .on("inner job", [bash("echo inner"), say("inner done")])
            .on("go on", [bash("echo two"), say("done too")])
            .begin()?;
        let first = story.print("do things").mode("bypassPermissions").run();
        let first = first.succeeded().session();
        let fork = story.print("go on").mode("bypassPermissions");
        fork.resume(&first).fork().run().succeeded();
        let rows = coverage(&story);
        assert_eq!(rows.len(), 2, "{rows:#?}");
        for row in &rows {
            let is_first = row["session_id"] == first;
            let expected = if is_first {
                vec![(4, 0), (1, 0)]
            } else {
                vec![(5, 0)]
            };
            assert_eq!(counts(row), (true, expected), "{row:#}");
        }
        Ok(())
    });
}

#[test]
fn a_project_that_switches_hooks_off_is_found_by_coverage() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("done one")])
            .on(
                "second thing",
                [
                    bash("echo two"),
                    agent("general-purpose", "inner job"),
                    say("done"),
                ],
            )
            .on("inner job", [bash("echo inner"), say("inner done")])
            .on("third thing", [say("done three")])
            .begin()?;
        let print = |prompt: &str| story.print(prompt).mode("bypassPermissions");
        let heard = print("first thing").run().succeeded().session();

        let off = json!({"disableAllHooks": true});
        story.home.set_settings(SettingsScope::Project, &off);
        let deaf = print("second thing").run().succeeded().session();
        print("second thing").resume(&heard).run().succeeded();
        let row = |id: &str| {
            coverage(&story)
                .into_iter()
                .find(|row| row["session_id"] == id)
        };
        let of_deaf = row(&deaf).expect("the session without hooks");
        assert_eq!(
            counts(&of_deaf),
            (false, vec![(2, 2), (1, 1)]),
            "{of_deaf:#}"
        );
        let project = story.home.project().canonicalize().expect("a project");
        assert_eq!(of_deaf["project"], project.to_string_lossy().as_ref());
        let of_heard = row(&heard).expect("the session that lost its hooks");
        assert_eq!(
            counts(&of_heard),
            (true, vec![(3, 2), (1, 1)]),
            "{of_heard:#}"
        );

        // Once hooks run again, the daemon learns of the end of the session.
        story.home.set_settings(SettingsScope::Project, &json!({}));
        print("third thing").resume(&heard).run().succeeded();
        // The end of the first run may be compared while the second writes: the number is smaller then.
        let told = wait::until(PATIENCE, || {
            let row = story.session(&heard);
            let told = row["troubles"][0].as_str().unwrap_or_default();
            told.contains("no guard saw 3 of its 4 tool calls")
                .then_some(())
        });
        assert!(told.is_some(), "{:#}", story.session(&heard)["troubles"]);
        Ok(())
    });
}

/// Neither form of a command in a command file is a tool call, so no guard sees it.
#[test]
fn commands_in_a_command_file_fire_no_pre_tool_use() {
    story(|given| {
        let file = |body: &str| format!("---\nallowed-tools: Bash(*)\n---\nIt says: {body}\n");
        let story = given
            .file(
                ".claude/commands/inline.md",
                &file("!`touch inline; echo ran inline`"),
            )
            .file(
                ".claude/commands/fenced.md",
                &file("\n\n```!\ntouch fenced; echo ran fenced\n```"),
            )
            .since("2.1.325", "a prompt before its expansion")
            .on("ran inline", [say("done")])
            .on("ran fenced", [say("done")])
            .begin()?;
        for name in ["inline", "fenced"] {
            story.print(&format!("/{name}")).run().succeeded();
            assert!(
                story.home.project().join(name).exists(),
                "{}",
                story.summary()
            );
        }
        let events = story.events();
        events.in_order(&["UserPromptSubmit", "UserPromptExpansion", "Stop"]);
        events.none_of("PreToolUse");
        assert_eq!(coverage(&story), [] as [Value; 0]);
        Ok(())
    });
}
