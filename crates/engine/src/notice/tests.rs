use std::collections::BTreeMap;
use std::time::Duration;

use becket_wire::{EventId, Version};
use proptest::prelude::*;

use super::*;
use crate::session::Inference;

const PROMPTED: i64 = 1_000_000;

fn wishes() -> Wishes {
    Wishes {
        on: On::All,
        after: Some(Duration::from_secs(60)),
        command: Some(Program::Shell("tell".to_owned())),
        ..Wishes::default()
    }
}

fn change(before: Display, after: Display, seconds: i64) -> Change {
    Change {
        session: "s".to_owned(),
        before,
        after,
        at: PROMPTED + seconds * 1000,
        prompted_at: Some(PROMPTED),
        attended: true,
        by_person: false,
        project: Some("/home/you/shop".to_owned()),
        title: None,
        reason: None,
    }
}

fn asks() -> Change {
    Change {
        reason: Some("wants to run: make push".to_owned()),
        ..change(Display::Working, Display::Attention, 1)
    }
}

fn kind(wishes: &Wishes, change: &Change) -> Option<Kind> {
    of(wishes, change, Some(&EventName::Stop), 720).map(|notice| notice.kind)
}

#[test]
fn a_session_that_begins_to_need_its_person_is_told_of() {
    use Display::{Attention, Checked, Done, Error, Working};
    for (before, after, seconds, expected) in [
        (Working, Attention, 1, Some(Kind::Attention)),
        (Done, Attention, 1, Some(Kind::Attention)),
        (Checked, Attention, 1, Some(Kind::Attention)),
        (Error, Attention, 1, Some(Kind::Attention)),
        (Attention, Attention, 1, None),
        (Attention, Checked, 1, None),
        (Attention, Working, 90, None),
        (Done, Working, 90, None),
        (Working, Done, 61, Some(Kind::Done)),
        (Working, Done, 60, None),
        (Working, Error, 61, Some(Kind::Error)),
        (Working, Error, 5, None),
        (Checked, Done, 90, None),
        (Checked, Error, 90, Some(Kind::Error)),
        (Checked, Error, 5, None),
        (Error, Done, 90, None),
    ] {
        let found = kind(&wishes(), &change(before, after, seconds));
        assert_eq!(found, expected, "{before:?} {after:?} {seconds}");
    }
}

#[test]
fn how_long_work_must_have_taken_is_the_persons_choice() {
    let after = |after| Wishes { after, ..wishes() };
    let done = change(Display::Working, Display::Done, 61);
    assert_eq!(kind(&after(Some(Duration::from_secs(61))), &done), None);
    let at_once = change(Display::Working, Display::Done, 1);
    let always = after(Some(Duration::ZERO));
    assert_eq!(kind(&always, &at_once), Some(Kind::Done));
    assert_eq!(kind(&after(None), &done), None);
    assert_eq!(kind(&after(None), &asks()), Some(Kind::Attention));
    let unprompted = Change {
        prompted_at: None,
        ..done
    };
    assert_eq!(kind(&wishes(), &unprompted), None);
}

#[test]
fn nothing_is_told_that_its_person_knows_or_that_has_none() {
    let broken_off = Change {
        by_person: true,
        ..change(Display::Working, Display::Done, 90)
    };
    assert_eq!(kind(&wishes(), &broken_off), None);
    let background = Change {
        by_person: true,
        ..asks()
    };
    assert_eq!(kind(&wishes(), &background), Some(Kind::Attention));
    for mut change in [asks(), change(Display::Working, Display::Done, 90)] {
        change.attended = false;
        assert_eq!(kind(&wishes(), &change), None);
    }
    let done = change(Display::Working, Display::Done, 90);
    let by_subagent = of(&wishes(), &done, Some(&EventName::SubagentStop), 720);
    assert_eq!(by_subagent, None);
}

#[test]
fn a_turn_that_was_broken_off_is_its_persons_doing() {
    let mut session = Session::new("s", 1);
    let envelope = envelope("1");
    let payload = br#"{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "go"}"#;
    let head = Head::read(payload).unwrap();
    session.apply(&SessionEvent::new(&head, &envelope));
    let ends = |inference: &Inference| {
        let mut session = session.clone();
        let before = session.shown();
        session.infer(inference, 90_000);
        let change = Change::of(before, &session, 90_000).unwrap();
        of(&wishes(), &change, None, 720).map(|notice| notice.kind)
    };
    assert_eq!(ends(&Inference::TurnDied { error: None }), Some(Kind::Done));
    let error = Some("overloaded".to_owned());
    assert_eq!(ends(&Inference::TurnDied { error }), Some(Kind::Error));
    assert_eq!(ends(&Inference::Interrupted), None);
    assert_eq!(ends(&Inference::ProcessGone), None);
}

fn envelope(attended: &str) -> Envelope {
    Envelope {
        id: EventId::new(5, [7; 2]),
        at: 5,
        version: Version::current(),
        event: None,
        from: None,
        home: "/h".into(),
        pid: 4,
        pid_start: None,
        pid_is_claude: true,
        pid_parent: None,
        variables: BTreeMap::from([("CLAUDE_CODE_SESSION_ATTENDED".into(), attended.into())]),
        cut: None,
    }
}

#[test]
fn only_wanted_notices_are_made() {
    let done = change(Display::Working, Display::Done, 90);
    let error = change(Display::Working, Display::Error, 90);
    for (on, expected) in [
        (On::Off, [false, false, false]),
        (On::Attention, [true, false, false]),
        (On::Done, [false, true, true]),
        (On::All, [true, true, true]),
    ] {
        let wishes = Wishes { on, ..wishes() };
        let found = [&asks(), &done, &error].map(|change| kind(&wishes, change).is_some());
        assert_eq!(found, expected, "{on:?}");
    }
}

#[test]
fn less_is_less() {
    use On::{All, Attention, Done, Off};
    for (new, in_force, expected) in [
        (Off, All, true),
        (Off, Attention, true),
        (Attention, All, true),
        (Done, All, true),
        (Off, Off, false),
        (All, All, false),
        (Attention, Done, false),
        (Attention, Off, false),
        (All, Done, false),
    ] {
        assert_eq!(new.is_less_than(in_force), expected, "{new:?} {in_force:?}");
    }
}

#[test]
fn quiet_hours_may_go_over_midnight() {
    let covers = |text: &str, minutes: [u16; 6]| {
        let quiet = Quiet::read(text).unwrap().unwrap();
        minutes.map(|minute| quiet.covers(minute))
    };
    let minutes = [0, 419, 420, 1319, 1320, 1439];
    assert_eq!(
        covers("22:00-07:00", minutes),
        [true, true, false, false, true, true]
    );
    assert_eq!(
        covers("7:00 - 22:00", minutes),
        [false, false, true, true, false, false]
    );
    assert_eq!(Quiet::read("never"), Ok(None));
    for wrong in [
        "",
        "22:00",
        "22:00-",
        "24:00-07:00",
        "22:60-07:00",
        "7-8",
        "07:00-07:00",
        "+7:00-8:00",
        "007:00-8:00",
    ] {
        assert!(Quiet::read(wrong).is_err(), "{wrong}");
    }
    let wishes = Wishes {
        quiet: Quiet::read("22:00-07:00").unwrap(),
        ..wishes()
    };
    let told = |minute| of(&wishes, &asks(), Some(&EventName::Stop), minute).is_some();
    assert_eq!([60, 720, 1380].map(told), [false, true, false]);
}

#[test]
fn a_project_has_wishes_of_its_own() {
    let projects = [
        ("shop", On::Off),
        ("/home/you/work", On::Attention),
        ("/home/you/work/v1.2", On::Done),
    ];
    let wishes = Wishes {
        projects: BTreeMap::from(projects.map(|(name, on)| (name.to_owned(), on))),
        ..wishes()
    };
    for (project, expected) in [
        (Some("/home/you/shop"), On::Off),
        (Some("/elsewhere/shop"), On::Off),
        (Some("/home/you/shopping"), On::All),
        (Some("/home/you/work/api"), On::Attention),
        (Some("/home/you/work/shop"), On::Attention),
        (Some("/home/you/work/v1.2"), On::Done),
        (Some("/home/you/workshop"), On::All),
        (None, On::All),
    ] {
        assert_eq!(wishes.for_project(project), expected, "{project:?}");
    }
    assert_eq!(kind(&wishes, &asks()), None);
}

#[test]
fn a_notice_goes_by_the_terminal_where_it_is_shown_and_else_by_a_command() {
    let by = |how, event: Option<&EventName>| {
        let wishes = Wishes { how, ..wishes() };
        let notice = of(&wishes, &asks(), event, 720).unwrap();
        (notice.sequence, notice.command.is_some())
    };
    let bell = (Some("\u{7}".to_owned()), false);
    for event in [
        EventName::PermissionRequest,
        EventName::Elicitation,
        EventName::Stop,
        EventName::PreToolUse,
    ] {
        assert_eq!(by(How::Bell, Some(&event)), bell, "{event}");
        assert_eq!(by(How::Command, Some(&event)), (None, true), "{event}");
    }
    assert_eq!(by(How::Bell, Some(&EventName::Notification)), (None, true));
    assert_eq!(by(How::Osc9, Some(&EventName::StopFailure)), (None, true));
    assert_eq!(by(How::Bell, None), (None, true));
    let speechless = Wishes {
        command: None,
        ..wishes()
    };
    assert_eq!(of(&speechless, &asks(), None, 720), None);
}

#[test]
fn a_notice_says_who_and_what() {
    let said = |how, change: &Change| {
        let wishes = Wishes { how, ..wishes() };
        of(&wishes, change, Some(&EventName::Stop), 720)
            .and_then(|notice| notice.sequence)
            .unwrap()
            .replace('\u{1b}', "ESC")
            .replace('\u{7}', "BEL")
    };
    assert_eq!(
        said(How::Osc9, &asks()),
        "ESC]9;Claude Code in shop is waiting for you: wants to run: make pushBEL"
    );
    let mut done = change(Display::Working, Display::Done, 2 * 3600 + 310);
    done.title = Some("fix the\n tests".to_owned());
    assert_eq!(
        said(How::Osc777, &done),
        "ESC]777;notify;Claude Code in shop;is done after 2 h 5 min (fix the tests)BEL"
    );
    done.project = Some("/a;b".to_owned());
    assert!(said(How::Osc777, &done).contains(";Claude Code in a,b;"));
    let mut error = change(Display::Working, Display::Error, 200);
    error.reason = Some("rate_limit".to_owned());
    error.project = None;
    assert_eq!(
        said(How::Osc9, &error),
        "ESC]9;Claude Code failed after 3 min: rate_limitBEL"
    );
    error.reason = Some("x".repeat(500));
    assert!(said(How::Osc9, &error).chars().count() < 200);
}

#[test]
fn where_nothing_is_known_of_a_session_a_question_is_told_of() {
    let alone = |event: &str, attended: &str| {
        let payload = format!(
            r#"{{"hook_event_name": "{event}", "session_id": "s", "cwd": "/home/you/shop/src", "tool_name": "Bash", "tool_input": {{"command": "make push"}}}}"#
        );
        let head = Head::read(payload.as_bytes()).unwrap();
        let project = Path::new("/home/you/shop");
        let change = Change::alone(&head, &envelope(attended), Some(project))?;
        let event = EventName::from(event);
        of(&wishes(), &change, Some(&event), 720).map(|notice| (notice.title, notice.text))
    };
    assert_eq!(
        alone("PermissionRequest", "1").unwrap(),
        (
            "Claude Code in shop".to_owned(),
            "is waiting for you: wants to run: make push".to_owned()
        )
    );
    assert!(alone("Elicitation", "1").is_some());
    for silent in ["Stop", "StopFailure", "PreToolUse", "UserPromptSubmit"] {
        assert_eq!(alone(silent, "1"), None, "{silent}");
    }
    assert_eq!(alone("PermissionRequest", "0"), None);
}

proptest! {
    #[test]
    fn no_text_of_anybody_reaches_the_terminal_as_a_command(
        texts in proptest::array::uniform4("(?s)([\\x00-\\x1f\\x7f-\\u{9f};]|\\u{202e}|[0-9]|.){0,40}"),
        how in prop_oneof![Just(How::Osc9), Just(How::Osc777)],
    ) {
        let [project, title, reason, session] = texts;
        let change = Change {
            project: Some(format!("/home/{project}")),
            title: Some(title),
            reason: Some(reason),
            session,
            ..asks()
        };
        let wishes = Wishes { how, ..wishes() };
        let notice = of(&wishes, &change, Some(&EventName::Stop), 720).unwrap();
        let sequence = notice.sequence.clone().unwrap();
        let body = sequence.strip_prefix("\u{1b}]").and_then(|rest| rest.strip_suffix('\u{7}'));
        let body = body.expect("one sequence");
        prop_assert!(!body.contains(char::is_control), "{body:?}");
        prop_assert!(!body.contains('\u{202e}'), "{body:?}");
        prop_assert!(body.starts_with("9;Claude Code") || body.starts_with("777;notify;Claude Code"));
        for (name, value) in notice.variables() {
            prop_assert!(!value.contains(char::is_control), "{name} {value:?}");
        }
    }
}
