//! The shim against a listener that is not a daemon, or not the expected one.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use becket_tests::wait::{PATIENCE, until};
use becket_tests::world::{World, finish, start};
use becket_wire::Version;
use becket_wire::frame::{FrameHead, FrameKind, MAX_BODY};
use becket_wire::rpc::{Request, Response};

use super::fake_daemon::{ANSWER, FakeDaemon, answer, event, note_calls, say, until_gone};
use super::{BOUND, call, numbered, numbers, raw_payload, registered, send, send_numbered};

type ConnectionHandler = Box<dyn FnMut(UnixStream) + Send>;

/// Returns a listener that reads the event, then writes `bytes` and waits.
fn after_the_event(bytes: Vec<u8>) -> ConnectionHandler {
    Box::new(move |mut stream| {
        event(&mut stream);
        drop(stream.write_all(&bytes));
        until_gone(&mut stream);
    })
}

#[test]
fn an_invalid_answer_makes_the_shim_go_standalone() {
    let mut newer = Version::current();
    newer.major += 1;
    let mut other_protocol = answer().to_frame().expect("a frame");
    other_protocol[2] += 1;
    let encoded = |response: Response| response.to_frame().expect("a frame");
    let endless = FrameHead::encode(FrameKind::ANSWER, MAX_BODY).expect("a head");
    let cases: Vec<(&str, ConnectionHandler)> = vec![
        ("broken", Box::new(drop)),
        (
            "broken",
            after_the_event(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ),
        (
            "broken",
            after_the_event(b"bk\x01\x81\xff\xff\xff\xff".to_vec()),
        ),
        ("broken", after_the_event(other_protocol)),
        ("broken", after_the_event(encoded(Response::Yielding))),
        ("slow", after_the_event(endless.to_vec())),
        ("busy", after_the_event(encoded(Response::Busy))),
        (
            "refused",
            after_the_event(encoded(Response::Refused { version: newer })),
        ),
    ];
    for (why, treat) in cases {
        let (calls, _) = assert_standalone(why, treat);
        assert!(!calls.contains("--held"), "{calls}");
    }
}

#[test]
fn a_busy_daemon_makes_the_shim_go_standalone() {
    // An event that does not fit into the socket's buffer: sending it fails halfway.
    let world = World::new();
    let fake = FakeDaemon::new(&world, |mut stream| say(&mut stream, &Response::Busy));
    let large = format!("{{\"session_id\":\"s\",\"x\":\"{}\"}}", "x".repeat(4 << 20));
    let called = send(&world, large.as_bytes());
    drop(fake);
    assert!(called.is_silent(), "{called:?}");
    assert_eq!(raw_payload(&world, &world.events()[0]), large.as_bytes());
}

/// Sends one event to a listener that makes the shim go standalone in silence, with the event stored once.
/// Returns the calls of becket and the world.
fn assert_standalone(why: &str, treat: ConnectionHandler) -> (String, World) {
    let world = World::new();
    let calls = note_calls(&world);
    let fake = FakeDaemon::new(&world, treat);
    let called = send_numbered(&world, 1);
    drop(fake);
    assert!(called.is_quiet(), "{why}: {called:?}");
    let calls = calls();
    assert!(
        calls.starts_with(&format!("hook --alone {why} ")),
        "{calls}"
    );
    assert_eq!(calls.lines().count(), 1, "{calls}");
    assert_eq!(numbers(&world), [1]);
    (calls, world)
}

/// A named hook that has started must not start a second time.
#[test]
fn a_broken_hold_means_standalone_without_the_started_hooks() {
    for (why, begun, for_ms) in [
        ("broken", true, 60_000),
        ("broken", false, 60_000),
        ("slow", true, 100),
    ] {
        let hold = Response::Hold {
            for_ms,
            need_env: !begun,
        };
        let treat = move |mut stream: UnixStream| {
            event(&mut stream);
            say(&mut stream, &hold);
            if why == "slow" {
                until_gone(&mut stream);
            }
        };
        let (calls, world) = assert_standalone(why, Box::new(treat));
        assert_eq!(calls.contains(" --held"), begun, "{calls}");
        assert!(
            !world.path("run/slow").exists(),
            "the first frame was in time"
        );
    }
}

#[test]
fn an_answer_in_pieces_is_accepted() {
    let world = World::new();
    let fake = FakeDaemon::new(&world, |mut stream| {
        event(&mut stream);
        for byte in answer().to_frame().expect("a frame") {
            drop(stream.write_all(&[byte]));
        }
        until_gone(&mut stream);
    });
    let called = send_numbered(&world, 1);
    drop(fake);
    assert_eq!(
        (called.code, &*called.stdout),
        (Some(0), ANSWER),
        "{called:?}"
    );
    // The daemon that answers stores the event; the fake one did not.
    assert_eq!(world.events().len(), 0);
}

#[test]
fn a_held_shim_waits_and_sends_its_environment() {
    let world = World::new();
    let (environments, heard) = channel();
    let fake = FakeDaemon::new(&world, move |mut stream| {
        event(&mut stream);
        let hold = |need_env| Response::Hold {
            for_ms: 60_000,
            need_env,
        };
        say(&mut stream, &hold(true));
        let frame = super::fake_daemon::frame(&mut stream).expect("an environment");
        let Ok(Request::Environment(block)) = Request::from_frame(frame) else {
            panic!("no environment")
        };
        drop(environments.send(block));
        say(&mut stream, &hold(false));
        say(&mut stream, &answer());
        until_gone(&mut stream);
    });
    let mut shim = world.shim("PreToolUse");
    shim.env("SOMETHING", "of the user's\nown");
    let called = call(shim, numbered(1).as_bytes(), BOUND);
    drop(fake);
    assert_eq!(
        (called.code, &*called.stdout),
        (Some(0), ANSWER),
        "{called:?}"
    );
    let block = String::from_utf8(heard.recv().expect("an environment")).expect("UTF-8");
    assert!(block.ends_with('\0'), "{block:?}");
    let variables: Vec<_> = block.split_terminator('\0').collect();
    assert!(
        variables.contains(&"SOMETHING=of the user's\nown"),
        "{variables:?}"
    );
    let home = format!("HOME={}", world.home.display());
    assert!(variables.contains(&&*home), "{variables:?}");
}

#[test]
fn an_older_daemon_of_another_protocol_is_replaced() {
    let world = World::new();
    let fake = FakeDaemon::new(&world, |mut stream| {
        let version = Version::from_bits(1);
        drop(super::fake_daemon::frame(&mut stream));
        say(&mut stream, &Response::Refused { version });
    });
    let called = send_numbered(&world, 1);
    assert!(called.is_quiet(), "{called:?}");
    // The real daemon replaces the fake's socket, at the latest when it is ready.
    let ours = until(PATIENCE, || {
        let status = world.output(&["daemon", "status", "--json"]);
        status.status.success().then_some(())
    });
    assert!(ours.is_some(), "ours did not start");
    assert_eq!(numbers(&world), [1]);
    drop(fake);
}

#[test]
fn a_missed_deadline_shortens_the_waits_of_later_shims() {
    let world = registered();
    let (waits, waited) = channel();
    let fake = FakeDaemon::new(&world, move |mut stream| {
        let began = Instant::now();
        event(&mut stream);
        until_gone(&mut stream);
        let _ = waits.send(began.elapsed());
    });
    let mut wait = |n: u32| -> Duration {
        let called = send_numbered(&world, n);
        assert!(called.is_quiet(), "{called:?}");
        waited.recv().expect("a wait")
    };
    let first = wait(1);
    assert!(first > Duration::from_millis(900), "only {first:?}");
    assert!(world.path("run/slow").exists());
    // The fastest of four: a loaded machine may be late once.
    let next = (2..6).map(&mut wait).min().expect("some");
    assert!(next < first / 2, "{next:?} after {first:?}");
    drop(fake);
    assert_eq!(numbers(&world), [1, 2, 3, 4, 5]);
}

#[test]
fn doctor_ends_when_the_daemon_is_stopped() {
    let world = registered();
    let pid = world.start_daemon();
    world.signal_daemon(rustix::process::Signal::STOP);
    let began = Instant::now();
    let doctor = start(world.becket(["doctor", "--json"]));
    let events = start(world.becket(["events", "--json"]));
    // Both wait for the daemon at the same time and give up.
    let events = finish(events, began, Duration::from_secs(90));
    assert_eq!(events.code, Some(5), "{events:?}");
    let doctor = finish(doctor, began, Duration::from_secs(90));
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    for said in ["is stopped", &format!("kill -CONT {pid}")] {
        assert!(doctor.stdout.contains(said), "{doctor:?}");
    }
    assert!(
        doctor.stdout.contains("judged without a daemon"),
        "the event came through all the same"
    );
    world.signal_daemon(rustix::process::Signal::CONT);
    assert_eq!(world.daemon_pid(), Some(pid));
}
