//! The live view beside a real Claude Code with a permission dialog on its screen.

use std::time::Duration;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, say, tool};
use becket_tests::story::{Becket, Recorder, Session, story};
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use serde_json::json;

/// Text for a session. With letters as commands, the first cancels the dialog and the second ends Claude
/// Code.
const TEXTS: [&str; 2] = ["fix it", "use the proxy"];

/// Presses a key until the view has taken it: right after a paste it would count as pasted.
fn presses(view: &Terminal, key: &str, asks: &str) {
    let asked = || view.screen().contains(asks).then_some(());
    let taken = wait::until(PATIENCE, || {
        view.press(key);
        wait::until(Duration::from_secs(5), asked)
    });
    assert!(taken.is_some(), "{key}: {}", view.screen().0);
}

/// A guard that raises the dialog in every permission mode.
const ASKS: &str =
    "[guards.ask-me]\npatterns = [\"touch made\"]\nanswer = \"ask\"\nreason = \"REASON\"\n";

#[test]
fn text_sent_to_a_session_neither_cancels_its_dialog_nor_ends_it() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config(ASKS))
                .registered(Recorder::witness())
                .on("touch it", [bash("touch made.txt"), say("made")])
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("touch it");
            person.wait_text("❯ 1.");
            let waits = |session: &Session| session.display() == "attention";
            let id = story.wait_session("waiting", waits).id()[..8].to_owned();
            let becket = story.becket().becket::<&str>([]);
            let view = Terminal::of(&becket, (100, 30))?;
            view.wait_text("wants to run: touch made.txt");

            for text in TEXTS {
                // Typed after `r`, which is refused.
                presses(&view, "r", "Esc closes this");
                for letter in text.chars() {
                    view.type_text(&letter.to_string());
                }
                view.press("Enter");
                view.press("Escape");
                view.wait_for("the list", |screen| !screen.contains("Esc"));
                // Pasted into the list; tmux marks no paste that it types itself.
                view.type_text(text);
                view.wait_text("this looked pasted");
            }
            // Typed after keys that ask.
            for (key, asks, text) in [
                ("i", "interrupt touch it?", "it"),
                ("x", "to end it, type", "yes"),
            ] {
                presses(&view, key, asks);
                for letter in text.chars() {
                    view.type_text(&letter.to_string());
                }
                view.press("Enter");
                view.press("Escape");
                view.wait_text("nothing was done");
            }
            let screen = person.screen();
            assert!(
                screen.contains("❯ 1.") && !person.has_ended(),
                "{}",
                screen.0
            );
            story.wait_session("waiting", waits);

            view.press("i");
            view.wait_text("Escape would cancel that dialog");
            view.press("C-x");
            person.wait_for("no dialog", |screen| !screen.contains("❯ 1."));
            view.press("x");
            view.wait_text(&format!("to end it, type {id}"));
            view.type_text(&id);
            view.press("Enter");
            person.wait_end();
            Ok(())
        });
    }
}

#[test]
fn a_finished_claude_p_stays_in_the_view() {
    story(|given| {
        let story = given.on("count the words", [say("three")]).begin()?;
        let becket = story.becket().becket::<&str>([]);
        let view = Terminal::of(&becket, (100, 30))?;
        view.wait_text("No sessions");
        story.print("count the words").run().succeeded();
        let view_after = Terminal::of(&becket, (100, 30))?;
        for view in [view, view_after] {
            view.wait_for("the ended session", |screen| {
                screen.contains("count the words") && screen.contains("ended")
            });
        }
        Ok(())
    });
}

/// Opens the box of the question that is on the screen, and presses these keys, each once its line is shown.
fn answers_in(view: &Terminal, keys: &[(&str, &str)]) {
    view.wait_text("Space answer");
    presses(view, "Space", keys[0].0);
    for (place, (shown, key)) in keys.iter().enumerate() {
        view.wait_text(shown);
        let next = keys.get(place + 1).map_or("sent: ", |(next, _)| next);
        press_until(view, key, next);
    }
}

/// Presses a key until it acts: the box refuses one that comes in the first half second.
fn press_until(view: &Terminal, key: &str, what: &str) {
    let acted = wait::until(PATIENCE, || {
        view.press(key);
        let shows = || view.screen().contains(what).then_some(());
        wait::until(Duration::from_secs(1), shows)
    });
    assert!(acted.is_some(), "{key}: {}", view.screen().0);
}

#[test]
fn a_permission_is_answered_by_a_key_in_the_view_in_each_mode() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        story(|given| {
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config(ASKS))
                .on("touch it", [bash("touch made.txt"), say("it was made")])
                .on("again", [bash("touch made2.txt"), say("it was refused")])
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            let becket = story.becket().becket::<&str>([]);
            let view = Terminal::of(&becket, (80, 24))?;
            person.submits("touch it");
            person.wait_text("❯ 1.");
            answers_in(&view, &[("A guard asks: REASON", "y")]);
            person.wait_text("it was made");
            person.ready();
            assert!(story.home.project().join("made.txt").exists(), "{mode}");
            person.submits("again");
            person.wait_text("❯ 1.");
            answers_in(&view, &[("$ touch made2.txt", "n")]);
            person.wait_text("it was refused");
            person.ready();
            assert!(!story.home.project().join("made2.txt").exists(), "{mode}");
            person.leaves();
            Ok(())
        });
    }
}

#[test]
fn questions_of_claude_are_answered_by_digits_in_the_view() {
    story(|given| {
        let questions = json!({"questions": [
            {"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [
                {"label": "Red", "description": "loud"}, {"label": "Blue", "description": "calm"}]},
            {"question": "Which pages?", "header": "Pages", "multiSelect": true, "options": [
                {"label": "Cart", "description": "first"}, {"label": "Account", "description": "last"}]},
        ]});
        let story = given
            .since("2.1.325", "an answer to AskUserQuestion")
            .registered(Becket::default())
            .on(
                "ask me",
                [tool("AskUserQuestion", questions), say("so be it")],
            )
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        let becket = story.becket().becket::<&str>([]);
        let view = Terminal::of(&becket, (80, 24))?;
        person.submits("ask me");
        person.wait_text("❯ 1.");
        answers_in(
            &view,
            &[
                ("question 1 of 2", "2"),
                ("question 2 of 2", "1"),
                ("[x]  1 Cart", "2"),
                ("[x]  2 Account", "Enter"),
            ],
        );
        person.wait_text("so be it");
        person.ready();
        person.leaves();
        let turns = story.model.turns();
        let told = |text: &str| turns.iter().any(|request| request.contains(text));
        assert!(told("Blue") && told("Cart, Account"));
        Ok(())
    });
}
