//! The output of trials of real hooks.

use std::path::PathBuf;
use std::time::Duration;

use becket_engine::process::{JobResult, Occasion, Outcome};
use becket_wire::EventId;
use becket_wire::event::EventName;

use super::report::{self, Profile};
use super::*;
use crate::hook_trial::{Sample, SampleSource};
use crate::session::tests::{MINUTE, NOW, look};

const EVENT: &str = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

fn sample(from: SampleSource) -> Sample {
    let payload = r#"{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Write"}"#;
    Sample {
        event: EventName::from("PostToolUse"),
        payload: payload.into(),
        from,
    }
}

fn recorded() -> Sample {
    sample(SampleSource::Log {
        id: EVENT.parse().unwrap(),
        at: NOW - MINUTE,
        masked: 2,
    })
}

fn tried(outcome: Outcome, took_ms: u64, stdout: &str, stderr: &str) -> TrialResult {
    let ran = JobResult {
        hook: "house-style".to_owned(),
        at: NOW,
        took: Duration::from_millis(took_ms),
        limit: Duration::from_secs(30),
        outcome,
        stdout: stdout.into(),
        stderr: stderr.into(),
        dropped: 0,
    };
    let event = EventName::from("PostToolUse");
    let answer = ran.answer(&event);
    let on = Occasion {
        event_id: EVENT.parse::<EventId>().unwrap(),
        event: &event,
        session_id: Some("s"),
        agent_id: None,
    };
    let row = ran.row(on, &answer);
    TrialResult { ran, answer, row }
}

const BLOCKS: &str = r#"{"decision":"block","reason":"Names are in snake_case."}"#;

fn shown(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn a_trial_is_told_step_by_step() {
    let refused = tried(Outcome::Exited(0), 48, BLOCKS, "");
    let one = |tried: &TrialResult, sample: &Sample, standing: Option<&str>| {
        shown(&report::one(tried, sample, standing, &look(100)))
    };
    insta::assert_snapshot!("blocks", one(&refused, &recorded(), None));
    let silent = tried(Outcome::Exited(0), 3, "", "");
    let file = sample(SampleSource::File(PathBuf::from("/home/user/event.json")));
    let standing = Some("off in config, user /home/user/.becket/config.toml:3");
    insta::assert_snapshot!("silent", one(&silent, &file, standing));
    let hung = tried(Outcome::TimedOut, 30_000, "half of it\nand a tab:\t.", "");
    insta::assert_snapshot!(
        "timed_out",
        one(&hung, &sample(SampleSource::BuiltIn), None)
    );
    let failed = tried(Outcome::Exited(127), 5, "", "sh: 1: nope: not found\n");
    insta::assert_snapshot!("failed", one(&failed, &sample(SampleSource::BuiltIn), None));
}

#[test]
fn scripts_get_a_trial_whole() {
    let refused = tried(Outcome::Exited(0), 48, BLOCKS, "a warning\n");
    let recorded = recorded();
    let told = report::json(&refused, &recorded, Some("disabled for this session"));
    insta::assert_snapshot!("try_json", serde_json::to_string_pretty(&told).unwrap());
}

#[test]
fn many_trials_are_a_table() {
    let fast = tried(Outcome::Exited(0), 48, BLOCKS, "");
    let slow = tried(Outcome::Exited(0), 6200, "", "");
    let long = format!(
        r#"{{"decision":"block","reason":"{}"}}"#,
        "x".repeat(12_000)
    );
    let long = tried(Outcome::Exited(0), 51, &long, "");
    let failed = tried(Outcome::Exited(127), 5, "", "sh: 1: nope: not found\n");
    let profiles = [
        Profile::new(
            "house-style",
            &recorded(),
            &[fast.clone(), fast.clone(), fast],
        ),
        Profile::new("typecheck-project", &recorded(), &[slow.clone(), slow]),
        Profile::new("talks", &sample(SampleSource::BuiltIn), &[long]),
        Profile::new("broken", &sample(SampleSource::BuiltIn), &[failed]),
        Profile::none("strange", "not trusted: becket trust".to_owned()),
    ];
    let table = |width| report::profile(&profiles, &look(width));
    insta::assert_snapshot!("profile", shown(&table(140)));
    insta::assert_snapshot!("profile_narrow", shown(&table(60)));
    let json = serde_json::to_string_pretty(&profiles[1]).unwrap();
    insta::assert_snapshot!("profile_json", json);
}

#[test]
fn what_a_hook_prints_moves_no_cursor() {
    let odd = tried(
        Outcome::Exited(0),
        1,
        "\u{1b}[31mx\u{9b}\u{202e}\r\n\u{7}y",
        "\u{1b}]0;t\u{7}",
    );
    let text = report::one(&odd, &recorded(), Some("\u{1b}[31mz"), &look(100));
    let plain = shown(&text);
    assert!(
        !plain.chars().any(|c| c.is_control() && c != '\n'),
        "{plain:?}"
    );
    assert!(
        !text.contains("\u{1b}[31mx") && !text.contains("\u{1b}]"),
        "{text:?}"
    );
}

#[test]
fn every_event_that_comes_along_is_one_of_this_project() {
    let project = Path::new("/srv/a \"b\" ä");
    let samples: Vec<Sample> = built_in(project).collect();
    assert_eq!(samples.len(), BUILT_IN.len());
    for sample in samples {
        let head = Head::read(&sample.payload).unwrap();
        assert_eq!(head.cwd.as_deref(), project.to_str(), "{}", sample.name());
        assert!(sample.event.as_str().len() > 3);
    }
}
