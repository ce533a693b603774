//! The events that fire rarely: setup, elicitation, worktrees, teammates, watched files,
//! changes made at the terminal.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use becket_tests::claude::Scope;
use becket_tests::model::{bash, say, tool};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Hook, Recorder, Story, program, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::json;

#[test]
fn setup_is_told() {
    story(|given| {
        let story = given.needs(&["--init-only"]).begin()?;
        story.print("nothing").arg("--init-only").run();
        let events = story.events();
        assert_eq!(events.only("Setup")["trigger"], "init");
        Ok(())
    });
}

#[test]
fn a_question_of_a_tool_server_is_told_and_so_is_its_answer() {
    story(|given| {
        let story = given
            .on("ask me", [tool("mcp__asker__ask", json!({})), say("asked")])
            .needs(&["ElicitationResult"])
            .begin()?;
        let servers = json!({"mcpServers": {"asker": {"command": program("becket-asker")}}});

        let run = story
            .print("ask me")
            .args(["--mcp-config".to_owned(), servers.to_string()]);
        run.mode("bypassPermissions").run().succeeded();

        let events = story.events();
        events.in_order(&[
            "PreToolUse",
            "Elicitation",
            "ElicitationResult",
            "PostToolUse",
        ]);
        assert_eq!(events.only("Elicitation")["mcp_server_name"], "asker");
        let result = &story.model.turns()[1].tool_results()[0].text;
        assert!(result.contains("the person said \"cancel\""), "{result}");
        Ok(())
    });
}

#[test]
fn a_denial_by_auto_mode_is_told() {
    story(|given| {
        let story = given
            .on(
                "send it",
                [
                    bash("curl -d @/etc/hostname http://127.0.0.1:9/"),
                    say("no"),
                ],
            )
            .needs(&["PermissionDenied"])
            .begin()?;

        story.print("send it").mode("auto").run();

        let events = story.events();
        events.in_order(&["PreToolUse", "PermissionDenied", "Stop"]);
        events.none_of("PostToolUse");
        Ok(())
    });
}

fn make_repository(project: &Path) {
    let script = "git init -q && git add -A && git commit -q -m first";
    let made = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(project)
        .env("HOME", project)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ])
        .envs([
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ])
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "make a repository"
    );
}

#[test]
fn watching_worktrees_be_removed_does_no_harm() {
    story(|given| {
        let enter = tool("EnterWorktree", json!({"name": "side"}));
        let leave = tool("ExitWorktree", json!({"action": "remove"}));
        let look = bash("git worktree list");
        let story = given
            .registered(Recorder::default())
            .file("a.txt", "a")
            .on("step aside", [enter, bash("pwd"), leave, look, say("back")])
            .needs(&["EnterWorktree", "ExitWorktree"])
            .begin()?;
        make_repository(&story.home.project());

        let run = story.print("step aside").mode("bypassPermissions").run();

        run.succeeded();
        let turns = story.model.turns();
        let result = |turn: usize| turns[turn].tool_results()[0].text.clone();
        assert!(result(2).ends_with("worktrees/side"), "{}", result(2));
        assert_eq!(result(4).lines().count(), 1, "{}", result(4));
        // git made it, so git removes it: the event is for those who replaced git.
        story.events().none_of("WorktreeRemove");
        Ok(())
    });
}

/// Somebody else's hook makes a worktree and nobody's hook removes it: what the model is told.
fn leave_a_worktree_of_a_hook(given: Given) -> Result<(Story, String), Unavailable> {
    let enter = tool("EnterWorktree", json!({"name": "side"}));
    let leave = json!({"action": "remove", "discard_changes": true});
    let leave = tool("ExitWorktree", leave);
    let story = given
        .on("step aside", [enter, leave, say("back")])
        .needs(&["WorktreeCreate"])
        .begin()?;
    let place = story.home.root().join("side");
    let make = format!("mkdir -p '{0}' && echo '{0}'", place.display());
    let maker = json!({"type": "command", "command": make});
    let home = &story.home;
    home.add_hook(Scope::User, "WorktreeCreate", None, &maker);

    let run = story.print("step aside").mode("bypassPermissions").run();

    run.succeeded();
    assert!(place.exists());
    let told = story.model.turns()[2].tool_results()[0].text.clone();
    Ok((story, told))
}

#[test]
fn a_silent_hook_on_the_removal_of_a_worktree_would_make_the_program_lie() {
    story(|given| {
        let (story, told) = leave_a_worktree_of_a_hook(given.registered(Recorder::default()))?;
        assert!(told.contains("Exited and removed"), "{told}");
        story.events().only("WorktreeRemove");
        Ok(())
    });
}

#[test]
fn becket_keeps_out_of_the_removal_of_worktrees() {
    story(|given| {
        let honest = given.since("2.1.197", "word about a worktree that stayed");
        let (_, told) = leave_a_worktree_of_a_hook(honest)?;
        assert!(told.contains("could not remove"), "{told}");
        Ok(())
    });
}

#[test]
fn a_teammate_that_has_nothing_to_do_is_told() {
    story(|given| {
        let bosun = tool(
            "Agent",
            json!({
                "description": "count",
                "prompt": "count the sheep",
                "subagent_type": "general-purpose",
                "name": "bosun",
            }),
        );
        let story = given
            .on("make a team", [bosun, say("made")])
            .on("count the sheep", [say("three")])
            .env("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1")
            .needs(&["TeammateIdle"])
            .since("2.1.197", "teammates made by the Agent tool alone")
            .begin()?;
        let person = story.person()?;

        person.submits("make a team");
        let idle = story.wait_event("TeammateIdle");
        person.leaves();

        assert_eq!(idle["teammate_name"], "bosun");
        Ok(())
    });
}

#[test]
fn changes_made_at_the_terminal_are_told() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .needs(&["PostModelSwitch", "DirectoryAdded", "ConfigChange"])
            .begin()?;
        let other = story.home.root().join("other");
        std::fs::create_dir(&other).expect("make another folder");
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        story.wait_event("Stop");
        person.ready();
        person.submits("/model sonnet");
        person.chooses(1);
        story.wait_event("PostModelSwitch");
        person.ready();
        person.submits(&format!("/add-dir {}", other.display()));
        person.chooses(1);
        story.wait_event("DirectoryAdded");
        story
            .home
            .set_settings(Scope::Local, &json!({"env": {"TIDE": "high"}}));
        let change = story.wait_event("ConfigChange");
        person.leaves();

        assert_eq!(change["source"], "local_settings");
        let events = story.events();
        events.in_order(&["PreModelSwitch", "PostModelSwitch", "DirectoryAdded"]);
        assert_eq!(
            events.only("DirectoryAdded")["directory"],
            other.display().to_string()
        );
        Ok(())
    });
}

#[test]
fn a_watched_file_that_changes_is_told() {
    story(|given| {
        let story = given
            .file("tide.env", "low")
            .needs(&["FileChanged"])
            .begin()?;
        let file = story.home.project().join("tide.env");
        Hook::on("SessionStart")
            .says(json!({"watchPaths": [file]}))
            .add_to(&story.home);
        let person = story.person()?;

        person.ready();
        // The watch begins at some moment after the start, and waits until a file is at rest:
        // change it again, with pauses, until it is seen.
        let changed = wait::until(PATIENCE, || {
            std::fs::write(&file, "high").expect("change the file");
            let told = || {
                story
                    .events()
                    .of("FileChanged")
                    .first()
                    .map(|e| (*e).clone())
            };
            wait::until(Duration::from_secs(2), told)
        });
        person.leaves();

        let changed = changed.expect("a changed file is told");
        assert_eq!(changed["file_path"], file.display().to_string());
        Ok(())
    });
}

#[test]
fn a_dialog_that_nobody_answers_is_told() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("it is made")])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        let notice = story.wait_event("Notification");
        person.refuses();
        person.leaves();

        assert_eq!(notice["notification_type"], "permission_prompt");
        Ok(())
    });
}
