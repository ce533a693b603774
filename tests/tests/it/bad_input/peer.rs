//! Whoever speaks to the daemon is no becket. It is counted and cut off; others are served.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use becket_tests::world::World;
use becket_wire::frame::{self, FrameHead, Kind, MAX_BODY};
use becket_wire::rpc::{Request, Response};

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

fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
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
        frame(Kind(0x7f), b"what?"),
        frame(Kind::EVENT, b""),
        frame(Kind::EVENT, &u32::MAX.to_le_bytes()),
        frame(Kind::EVENT, b"\x02\0\0\0{}{\"session_id\":\"s\"}"),
        frame(Kind::ASK, b"{\"dance\":1}"),
        frame(Kind::ASK, "[".repeat(100_000).as_bytes()),
        frame(Kind::YIELD, b"\x01"),
        frame(Kind::ENVIRONMENT, b"A=1\0"),
        frame(Kind::ANSWER, b"from a client"),
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
    let mut event = frame(Kind::EVENT, b"in words of tomorrow");
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
    let head = FrameHead::encode(Kind::EVENT, MAX_BODY).expect("a head");
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
    let head = FrameHead::encode(Kind::EVENT, MAX_BODY).expect("a head");
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

#[test]
fn an_event_whose_sender_hung_up_is_recorded_all_the_same() {
    let world = World::new();
    world.start_daemon();
    // The very bytes of a shim: taken from one that goes alone after a listener heard it.
    let (frames, heard) = std::sync::mpsc::channel();
    let other = World::new();
    let fake = super::fake::Fake::new(&other, move |mut stream| {
        drop(frames.send(super::fake::event(&mut stream)));
    });
    send(&other, numbered(1).as_bytes());
    drop(fake);
    let event = heard.recv().expect("an event");
    let frame = Request::Event(event).to_frame().expect("a frame");
    for _ in 0..3 {
        let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
        stream.write_all(&frame).expect("it listens");
    }
    let found = becket_tests::wait::until(BOUND, || {
        let numbers = numbers(&world);
        (!numbers.is_empty()).then_some(numbers)
    });
    assert_eq!(found, Some(vec![1]), "the same id is the same event");
}
