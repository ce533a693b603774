use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::time::SystemTime;

use becket_engine::session::Session;
use becket_wire::run::{CANCELLED, CUT_OFF, UNDER_WAY};
use proptest::prelude::*;

use super::super::sample::{
    Home, decision, envelope, id, left, masker, payload, record, record_of, rows, run, runs_of,
};
use super::super::session::{Kept, Which, sessions};
use super::super::write::Then;
use super::*;

const EVENTS: u32 = 8;

/// What may happen to one home, in any order.
#[derive(Debug, Clone)]
enum Move {
    /// The event is left in the spool: by standalone, or bare by a shim that found no becket.
    Leave(u32),
    /// Its hooks have run: the file is rewritten.
    Rewrite(u32),
    /// A process in the background tells what a hook did.
    Add(u32),
    /// The daemon gets the event by the socket, too late for an answer or in time.
    Socket {
        event: u32,
        late: bool,
    },
    /// A daemon is killed in the middle of an intake: before the commit, or after it.
    Killed {
        committed: bool,
    },
    TakeIn,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let with_hooks = || (0..EVENTS / 4).prop_map(|nth| 4 * nth + 3);
    let one = prop_oneof![
        4 => (0..EVENTS).prop_map(Move::Leave),
        3 => with_hooks().prop_map(Move::Rewrite),
        2 => with_hooks().prop_map(Move::Add),
        3 => (0..EVENTS, any::<bool>()).prop_map(|(event, late)| Move::Socket { event, late }),
        3 => any::<bool>().prop_map(|committed| Move::Killed { committed }),
        2 => Just(Move::TakeIn),
    ];
    prop::collection::vec(one, 1..40)
}

fn answer(event: u32) -> Left {
    left(900 + i64::from(event), (event % 2 == 1).then_some("deny"))
}

fn undecided() -> Left {
    Left {
        why: "absent".to_owned(),
        ..Left::of_runs(Vec::new())
    }
}

fn ran(event: u32, hook: &str, outcome: &str) -> RunRow {
    RunRow {
        outcome: outcome.to_owned(),
        ..run(event, hook)
    }
}

fn add_runs(home: &Home, event: u32, runs: Vec<RunRow>) {
    let left = Left::of_runs(runs);
    add(&home.place, &envelope(event), &payload(event), &left).unwrap();
}

struct Daemon {
    home: Home,
    connection: Connection,
    next: i64,
}

impl Daemon {
    fn new() -> Self {
        let home = Home::new();
        Self {
            connection: home.open(),
            home,
            next: 1,
        }
    }

    fn take_in(&mut self) -> TakenIn {
        self.take_in_and(&mut |_| (Vec::new(), Box::new(|| ())))
    }

    fn take_in_and(&mut self, apply: &mut Apply<'_>) -> TakenIn {
        let next = &mut self.next;
        let mut next_seq = || {
            *next += 1;
            *next - 1
        };
        let place = &self.home.place;
        let (done, ended) = take_in(&mut self.connection, place, &masker(), &mut next_seq, apply);
        ended.unwrap();
        done
    }

    fn by_socket(&mut self, event: u32, late: bool) {
        let mut record = record(self.next, event);
        self.next += 1;
        if !late {
            record.took_us = Some(1);
            record.decision = Some(decision("ask"));
        }
        record.insert(&self.connection).unwrap();
    }

    /// What a daemon leaves that is killed in the middle of an intake.
    fn killed(&mut self, committed: bool) {
        let files = |place: &Place| -> BTreeMap<PathBuf, Vec<u8>> {
            let paths = waiting(place).into_iter().map(|(_, path)| path);
            paths
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .collect()
        };
        next_group(
            &self.home.place,
            &masker(),
            &mut waiting(&self.home.place).into_iter(),
            &mut 0,
        );
        if committed {
            let claimed = files(&self.home.place);
            self.take_in();
            for (path, bytes) in claimed {
                fs::write(path, bytes).unwrap();
            }
        }
    }
}

/// What was sent, by which roads.
#[derive(Debug, Default)]
struct Sent {
    left: BTreeSet<u32>,
    answered: BTreeSet<u32>,
    ran: BTreeSet<u32>,
    /// Whether the daemon had it in time.
    by_socket: BTreeMap<u32, bool>,
}

impl Sent {
    fn all(&self) -> BTreeSet<u32> {
        self.by_socket.keys().chain(&self.left).copied().collect()
    }

    /// Each event is in the database or in a file still.
    fn nothing_is_lost(&self, daemon: &Daemon) {
        let rows = rows(&daemon.connection);
        let mut known: BTreeSet<EventId> = rows.iter().map(|row| row.id).collect();
        known.extend(waiting(&daemon.home.place).into_iter().map(|(id, _)| id));
        assert_eq!(known, self.all().into_iter().map(id).collect());
    }

    fn everything_is_there_once(&self, connection: &Connection) {
        let rows = rows(connection);
        let ids: Vec<EventId> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, self.all().into_iter().map(id).collect::<Vec<_>>());
        for (event, row) in self.all().into_iter().zip(&rows) {
            assert_eq!(row.payload.as_deref(), Some(&payload(event)[..]));
            let said = row.decision.as_ref().map(|decision| &*decision.answer);
            if self.answered.contains(&event) {
                let alone = answer(event);
                assert_eq!((row.took_us, row.source), (alone.took_us, Source::Alone));
                assert_eq!(said, alone.decision.as_ref().map(|it| &*it.answer));
            } else {
                let in_time = self.by_socket.get(&event) == Some(&true);
                assert_eq!(row.took_us, in_time.then_some(1), "event {event}");
                assert_eq!(said, in_time.then_some("ask"), "event {event}");
            }
        }
        let ran: BTreeSet<EventId> = runs_of(connection).into_iter().map(|run| run.0).collect();
        assert_eq!(ran, self.ran.iter().copied().map(id).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_of_kills_and_intakes_gives_each_event_once(moves in moves()) {
        let mut daemon = Daemon::new();
        let mut sent = Sent::default();
        for step in moves {
            let home = &daemon.home;
            match step {
                Move::Leave(event) if event % 4 == 0 => {
                    let frame = encode_event(&envelope(event), &payload(event)).unwrap();
                    fs::write(home.place.spooled(id(event)), frame).unwrap();
                    sent.left.insert(event);
                }
                // Its hooks run: a file that says more is not written before.
                Move::Leave(event) if event % 4 == 3 => {
                    if sent.left.insert(event) {
                        home.leave(event, &Left { held: true, ..undecided() });
                    }
                }
                Move::Leave(event) => {
                    home.leave(event, &answer(event));
                    sent.left.insert(event);
                    sent.answered.insert(event);
                }
                Move::Rewrite(event) => {
                    home.leave(event, &Left { runs: vec![run(event, "lint")], ..answer(event) });
                    sent.left.insert(event);
                    sent.answered.insert(event);
                    sent.ran.insert(event);
                }
                Move::Add(event) => {
                    add_runs(home, event, vec![run(event, "notify")]);
                    sent.left.insert(event);
                    sent.ran.insert(event);
                }
                Move::Socket { event, late } => {
                    daemon.by_socket(event, late);
                    *sent.by_socket.entry(event).or_default() |= !late;
                }
                Move::Killed { committed } => daemon.killed(committed),
                Move::TakeIn => {
                    daemon.take_in();
                    assert_eq!(daemon.home.files(), 0);
                }
            }
            sent.nothing_is_lost(&daemon);
        }
        daemon.take_in();
        sent.everything_is_there_once(&daemon.connection);
        assert!(daemon.take_in().new.is_empty());
    }
}

#[test]
fn a_file_that_is_rewritten_during_an_intake_is_not_removed_with_it() {
    let mut daemon = Daemon::new();
    daemon.home.leave(3, &undecided());
    let place = daemon.home.place.clone();
    let mut rewrite = move |_: &Arc<Brought>| {
        leave(&place, &envelope(3), &payload(3), &answer(3)).unwrap();
        (Vec::new(), Box::new(|| ()) as Then)
    };
    assert_eq!(daemon.take_in_and(&mut rewrite).new.len(), 1);
    let done = daemon.take_in();
    assert_eq!((done.new.len(), done.completed.len()), (0, 1));
    assert_eq!(rows(&daemon.connection)[0].took_us, Some(903));
    assert_eq!(daemon.home.files(), 0);
}

#[test]
fn intake_is_in_order_of_id_and_tells_what_was_new() {
    let mut daemon = Daemon::new();
    for event in [3, 1, 2] {
        daemon.home.leave(event, &left(1, None));
    }
    daemon.by_socket(2, true);
    let new: Vec<EventId> = daemon.take_in().new.iter().map(Record::id).collect();
    assert_eq!(new, [id(1), id(3)]);
    let mut rows = rows(&daemon.connection);
    rows.sort_by_key(|row| row.seq);
    let order: Vec<EventId> = rows.iter().map(|row| row.id).collect();
    assert_eq!(order, [id(2), id(1), id(3)]);
}

#[test]
fn an_event_comes_with_its_session_and_what_was_taken_in_before_a_failure_counts() {
    let mut daemon = Daemon::new();
    for event in 0..=GROUP_FILES as u32 {
        daemon.home.leave(event, &left(1, None));
    }
    // A database that takes the first group and not the second.
    let full = format!(
        "CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.seq >= {GROUP_FILES}
         BEGIN SELECT RAISE(ABORT, 'no room'); END"
    );
    daemon.connection.execute_batch(&full).unwrap();
    let mut apply = |brought: &Arc<Brought>| {
        let at = brought.new[0].envelope().at;
        let kept = Kept::new(&Session::new(&format!("s{at}"), at), 1);
        (kept.into_iter().collect(), Box::new(|| ()) as Then)
    };
    let mut seq = 0..;
    let (done, ended) = take_in(
        &mut daemon.connection,
        &daemon.home.place,
        &masker(),
        &mut || seq.next().unwrap(),
        &mut apply,
    );
    assert!(ended.is_err());
    assert_eq!(done.new.len(), GROUP_FILES);
    assert_eq!(daemon.home.files(), 1, "the rest waits");
    let live = sessions(&daemon.connection, Which::Live).unwrap();
    assert_eq!(live.len(), 1, "that of the first group");
}

#[test]
fn what_is_no_event_is_set_aside_and_holds_nothing_up() {
    let mut daemon = Daemon::new();
    let place = daemon.home.place.clone();
    daemon.home.leave(1, &left(1, None));
    let whole = fs::read(place.spooled(id(1))).unwrap();
    for (event, bytes) in [(0, &b"garbage"[..]), (2, &whole[..20]), (3, b"")] {
        fs::write(place.spooled(id(event)), bytes).unwrap();
    }
    // Not ours, or not there yet: left alone.
    let others = ["notes.txt", "notes.ev", "x.17.tmp"].map(|name| place.spool().join(name));
    for path in &others {
        fs::write(path, "mine").unwrap();
    }
    let done = daemon.take_in();
    assert_eq!((done.new.len(), done.bad), (1, 3));
    assert_eq!(fs::read_dir(place.spool_bad()).unwrap().count(), 3);
    assert!(others.iter().all(|path| path.exists()));
    assert_eq!(daemon.take_in().bad, 0, "looked at once");
}

#[test]
fn a_bare_frame_is_masked_by_the_intake() {
    let mut daemon = Daemon::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let payload = format!(r#"{{"session_id":"s","command":"curl {secret}"}}"#);
    let frame = encode_event(&envelope(1), payload.as_bytes()).unwrap();
    fs::write(daemon.home.place.spooled(id(1)), frame).unwrap();
    daemon.take_in();
    let row = &rows(&daemon.connection)[0];
    let kept = String::from_utf8(row.payload.clone().unwrap()).unwrap();
    assert!(!kept.contains(&secret) && row.masked == 1, "{kept}");
}

#[test]
fn an_answer_stands_and_the_end_of_a_run_replaces_its_beginning() {
    for apart in [false, true] {
        let mut daemon = Daemon::new();
        let runs = vec![ran(1, "notify", UNDER_WAY), ran(1, "lint", "ok")];
        let first = Left {
            runs,
            ..left(7, Some("ask"))
        };
        daemon.home.leave(1, &first);
        if apart {
            daemon.take_in();
        }
        let later = vec![ran(1, "notify", "failed"), ran(1, "lint", UNDER_WAY)];
        add_runs(&daemon.home, 1, later);
        let spooled = read_all(&daemon.home.place, &masker());
        assert_eq!(spooled.len(), 1);
        assert_eq!(spooled[0].took_us, (!apart).then_some(7));
        daemon.take_in();
        let rows = rows(&daemon.connection);
        let said = rows[0].decision.as_ref().map(|decision| &*decision.answer);
        assert_eq!(
            (rows.len(), rows[0].took_us, said),
            (1, Some(7), Some("ask"))
        );
        let ran = runs_of(&daemon.connection).into_iter();
        let ran: BTreeSet<_> = ran.map(|(_, hook, outcome)| (hook, outcome)).collect();
        let expected = [("lint", "ok"), ("notify", "failed")];
        let expected = expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()));
        assert_eq!(ran, BTreeSet::from(expected));
    }
}

/// What sessions hear when these are taken in one after the other.
fn heard(payload: &[u8], by_socket: bool, files: &[Left]) -> Brought {
    let mut daemon = Daemon::new();
    if by_socket {
        let record = record_of(1, envelope(7), payload);
        record.insert(&daemon.connection).unwrap();
        daemon.next = 2;
    } else {
        leave(&daemon.home.place, &envelope(7), payload, &undecided()).unwrap();
        daemon.take_in();
    }
    let mut heard = Brought::default();
    let mut apply = |brought: &Arc<Brought>| {
        heard.blocked.extend(brought.blocked.clone());
        heard.let_through.extend(brought.let_through.clone());
        (Vec::new(), Box::new(|| ()) as Then)
    };
    for left in files {
        leave(&daemon.home.place, &envelope(7), payload, left).unwrap();
        daemon.take_in_and(&mut apply);
    }
    heard
}

#[test]
fn sessions_hear_once_of_a_prompt_that_was_blocked_and_of_a_stop_that_was_let_through() {
    let prompt = br#"{"hook_event_name":"UserPromptSubmit","session_id":"s"}"#;
    let stop = br#"{"hook_event_name":"Stop","session_id":"s"}"#;
    let call = br#"{"hook_event_name":"PreToolUse","session_id":"s"}"#;
    let block = || left(900, Some("block"));
    for by_socket in [false, true] {
        let blocked = heard(prompt, by_socket, &[block(), block()]).blocked;
        assert_eq!(blocked, [("s".to_owned(), 7)]);
        let through = |payload, files: &[Left]| heard(payload, by_socket, files).let_through.len();
        assert_eq!(
            through(stop, &[left(900, None), left(950, None)]),
            1,
            "once"
        );
        assert_eq!(through(stop, &[left(900, Some("context"))]), 1);
        assert_eq!(through(stop, &[block()]), 0);
        assert_eq!(through(stop, &[undecided()]), 0, "not yet");
        assert_eq!(through(call, &[left(900, None)]), 0);
        for outcome in [CUT_OFF, CANCELLED] {
            let ended = Left::of_runs(vec![ran(7, "judge", outcome)]);
            let by_daemon = Left {
                source: Source::Daemon,
                ..ended.clone()
            };
            let by_alone = Left {
                why: "absent".to_owned(),
                ..ended.clone()
            };
            for unheard in [by_daemon, by_alone] {
                assert_eq!(
                    through(stop, std::slice::from_ref(&unheard)),
                    1,
                    "{outcome}"
                );
                assert_eq!(through(stop, &[block(), unheard]), 0, "it had to go on");
            }
            assert_eq!(through(stop, &[ended]), 0, "a hook in the background");
        }
    }
    let lasted = &heard(stop, true, &[left(90_000_000, None)]).let_through[0];
    let told = (lasted.stop, lasted.main, lasted.at, lasted.let_at);
    assert_eq!(told, (id(7), true, 7, 90_007));
}

#[test]
fn an_unfinished_file_takes_no_room_and_is_removed_after_a_minute() {
    let mut daemon = Daemon::new();
    let spool = daemon.home.place.spool();
    let ours = ["", ".17", ".more-17-0.17"].map(|by| spool.join(format!("{}{by}.tmp", id(1))));
    let other = spool.join("notes.tmp");
    for path in ours.iter().chain([&other]) {
        fs::write(path, "half").unwrap();
    }
    assert_eq!((count(&spool), usage(&spool)), (0, (0, 0)));
    daemon.take_in();
    assert_eq!(daemon.home.files(), 4, "they may be written still");
    let long_ago = SystemTime::now() - Duration::from_secs(61);
    for path in ours.iter().chain([&other]) {
        File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    daemon.take_in();
    assert_eq!(daemon.home.files(), 1);
    assert!(other.exists(), "not ours");
}
