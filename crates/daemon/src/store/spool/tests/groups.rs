//! More than one transaction takes.

use super::super::intake::GROUP_FILES;
use super::*;

#[test]
fn more_than_a_group_survives_a_crash_in_every_group() {
    let home = Home::new();
    let many = GROUP_FILES as u32 * 2 + 10;
    for event in 0..many {
        home.leave(event, &left(1, None));
    }
    // Two steps for each event and one for each commit.
    let group = 2 * GROUP_FILES + 1;
    let mut shown = BTreeSet::new();
    for steps in [3, GROUP_FILES + 1, GROUP_FILES + 9, group + 3] {
        let mut daemon = Daemon::start(&home);
        daemon.take_in(&home, steps);
    }
    let mut daemon = Daemon::start(&home);
    shown.extend(daemon.take_in(&home, usize::MAX).new.iter().map(Record::id));
    let ids: Vec<EventId> = rows(&daemon.connection).iter().map(|row| row.id).collect();
    assert_eq!(ids, (0..many).map(id).collect::<Vec<_>>());
    assert!(shown.len() < many as usize, "the earlier ones did nothing");
    assert_eq!(home.files(), 0);
}

#[test]
fn what_was_taken_in_before_a_failure_counts() {
    let home = Home::new();
    let many = GROUP_FILES as u32 + 1;
    for event in 0..many {
        home.leave(event, &left(1, None));
    }
    let mut connection = home.open();
    // A database that takes the first group and not the second.
    connection
        .execute_batch(&format!(
            "CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.seq >= {GROUP_FILES}
             BEGIN SELECT RAISE(ABORT, 'no room'); END"
        ))
        .unwrap();
    let mut seq = 0..;
    let (done, ended) = take_in(
        &mut connection,
        &home.place,
        &masker(),
        &mut || seq.next().unwrap(),
        &|_| (Vec::new(), Box::new(|| ())),
        &mut |_| true,
    );
    assert!(ended.is_err());
    assert_eq!(done.new.len(), GROUP_FILES);
    assert_eq!(waiting(&home.place).len(), 1, "the rest waits");
}
