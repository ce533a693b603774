//! `[notice]`: what of it counts where.

use super::*;
use crate::notice::{How, Quiet};
use crate::run::Program;

#[test]
fn notices_are_as_the_user_writes_them() {
    let text = r#"
[notice]
on = "attention"
how = "osc777"
command = ["notify", "a b"]
after = "5m"
quiet = "22:00-07:00"
[notice.projects]
shop = "off"
"/home/you/v1.2" = "all"
"#;
    let wishes = merge(&[layer(Level::User, text)]).config.notice;
    assert_eq!((wishes.on, wishes.how), (On::Attention, How::Osc777));
    let words = ["notify", "a b"].map(str::to_owned);
    assert_eq!(wishes.command, Some(Program::List(words.to_vec())));
    assert_eq!(wishes.after, Some(Duration::from_secs(300)));
    assert_eq!(Ok(wishes.quiet), Quiet::read("22:00-07:00"));
    let projects: Vec<_> = wishes.projects.into_iter().collect();
    assert_eq!(
        projects,
        [
            ("/home/you/v1.2".to_owned(), On::All),
            ("shop".to_owned(), On::Off)
        ]
    );
    let line = layer(Level::User, "notice.command = \"beep; beep\"");
    let command = merge(&[line]).config.notice.command;
    assert_eq!(command, Some(Program::Shell("beep; beep".to_owned())));
    assert_eq!(merge([]).config.notice.command, None);
}

#[test]
fn what_is_no_notice_is_told_with_its_place() {
    for (text, expected) in [
        (
            "notice.on = \"loud\"",
            "/user.toml:1:13: notice.on: expected one of off, attention, done, all, found \"loud\"",
        ),
        (
            "notice.how = \"smoke\"",
            "/user.toml:1:14: notice.how: expected one of bell, osc9, osc777, command, found \"smoke\"",
        ),
        (
            "notice.quiet = \"night\"",
            "/user.toml:1:16: notice.quiet: expected hours like \"22:00-07:00\" or \"never\", found \"night\"",
        ),
        (
            "notice.command = []",
            "/user.toml:1:18: notice.command: expected a command, or a list of a program and its arguments, found a list without one",
        ),
        (
            "notice.command = [\"a\", 1]",
            "/user.toml:1:18: notice.command: expected a command, or a list of a program and its arguments, found 1 in it",
        ),
        (
            "notice.projects.shop = true",
            "/user.toml:1:24: notice.projects.shop: expected a text, found true",
        ),
    ] {
        assert_eq!(told(text), [expected], "{text}");
    }
}

#[test]
fn a_project_and_the_environment_may_only_silence() {
    let user = layer(
        Level::User,
        "notice.on = \"attention\"\nnotice.command = \"mine\"",
    );
    let on = |text: &str| {
        let project = layer(Level::Project, text);
        let effective = merge([&user, &project]);
        (effective.config.notice.on, effective.warnings.len())
    };
    assert_eq!(on("notice.on = \"off\""), (On::Off, 0));
    assert_eq!(on("notice.on = \"all\""), (On::Attention, 1));
    assert_eq!(on("notice.on = \"done\""), (On::Attention, 1));
    let theirs = layer(Level::Project, "notice.command = \"theirs\"");
    assert_eq!(theirs.warnings.len(), 1);
    let (variables, _) = parse_variables([
        ("BECKET_NOTICE_COMMAND", "theirs"),
        ("BECKET_NOTICE_HOW", "command"),
        ("BECKET_NOTICE_ON", "off"),
    ]);
    let effective = merge([&user, &theirs, &variables]);
    let wishes = effective.config.notice;
    assert_eq!(wishes.command, Some(Program::Shell("mine".to_owned())));
    assert_eq!((wishes.how, wishes.on), (How::Bell, On::Off));
    assert_eq!(effective.warnings.len(), 2);
}
