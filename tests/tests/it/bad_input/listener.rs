//! Whoever listens on the socket is no daemon, or not the one that was hoped for.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use becket_tests::wait::{PATIENCE, until};
use becket_tests::world::{World, finish, start};
use becket_wire::Version;
use becket_wire::frame::{self, FrameHead, Kind, MAX_BODY};
use becket_wire::rpc::{Request, Response};

use super::fake::{ANSWER, Fake, answer, event, note_calls, say, socket_in, until_gone};
use super::{BOUND, doctor_says, numbered, numbers, send};

/// One event to this listener: the shim goes alone, says nothing, and the event is kept once.
fn goes_alone(why: &str, treat: impl FnMut(UnixStream) + Send + 'static) {
    let world = World::new();
    let calls = note_calls(&world);
    let fake = Fake::new(&world, treat);
    let called = send(&world, numbered(1).as_bytes());
    drop(fake);
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    assert!(called.took < BOUND, "{called:?}");
    let calls = calls();
    assert!(
        calls.starts_with(&format!("hook --alone {why} ")),
        "{calls}"
    );
    assert!(
        calls.lines().count() == 1 && !calls.contains("--held"),
        "{calls}"
    );
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["source"], "alone");
    assert_eq!(events[0]["payload"].to_string(), numbered(1));
}

#[test]
fn garbage_is_no_answer() {
    goes_alone("broken", |mut stream| {
        drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        until_gone(&mut stream);
    });
}

#[test]
fn garbage_before_the_event_was_read_is_none_either() {
    goes_alone("broken", |mut stream| {
        drop(stream.write_all(&[0; 4096]));
        drop(stream.shutdown(Shutdown::Both));
    });
}

#[test]
fn hanging_up_is_no_answer() {
    goes_alone("broken", drop);
    goes_alone("broken", |mut stream| drop(event(&mut stream)));
}

#[test]
fn a_length_over_the_bound_is_not_waited_for() {
    goes_alone("broken", |mut stream| {
        event(&mut stream);
        drop(stream.write_all(b"bk\x01\x81\xff\xff\xff\xff"));
        until_gone(&mut stream);
    });
}

#[test]
fn a_frame_without_its_end_is_waited_for_until_the_deadline() {
    goes_alone("slow", |mut stream| {
        event(&mut stream);
        let head = FrameHead::encode(Kind::ANSWER, MAX_BODY).expect("a head");
        drop(stream.write_all(&head));
        until_gone(&mut stream);
    });
}

#[test]
fn a_frame_that_comes_by_drops_does_not_move_the_deadline() {
    goes_alone("slow", |mut stream| {
        event(&mut stream);
        let head = FrameHead::encode(Kind::ANSWER, MAX_BODY).expect("a head");
        drop(stream.write_all(&head));
        let (_never, pause) = channel::<()>();
        while stream.write_all(&[0]).is_ok() {
            let _ = pause.recv_timeout(Duration::from_millis(5));
        }
    });
}

#[test]
fn an_answer_that_does_not_hold_what_it_promises_is_none() {
    goes_alone("broken", |mut stream| {
        event(&mut stream);
        drop(stream.write_all(&frame::encode(Kind::ANSWER, &[b"short"]).expect("a frame")));
        until_gone(&mut stream);
    });
    goes_alone("broken", |mut stream| {
        event(&mut stream);
        drop(stream.write_all(&frame::encode(Kind(0xee), &[b"what?"]).expect("a frame")));
        until_gone(&mut stream);
    });
}

#[test]
fn an_answer_of_another_protocol_is_none() {
    goes_alone("broken", |mut stream| {
        event(&mut stream);
        let mut frame = answer().to_frame().expect("a frame");
        frame[2] += 1;
        drop(stream.write_all(&frame));
        until_gone(&mut stream);
    });
}

#[test]
fn an_answer_to_another_question_is_none() {
    goes_alone("broken", |mut stream| {
        event(&mut stream);
        say(&mut stream, &Response::Yielding);
        until_gone(&mut stream);
    });
}

#[test]
fn busy_and_refused_mean_alone() {
    goes_alone("busy", |mut stream| {
        event(&mut stream);
        say(&mut stream, &Response::Busy);
    });
    let mut newer = Version::current();
    newer.major += 1;
    goes_alone("refused", move |mut stream| {
        event(&mut stream);
        say(&mut stream, &Response::Refused { version: newer });
    });
}

#[test]
fn busy_without_reading_the_event_means_alone() {
    goes_alone("busy", |mut stream| say(&mut stream, &Response::Busy));
    // An event that does not fit into the socket's buffer: sending it breaks before it is whole.
    let world = World::new();
    let fake = Fake::new(&world, |mut stream| say(&mut stream, &Response::Busy));
    let large = format!("{{\"session_id\":\"s\",\"x\":\"{}\"}}", "x".repeat(4 << 20));
    let called = send(&world, large.as_bytes());
    drop(fake);
    assert!(called.is_silent(), "{called:?}");
    assert_eq!(super::kept(&world, &world.events()[0]), large.as_bytes());
}

#[test]
fn an_answer_in_pieces_is_an_answer() {
    let world = World::new();
    let fake = Fake::new(&world, |mut stream| {
        event(&mut stream);
        for byte in answer().to_frame().expect("a frame") {
            drop(stream.write_all(&[byte]));
        }
        until_gone(&mut stream);
    });
    let called = send(&world, numbered(1).as_bytes());
    drop(fake);
    assert_eq!(
        (called.code, &*called.stdout),
        (Some(0), ANSWER),
        "{called:?}"
    );
    // Whoever answered keeps the event; this one did not.
    assert_eq!(world.events().len(), 0);
}

#[test]
fn held_it_waits_on_and_hands_over_its_environment() {
    let world = World::new();
    let (environments, heard) = channel();
    let fake = Fake::new(&world, move |mut stream| {
        event(&mut stream);
        let hold = |need_env| Response::Hold {
            for_ms: 60_000,
            need_env,
        };
        say(&mut stream, &hold(true));
        let frame = super::fake::frame(&mut stream).expect("an environment");
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
    let called = super::call(shim, numbered(1).as_bytes(), BOUND);
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

/// Like [`goes_alone`], after a promise: a named hook that has begun may not start a second time.
fn goes_alone_held(why: &str, begun: bool, treat: impl FnMut(UnixStream) + Send + 'static) {
    let world = World::new();
    let calls = note_calls(&world);
    let fake = Fake::new(&world, treat);
    let called = send(&world, numbered(1).as_bytes());
    drop(fake);
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    let calls = calls();
    assert!(
        calls.starts_with(&format!("hook --alone {why} ")),
        "{calls}"
    );
    assert_eq!(calls.contains(" --held"), begun, "{calls}");
    assert_eq!(numbers(&world), [1]);
    assert!(
        !world.path("run/slow").exists(),
        "it was not the first word that was late"
    );
}

#[test]
fn a_broken_promise_means_alone_without_named_hooks() {
    let hold = Response::Hold {
        for_ms: 60_000,
        need_env: false,
    };
    goes_alone_held("broken", true, move |mut stream| {
        event(&mut stream);
        say(&mut stream, &hold);
    });
}

#[test]
fn a_promise_that_was_broken_before_a_hook_began_means_alone_with_hooks() {
    // The environment is asked for and never read.
    let hold = Response::Hold {
        for_ms: 60_000,
        need_env: true,
    };
    goes_alone_held("broken", false, move |mut stream| {
        event(&mut stream);
        say(&mut stream, &hold);
    });
}

#[test]
fn a_promise_that_is_not_kept_in_time_means_alone_without_named_hooks() {
    let hold = Response::Hold {
        for_ms: 100,
        need_env: false,
    };
    goes_alone_held("slow", true, move |mut stream| {
        event(&mut stream);
        say(&mut stream, &hold);
        until_gone(&mut stream);
    });
}

#[test]
fn an_older_daemon_of_another_protocol_makes_room() {
    let world = World::new();
    let fake = Fake::new(&world, |mut stream| {
        let version = Version::from_bits(1);
        drop(super::fake::frame(&mut stream));
        say(&mut stream, &Response::Refused { version });
    });
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    // Ours puts its own socket in the place of the fake's, at the latest when it is ready.
    let ours = until(PATIENCE, || {
        let status = world.output(&["daemon", "status", "--json"]);
        status.status.success().then_some(())
    });
    assert!(ours.is_some(), "ours did not start");
    assert_eq!(numbers(&world), [1]);
    drop(fake);
}

#[test]
fn a_missed_deadline_shortens_the_next_wait() {
    let world = super::registered();
    let (waits, waited) = channel();
    let fake = Fake::new(&world, move |mut stream| {
        let began = Instant::now();
        event(&mut stream);
        until_gone(&mut stream);
        let _ = waits.send(began.elapsed());
    });
    let mut wait = |n: u32| -> Duration {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
        waited.recv().expect("a wait")
    };
    let first = wait(1);
    assert!(first > Duration::from_millis(900), "only {first:?}");
    assert!(world.path("run/slow").exists());
    // The quickest of a few: a loaded machine may be late once.
    let next = (2..6).map(&mut wait).min().expect("some");
    assert!(next < first / 2, "{next:?} after {first:?}");
    drop(fake);
    assert_eq!(numbers(&world), [1, 2, 3, 4, 5]);
}

#[test]
fn a_full_backlog_is_a_missed_deadline() {
    let world = World::new();
    let socket = socket_in(&world);
    let listener = UnixListener::bind(&socket).expect("a socket");
    rustix::net::listen(&listener, 0).expect("a short queue");
    // Nobody accepts, so the queue is full after a connection or two.
    let mut queued = Vec::new();
    loop {
        let stream = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let stream = stream.expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(&socket).expect("an address");
        if rustix::net::connect(&stream, &address).is_err() {
            break;
        }
        queued.push(stream);
    }
    let began = Instant::now();
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    assert!(
        began.elapsed() > Duration::from_millis(900),
        "it did not wait: {called:?}"
    );
    assert!(world.path("run/slow").exists());
    let called = send(&world, numbered(2).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    drop(listener);
    std::fs::remove_file(&socket).expect("a socket");
    assert_eq!(numbers(&world), [1, 2]);
}

#[test]
fn doctor_says_that_whoever_listens_is_no_daemon() {
    let world = super::registered();
    let fake = Fake::new(&world, |mut stream| {
        drop(stream.write_all(b"garbage"));
        until_gone(&mut stream);
    });
    let output = world.output(&["daemon", "status", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    doctor_says(&world, "broken", "the daemon");
    drop(fake);
}

#[test]
fn doctor_ends_when_the_daemon_does_not_answer() {
    let world = super::registered();
    let pid = world.start_daemon();
    world.signal_daemon(rustix::process::Signal::STOP);
    let began = Instant::now();
    let doctor = start(world.becket(["doctor", "--json"]));
    let events = start(world.becket(["events", "--json"]));
    // Both wait for the daemon, at the same time, and give up.
    let events = finish(events, began, Duration::from_secs(90));
    assert_eq!(events.code, Some(5), "{events:?}");
    let doctor = finish(doctor, began, Duration::from_secs(90));
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(
        doctor.stdout.contains("did not answer in time"),
        "{doctor:?}"
    );
    assert!(
        doctor.stdout.contains(&format!("kill -9 {pid}; ")),
        "{doctor:?}"
    );
    assert!(
        doctor.stdout.contains("judged without a daemon"),
        "the event came through all the same"
    );
    world.signal_daemon(rustix::process::Signal::CONT);
    assert_eq!(world.daemon_pid(), Some(pid));
}
