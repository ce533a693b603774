//! A stop of which it is known later that it was let through.

use super::*;
use crate::store::LetThrough;

/// What is displayed after it, and what the person may want to know.
fn let_through(main: bool, alone: bool) -> (Display, Option<(Display, i64)>) {
    let mut desk = Desk::new();
    desk.event("a", "UserPromptSubmit", &json!({"prompt": "go"}));
    let agent = json!({"agent_id": "x", "agent_type": "Explore"});
    desk.event("a", "SubagentStart", &agent);
    let ends = json!({"background_tasks": []});
    let goes_on = json!({"background_tasks": [{"id": "x"}]});
    let (stopper, event) = match main {
        true => (None, desk.event("a", "Stop", &ends)),
        false => {
            desk.event("a", "Stop", &goes_on);
            (Some("x"), desk.event("a", "SubagentStop", &agent))
        }
    };
    assert!(event.is_some());
    let stop = EventId::new(desk.now, [0; 2]);
    let live = desk.registry.sessions.get_mut("a").unwrap();
    live.session.stop_judged(stopper, stop, desk.now);
    assert_eq!(live.session.shown(), Display::Working);
    let through = LetThrough {
        stop,
        session: "a".to_owned(),
        at: desk.now,
        let_at: desk.now + 90_000,
        main,
        alone,
    };
    let (news, told) = desk.registry.stop_was_let_through(&through);
    assert!(news);
    let told = told.map(|change| (change.after, change.at - through.at));
    (desk.rows()[0].display, told)
}

#[test]
fn the_person_is_told_of_the_main_agent_where_nobody_did_and_as_of_when_it_was_let() {
    let told = Some((Display::Done, 90_000));
    assert_eq!(let_through(true, true), (Display::Done, told));
    assert_eq!(let_through(true, false), (Display::Done, None));
    assert_eq!(let_through(false, true), (Display::Done, None));
}
