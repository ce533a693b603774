use becket_engine::session::Session;

use super::super::super::{Which, sessions};
use super::*;

const FOR_EVER: Limits = Limits {
    days: 9,
    bytes: u64::MAX,
};

fn state(title: &str, revision: i64) -> Kept {
    let mut session = Session::new("s", 5);
    session.title = Some(title.to_owned());
    Kept::new(&session, revision).unwrap()
}

/// How many stand one behind another, and how many have reached their rows.
fn counts(home: &Home) -> (i64, i64) {
    let both = "SELECT (SELECT count(*) FROM session_log), (SELECT count(*) FROM sessions)";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    home.open().query_row(both, [], read).unwrap()
}

fn title(home: &Home) -> Option<String> {
    let live = sessions(&home.open(), Which::Live).unwrap();
    live.into_iter().find_map(|session| session.title)
}

/// What was asked for before is done when this comes back.
fn tick_now(writer: &Writer) {
    wait(PATIENCE, writer.tick(tick(1, FOR_EVER))).unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
}

fn refuse(home: &Home, refuse: bool) {
    let sql = match refuse {
        true => {
            "CREATE TRIGGER full BEFORE INSERT ON session_log BEGIN SELECT RAISE(ABORT, 'no room'); END"
        }
        false => "DROP TRIGGER full",
    };
    home.open().execute_batch(sql).unwrap();
}

#[test]
fn a_state_reaches_its_row_when_nobody_writes() {
    let Started { home, writer, .. } = start();
    writer.sessions(vec![state("one", 1)]).unwrap();
    tick_now(&writer);
    assert_eq!(counts(&home), (1, 0));
    writer.sessions(vec![state("two", 2)]).unwrap();
    tick_now(&writer);
    assert_eq!(counts(&home), (2, 0), "somebody has written");
    tick_now(&writer);
    assert_eq!(counts(&home), (0, 1));
    assert_eq!(title(&home).as_deref(), Some("two"));
}

#[test]
fn who_ends_settles_all_of_it_and_who_yields_leaves_it_to_the_next() {
    let Started { home, writer, .. } = start();
    writer.sessions(vec![state("one", 1)]).unwrap();
    writer.sessions(vec![state("two", 2)]).unwrap();
    wait(PATIENCE, writer.close(false)).unwrap();
    assert_eq!(counts(&home), (2, 0));
    let (next, _) = Writer::start(parts(&home)).unwrap();
    wait(PATIENCE, next.close(true)).unwrap();
    assert_eq!(counts(&home), (0, 1));
    assert_eq!(title(&home).as_deref(), Some("two"));
}

#[test]
fn what_the_database_refused_hides_nothing_that_it_took() {
    let Started { home, writer, .. } = start();
    writer.sessions(vec![state("one", 1)]).unwrap();
    tick_now(&writer);
    refuse(&home, true);
    writer.sessions(vec![state("two", 2)]).unwrap();
    tick_now(&writer);
    refuse(&home, false);
    assert_eq!(title(&home).as_deref(), Some("one"));
    wait(PATIENCE, writer.close(true)).unwrap();
    assert_eq!(counts(&home), (0, 1));
    assert_eq!(title(&home).as_deref(), Some("one"));
}
