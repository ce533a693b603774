//! What becket must never do to somebody's settings file.

mod any;
mod command;
mod line;
mod properties;
mod realistic;

use super::inspect::{State, inspect};
use super::register::register;
use super::registration::{REGISTERED, Registration, Strict};

fn registration() -> Registration {
    Registration {
        program: "/opt/becket/becket-hook".into(),
        home: "/home/user/.becket".into(),
        strict: Strict::Keep,
        status_line: true,
        claude: None,
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
