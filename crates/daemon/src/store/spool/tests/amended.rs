//! What is said of an event later.

use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use becket_wire::run::{CANCELLED, CUT_OFF};

use super::super::super::record;
use super::super::super::sample::record_of;
use super::super::super::write::{Brought, Then};
use super::super::intake::let_through;
use super::*;

fn outcomes(connection: &Connection) -> Vec<(String, String)> {
    let mut runs: Vec<_> = runs_of(connection)
        .into_iter()
        .map(|(_, hook, outcome)| (hook, outcome))
        .collect();
    runs.sort();
    runs
}

fn ran(event: u32, hook: &str, outcome: &str) -> RunRow {
    RunRow {
        outcome: outcome.to_owned(),
        ..run(event, hook)
    }
}

/// The only row, and what was said to it.
fn told(connection: &Connection) -> (Option<i64>, Option<String>) {
    let rows = rows(connection);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let said = rows[0].decision.clone().map(|decision| decision.answer);
    (rows[0].took_us, said)
}

#[test]
fn wherever_an_intake_dies_it_is_there_once() {
    // Left and amended: one insert, one commit, two files. The next one finds what is left of it.
    for steps in 1..=5 {
        for apart in [false, true] {
            let home = Home::new();
            home.leave(3, &undecided());
            if apart {
                Daemon::start(&home).take_in(&home, usize::MAX);
            }
            amend(&home.place, id(3), &said_later(3)).unwrap();
            Daemon::start(&home).take_in(&home, steps);
            let mut daemon = Daemon::start(&home);
            let again = daemon.take_in(&home, usize::MAX);
            assert!(again.new.len() + again.amended <= 1, "{steps} steps");
            assert_eq!(
                told(&daemon.connection),
                (Some(903), Some("deny".to_owned())),
                "{steps} steps"
            );
            assert_eq!(runs_of(&daemon.connection).len(), 1, "{steps} steps");
            assert_eq!(home.files(), 0, "{steps} steps");
        }
    }
}

#[test]
fn an_event_and_what_was_said_of_it_are_new_once_and_whole() {
    let home = Home::new();
    home.leave(3, &undecided());
    amend(&home.place, id(3), &said_later(3)).unwrap();
    let done = Daemon::start(&home).take_in(&home, usize::MAX);
    assert_eq!((done.new.len(), done.amended), (1, 0));
    assert_eq!(done.new[0].took_us, Some(903));
    assert!(done.new[0].decision.is_some());
}

#[test]
fn an_answer_that_is_known_stands_and_the_end_of_a_run_replaces_its_beginning() {
    let home = Home::new();
    let mut first = left(7, Some("ask"));
    first.runs = vec![ran(1, "notify", "async"), ran(1, "lint", "ok")];
    home.leave(1, &first);
    let mut daemon = Daemon::start(&home);
    daemon.take_in(&home, usize::MAX);
    let mut later = left(900, Some("deny"));
    later.runs = vec![ran(1, "notify", "failed"), ran(1, "lint", "async")];
    amend(&home.place, id(1), &later).unwrap();
    let done = daemon.take_in(&home, usize::MAX);
    assert_eq!((done.new.len(), done.amended), (0, 1));
    assert_eq!(told(&daemon.connection), (Some(7), Some("ask".to_owned())));
    let expected = [("lint", "ok"), ("notify", "failed")];
    let expected = expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&daemon.connection), expected);
    // And the same where both lie in the spool.
    let home = Home::new();
    home.leave(1, &first);
    amend(&home.place, id(1), &later).unwrap();
    let mut daemon = Daemon::start(&home);
    daemon.take_in(&home, usize::MAX);
    assert_eq!(told(&daemon.connection), (Some(7), Some("ask".to_owned())));
    assert_eq!(outcomes(&daemon.connection), expected);
}

#[test]
fn what_hooks_did_says_nothing_of_the_answer() {
    let home = Home::new();
    let mut daemon = Daemon::start(&home);
    daemon.by_socket(1, true, false);
    let left = Left::of_runs(vec![ran(1, "lint", "ok")]);
    amend(&home.place, id(1), &left).unwrap();
    daemon.take_in(&home, usize::MAX);
    assert_eq!(told(&daemon.connection), (None, None));
    assert_eq!(rows(&daemon.connection)[0].source, Source::Daemon);
    assert_eq!(runs_of(&daemon.connection).len(), 1);
}

#[test]
fn sessions_hear_of_a_prompt_that_was_blocked_once() {
    let home = Home::new();
    let prompt = br#"{"hook_event_name":"UserPromptSubmit","session_id":"s"}"#;
    leave(&home.place, &envelope(7), prompt, &undecided()).unwrap();
    let mut connection = home.open();
    let blocked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&blocked);
    let apply = move |brought: &Arc<Brought>| {
        heard.lock().unwrap().extend(brought.blocked.clone());
        (Vec::new(), Box::new(|| ()) as Then)
    };
    let mut take = || {
        let (_, ended) = take_in(
            &mut connection,
            &home.place,
            &masker(),
            &mut || 1,
            &apply,
            &mut |_| true,
        );
        ended.unwrap();
    };
    take();
    for answer in ["block", "block"] {
        amend(&home.place, id(7), &left(900, Some(answer))).unwrap();
        take();
    }
    assert_eq!(*blocked.lock().unwrap(), [("s".to_owned(), 7)]);
}

#[test]
fn sessions_hear_of_a_stop_that_was_let_through() {
    let through = |payload: &[u8], answers: &[Left], by_socket: bool| {
        let home = Home::new();
        if by_socket {
            let record = record_of(1, envelope(7), payload);
            assert!(record.insert(&home.open()).unwrap());
            leave(&home.place, &envelope(7), payload, &answers[0]).unwrap();
        } else {
            leave(&home.place, &envelope(7), payload, &undecided()).unwrap();
        }
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let apply = move |brought: &Arc<Brought>| {
            hears.lock().unwrap().extend(brought.let_through.clone());
            (Vec::new(), Box::new(|| ()) as Then)
        };
        let mut connection = home.open();
        let mut take = || {
            let (_, ended) = take_in(
                &mut connection,
                &home.place,
                &masker(),
                &mut || 2,
                &apply,
                &mut |_| true,
            );
            ended.unwrap();
        };
        take();
        for left in answers.iter().filter(|_| !by_socket) {
            amend(&home.place, id(7), left).unwrap();
            take();
        }
        let heard = heard.lock().unwrap().clone();
        heard
            .into_iter()
            .map(|one| (one.session, one.stop, one.at))
            .collect::<Vec<_>>()
    };
    let stop = br#"{"hook_event_name":"Stop","session_id":"s"}"#;
    let call = br#"{"hook_event_name":"PreToolUse","session_id":"s"}"#;
    let silent = || [left(900, None)];
    let told = [("s".to_owned(), id(7), 7)];
    for by_socket in [true, false] {
        assert_eq!(through(stop, &silent(), by_socket), told);
        assert_eq!(
            through(stop, &[left(900, Some("context"))], by_socket),
            told
        );
        assert_eq!(through(stop, &[left(900, Some("block"))], by_socket), []);
        assert_eq!(through(stop, &[undecided()], by_socket), [], "not yet");
        assert_eq!(through(call, &silent(), by_socket), []);
    }
    let again = [left(900, None), left(950, None)];
    assert_eq!(through(stop, &again, false), told, "once");
    for outcome in [CUT_OFF, CANCELLED] {
        let ended = || vec![ran(7, "judge", outcome)];
        let by_daemon = Left {
            source: Source::Daemon,
            ..Left::of_runs(ended())
        };
        let by_alone = Left {
            why: "absent".to_owned(),
            ..Left::of_runs(ended())
        };
        for unheard in [by_daemon, by_alone] {
            let answers = [unheard.clone()];
            assert_eq!(through(stop, &answers, false), told, "{outcome}");
            let late = [left(900, Some("block")), unheard];
            assert_eq!(through(stop, &late, false), [], "it had to go on");
        }
        let behind = [Left::of_runs(ended())];
        assert_eq!(through(stop, &behind, false), [], "nobody waited for it");
    }
}

#[test]
fn a_stop_that_is_let_through_tells_whose_it_was_and_since_when() {
    for (event, main) in [("Stop", true), ("SubagentStop", false)] {
        let home = Home::new();
        let payload = format!(r#"{{"hook_event_name":"{event}","session_id":"s"}}"#);
        let stop = record_of(1, envelope(7), payload.as_bytes());
        let connection = home.open();
        assert!(stop.insert(&connection).unwrap());
        let lasted = left(90_000_000, None);
        let through = let_through(&connection, id(7), &lasted).unwrap().unwrap();
        let times = (through.at, through.let_at);
        assert_eq!((through.main, times), (main, (7, 90_007)));
    }
}

#[test]
fn a_stop_whose_hooks_were_cut_off_before_it_is_taken_in_is_not_held() {
    let home = Home::new();
    let stop = br#"{"hook_event_name":"Stop","session_id":"s"}"#;
    let held = Left {
        held: true,
        ..undecided()
    };
    leave(&home.place, &envelope(7), stop, &held).unwrap();
    let begun = Left::of_runs(vec![ran(7, "notify", CUT_OFF)]);
    amend(&home.place, id(7), &begun).unwrap();
    let held = || Spooled::read(&home.place, &masker()).events[0].is_kept_from_stopping();
    assert!(held(), "nobody waited for that one");
    let cut_off = Left {
        source: Source::Daemon,
        ..Left::of_runs(vec![ran(7, "judge", CUT_OFF)])
    };
    amend(&home.place, id(7), &cut_off).unwrap();
    assert!(!held());
}

#[test]
fn it_waits_a_minute_for_its_event_and_then_keeps_the_runs() {
    let home = Home::new();
    amend(&home.place, id(3), &said_later(3)).unwrap();
    let mut daemon = Daemon::start(&home);
    assert_eq!(daemon.take_in(&home, usize::MAX).amended, 0);
    assert_eq!((home.files(), runs_of(&daemon.connection).len()), (1, 0));
    let path = &amendments(&home.place)[&id(3)][0];
    let long_ago = SystemTime::now() - Duration::from_secs(61);
    File::open(path).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(daemon.take_in(&home, usize::MAX).amended, 1);
    assert_eq!((home.files(), runs_of(&daemon.connection).len()), (0, 1));
    assert!(!record::is_known(&daemon.connection, id(3)).unwrap());
}

#[test]
fn it_is_not_read_before_its_event_is_there() {
    let home = Home::new();
    fs::write(home.place.amendment(id(3), 17, 0), "garbage").unwrap();
    let mut daemon = Daemon::start(&home);
    assert_eq!(daemon.take_in(&home, usize::MAX).bad, 0);
    daemon.by_socket(3, true, false);
    assert_eq!(daemon.take_in(&home, usize::MAX).bad, 1);
}

#[test]
fn several_may_say_something_of_one_event() {
    let home = Home::new();
    home.leave(3, &undecided());
    amend(&home.place, id(3), &said_later(3)).unwrap();
    for hook in ["notify", "report"] {
        let left = Left::of_runs(vec![ran(3, hook, "ok")]);
        amend(&home.place, id(3), &left).unwrap();
    }
    assert_eq!(usage(&home.place.spool()).0, 4);
    let spooled = Spooled::read(&home.place, &masker());
    assert_eq!((spooled.events.len(), spooled.later.len()), (1, 0));
    assert_eq!(spooled.events[0].runs.len(), 3);
    assert_eq!(spooled.events[0].took_us, Some(903));
    let mut daemon = Daemon::start(&home);
    daemon.take_in(&home, usize::MAX);
    assert_eq!((home.files(), runs_of(&daemon.connection).len()), (0, 3));
}

#[test]
fn what_is_said_of_another_event_is_read_beside_it() {
    let home = Home::new();
    let mut daemon = Daemon::start(&home);
    daemon.by_socket(3, true, false);
    amend(&home.place, id(3), &said_later(3)).unwrap();
    let spooled = Spooled::read(&home.place, &masker());
    assert_eq!((spooled.events.len(), spooled.later.len()), (0, 1));
    let mut row = rows(&daemon.connection).remove(0);
    spooled.later[0].complete(&mut row);
    daemon.take_in(&home, usize::MAX);
    assert_eq!(row, rows(&daemon.connection)[0], "as the log tells it");
}

#[test]
fn what_is_damaged_is_set_aside() {
    let home = Home::new();
    amend(&home.place, id(3), &said_later(3)).unwrap();
    let path = &amendments(&home.place)[&id(3)][0];
    let whole = fs::read(path).unwrap();
    for (nth, bytes) in [&whole[..9], b"garbage", b""].into_iter().enumerate() {
        fs::write(home.place.amendment(id(1), 17, nth as u32), bytes).unwrap();
    }
    fs::write(home.place.spool().join("notes.left"), "mine").unwrap();
    home.leave(1, &undecided());
    let mut daemon = Daemon::start(&home);
    let done = daemon.take_in(&home, usize::MAX);
    assert_eq!((done.new.len(), done.bad), (1, 3));
    assert_eq!(fs::read_dir(home.place.spool_bad()).unwrap().count(), 3);
    assert!(home.place.spool().join("notes.left").exists());
    assert!(path.exists(), "it waits");
}
