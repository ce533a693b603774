//! What no event says: where the real program tells of an interrupt, an answered permission and a
//! turn that died. becket's readers are held against what it writes today.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use becket_engine::session_file::{self, State};
use becket_engine::transcript::{Finding, Tail, What};
use becket_tests::model::{bash, error, gate, say};
use becket_tests::story::{Person, Story, story};
use becket_tests::wait::{self, PATIENCE};

/// Idle has to be shown within three seconds of Esc: the program may take two of them.
const SOON: Duration = Duration::from_secs(2);

fn transcript(story: &Story) -> PathBuf {
    PathBuf::from(story.wait_event("UserPromptSubmit").text("transcript_path"))
}

/// What the transcript tells of the main agent's turn, without usage.
fn found(story: &Story) -> Vec<What> {
    let bytes = fs::read(transcript(story)).unwrap_or_default();
    let found = Tail::default().push(&bytes).into_iter();
    let turn = found.filter(Finding::is_main).map(|finding| finding.what);
    turn.filter(|what| !matches!(what, What::Usage(_)))
        .collect()
}

/// What the program says of itself.
fn state(story: &Story) -> Option<State> {
    let start = story.events_of("recorder").of("SessionStart").first()?.env["CLAUDE_PID"].clone();
    let pid = start.as_str()?.parse().ok()?;
    let file = session_file::beside(&transcript(story), pid)?;
    session_file::read(&fs::read(file).ok()?)?.state
}

#[track_caller]
fn comes<T>(story: &Story, what: &str, bound: Duration, probe: impl Fn() -> Option<T>) -> T {
    match wait::until(bound, probe) {
        Some(came) => came,
        None => panic!("never {what}: {:?} {:?}", found(story), state(story)),
    }
}

#[track_caller]
fn waits(story: &Story, wanted: &State) {
    let is = || (state(story).as_ref() == Some(wanted)).then_some(());
    comes(story, &format!("{wanted:?}"), PATIENCE, is);
}

/// Presses Escape, and sees the program say that it is idle.
#[track_caller]
fn escapes(story: &Story, person: &Person<'_>) -> Instant {
    let pressed = Instant::now();
    person.press("Escape");
    let idle = || (state(story) == Some(State::Idle)).then_some(());
    comes(story, "idle", SOON, idle);
    pressed
}

#[test]
fn esc_before_the_first_word_is_told_by_the_session_file_alone() {
    story(|given| {
        let story = given
            .on("think hard", [gate("thinking").then(say("never said"))])
            .needs(&["statusUpdatedAt", "CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;
        person.submits("think hard");
        story.model.wait_at("thinking");
        waits(&story, &State::Busy);
        person.wait_text("esc to interrupt");
        escapes(&story, &person);
        assert_eq!(found(&story), []);
        person.takes_back("think hard");
        person.leaves();
        assert_eq!(found(&story), []);
        Ok(())
    });
}

#[test]
fn esc_in_the_middle_of_a_turn_is_told_by_both() {
    story(|given| {
        let story = given
            .on(
                "think hard",
                [bash("echo hi"), gate("thinking").then(say("never said"))],
            )
            .needs(&["statusUpdatedAt", "CLAUDE_PID"])
            .begin()?;
        let person = story.person_with(&["--allowedTools", "Bash(echo:*)"])?;
        person.submits("think hard");
        story.model.wait_at("thinking");
        person.wait_text("esc to interrupt");
        let pressed = escapes(&story, &person);
        let interrupt = What::Interrupted { for_tool: false };
        let told = || found(&story).contains(&interrupt).then_some(());
        comes(
            &story,
            "an interrupt",
            SOON.saturating_sub(pressed.elapsed()),
            told,
        );
        person.leaves();
        Ok(())
    });
}

#[test]
fn esc_at_a_dialog_and_in_a_tool_refuses_the_call() {
    story(|given| {
        let story = given
            .on(
                "wait for it",
                [bash("tail -f /dev/null"), say("never said")],
            )
            .needs(&["statusUpdatedAt", "CLAUDE_PID", "toolDenialKind"])
            .begin()?;
        let person = story.person()?;
        let refused = || {
            let found = found(&story);
            let denied = |what: &&What| {
                matches!(
                    what,
                    What::ToolResult {
                        denied: Some(_),
                        ..
                    }
                )
            };
            let interrupted = |what: &&What| matches!(what, What::Interrupted { for_tool: true });
            (
                found.iter().filter(denied).count(),
                found.iter().filter(interrupted).count(),
            )
        };
        person.submits("wait for it");
        waits(
            &story,
            &State::Waiting(Some("permission prompt".to_owned())),
        );
        person.refuses();
        comes(&story, "a refusal", PATIENCE, || {
            (refused() == (1, 1)).then_some(())
        });
        waits(&story, &State::Idle);
        person.ready();

        person.submits("wait for it");
        person.chooses(1);
        waits(&story, &State::Busy);
        person.wait_text("esc to interrupt");
        escapes(&story, &person);
        comes(&story, "a second refusal", PATIENCE, || {
            (refused() == (2, 2)).then_some(())
        });
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn the_cost_of_a_turn_is_in_the_transcript() {
    story(|given| {
        let story = given.on("do it", [say("done").usage(5000, 60)]).begin()?;
        let run = story.print("do it").run();
        let mut tail = Tail::default();
        tail.push(&fs::read(transcript(&story)).expect("a transcript"));
        let figures = tail.figures();
        assert_eq!(figures.context_tokens, Some(5000));
        let cost = run.succeeded().result()["total_cost_usd"].as_f64();
        assert_eq!(
            figures.cost_usd.map(|cost| (cost * 1e9).round()),
            cost.map(|cost| (cost * 1e9).round())
        );
        assert!(cost.is_some_and(|cost| cost > 0.0));
        Ok(())
    });
}

/// At the terminal: in print mode the program ends, and with it the hook, some 10 ms later.
#[test]
fn a_turn_that_died_is_in_the_transcript() {
    story(|given| {
        let failing = error(400, "invalid_request_error", "no such thing");
        let story = given
            .on("break it", [failing])
            .needs(&["isApiErrorMessage", "StopFailure"])
            .begin()?;
        let person = story.person()?;
        person.submits("break it");
        story.wait_event("StopFailure");
        let died = || {
            found(&story).into_iter().find_map(|what| match what {
                What::ApiError { text, .. } => text,
                _ => None,
            })
        };
        let died = comes(&story, "an error", PATIENCE, died);
        assert!(died.contains("no such thing"), "{died}");
        person.ready();
        person.leaves();
        Ok(())
    });
}
