//! A daemon that says what the test wants.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use becket_wire::frame::Decoder;
use becket_wire::rpc::{Counts, DaemonStatus, EventRow, Request, Source};
use becket_wire::{EventId, PROTOCOL, Place, Version};

use super::*;
use crate::world::Said;

const SOON: Duration = Duration::from_secs(20);

fn world(home: &Path) -> World {
    World {
        place: Place::new(home),
        claude_home: None,
        cwd: home.to_path_buf(),
        programs: home.to_path_buf(),
        no_daemon: false,
        said: Said::default(),
    }
}

fn listen_at(world: &World) -> UnixListener {
    let socket = world.socket();
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    UnixListener::bind(socket).unwrap()
}

struct Caller {
    stream: UnixStream,
    decoder: Decoder,
}

impl Caller {
    fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self {
            stream,
            decoder: Decoder::new(),
        }
    }

    /// What is asked; none if the other side hung up.
    fn asked(&mut self) -> Option<Ask> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                match Request::from_frame(frame).unwrap() {
                    Request::Ask(ask) => return Some(ask),
                    other => panic!("{other:?}"),
                }
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer).unwrap() {
                0 => return None,
                len => self.decoder.push(&buffer[..len]),
            }
        }
    }

    fn say(&mut self, response: &Response) {
        self.stream
            .write_all(&response.to_frame().unwrap())
            .unwrap();
    }

    /// Begins as every daemon does with somebody who watches.
    fn watched(listener: &UnixListener, session: &str) -> Self {
        let mut caller = Self::accept(listener);
        assert_eq!(caller.asked(), Some(Ask::Status));
        caller.say(&Response::Told(Told::Status(Box::new(DaemonStatus {
            pid: 1,
            version: Version::current(),
            protocol: PROTOCOL,
            socket: String::new(),
            started_at: 0,
            sessions: 1,
            events: 1,
            counts: Counts::default(),
            troubles: vec!["a trouble".into()],
            set: Vec::new(),
        }))));
        assert_eq!(caller.asked(), Some(Ask::Watch));
        caller.say(&Response::Told(Told::Sessions(vec![row(session)])));
        caller
    }
}

fn row(id: &str) -> SessionRow {
    SessionRow {
        session_id: id.into(),
        ..SessionRow::default()
    }
}

fn next(from: &Receiver<Message>) -> String {
    match from.recv_timeout(SOON).unwrap() {
        Message::All(rows) => format!("all {}", rows[0].session_id),
        Message::One(row) => format!("one {}", row.session_id),
        Message::Troubles(troubles) => troubles.join(" "),
        Message::Lost(why) => format!("lost: {why}"),
        Message::Event { session, line } => format!("{session}: {} {}", line.seq, line.event),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_watches_goes_on_with_the_next_daemon() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let listener = listen_at(&world);
    let (to, from) = sync_channel(QUEUE);
    std::thread::spawn(move || watch(&world, &to));
    let mut first = Caller::watched(&listener, "a");
    first.say(&Response::Told(Told::Changed(Box::new(row("b")))));
    let heard: Vec<String> = (0..3).map(|_| next(&from)).collect();
    assert_eq!(heard, ["a trouble", "all a", "one b"]);
    first.say(&Response::Yielding);
    drop(first);
    let second = Caller::watched(&listener, "c");
    assert_eq!([next(&from), next(&from)], ["a trouble", "all c"]);
    // A daemon that will not is said to, after the patience for one that is being replaced.
    drop(second);
    loop {
        let mut caller = Caller::accept(&listener);
        caller.asked();
        caller.say(&Response::Told(Told::No("not today".into())));
        if let Ok(Message::Lost(why)) = from.try_recv() {
            assert!(why.contains("not today"), "{why}");
            break;
        }
    }
}

#[test]
fn who_watches_starts_no_daemon_that_was_stopped() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let listener = listen_at(&world);
    let (place, socket) = (world.place.clone(), world.socket());
    let (to, from) = sync_channel(QUEUE);
    let theirs = world.clone();
    std::thread::spawn(move || watch(&theirs, &to));
    let first = Caller::watched(&listener, "a");
    assert_eq!([next(&from), next(&from)], ["a trouble", "all a"]);
    std::fs::write(place.stopped_mark(), "").unwrap();
    std::fs::remove_file(socket).unwrap();
    drop((first, listener));
    let lost = "lost: the daemon was stopped; waiting for an event or for `becket daemon start`";
    assert_eq!([next(&from), next(&from)], [lost, lost]);
    // Somebody else starts the next one.
    let _second = Caller::watched(&listen_at(&world), "b");
    let mut heard = (0..).map(|_| next(&from)).skip_while(|heard| heard == lost);
    assert_eq!(heard.next().as_deref(), Some("a trouble"));
    assert_eq!(heard.next().as_deref(), Some("all b"));
}

#[test]
fn only_the_selected_sessions_events_are_followed() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let listener = listen_at(&world);
    let (to, from) = sync_channel(QUEUE);
    let mut follower = Follower::new(world, to);
    follower.turn_to(Some("a"));
    let mut first = Caller::accept(&listener);
    let query = |session: &str| {
        Some(Ask::Events(EventQuery {
            session: Some(session.into()),
            limit: Some(50),
            follow: true,
            ..EventQuery::default()
        }))
    };
    assert_eq!(first.asked(), query("a"));
    first.say(&Response::Row(Box::new(event(7))));
    first.say(&Response::Told(Told::Done));
    first.say(&Response::Row(Box::new(event(8))));
    assert_eq!([next(&from), next(&from)], ["a: 7 Stop", "a: 8 Stop"]);
    follower.turn_to(Some("a"));
    follower.turn_to(Some("b"));
    assert_eq!(first.asked(), None);
    let mut second = Caller::accept(&listener);
    assert_eq!(second.asked(), query("b"));
    drop(follower);
    assert_eq!(second.asked(), None);
}

fn event(seq: i64) -> EventRow {
    EventRow {
        seq,
        id: EventId::new(5, [7; 2]),
        at: seq,
        session_id: Some("a".into()),
        agent_id: None,
        event: Some("Stop".into()),
        tool: None,
        decision: None,
        took_us: None,
        source: Source::Daemon,
        masked: 0,
        fault: None,
        duplicate_of: None,
        payload: None,
    }
}
