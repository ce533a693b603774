//! Requests to a scripted daemon, and the use of its answers.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use becket_wire::Place;
use becket_wire::frame::Decoder;
use becket_wire::rpc::{Ask, AskReply, Request, Response};
use becket_wire::session::{Display, SessionQuery, SessionRow};

use crate::client::Client;
use crate::failure::Failure;
use crate::session::source::{SessionSource, find_session};
use crate::session::tests::{NOW, asks};
use crate::verb::wait::{Goal, wait};
use crate::world::{ConfigOverrides, World};

/// The script of one connection: the expected requests with their answers. Then it hangs up.
type Script = Vec<(Ask, Vec<AskReply>)>;

struct Scripted {
    folder: tempfile::TempDir,
    socket: PathBuf,
    thread: JoinHandle<()>,
}

impl Scripted {
    /// Serves the connections one after the other, each by its script.
    fn new(scripts: Vec<Script>) -> (Self, World) {
        let folder = tempfile::tempdir().unwrap();
        let world = World {
            place: Place::new(folder.path()),
            claude_home: None,
            cwd: folder.path().to_owned(),
            programs: folder.path().to_owned(),
            no_daemon: false,
            overrides: ConfigOverrides::default(),
        };
        fs::create_dir_all(world.place.run()).unwrap();
        let listener = UnixListener::bind(world.socket()).unwrap();
        let thread = std::thread::spawn(move || {
            // A connection stays open until its script has come to its end.
            for script in scripts {
                let (stream, _) = listener.accept().unwrap();
                serve(stream, script);
            }
        });
        let socket = world.socket();
        let made = Self {
            folder,
            socket,
            thread,
        };
        (made, world)
    }

    /// Checks that all requests of the scripts were sent.
    fn end(self) {
        // A thread that still waits for a connection gets one without a request.
        drop(UnixStream::connect(&self.socket));
        self.thread.join().unwrap();
        self.folder.close().unwrap();
    }
}

fn serve(mut stream: UnixStream, script: Script) {
    let mut decoder = Decoder::new();
    let mut buffer = [0; 4096];
    for (wanted, says) in script {
        let frame = loop {
            if let Some(frame) = decoder.next_frame().unwrap() {
                break frame;
            }
            let length = stream.read(&mut buffer).unwrap();
            assert!(length > 0, "the request {wanted:?} never came");
            decoder.push(&buffer[..length]);
        };
        assert_eq!(Request::from_frame(frame).unwrap(), Request::Ask(wanted));
        for told in says {
            let frame = Response::Reply(told).to_frame().unwrap();
            stream.write_all(&frame).unwrap();
        }
    }
}

fn about(session: &str) -> Ask {
    Ask::Sessions(SessionQuery {
        session: Some(session.to_owned()),
        all: true,
        limit: None,
    })
}

fn shown_as(display: Display) -> SessionRow {
    SessionRow { display, ..asks() }
}

fn ended() -> SessionRow {
    SessionRow {
        ended_at: Some(NOW),
        end_reason: Some("clear".to_owned()),
        ..asks()
    }
}

fn sessions(row: SessionRow) -> Vec<AskReply> {
    vec![AskReply::Sessions(vec![row])]
}

fn changed(row: SessionRow) -> AskReply {
    AskReply::Changed(Box::new(row))
}

/// Waits for the session `a1b2` with this daemon.
fn waited(scripts: Vec<Script>, goal: Goal, timeout: Option<Duration>) -> Result<SessionRow> {
    let (daemon, world) = Scripted::new(scripts);
    let row = wait(&world, "a1b2", goal, timeout);
    daemon.end();
    row
}

fn works() -> (Ask, Vec<AskReply>) {
    (about("a1b2"), sessions(shown_as(Display::Working)))
}

#[test]
fn what_is_so_already_is_not_waited_for() {
    let script = vec![vec![(about("a1b2"), sessions(asks()))]];
    let now = Some(Duration::ZERO);
    assert_eq!(waited(script, Goal::Waiting, now).unwrap(), asks());
    let gone = vec![vec![(about("a1b2"), sessions(ended()))]];
    assert_eq!(waited(gone, Goal::Ended, None).unwrap(), ended());
}

#[test]
fn a_change_ends_the_waiting_and_only_of_this_session() {
    let other = SessionRow {
        session_id: "other".to_owned(),
        ..shown_as(Display::Done)
    };
    let stream = vec![
        AskReply::Sessions(vec![shown_as(Display::Working)]),
        changed(other),
        changed(asks()),
        changed(shown_as(Display::Error)),
    ];
    let script = vec![vec![works(), (Ask::Watch, stream)]];
    let row = waited(script, Goal::Done, None).unwrap();
    assert_eq!(row.display, Display::Error);
}

#[test]
fn an_end_is_the_end_of_waiting() {
    let script = || {
        let stream = vec![
            AskReply::Sessions(vec![shown_as(Display::Working)]),
            changed(ended()),
        ];
        vec![vec![works(), (Ask::Watch, stream)]]
    };
    let why = waited(script(), Goal::Done, None).unwrap_err();
    assert!(why.to_string().contains("has ended (clear)"), "{why}");
    assert!(!why.downcast_ref::<Failure>().unwrap().is_missing());
    assert_eq!(waited(script(), Goal::Ended, None).unwrap(), ended());
}

#[test]
fn the_next_daemon_goes_on() {
    let first = vec![works(), (Ask::Watch, sessions(shown_as(Display::Working)))];
    // A daemon that announces its end, and one that vanishes.
    let second = vec![(Ask::Watch, vec![AskReply::Done])];
    let third = vec![(Ask::Watch, sessions(asks()))];
    let row = waited(vec![first, second, third], Goal::Waiting, None).unwrap();
    assert_eq!(row, asks());
}

#[test]
fn a_daemon_that_goes_away_in_the_middle_is_asked_again_once() {
    let everything = || Ask::Sessions(SessionQuery::default());
    let gone = || vec![(everything(), vec![])];
    let answers = vec![(everything(), sessions(asks()))];
    let (daemon, world) = Scripted::new(vec![gone(), answers]);
    let found = SessionSource::open(&world).sessions(&SessionQuery::default());
    assert_eq!(found.unwrap(), [asks()]);
    daemon.end();
    // A client that asks once does not start a daemon that was stopped meanwhile.
    let (daemon, world) = Scripted::new(vec![gone()]);
    fs::write(world.place.stopped_mark(), "").unwrap();
    let why = SessionSource::open(&world).sessions(&SessionQuery::default());
    assert_eq!(why.unwrap_err().to_string(), "the daemon went away");
    daemon.end();
    let (daemon, world) = Scripted::new(vec![gone(), gone()]);
    let why = SessionSource::open(&world).sessions(&SessionQuery::default());
    let why = why.unwrap_err();
    assert!(why.downcast_ref::<Failure>().unwrap().is_unreachable());
    daemon.end();
}

#[test]
fn the_time_may_run_out() {
    // The scripted daemon hangs up only at another request, or when the client does.
    let silent = vec![
        works(),
        (Ask::Watch, sessions(shown_as(Display::Working))),
        (Ask::Stop, vec![]),
    ];
    let (daemon, world) = Scripted::new(vec![silent]);
    let why = wait(&world, "a1b2", Goal::Ended, Some(Duration::from_millis(50))).unwrap_err();
    assert!(why.downcast_ref::<Failure>().unwrap().is_late());
    assert!(why.to_string().contains("did not end within"), "{why}");
    assert!(daemon.thread.join().is_err(), "it was left alone");
}

#[test]
fn without_a_daemon_nothing_can_be_waited_for() {
    let (daemon, world) = Scripted::new(vec![]);
    let world = World {
        no_daemon: true,
        ..world
    };
    let why = wait(&world, "a1b2", Goal::Ended, None).unwrap_err();
    assert!(why.downcast_ref::<Failure>().unwrap().is_unreachable());
    daemon.end();
}

#[test]
fn a_session_is_meant_by_its_title_too() {
    let everything = Ask::Sessions(SessionQuery {
        all: true,
        ..SessionQuery::default()
    });
    let title = "Find the flaky login test";
    let script = |rows| {
        vec![vec![
            (
                about(title),
                vec![AskReply::NoSuchSession(title.to_owned())],
            ),
            (everything.clone(), vec![AskReply::Sessions(rows)]),
        ]]
    };
    let found = |rows| {
        let (daemon, world) = Scripted::new(script(rows));
        let mut client = Client::connect_or_start(&world).unwrap();
        let row = find_session(title, |query| client.sessions(query));
        drop(client);
        daemon.end();
        row
    };
    assert_eq!(found(vec![asks()]).unwrap(), asks());
    let why = found(vec![]).unwrap_err();
    assert!(why.downcast_ref::<Failure>().unwrap().is_missing());
}
