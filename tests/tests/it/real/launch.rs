//! `becket run` and `becket prd` with the real Claude Code, and becket's report of a usage limit.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use becket_engine::limit;
use becket_tests::claude::SettingsScope;
use becket_tests::model::{Turn, bash, error, say, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, Event, Given, Hook, Person, Recorder, Story, now_ms, story};
use becket_tests::wait::{self, PATIENCE};
use jiff::tz::TimeZone;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Waits until `fits` accepts the launch file of the launcher in the terminal.
#[track_caller]
fn launch(person: &Person<'_>, fits: impl Fn(&Value) -> bool) -> Value {
    let file = format!("launches/{}.json", person.pid());
    let file = person.story().becket().path(&file);
    let read = || serde_json::from_slice(&fs::read(&file).ok()?).ok();
    let found = wait::until(PATIENCE, || read().filter(&fits));
    found.unwrap_or_else(|| panic!("{}: {:?}\n{}", file.display(), read(), person.screen().0))
}

fn session(file: &Value) -> &str {
    file["session_id"].as_str().unwrap_or_default()
}

/// Adds becket without a registration in settings, beside a recorder.
fn with_launched_becket(given: Given) -> Given {
    given
        .registered(Becket::default().launched_only())
        .registered(Recorder::witness())
}

#[test]
fn a_launch_behaves_like_claude_code_and_knows_its_session() {
    story(|given| {
        let story = with_launched_becket(given)
            .on("first thing", [bash("touch made"), say("done one")])
            .on("second thing", [say("done two")])
            .script(|script| script.summary("They did one thing."))
            .hook(Hook::on("Stop").label("user").scope(SettingsScope::User))
            .hook(Hook::on("Stop").label("project"))
            .hook(Hook::on("Stop").label("local").scope(SettingsScope::Local))
            .begin()?;
        let own = Hook::on("Stop")
            .label("own")
            .settings(&story.home)
            .to_string();
        let person = story.launched(&[], &["--settings", &own])?;
        let launcher = person.pid();

        let first = launch(&person, |file| file["session_id"].is_string());
        let file = format!("launches/{launcher}.json");
        let written = fs::metadata(story.becket().path(&file)).and_then(|file| file.modified());
        let began = story.session(session(&first)).at("started_at");
        let written = written
            .unwrap()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis() as i64;
        println!(
            "the launch file came {} ms after SessionStart",
            written - began
        );
        assert!(written - began < 5_000);
        person.submits("first thing");
        person.chooses(1);
        person.wait_text("done one");
        let transcript = Path::new(first["transcript_path"].as_str().unwrap());
        assert_eq!(transcript.file_stem().unwrap(), session(&first));
        assert!(transcript.exists(), "{}", transcript.display());
        let turn = &story.model.turns()[0];
        let line = format!("Current session: {} (started 20", session(&first));
        assert!(turn.contains(&line), "{turn:?}");
        for label in ["user", "project", "local", "own"] {
            let calls = || (story.calls(label).len() == 1).then_some(());
            assert!(wait::until(PATIENCE, calls).is_some(), "the {label} hook");
        }
        launch(&person, |file| {
            session(file) == session(&first) && file["last_updated"] != first["last_updated"]
        });

        // A compaction keeps the session.
        person.ready();
        person.submits("/compact");
        story.wait_event("PostCompact");
        person.ready();
        launch(&person, |file| session(file) == session(&first));

        person.submits("/clear");
        let second = launch(&person, |file| session(file) != session(&first));
        let row = story.session(session(&second));
        assert_eq!(row["prev_session_id"], session(&first));
        person.ready();
        person.submits("second thing");
        person.wait_text("done two");
        person.leaves();
        assert!(!story.becket().path(&file).exists());
        Ok(())
    });
}

#[test]
fn a_registration_in_the_settings_is_enough_for_a_launch() {
    story(|given| {
        let story = given.on("a thing", [say("done")]).begin()?;
        let person = story.launched(&["--prompt", "a thing"], &[])?;
        person.wait_text("done");
        let file = launch(&person, |file| file["session_id"].is_string());
        let events = story.becket().events();
        assert!(events.iter().all(|event| event["duplicate_of"].is_null()));
        assert_eq!(session(&file), events[0]["session_id"]);
        person.leaves();
        Ok(())
    });
}

/// Starts a shell with job control, in which the person starts becket.
fn shell(story: &Story) -> Result<Person<'_>, Unavailable> {
    let bash = ["/bin/bash", "--norc", "--noprofile", "-i"].map(OsString::from);
    let person = Person::at(story, &bash)?;
    person.type_text("PS1='shell> '");
    person.press("Enter");
    person.wait_for("the shell", |screen| {
        screen.0.lines().any(|line| line == "shell>")
    });
    Ok(person)
}

fn typed(command: &[OsString]) -> String {
    let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy());
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[test]
fn job_control_resizing_and_the_exit_code_are_those_of_claude_code() {
    story(|given| {
        let story = with_launched_becket(given)
            .on("first thing", [say("done one")])
            .on("long thing", [say("never said").halfway("never")])
            .begin()?;
        let person = shell(&story)?;
        let command = typed(&story.launch_command(&[], &[]));
        person.type_text(&format!("clear; {command}"));
        person.press("Enter");
        person.ready();

        // Ctrl-Z returns to the shell; `fg` continues.
        person.press("C-z");
        person.wait_text("Stopped");
        person.type_text("clear; echo at the $((1+1))nd prompt");
        person.press("Enter");
        person.wait_text("at the 2nd prompt");
        person.type_text("fg");
        person.press("Enter");
        person.ready();
        person.submits("first thing");
        person.wait_text("done one");

        // Claude Code gets a new terminal size.
        person.tmux_says(&["resize-window", "-x", "90", "-y", "30"]);
        let rule = "─".repeat(90);
        person.wait_for("a rule of 90 columns", |screen| {
            screen.0.lines().any(|line| line == rule)
        });

        // Ctrl-C interrupts a turn.
        person.submits("long thing");
        person.wait_text("esc to interrupt");
        person.press("C-c");
        person.wait_for("the turn broken off", |screen| {
            !screen.contains("esc to interrupt")
        });
        story.model.open("never");

        // Ctrl-C twice ends Claude Code.
        let ended = wait::until(PATIENCE, || {
            person.press("C-c");
            person.press("C-c");
            let left = || {
                person
                    .screen()
                    .contains("Resume this session")
                    .then_some(())
            };
            wait::until(Duration::from_secs(10), left)
        });
        assert!(ended.is_some(), "{}", person.screen().0);
        person.wait_for("the shell", |screen| {
            let last = screen.0.lines().rfind(|line| !line.is_empty());
            last == Some("shell>")
        });
        person.type_text("echo code $?");
        person.press("Enter");
        person.wait_text("code 0");
        Ok(())
    });
}

#[test]
fn a_claude_started_by_the_session_does_not_affect_the_launch() {
    story(|given| {
        let story = given.on("inner thing", [say("inner done")]).begin()?;
        let claude = story.claude.command()[0].to_string_lossy().into_owned();
        let inner = format!("{claude} -p 'inner thing' > inner.txt");
        story
            .model
            .on("outer thing", [bash(&inner), say("outer done")]);
        let person = story.launched(&[], &[])?;
        let before = launch(&person, |file| file["session_id"].is_string());
        person.submits("outer thing");
        person.chooses(1);
        person.wait_text("outer done");

        let said = fs::read_to_string(story.home.project().join("inner.txt")).unwrap();
        assert!(said.contains("inner done"), "{said}");
        let after = launch(&person, |file| {
            file["last_updated"] != before["last_updated"]
        });
        assert_eq!(session(&after), session(&before));
        let turns = story.model.turns();
        let inner = turns
            .iter()
            .find(|turn| turn.contains("inner thing") && !turn.contains("outer thing"));
        assert!(!inner.expect("the inner turn").contains("Current session:"));
        person.leaves();
        Ok(())
    });
}

#[test]
fn eight_concurrent_launches_are_told_apart() {
    story(|given| {
        let mut given = with_launched_becket(given);
        for nth in 0..8 {
            given = given.on(
                &format!("thing number {nth}."),
                [say(format!("answer {nth}."))],
            );
        }
        let story = given.begin()?;
        let prompts: Vec<String> = (0..8).map(|nth| format!("thing number {nth}.")).collect();
        let people: Vec<Person<'_>> = prompts
            .iter()
            .map(|prompt| Person::at(&story, &story.launch_command(&["--prompt", prompt], &[])))
            .collect::<Result<_, _>>()?;
        let mut ids = BTreeSet::new();
        for (person, prompt) in people.iter().zip(&prompts) {
            let file = launch(person, |file| file["session_id"].is_string());
            let row = story.wait_session(prompt, |row| {
                row.id() == session(&file) && row.text("last_prompt") == prompt
            });
            ids.insert(row.id().to_owned());
        }
        assert_eq!(ids.len(), 8);
        for (nth, person) in people.iter().enumerate() {
            person.wait_text(&format!("answer {nth}."));
            person.ready();
        }
        for person in &people {
            person.leaves();
        }
        Ok(())
    });
}

#[test]
fn the_file_of_a_killed_launcher_is_ignored() {
    story(|given| {
        let story = with_launched_becket(given)
            .on("a thing", [say("done")])
            .begin()?;
        let person = shell(&story)?;
        person.type_text(&format!(
            "clear; {}",
            typed(&story.launch_command(&[], &[]))
        ));
        person.press("Enter");
        person.ready();
        let row = story.wait_session("there", |row| row.display() == "done");
        let launches = story.becket().path("launches");
        let file = wait::until(PATIENCE, || fs::read_dir(&launches).ok()?.flatten().next());
        let file = file.expect("a launch file").path();
        let launcher: i32 = file.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(launcher).unwrap(), Signal::KILL).unwrap();
        person.wait_text("Killed");
        assert!(file.exists());

        // Claude Code goes on without its terminal, or ends.
        let command = story.launch_command(&[], &["-p", "a thing"]);
        let mut second = story.becket().command(&command[0]);
        second.args(&command[1..]).envs(story.home.env().to_vec());
        let output = second.current_dir(story.home.project()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("done"));
        assert!(!file.exists(), "a stale file");
        let claude = row["pid"]
            .as_i64()
            .and_then(|pid| Pid::from_raw(pid as i32));
        let _ = claude.map(|claude| kill_process(claude, Signal::TERM));
        story.wait_any_session("ended", |other| {
            other.id() == row.id() && !other["ended_at"].is_null()
        });
        Ok(())
    });
}

#[test]
fn a_claude_code_that_dies_is_restarted_on_its_session() {
    story(|given| {
        let story = with_launched_becket(given)
            .on("first thing", [say("done one")])
            .on("second thing", [say("done two")])
            .begin()?;
        let person = story.launched(&["--restart", "--prompt", "first thing"], &[])?;
        person.wait_text("done one");
        story.wait_event("Stop");
        person.ready();
        let first = launch(&person, |file| file["session_id"].is_string());
        // Text that is not in the transcript yet is lost.
        let transcript = first["transcript_path"].as_str().unwrap_or_default();
        let written = || {
            fs::read_to_string(transcript)
                .ok()
                .filter(|text| text.contains("done one"))
        };
        assert!(wait::until(PATIENCE, written).is_some());
        let claude = i32::try_from(first["claude_pid"].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(claude).unwrap(), Signal::KILL).unwrap();

        let second = launch(&person, |file| {
            file["claude_pid"] != first["claude_pid"] && file["session_id"].is_string()
        });
        assert_eq!(session(&second), session(&first));
        person.ready();
        person.wait_text("done one");
        person.submits("second thing");
        person.wait_text("done two");
        let turns = story.model.turns();
        assert!(
            turns.last().unwrap().contains("first thing"),
            "the same conversation"
        );
        assert_eq!(turns.len(), 2, "the first prompt was sent once");
        person.leaves();
        Ok(())
    });
}

/// Passes the StopFailure of a turn with this answer to `look`. Only a subscription has limits that reset.
fn failure(subscription: bool, answer: Turn, look: impl FnOnce(&Event)) {
    story(|given| {
        let mut given = given
            .on("do it", [answer])
            .needs(&["StopFailure"])
            .env("CLAUDE_CODE_MAX_RETRIES", "1");
        if subscription {
            let given_key = given.env("ANTHROPIC_API_KEY", "");
            given = given_key.env("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
        }
        let story = given.begin()?;
        let person = story.person()?;

        person.submits("do it");
        let failure = story.wait_event("StopFailure");
        person.ready();
        look(&failure);
        person.leaves();
        Ok(())
    });
}

fn rejected() -> Turn {
    error(429, "rate_limit_error", "Too much. Try again later.")
}

#[test]
fn a_limit_names_its_reset_in_the_event_and_to_the_second_in_the_transcript() {
    let now = now_ms();
    let resets_at = now / 1000 + 3 * 3600;
    let answer = rejected()
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &resets_at.to_string())
        .header(
            "anthropic-ratelimit-unified-representative-claim",
            "five_hour",
        )
        .header("retry-after", "10800");
    failure(true, answer, |failure| {
        assert!(limit::is_limit(failure.text("error")));
        let said = failure.text("last_assistant_message");
        let named = limit::reset(said, now, &TimeZone::UTC);
        assert_eq!(named, Some(resets_at / 60 * 60_000), "{said}");
        let transcript = Path::new(failure.text("transcript_path"));
        // The line is written some time after the event.
        let found = wait::until(PATIENCE, || limit::at_end(transcript));
        assert_eq!(found, Some(resets_at * 1000));
    });
}

#[test]
fn a_limit_of_an_api_key_names_no_reset() {
    failure(false, rejected(), |failure| {
        assert!(limit::is_limit(failure.text("error")));
        let said = failure.text("last_assistant_message");
        assert!(said.contains("Request rejected (429)"), "{said}");
        assert_eq!(limit::reset(said, 0, &TimeZone::UTC), None);
    });
}

fn prd<'s>(story: &'s Story, args: &[&str]) -> Result<Person<'s>, Unavailable> {
    let world = story.becket();
    let mut command = vec![
        world.programs.join("becket").into_os_string(),
        "--home".into(),
    ];
    command.extend([world.becket_home.clone().into_os_string(), "prd".into()]);
    command.extend(args.iter().map(OsString::from));
    command.push("--".into());
    command.extend(story.claude.command().iter().cloned());
    command.extend(["--permission-mode", "default"].map(OsString::from));
    Person::at(story, &command)
}

fn shown(story: &Story) -> Value {
    let mut show = story.becket().becket(["prd", "show", "checkout", "--json"]);
    let output = show.current_dir(story.home.project()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn sessions(story: &Story) -> Vec<String> {
    let shown = shown(story);
    let sessions = shown["sessions"].as_array().cloned().unwrap_or_default();
    let id = |worked: &Value| {
        assert!(worked["ended_at"].is_string(), "{worked}");
        worked["session_id"].as_str().unwrap_or_default().to_owned()
    };
    sessions.iter().map(id).collect()
}

#[test]
fn a_document_is_started_resumed_and_continued_without_its_transcript() {
    story(|given| {
        let story = given
            .registered(Becket::default().launched_only())
            .registered(Recorder::witness())
            .on("What about refunds", [say("refunds are in")])
            .on("What is still open", [say("nothing is open")])
            .begin()?;
        let file = story
            .home
            .project()
            .join(".becket/prd/checkout/requirements.md");
        let text = "# Checkout\n\nGuests pay without an account.\n";
        story.model.on(
            "requirements for \"Checkout\"",
            [write(&file, text), say("it is written")],
        );

        let person = prd(&story, &["init", "Checkout"])?;
        person.chooses(1);
        person.wait_text("it is written");
        person.leaves();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let first = sessions(&story);
        assert_eq!(first.len(), 1, "{first:?}");
        let turn = &story.model.turns()[0];
        assert!(
            turn.system()
                .contains("You help the user write a product requirements document")
        );

        // The same session again.
        let person = prd(&story, &["continue"])?;
        person.ready();
        person.submits("What about refunds?");
        person.wait_text("refunds are in");
        person.leaves();
        let second = sessions(&story);
        assert_eq!(second, [&first[..], &first[..]].concat());

        // Its transcript is deleted: a new session knows the document.
        let transcript = shown(&story)["sessions"][1]["transcript_path"].clone();
        fs::remove_file(transcript.as_str().unwrap()).unwrap();
        let person = prd(&story, &["continue", "checkout"])?;
        person.wait_text("nothing is open");
        person.leaves();
        let third = sessions(&story);
        assert_eq!(third.len(), 3);
        assert_ne!(third[2], third[1]);
        let turns = story.model.turns();
        let turn = turns.last().unwrap();
        assert!(turn.system().contains("Guests pay without an account."));
        Ok(())
    });
}
