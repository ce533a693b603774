mod amended;
mod doubles;
mod groups;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};

use becket_engine::session::Session;
use proptest::prelude::*;
use rusqlite::Connection;

use super::super::inbox;
use super::super::sample::{
    Home, decision, envelope, id, left, masker, payload, record, rows, run, runs_of,
};
use super::super::session::{self, Kept, Which};
use super::intake::TakenIn;
use super::read::{amendments, waiting};
use super::*;

const EVENTS: u32 = 8;

/// What may happen to one home, in any order.
#[derive(Debug, Clone)]
enum Move {
    /// The event is left in the spool: by alone, or bare by a shim that found no becket.
    Leave(u32),
    /// Somebody says what was decided and what a hook did.
    Amend(u32),
    /// The daemon gets the event by the socket, too late for an answer or in time, and commits it
    /// to the log or to the inbox.
    Socket {
        event: u32,
        late: bool,
        inbox: bool,
    },
    /// The daemon settles its inbox into the log.
    Settle,
    /// An intake that dies after so many steps, and with it the daemon.
    Die(usize),
    TakeIn,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..EVENTS).prop_map(Move::Leave),
        3 => (0..EVENTS / 4).prop_map(|nth| Move::Amend(4 * nth + 3)),
        3 => (0..EVENTS, any::<bool>(), any::<bool>())
            .prop_map(|(event, late, inbox)| Move::Socket { event, late, inbox }),
        1 => Just(Move::Settle),
        4 => (0..3 * EVENTS as usize).prop_map(Move::Die),
        1 => Just(Move::TakeIn),
    ];
    prop::collection::vec(one, 1..40)
}

/// Each event has one way to be left, whatever else happens to it.
fn is_bare(event: u32) -> bool {
    event.is_multiple_of(4)
}

/// Left before its hooks have run.
fn is_undecided(event: u32) -> bool {
    event % 4 == 3
}

fn alone_left(event: u32) -> Left {
    left(900 + i64::from(event), (event % 2 == 1).then_some("deny"))
}

/// What is said of an event when its hooks have run.
fn said_later(event: u32) -> Left {
    Left {
        runs: vec![run(event, "lint")],
        ..alone_left(event)
    }
}

struct Daemon {
    connection: Connection,
    next: i64,
}

impl Daemon {
    fn start(home: &Home) -> Self {
        let connection = home.open();
        let newest: Option<i64> = connection
            .query_row(
                "SELECT max(seq) FROM (SELECT seq FROM events UNION SELECT seq FROM inbox)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        Self {
            connection,
            next: newest.unwrap_or(0) + 1,
        }
    }

    /// Takes in the spool, and dies after so many steps.
    fn take_in(&mut self, home: &Home, mut steps: usize) -> TakenIn {
        let next = &mut self.next;
        let (done, ended) = take_in(
            &mut self.connection,
            &home.place,
            &masker(),
            &mut || {
                *next += 1;
                *next - 1
            },
            &|_| (Vec::new(), Box::new(|| ())),
            &mut |_| {
                steps = steps.saturating_sub(1);
                steps > 0
            },
        );
        ended.unwrap();
        done
    }

    fn settle(&mut self) {
        let waiting = inbox::waiting(&self.connection, &masker()).unwrap();
        inbox::settle(&mut self.connection, &waiting).unwrap();
    }

    fn by_socket(&mut self, event: u32, late: bool, inbox: bool) {
        let mut record = record(self.next, event);
        self.next += 1;
        if !late {
            record.took_us = Some(1);
            record.decision = Some(decision("ask"));
        }
        if !inbox || !inbox::put(&self.connection, &record).unwrap() {
            record.insert(&self.connection).unwrap();
        }
    }
}

fn leave_one(home: &Home, event: u32) {
    if is_bare(event) {
        let frame = encode_event(&envelope(event), &payload(event)).unwrap();
        fs::write(home.place.spooled(id(event)), frame).unwrap();
    } else if is_undecided(event) {
        home.leave(event, &undecided());
    } else {
        home.leave(event, &alone_left(event));
    }
}

fn undecided() -> Left {
    Left {
        why: "absent".to_owned(),
        ..Left::of_runs(Vec::new())
    }
}

/// What was sent, by which roads.
#[derive(Debug, Default)]
struct Sent {
    left: BTreeSet<u32>,
    amended: BTreeSet<u32>,
    /// Whether the daemon had it in time.
    by_socket: BTreeMap<u32, bool>,
}

impl Sent {
    fn all(&self) -> BTreeSet<u32> {
        self.by_socket.keys().chain(&self.left).copied().collect()
    }

    /// Nothing is nowhere: what was left is in the database or a file still.
    fn nothing_is_lost(&self, home: &Home, connection: &Connection) {
        let mut rows: Vec<EventId> = rows(connection).iter().map(|row| row.id).collect();
        let unsettled = inbox::waiting(connection, &masker()).unwrap();
        rows.extend(unsettled.iter().map(Record::id));
        let files: Vec<EventId> = waiting(&home.place).into_iter().map(|(id, _)| id).collect();
        for event in self.all() {
            let id = id(event);
            assert!(rows.contains(&id) || files.contains(&id), "event {event}");
        }
        for event in self.by_socket.keys() {
            assert!(rows.contains(&id(*event)), "event {event}");
        }
        let ran = runs_of(connection);
        for event in self.amended.iter().copied() {
            let waits = amendments(&home.place).contains_key(&id(event));
            let is_there = ran.iter().any(|(of, ..)| *of == id(event));
            assert!(waits || is_there, "event {event}");
        }
    }

    /// What was said of an event that never came waits for it.
    fn in_vain(&self) -> BTreeSet<u32> {
        self.amended.difference(&self.all()).copied().collect()
    }

    fn everything_is_there_once(&self, connection: &Connection) {
        let rows = rows(connection);
        let ids: Vec<EventId> = rows.iter().map(|row| row.id).collect();
        let expected: Vec<EventId> = self.all().into_iter().map(id).collect();
        assert_eq!(ids, expected);
        for (event, row) in self.all().into_iter().zip(&rows) {
            assert_eq!(row.payload.as_deref(), Some(&payload(event)[..]));
            let said = row.decision.as_ref().map(|decision| &*decision.answer);
            let in_time = self.by_socket.get(&event) == Some(&true);
            let answered = self.left.contains(&event) && !is_bare(event) && !is_undecided(event);
            if answered || self.amended.contains(&event) {
                let alone = alone_left(event);
                assert_eq!((row.took_us, row.source), (alone.took_us, Source::Alone));
                assert_eq!(said, alone.decision.as_ref().map(|it| &*it.answer));
            } else {
                assert_eq!(row.took_us, in_time.then_some(1), "event {event}");
                assert_eq!(said, in_time.then_some("ask"), "event {event}");
            }
        }
        let ran: BTreeSet<EventId> = runs_of(connection).into_iter().map(|run| run.0).collect();
        let all = self.all();
        let expected = self.amended.intersection(&all).copied();
        assert_eq!(ran, expected.map(id).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_of_crash_and_intake_gives_each_event_once(moves in moves()) {
        let home = Home::new();
        let mut daemon = Daemon::start(&home);
        let mut sent = Sent::default();
        for step in moves {
            match step {
                Move::Leave(event) => {
                    leave_one(&home, event);
                    sent.left.insert(event);
                }
                Move::Amend(event) => {
                    amend(&home.place, id(event), &said_later(event)).unwrap();
                    sent.amended.insert(event);
                }
                Move::Settle => daemon.settle(),
                Move::Socket { event, late, inbox } => {
                    daemon.by_socket(event, late, inbox);
                    *sent.by_socket.entry(event).or_default() |= !late;
                }
                Move::Die(steps) => {
                    daemon.take_in(&home, steps + 1);
                    daemon = Daemon::start(&home);
                }
                Move::TakeIn => {
                    daemon.take_in(&home, usize::MAX);
                    assert_eq!(waiting(&home.place), []);
                }
            }
            sent.nothing_is_lost(&home, &daemon.connection);
        }
        daemon.settle();
        daemon.take_in(&home, usize::MAX);
        let waiting: BTreeSet<EventId> = amendments(&home.place).into_keys().collect();
        assert_eq!(waiting, sent.in_vain().into_iter().map(id).collect());
        for path in amendments(&home.place).into_values().flatten() {
            fs::remove_file(path).unwrap();
        }
        assert_eq!(home.files(), 0);
        sent.everything_is_there_once(&daemon.connection);
        let again = daemon.take_in(&home, usize::MAX);
        assert!(again.new.is_empty());
        sent.everything_is_there_once(&daemon.connection);
    }
}

#[test]
fn intake_is_in_order_of_id_and_tells_what_was_new() {
    let home = Home::new();
    for event in [3, 1, 2] {
        home.leave(event, &left(1, None));
    }
    let mut daemon = Daemon::start(&home);
    daemon.by_socket(2, true, false);
    let new: Vec<EventId> = daemon
        .take_in(&home, usize::MAX)
        .new
        .iter()
        .map(Record::id)
        .collect();
    assert_eq!(new, [id(1), id(3)]);
    let order: Vec<EventId> = {
        let mut rows = rows(&daemon.connection);
        rows.sort_by_key(|row| row.seq);
        rows.iter().map(|row| row.id).collect()
    };
    assert_eq!(order, [id(2), id(1), id(3)]);
}

#[test]
fn an_event_is_kept_from_the_spool_into_the_log() {
    let home = Home::new();
    assert!(!is_kept(&home.place, id(1)), "there is no database either");
    home.leave(1, &left(1, None));
    assert!(is_kept(&home.place, id(1)));
    Daemon::start(&home).take_in(&home, usize::MAX);
    assert_eq!(home.files(), 0);
    assert!(is_kept(&home.place, id(1)));
    assert!(!is_kept(&home.place, id(2)));
}

#[test]
fn what_is_no_event_is_set_aside_and_holds_nothing_up() {
    let home = Home::new();
    home.leave(1, &left(1, None));
    let whole = fs::read(home.place.spooled(id(1))).unwrap();
    fs::write(home.place.spooled(id(0)), "garbage").unwrap();
    fs::write(home.place.spooled(id(2)), &whole[..20]).unwrap();
    fs::write(home.place.spooled(id(3)), "").unwrap();
    // Not ours, or not there yet: left alone.
    fs::write(home.place.spool().join("notes.txt"), "mine").unwrap();
    fs::write(home.place.spool().join("x.17.tmp"), "half").unwrap();
    let mut daemon = Daemon::start(&home);
    let done = daemon.take_in(&home, usize::MAX);
    assert_eq!((done.new.len(), done.bad), (1, 3));
    let bad: BTreeSet<_> = fs::read_dir(home.place.spool_bad())
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let expected = [b"garbage".to_vec(), whole[..20].to_vec(), Vec::new()];
    assert_eq!(bad, BTreeSet::from(expected));
    assert!(home.place.spool().join("notes.txt").exists());
    assert!(home.place.spool().join("x.17.tmp").exists());
    assert_eq!(daemon.take_in(&home, usize::MAX).bad, 0, "looked at once");
}

#[test]
fn nobody_masked_a_bare_frame_so_intake_does() {
    let home = Home::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let payload = format!(r#"{{"session_id":"s","command":"curl {secret}"}}"#);
    let frame = encode_event(&envelope(1), payload.as_bytes()).unwrap();
    fs::write(home.place.spooled(id(1)), frame).unwrap();
    let mut daemon = Daemon::start(&home);
    daemon.take_in(&home, usize::MAX);
    let row = &rows(&daemon.connection)[0];
    let kept = String::from_utf8(row.payload.clone().unwrap()).unwrap();
    assert!(!kept.contains(&secret) && row.masked == 1, "{kept}");
}

#[test]
fn wherever_an_intake_dies_an_event_is_there_with_its_session_or_not_at_all() {
    for steps in 1..=4 {
        let home = Home::new();
        home.leave(1, &left(1, None));
        let mut connection = home.open();
        let mut left = steps;
        let (_, ended) = take_in(
            &mut connection,
            &home.place,
            &masker(),
            &mut || 1,
            &|events| {
                let at = events.new[0].envelope().at;
                let kept = Kept::new(&Session::new("s", at), 1);
                (kept.into_iter().collect(), Box::new(|| ()))
            },
            &mut |_| {
                left -= 1;
                left > 0
            },
        );
        ended.unwrap();
        let sessions = session::sessions(&connection, Which::Live).unwrap();
        assert_eq!(sessions.len(), rows(&connection).len(), "{steps} steps");
        assert_eq!(sessions.len(), usize::from(steps > 1));
    }
}
