//! Clients that are not becket, and other users: counted and disconnected, while others are served.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::world::World;
use becket_wire::frame::{self, FrameHead, FrameKind, MAX_BODY};
use becket_wire::rpc::{Ask, Request, Response};
use rustix::process::Uid;

use super::fake_daemon::{FakeDaemon, answer, note_calls, say, socket_in, until_gone};
use super::{BOUND, assert_doctor_reports, numbers, registered, send, send_numbered};

/// Sends bytes to the daemon and returns its answer, read until it hangs up.
fn reply_to(world: &World, said: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
    stream.set_read_timeout(Some(BOUND)).expect("a timeout");
    drop(stream.write_all(said));
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("the daemon keeps the connection: {heard:?}")
        }
        _ => heard,
    }
}

fn frame(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    frame::encode(kind, &[body]).expect("a frame")
}

#[test]
fn a_client_that_sends_garbage_is_counted_and_disconnected() {
    let world = registered();
    let pid = world.start_daemon();
    let endless = b"bk\x01\x01\xff\xff\xff\xff".to_vec();
    let cases = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64 << 10],
        endless,
        frame(FrameKind(0x7f), b"what?"),
        frame(FrameKind::EVENT, b""),
        frame(FrameKind::EVENT, &u32::MAX.to_le_bytes()),
        frame(FrameKind::EVENT, b"\x02\0\0\0{}{\"session_id\":\"s\"}"),
        frame(FrameKind::ASK, b"{\"dance\":1}"),
        frame(FrameKind::ASK, "[".repeat(100_000).as_bytes()),
        frame(FrameKind::YIELD, b"\x01"),
        frame(FrameKind::ENVIRONMENT, b"A=1\0"),
        frame(FrameKind::ANSWER, b"from a client"),
    ];
    let count = cases.len();
    for case in cases {
        assert_eq!(
            reply_to(&world, &case),
            b"",
            "{:?}",
            &case[..case.len().min(40)]
        );
    }
    assert_eq!(world.status()["counts"]["garbage"], count);
    assert!(send_numbered(&world, 1).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    assert_eq!(world.daemon_pid(), Some(pid));
    assert_doctor_reports(&world, "warning", &format!("garbage: {count}"));
}

#[test]
fn a_client_of_another_protocol_is_refused_with_the_version() {
    let world = World::new();
    world.start_daemon();
    let mut event = frame(FrameKind::EVENT, b"in words of tomorrow");
    event[2] = 77;
    let refused = Response::Refused {
        version: becket_wire::Version::current(),
    };
    assert_eq!(
        reply_to(&world, &event),
        refused.to_frame().expect("a frame")
    );
    assert_eq!(world.status()["counts"]["refused"], 1);
}

#[test]
fn a_half_sent_frame_delays_no_other_client() {
    let world = World::new();
    world.start_daemon();
    let head = FrameHead::encode(FrameKind::EVENT, MAX_BODY).expect("a head");
    let mut waiting = Vec::new();
    for said in [&b""[..], b"b", b"bk\x01", &head] {
        let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
        stream.write_all(said).expect("it listens");
        waiting.push(stream);
    }
    assert!(send_numbered(&world, 1).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    // The connections are closed in the end.
    for mut stream in waiting {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        assert_eq!(stream.read(&mut [0; 1]).expect("the daemon hangs up"), 0);
    }
}

#[test]
fn half_sent_large_frames_do_not_exhaust_the_daemon() {
    let world = registered();
    world.start_daemon();
    let head = FrameHead::encode(FrameKind::EVENT, MAX_BODY).expect("a head");
    let mut greedy = Vec::new();
    for _ in 0..16 {
        let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
        drop(stream.write_all(&head));
        greedy.push(stream);
    }
    // A large event finds no room and goes standalone. Small ones are not affected.
    let large = format!(
        "{{\"session_id\":\"s\",\"tool_use_id\":\"1\",\"x\":\"{}\"}}",
        "x".repeat(1 << 20)
    );
    assert!(send(&world, large.as_bytes()).is_silent());
    assert!(send_numbered(&world, 2).is_silent());
    drop(greedy);
    assert_eq!(numbers(&world), [1, 2]);
    let sources: Vec<_> = world
        .events()
        .iter()
        .map(|event| event["source"].clone())
        .collect();
    assert_eq!(sources[1], "daemon");
    assert!(
        world.status()["counts"]["busy"]
            .as_u64()
            .is_some_and(|busy| busy > 0)
    );
    assert_doctor_reports(&world, "warning", "busy: ");
}

const OTHER_USER: u32 = 65534;

/// Returns true if the test runs as root, which alone can become another user; else skips it.
fn root_or_skip(name: &str) -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        let why = Unavailable::new("only root can pass for another user");
        skip(&format!("bad_input::clients::{name}"), &why);
    }
    root
}

/// Runs a function as another user, on a thread of its own, because Linux tracks users by thread.
fn as_other_user<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        let user = Uid::from_raw(OTHER_USER);
        rustix::thread::set_thread_res_uid(user, user, user).expect("another user");
        what()
    });
    thread.join().expect("the other user's work")
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
}

#[test]
fn another_user_cannot_reach_the_socket() {
    if !root_or_skip("another_user_cannot_reach_the_socket") {
        return;
    }
    let world = World::new();
    world.start_daemon();
    for folder in [world.root(), &world.home] {
        open_to_all(folder);
    }
    let socket = world.path("run/socket");
    let refused = as_other_user(move || UnixStream::connect(socket).expect_err("a closed folder"));
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn another_users_connection_gets_no_answer() {
    if !root_or_skip("another_users_connection_gets_no_answer") {
        return;
    }
    let world = registered();
    world.start_daemon();
    let (run, socket) = (world.path("run"), world.path("run/socket"));
    for path in [world.root(), &world.home, &world.becket_home, &run, &socket] {
        open_to_all(path);
    }
    let ask = Request::Ask(Ask::Status).to_frame().expect("a frame");
    let stop = Request::Ask(Ask::Stop).to_frame().expect("a frame");
    let heard = as_other_user(move || {
        let mut heard = Vec::new();
        for request in [ask, stop, b"garbage".to_vec()] {
            let mut stream = UnixStream::connect(&socket).expect("an open folder");
            drop(stream.write_all(&request));
            drop(stream.read_to_end(&mut heard));
        }
        heard
    });
    assert_eq!(heard, b"");
    let counts = &world.status()["counts"];
    assert_eq!(
        (&counts["strangers"], &counts["garbage"]),
        (&3.into(), &0.into())
    );
    assert!(send_numbered(&world, 1).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    assert_doctor_reports(&world, "warning", "other users refused: 3");
    assert_doctor_reports(&world, "broken", "is open to others");
}

#[test]
fn the_shim_rejects_a_daemon_of_another_user() {
    if !root_or_skip("the_shim_rejects_a_daemon_of_another_user") {
        return;
    }
    let world = registered();
    let calls = note_calls(&world);
    let socket = socket_in(&world);
    for path in [
        world.root(),
        &world.home,
        &world.becket_home,
        &world.path("run"),
    ] {
        open_to_all(path);
    }
    let path = socket.clone();
    // The owner of a listener is the process that called listen().
    let listener = as_other_user(move || UnixListener::bind(path).expect("a socket"));
    let (heard, events) = std::sync::mpsc::channel();
    let fake = FakeDaemon::on(socket, listener, move |mut stream| {
        drop(stream.set_read_timeout(Some(BOUND)));
        let mut first = [0; 1];
        let got = stream.read(&mut first).unwrap_or(0);
        let _ = heard.send(got);
        say(&mut stream, &answer());
        until_gone(&mut stream);
    });
    let called = send_numbered(&world, 1);
    assert!(called.is_quiet(), "{called:?}");
    assert_eq!(
        events.recv().expect("a connection"),
        0,
        "the event was shown to a stranger"
    );
    assert!(calls().contains("hook --alone stranger"), "{}", calls());
    assert_doctor_reports(&world, "broken", "stranger");
    drop(fake);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_socket_folder_of_another_user_is_not_used() {
    if !root_or_skip("a_socket_folder_of_another_user_is_not_used") {
        return;
    }
    let mut world = World::new();
    // Too long for an address: the socket is in the temporary folder, where other users may be first.
    world.becket_home = world.home.join("long".repeat(30));
    world.run(&["up", "--only-register"]);
    let place = becket_wire::Place::new(&world.becket_home);
    let socket = place.socket(rustix::process::getuid().as_raw());
    let folder = socket.parent().expect("a folder").to_owned();
    fs::create_dir(&folder).expect("a folder");
    let _removed = super::home::RemoveOnDrop(folder.clone());
    chown(&folder, Some(OTHER_USER), Some(OTHER_USER)).expect("a new owner");
    let path = socket.clone();
    let listener = as_other_user(move || UnixListener::bind(path).expect("a socket"));
    let fake = FakeDaemon::on(socket, listener, |mut stream| {
        say(&mut stream, &answer());
        until_gone(&mut stream);
    });
    assert!(send_numbered(&world, 1).is_silent());
    drop(fake);
    // No process listens there now; the daemon must not either.
    assert!(send_numbered(&world, 2).is_silent());
    let output = world.output(&["daemon", "start"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("its folder belongs to another user"),
        "{stderr}"
    );
    assert_doctor_reports(&world, "broken", "its folder belongs to another user");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    assert_eq!(numbers(&world), [1, 2]);
}
