//! What lies in the spool is no event.

use std::fs;
use std::path::PathBuf;

use becket_tests::world::World;
use becket_wire::frame::MAX_BODY;

use super::{BOUND, alone, call, doctor_says, numbered, numbers, send};

fn spooled(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path("spool"))
        .expect("a spool")
        .flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn id(n: u8) -> String {
    let id = becket_wire::EventId::from_bytes([n; 16]);
    format!("{id}.ev")
}

#[test]
fn files_that_are_no_events_are_put_away_and_counted() {
    let world = super::registered();
    for n in 1..=3 {
        assert!(call(alone(&world), numbered(n).as_bytes(), BOUND).is_silent());
    }
    let good = spooled(&world);
    assert_eq!(good.len(), 3);
    let whole = fs::read(&good[0]).expect("a spooled event");
    let spool = world.path("spool");
    let bad: [(u8, &[u8]); 7] = [
        (1, b""),
        (2, b"garbage"),
        (3, &whole[..5]),
        (4, &whole[..whole.len() / 4]),
        (5, b"bk\x01\x01\xff\xff\xff\xff"),
        (6, b"bk\x01\x03\x08\0\0\0\"status\""),
        (7, &[0; 64 << 10]),
    ];
    for (n, bytes) in &bad {
        fs::write(spool.join(id(*n)), bytes).expect("a file");
    }
    // Not named as ours are: not looked at.
    fs::write(spool.join("notes.ev"), "garbage").expect("a file");
    fs::write(spool.join("half.tmp"), "garbage").expect("a file");
    assert_eq!(numbers(&world), [1, 2, 3]);
    let status = world.status();
    assert_eq!(status["counts"]["spool_bad"], bad.len(), "{status}");
    for (n, bytes) in bad {
        assert_eq!(
            fs::read(spool.join("bad").join(id(n))).expect("put away"),
            bytes
        );
    }
    assert_eq!(
        spooled(&world),
        [spool.join("half.tmp"), spool.join("notes.ev")]
    );
    doctor_says(&world, "warning", "7 file(s) are no events");
    doctor_says(&world, "warning", "bad spool files: 7");
}

#[test]
fn an_event_without_its_decision_is_an_event() {
    let world = World::new();
    assert!(call(alone(&world), numbered(1).as_bytes(), BOUND).is_silent());
    let file = spooled(&world).remove(0);
    let whole = fs::read(&file).expect("a spooled event");
    // The frame of the event is whole; what alone left after it is cut.
    fs::write(&file, &whole[..whole.len() - 3]).expect("a file");
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn what_is_no_file_does_not_hold_up_the_rest() {
    let world = super::registered();
    assert!(call(alone(&world), numbered(1).as_bytes(), BOUND).is_silent());
    let spool = world.path("spool");
    fs::create_dir(spool.join(id(1))).expect("a folder");
    let made = world.command("mkfifo").arg(spool.join(id(2))).status();
    assert!(made.is_ok_and(|status| status.success()));
    std::os::unix::fs::symlink("/dev/zero", spool.join(id(3))).expect("a link");
    // Longer than any two frames.
    let endless = fs::File::create(spool.join(id(4))).expect("a file");
    endless.set_len(8 * MAX_BODY as u64).expect("a hole");
    let called = send(&world, numbered(2).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    let began = std::time::Instant::now();
    let reading = becket_tests::world::start(world.becket(["events", "--json"]));
    let read = becket_tests::world::finish(reading, began, BOUND);
    assert_eq!(read.stdout.lines().count(), 2, "{read:?}");
    doctor_says(&world, "warning", "are no events");
}

#[test]
fn the_reader_without_a_daemon_is_not_held_up_either() {
    let world = World::new();
    assert!(call(alone(&world), numbered(1).as_bytes(), BOUND).is_silent());
    let spool = world.path("spool");
    fs::write(spool.join(id(1)), "garbage").expect("a file");
    let made = world.command("mkfifo").arg(spool.join(id(2))).status();
    assert!(made.is_ok_and(|status| status.success()));
    let mut events = world.becket(["events", "--json"]);
    events.env("BECKET_NO_DAEMON", "1");
    let reading = becket_tests::world::start(events);
    let read = becket_tests::world::finish(reading, std::time::Instant::now(), BOUND);
    assert_eq!(
        (read.code, read.stdout.lines().count()),
        (Some(0), 1),
        "{read:?}"
    );
    // It writes nothing: what is bad still lies there.
    assert!(spool.join(id(1)).exists());
}
