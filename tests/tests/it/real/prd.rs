//! `becket prd` with the real Claude Code: a document that outlives its sessions.

use std::ffi::OsString;
use std::fs;

use becket_tests::model::{say, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, Person, Recorder, Story, story};
use serde_json::Value;

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
fn a_document_is_begun_resumed_and_gone_on_with_without_its_transcript() {
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

        // The same session once more.
        let person = prd(&story, &["continue"])?;
        person.ready();
        person.submits("What about refunds?");
        person.wait_text("refunds are in");
        person.leaves();
        let second = sessions(&story);
        assert_eq!(second, [&first[..], &first[..]].concat());

        // Its transcript is gone: a new session knows the document.
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
