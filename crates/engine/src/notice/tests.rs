use std::collections::BTreeMap;
use std::time::Duration;

use becket_wire::{EventId, Version};
use proptest::prelude::*;

use super::*;
use crate::session::Inference;

const PROMPTED: i64 = 1_000_000;

fn settings() -> NoticeSettings {
    NoticeSettings {
        on: NoticeFilter::All,
        after: Some(Duration::from_secs(60)),
        command: Some(Program::Shell("tell".to_owned())),
        ..NoticeSettings::default()
    }
}

fn change(before: Display, after: Display, seconds: i64) -> DisplayChange {
    DisplayChange {
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

fn asks() -> DisplayChange {
    DisplayChange {
        reason: Some("wants to run: make push".to_owned()),
        ..change(Display::Working, Display::Attention, 1)
    }
}

fn kind(settings: &NoticeSettings, change: &DisplayChange) -> Option<NoticeKind> {
    for_change(settings, change, Some(&EventName::Stop), 720).map(|notice| notice.kind)
}

#[test]
fn a_session_that_begins_to_need_its_person_is_told_of() {
    use Display::{Attention, Checked, Done, Error, Working};
    for (before, after, seconds, expected) in [
        (Working, Attention, 1, Some(NoticeKind::Attention)),
        (Done, Attention, 1, Some(NoticeKind::Attention)),
        (Checked, Attention, 1, Some(NoticeKind::Attention)),
        (Error, Attention, 1, Some(NoticeKind::Attention)),
        (Attention, Attention, 1, None),
        (Attention, Checked, 1, None),
        (Attention, Working, 90, None),
        (Done, Working, 90, None),
        (Working, Done, 61, Some(NoticeKind::Done)),
        (Working, Done, 60, None),
        (Working, Error, 61, Some(NoticeKind::Error)),
        (Working, Error, 5, None),
        (Checked, Done, 90, None),
        (Checked, Error, 90, Some(NoticeKind::Error)),
        (Checked, Error, 5, None),
        (Error, Done, 90, None),
    ] {
        let found = kind(&settings(), &change(before, after, seconds));
        assert_eq!(found, expected, "{before:?} {after:?} {seconds}");
    }
}

#[test]
fn how_long_work_must_have_taken_is_the_persons_choice() {
    let after = |after| NoticeSettings {
        after,
        ..settings()
    };
    let done = change(Display::Working, Display::Done, 61);
    assert_eq!(kind(&after(Some(Duration::from_secs(61))), &done), None);
    let at_once = change(Display::Working, Display::Done, 1);
    let always = after(Some(Duration::ZERO));
    assert_eq!(kind(&always, &at_once), Some(NoticeKind::Done));
    assert_eq!(kind(&after(None), &done), None);
    assert_eq!(kind(&after(None), &asks()), Some(NoticeKind::Attention));
    let unprompted = DisplayChange {
        prompted_at: None,
        ..done
    };
    assert_eq!(kind(&settings(), &unprompted), None);
}

#[test]
fn nothing_is_told_that_its_person_knows_or_that_has_none() {
    let broken_off = DisplayChange {
        by_person: true,
        ..change(Display::Working, Display::Done, 90)
    };
    assert_eq!(kind(&settings(), &broken_off), None);
    let background = DisplayChange {
        by_person: true,
        ..asks()
    };
    assert_eq!(kind(&settings(), &background), Some(NoticeKind::Attention));
    for mut change in [asks(), change(Display::Working, Display::Done, 90)] {
        change.attended = false;
        assert_eq!(kind(&settings(), &change), None);
    }
    let done = change(Display::Working, Display::Done, 90);
    let by_subagent = for_change(&settings(), &done, Some(&EventName::SubagentStop), 720);
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
        let change = DisplayChange::of(before, &session, 90_000).unwrap();
        for_change(&settings(), &change, None, 720).map(|notice| notice.kind)
    };
    assert_eq!(
        ends(&Inference::TurnDied { error: None }),
        Some(NoticeKind::Done)
    );
    let error = Some("overloaded".to_owned());
    assert_eq!(
        ends(&Inference::TurnDied { error }),
        Some(NoticeKind::Error)
    );
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
        (NoticeFilter::Off, [false, false, false]),
        (NoticeFilter::Attention, [true, false, false]),
        (NoticeFilter::Done, [false, true, true]),
        (NoticeFilter::All, [true, true, true]),
    ] {
        let settings = NoticeSettings { on, ..settings() };
        let found = [&asks(), &done, &error].map(|change| kind(&settings, change).is_some());
        assert_eq!(found, expected, "{on:?}");
    }
}

#[test]
fn less_is_less() {
    use NoticeFilter::{All, Attention, Done, Off};
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
        let quiet = QuietHours::read(text).unwrap().unwrap();
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
    assert_eq!(QuietHours::read("never"), Ok(None));
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
        assert!(QuietHours::read(wrong).is_err(), "{wrong}");
    }
    let settings = NoticeSettings {
        quiet: QuietHours::read("22:00-07:00").unwrap(),
        ..settings()
    };
    let told = |minute| for_change(&settings, &asks(), Some(&EventName::Stop), minute).is_some();
    assert_eq!([60, 720, 1380].map(told), [false, true, false]);
}

#[test]
fn a_project_has_wishes_of_its_own() {
    let projects = [
        ("shop", NoticeFilter::Off),
        ("/home/you/work", NoticeFilter::Attention),
        ("/home/you/work/v1.2", NoticeFilter::Done),
    ];
    let settings = NoticeSettings {
        projects: BTreeMap::from(projects.map(|(name, on)| (name.to_owned(), on))),
        ..settings()
    };
    for (project, expected) in [
        (Some("/home/you/shop"), NoticeFilter::Off),
        (Some("/elsewhere/shop"), NoticeFilter::Off),
        (Some("/home/you/shopping"), NoticeFilter::All),
        (Some("/home/you/work/api"), NoticeFilter::Attention),
        (Some("/home/you/work/shop"), NoticeFilter::Attention),
        (Some("/home/you/work/v1.2"), NoticeFilter::Done),
        (Some("/home/you/workshop"), NoticeFilter::All),
        (None, NoticeFilter::All),
    ] {
        assert_eq!(settings.for_project(project), expected, "{project:?}");
    }
    assert_eq!(kind(&settings, &asks()), None);
}

#[test]
fn a_notice_goes_by_the_terminal_where_it_is_shown_and_else_by_a_command() {
    let by = |how, event: Option<&EventName>| {
        let settings = NoticeSettings { how, ..settings() };
        let notice = for_change(&settings, &asks(), event, 720).unwrap();
        (notice.sequence, notice.command.is_some())
    };
    let bell = (Some("\u{7}".to_owned()), false);
    for event in [
        EventName::PermissionRequest,
        EventName::Elicitation,
        EventName::Stop,
        EventName::PreToolUse,
    ] {
        assert_eq!(by(NoticeChannel::Bell, Some(&event)), bell, "{event}");
        assert_eq!(
            by(NoticeChannel::Command, Some(&event)),
            (None, true),
            "{event}"
        );
    }
    assert_eq!(
        by(NoticeChannel::Bell, Some(&EventName::Notification)),
        (None, true)
    );
    assert_eq!(
        by(NoticeChannel::Osc9, Some(&EventName::StopFailure)),
        (None, true)
    );
    assert_eq!(by(NoticeChannel::Bell, None), (None, true));
    let speechless = NoticeSettings {
        command: None,
        ..settings()
    };
    assert_eq!(for_change(&speechless, &asks(), None, 720), None);
}

#[test]
fn a_notice_says_who_and_what() {
    let said = |how, change: &DisplayChange| {
        let settings = NoticeSettings { how, ..settings() };
        for_change(&settings, change, Some(&EventName::Stop), 720)
            .and_then(|notice| notice.sequence)
            .unwrap()
            .replace('\u{1b}', "ESC")
            .replace('\u{7}', "BEL")
    };
    assert_eq!(
        said(NoticeChannel::Osc9, &asks()),
        "ESC]9;Claude Code in shop is waiting for you: wants to run: make pushBEL"
    );
    let mut done = change(Display::Working, Display::Done, 2 * 3600 + 310);
    done.title = Some("fix the\n tests".to_owned());
    assert_eq!(
        said(NoticeChannel::Osc777, &done),
        "ESC]777;notify;Claude Code in shop;is done after 2 h 5 min (fix the tests)BEL"
    );
    done.project = Some("/a;b".to_owned());
    assert!(said(NoticeChannel::Osc777, &done).contains(";Claude Code in a,b;"));
    let mut error = change(Display::Working, Display::Error, 200);
    error.reason = Some("rate_limit".to_owned());
    error.project = None;
    assert_eq!(
        said(NoticeChannel::Osc9, &error),
        "ESC]9;Claude Code failed after 3 min: rate_limitBEL"
    );
    error.reason = Some("x".repeat(500));
    assert!(said(NoticeChannel::Osc9, &error).chars().count() < 200);
}

#[test]
fn where_nothing_is_known_of_a_session_a_question_is_told_of() {
    let alone = |event: &str, attended: &str| {
        let payload = format!(
            r#"{{"hook_event_name": "{event}", "session_id": "s", "cwd": "/home/you/shop/src", "tool_name": "Bash", "tool_input": {{"command": "make push"}}}}"#
        );
        let head = Head::read(payload.as_bytes()).unwrap();
        let project = Path::new("/home/you/shop");
        let change = DisplayChange::alone(&head, &envelope(attended), Some(project))?;
        let event = EventName::from(event);
        for_change(&settings(), &change, Some(&event), 720)
            .map(|notice| (notice.title, notice.text))
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
        how in prop_oneof![Just(NoticeChannel::Osc9), Just(NoticeChannel::Osc777)],
    ) {
        let [project, title, reason, session] = texts;
        let change = DisplayChange {
            project: Some(format!("/home/{project}")),
            title: Some(title),
            reason: Some(reason),
            session,
            ..asks()
        };
        let settings = NoticeSettings { how, ..settings() };
        let notice = for_change(&settings, &change, Some(&EventName::Stop), 720).unwrap();
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
