//! Clients that are no becket, and other users: counted and cut off, while others are served.

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

use super::fake::{Fake, answer, note_calls, say, socket_in, until_gone};
use super::{BOUND, doctor_says, numbered, numbers, send};

/// What the daemon says to these bytes, until it hangs up.
fn heard(world: &World, said: &[u8]) -> Vec<u8> {
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
fn garbage_is_counted_and_cut_off() {
    let world = super::registered();
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
            heard(&world, &case),
            b"",
            "{:?}",
            &case[..case.len().min(40)]
        );
    }
    assert_eq!(world.status()["counts"]["garbage"], count);
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    assert_eq!(world.daemon_pid(), Some(pid));
    doctor_says(&world, "warning", &format!("garbage: {count}"));
}

#[test]
fn another_protocol_is_refused_with_our_version() {
    let world = World::new();
    world.start_daemon();
    let mut event = frame(FrameKind::EVENT, b"in words of tomorrow");
    event[2] = 77;
    let refused = Response::Refused {
        version: becket_wire::Version::current(),
    };
    assert_eq!(heard(&world, &event), refused.to_frame().expect("a frame"));
    assert_eq!(world.status()["counts"]["refused"], 1);
}

#[test]
fn whoever_begins_a_frame_and_stops_holds_nobody_up() {
    let world = World::new();
    world.start_daemon();
    let head = FrameHead::encode(FrameKind::EVENT, MAX_BODY).expect("a head");
    let mut waiting = Vec::new();
    for said in [&b""[..], b"b", b"bk\x01", &head] {
        let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
        stream.write_all(said).expect("it listens");
        waiting.push(stream);
    }
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    // And they are not kept for ever.
    for mut stream in waiting {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        assert_eq!(stream.read(&mut [0; 1]).expect("the daemon hangs up"), 0);
    }
}

#[test]
fn large_frames_that_never_come_do_not_use_up_the_daemon() {
    let world = super::registered();
    world.start_daemon();
    let head = FrameHead::encode(FrameKind::EVENT, MAX_BODY).expect("a head");
    let mut greedy = Vec::new();
    for _ in 0..16 {
        let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
        drop(stream.write_all(&head));
        greedy.push(stream);
    }
    // One that is large itself finds no room there: it goes alone. Small ones do not notice.
    let large = format!(
        "{{\"session_id\":\"s\",\"tool_use_id\":\"1\",\"x\":\"{}\"}}",
        "x".repeat(1 << 20)
    );
    assert!(send(&world, large.as_bytes()).is_silent());
    assert!(send(&world, numbered(2).as_bytes()).is_silent());
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
    doctor_says(&world, "warning", "busy: ");
}

const NOBODY: u32 = 65534;

/// Only root can be somebody else for a while.
fn root_or_skip(name: &str) -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        let why = Unavailable::new("only root can pass for another user");
        skip(&format!("bad_input::owner::{name}"), &why);
    }
    root
}

/// Runs this as another user, on a thread of its own: Linux knows users by thread.
fn as_nobody<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        let nobody = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("another user");
        what()
    });
    thread.join().expect("the other user's work")
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
}

#[test]
fn another_user_cannot_even_reach_the_socket() {
    if !root_or_skip("another_user_cannot_even_reach_the_socket") {
        return;
    }
    let world = World::new();
    world.start_daemon();
    for folder in [world.root(), &world.home] {
        open_to_all(folder);
    }
    let socket = world.path("run/socket");
    let refused = as_nobody(move || UnixStream::connect(socket).expect_err("a closed folder"));
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn another_users_connection_gets_no_word() {
    if !root_or_skip("another_users_connection_gets_no_word") {
        return;
    }
    let world = super::registered();
    world.start_daemon();
    let (run, socket) = (world.path("run"), world.path("run/socket"));
    for path in [world.root(), &world.home, &world.becket_home, &run, &socket] {
        open_to_all(path);
    }
    let ask = Request::Ask(Ask::Status).to_frame().expect("a frame");
    let stop = Request::Ask(Ask::Stop).to_frame().expect("a frame");
    let heard = as_nobody(move || {
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
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    assert_eq!(world.events()[0]["source"], "daemon");
    doctor_says(&world, "warning", "other users refused: 3");
    doctor_says(&world, "broken", "is open to others");
}

#[test]
fn another_user_cannot_pass_for_the_daemon() {
    if !root_or_skip("another_user_cannot_pass_for_the_daemon") {
        return;
    }
    let world = super::registered();
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
    // Who listens is who called listen().
    let listener = as_nobody(move || UnixListener::bind(path).expect("a socket"));
    let (heard, events) = std::sync::mpsc::channel();
    let fake = Fake::on(socket, listener, move |mut stream| {
        drop(stream.set_read_timeout(Some(BOUND)));
        let mut first = [0; 1];
        let got = stream.read(&mut first).unwrap_or(0);
        let _ = heard.send(got);
        say(&mut stream, &answer());
        until_gone(&mut stream);
    });
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    assert_eq!(
        events.recv().expect("a connection"),
        0,
        "the event was shown to a stranger"
    );
    assert!(calls().contains("hook --alone stranger"), "{}", calls());
    doctor_says(&world, "broken", "stranger");
    drop(fake);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn another_users_folder_for_the_socket_is_not_taken() {
    if !root_or_skip("another_users_folder_for_the_socket_is_not_taken") {
        return;
    }
    let mut world = World::new();
    // Too long for an address: the socket would lie in the temp folder, where others may be first.
    world.becket_home = world.home.join("long".repeat(30));
    world.run(&["init"]);
    let place = becket_wire::Place::new(&world.becket_home);
    let socket = place.socket(rustix::process::getuid().as_raw());
    let folder = socket.parent().expect("a folder").to_owned();
    fs::create_dir(&folder).expect("a folder");
    let _removed = super::home::Removed(folder.clone());
    chown(&folder, Some(NOBODY), Some(NOBODY)).expect("a new owner");
    let path = socket.clone();
    let listener = as_nobody(move || UnixListener::bind(path).expect("a socket"));
    let fake = Fake::on(socket, listener, |mut stream| {
        say(&mut stream, &answer());
        until_gone(&mut stream);
    });
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    drop(fake);
    // No process listens there now; ours must not either.
    assert!(send(&world, numbered(2).as_bytes()).is_silent());
    let output = world.output(&["daemon", "start"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("its folder belongs to another user"),
        "{stderr}"
    );
    doctor_says(&world, "broken", "its folder belongs to another user");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    assert_eq!(numbers(&world), [1, 2]);
}
