//! The status line that somebody had before.

use std::fs;

use super::command::Home;
use crate::settings::{
    Scope, Standing, StatusLine, Strict, init, line_is_unwanted, read, status_line_before,
};

const MINE: &str =
    "{ \"command\": \"~/bin/line 'a b'\", // mine\n  \"type\": \"command\", \"padding\": 2,}";

fn with_line() -> Home {
    Home::with(format!(
        "{{\"model\": \"opus\",\n  \"statusLine\" : {MINE}\n}}\n"
    ))
}

fn again(home: &Home, line: StatusLine) -> Standing {
    let outcome = init(&home.world, Scope::User, Strict::Keep, line, false).unwrap();
    outcome.inspection.status_line
}

/// The command in the file, with the throw-away home taken out.
fn command(home: &Home) -> String {
    let text = home.text();
    let at = text.rfind("\"statusLine\"").unwrap();
    let line = text[at..].lines().next().unwrap();
    let root = home.world.cwd.display().to_string();
    line.trim_end_matches(',').replace(&root, "")
}

#[test]
fn it_is_kept_and_run_beside_ours() {
    let home = with_line();
    let outcome = home.init();
    assert!(outcome.inspection.status_line.is_beside());
    insta::assert_snapshot!(command(&home), @r#""statusLine" : {"type": "command", "command": "/bin/becket-hook --statusline --beside --home /becket", "padding": 2}"#);
    let before = status_line_before(&home.world);
    assert_eq!(before.as_deref(), Some("~/bin/line 'a b'"));
    let text = home.text();
    assert!(!home.init().changed(), "twice is once");
    assert_eq!(home.text(), text);
}

#[test]
fn it_comes_back_byte_for_byte_though_the_rest_was_changed() {
    let home = with_line();
    home.init();
    let text = home.text().replace("opus", "sonnet");
    fs::write(home.file(), text).unwrap();
    home.init();
    assert_eq!(
        status_line_before(&home.world).as_deref(),
        Some("~/bin/line 'a b'")
    );
    home.uninit();
    let expected = format!("{{\"model\": \"sonnet\",\n  \"statusLine\" : {MINE}\n}}\n");
    assert_eq!(home.text(), expected);
}

#[test]
fn one_that_was_changed_since_is_left_alone() {
    let home = with_line();
    home.init();
    let text = home.text();
    let at = text
        .find("{\"type\": \"command\", \"command\": \"")
        .unwrap();
    let end = text[at..].find('}').unwrap() + at + 1;
    let other = r#"{"type": "command", "command": "new"}"#;
    let changed = format!("{}{other}{}", &text[..at], &text[end..]);
    fs::write(home.file(), &changed).unwrap();
    home.uninit();
    assert!(home.text().contains(other), "{}", home.text());
    assert!(!home.text().contains("becket"), "{}", home.text());

    fs::write(home.file(), &changed).unwrap();
    home.init();
    assert_eq!(status_line_before(&home.world).as_deref(), Some("new"));
}

#[test]
fn ours_alone_needs_nothing_beside_it() {
    let home = Home::with("{}\n");
    home.init();
    insta::assert_snapshot!(command(&home), @r#""statusLine": {"type": "command", "command": "/bin/becket-hook --statusline --home /becket"}"#);
    assert_eq!(status_line_before(&home.world), None);
    home.uninit();
    assert_eq!(home.text(), "{}\n");
}

#[test]
fn ours_stays_as_somebody_laid_it_out() {
    let home = Home::with("{}\n");
    home.init();
    let spread = home
        .text()
        .replace("\"statusLine\": {", "\"statusLine\":\n   { // becket\n");
    fs::write(home.file(), &spread).unwrap();
    assert!(!home.init().changed());
    assert_eq!(home.text(), spread);
}

#[test]
fn whoever_wants_none_is_asked_once() {
    let home = with_line();
    let before = home.text();
    assert_eq!(again(&home, StatusLine::Off), Standing::Theirs);
    assert!(home.text().contains(MINE));
    assert_eq!(again(&home, StatusLine::Keep), Standing::Theirs);
    assert!(line_is_unwanted(&home.world, &home.file()));
    assert!(again(&home, StatusLine::On).is_beside());
    assert!(again(&home, StatusLine::Keep).is_beside());
    assert_eq!(again(&home, StatusLine::Off), Standing::Theirs);
    assert!(home.text().contains(MINE));
    home.uninit();
    assert_eq!(home.text(), before);
}

#[test]
fn a_projects_settings_get_none() {
    let home = Home::new();
    let outcome = init(
        &home.world,
        Scope::Local,
        Strict::Keep,
        StatusLine::Keep,
        false,
    )
    .unwrap();
    assert_eq!(outcome.inspection.status_line, Standing::Missing);
    assert!(!read(&outcome.file).unwrap().unwrap().contains("statusLine"));
}

#[test]
fn odd_places_are_quoted_for_the_shell() {
    let mut home = Home::with("{}");
    home.world.place = becket_wire::Place::new(home.world.cwd.join("it's $HOME"));
    home.init();
    insta::assert_snapshot!(command(&home), @r#""statusLine": {"type": "command", "command": "/bin/becket-hook --statusline --home '/it'\\''s $HOME'"}"#);
    assert!(!home.init().changed());
}
