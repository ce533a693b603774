use becket_engine::session::Session;
use proptest::prelude::*;

use super::super::super::sample::Home;
use super::super::{last_revision, sessions, write};
use super::*;

fn state(session: &str, revision: i64) -> Kept {
    let mut state = Session::new(session, revision);
    state.title = Some(revision.to_string());
    Kept::new(&state, revision).unwrap()
}

fn titles(connection: &Connection, which: Which<'_>) -> Vec<(String, String)> {
    let found = sessions(connection, which).unwrap().into_iter();
    let mut titles: Vec<_> = found
        .map(|one| (one.session_id, one.title.unwrap_or_default()))
        .collect();
    titles.sort();
    titles
}

fn count(connection: &Connection, table: &str) -> i64 {
    let query = format!("SELECT count(*) FROM {table}");
    connection.query_row(&query, [], |row| row.get(0)).unwrap()
}

fn small(connection: &Connection, room: usize) -> Lately {
    let mut lately = Lately::in_database(connection).unwrap();
    lately.room = room;
    lately
}

fn pair(session: &str, revision: i64) -> (String, String) {
    (session.to_owned(), revision.to_string())
}

#[test]
fn what_a_newer_state_has_overtaken_never_reaches_its_row() {
    let connection = Home::new().open();
    let mut lately = small(&connection, 2);
    for revision in 1..=9 {
        lately
            .write(&connection, [state("a", revision)].iter())
            .unwrap();
    }
    assert_eq!(count(&connection, "sessions"), 0);
    assert_eq!(count(&connection, "session_log"), 2);
    assert_eq!(titles(&connection, Which::Live), [pair("a", 9)]);
    assert_eq!(last_revision(&connection).unwrap(), 9);
    for revision in 10..=11 {
        lately
            .write(&connection, [state("b", revision)].iter())
            .unwrap();
    }
    assert_eq!(count(&connection, "sessions"), 1, "nothing newer came of a");
    let both = [pair("a", 9), pair("b", 11)];
    assert_eq!(titles(&connection, Which::Live), both);
    assert_eq!(titles(&connection, Which::Like("a")), both[..1]);
    assert_eq!(titles(&connection, Which::Like("b")), both[1..]);
}

#[test]
fn very_many_at_once_go_to_their_rows_and_outlive_what_stands_here() {
    let connection = Home::new().open();
    let mut lately = small(&connection, 9);
    lately.write(&connection, [state("7", 1)].iter()).unwrap();
    let all: Vec<Kept> = (0..=MANY)
        .map(|nth| state(&nth.to_string(), nth as i64 + 2))
        .collect();
    lately.write(&connection, all.iter()).unwrap();
    assert_eq!(count(&connection, "sessions"), all.len() as i64);
    assert_eq!(count(&connection, "session_log"), 1);
    lately.settle(&connection, 9).unwrap();
    assert_eq!(count(&connection, "session_log"), 0);
    let seventh = titles(&connection, Which::Like("7"))[0].clone();
    assert_eq!(seventh, pair("7", 9), "what is older changes nothing");
}

#[test]
fn an_older_state_that_comes_later_takes_nothing_away() {
    let connection = Home::new().open();
    let mut lately = small(&connection, 9);
    for revision in [5, 3] {
        let state = [state("a", revision)];
        lately.write(&connection, state.iter()).unwrap();
    }
    assert_eq!(titles(&connection, Which::Live), [pair("a", 5)]);
    lately.settle(&connection, 9).unwrap();
    assert_eq!(titles(&connection, Which::Live), [pair("a", 5)]);
}

#[test]
fn it_is_quiet_when_nothing_came_since_it_was_asked() {
    let connection = Home::new().open();
    let mut lately = small(&connection, 9);
    lately.write(&connection, [state("a", 1)].iter()).unwrap();
    assert!(!lately.is_quiet());
    assert!(lately.is_quiet());
    lately.write(&connection, [state("a", 2)].iter()).unwrap();
    assert!(!lately.is_quiet());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Groups, other ways to the rows, settling and daemons that begin anew, in any order: of each
    /// session what was written last is found, here and once all is settled.
    #[test]
    fn the_newest_state_is_found_whatever_happens(
        steps in prop::collection::vec((0_u8..6, prop::collection::vec(0_u8..5, 1..5)), 1..40),
        room in 0_usize..8,
    ) {
        let connection = Home::new().open();
        let mut lately = small(&connection, room);
        let mut revision = 0;
        let mut expected = BTreeMap::new();
        for (step, names) in steps {
            let group: Vec<Kept> = names
                .iter()
                .map(|name| {
                    revision += 1;
                    expected.insert(name.to_string(), revision.to_string());
                    state(&name.to_string(), revision)
                })
                .collect();
            match step {
                0 => write(&connection, group.iter()).unwrap(),
                1 => {
                    lately.write(&connection, group.iter()).unwrap();
                    lately = small(&connection, room);
                }
                2 => {
                    lately.write(&connection, group.iter().rev()).unwrap();
                    lately.settle(&connection, names.len()).unwrap();
                }
                _ => lately.write(&connection, group.iter()).unwrap(),
            }
            prop_assert!(lately.len() <= room);
            prop_assert_eq!(count(&connection, "session_log"), lately.len() as i64);
            let wanted: Vec<_> = expected.clone().into_iter().collect();
            prop_assert_eq!(titles(&connection, Which::Live), wanted);
        }
        lately.settle(&connection, usize::MAX).unwrap();
        prop_assert_eq!(count(&connection, "session_log"), 0);
        let wanted: Vec<_> = expected.into_iter().collect();
        prop_assert_eq!(titles(&connection, Which::Live), wanted);
        prop_assert_eq!(last_revision(&connection).unwrap(), revision);
    }
}
