//! What becket must never do to somebody's settings file.

pub mod any;
pub mod command;
mod foreign;
mod line;
mod properties;
mod realistic;

use std::collections::BTreeSet;

use super::inspect::{State, inspect};
use super::register::{make_synchronous, register};
use super::registration::{REGISTERED, Registration, Strict};

fn registration() -> Registration {
    Registration {
        program: "/opt/becket/becket-hook".into(),
        home: "/home/user/.becket".into(),
        strict: Strict::Keep,
        status_line: true,
        claude: None,
        synchronous: BTreeSet::new(),
    }
}

#[test]
fn an_older_claude_code_is_spared_the_events_that_it_would_warn_of() {
    let newest = registration();
    let older = Registration {
        claude: Some([2, 1, 197]),
        ..registration()
    };
    let text = register("", &older).unwrap();
    assert!(text.contains("PostToolBatch") && !text.contains("PreModelSwitch"));
    let missing = inspect(&text, &newest).unwrap().count(State::Missing);
    assert_eq!(missing, 3, "and they are found missing by a newer one");
    let upgraded = register(&text, &newest).unwrap();
    let found = inspect(&upgraded, &newest).unwrap().count(State::Found);
    assert_eq!(found, REGISTERED.len());
    assert!(
        !register(&upgraded, &older)
            .unwrap()
            .contains("PreModelSwitch")
    );
}

#[test]
fn where_a_hook_answers_claude_code_waits() {
    let late = registration();
    let waits = Registration {
        synchronous: BTreeSet::from(["Notification".to_owned(), "Stop".to_owned()]),
        ..registration()
    };
    let text = register("", &late).unwrap();
    let different = inspect(&text, &waits).unwrap();
    assert_eq!(different.count(State::Different), 1, "doctor finds it");
    let mended = register(&text, &waits).unwrap();
    assert_eq!(mended, make_synchronous(&text, &waits).unwrap());
    let asynchronous = |text: &str| text.matches(r#""async": true"#).count();
    assert_eq!(asynchronous(&mended), asynchronous(&text) - 1);
    assert!(mended.contains(
        r#""Notification", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 600}"#
    ));
    assert_eq!(inspect(&mended, &waits).unwrap().count(State::Different), 0);
    assert_eq!(
        register(&mended, &late).unwrap(),
        mended,
        "and it may stay so"
    );
}
