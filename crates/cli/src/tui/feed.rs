//! What the view hears: the daemon's stream of sessions, the selected session's events, the
//! terminal. A thread each; all of it comes through one channel.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use becket_daemon::life::now_ms;
use becket_wire::Place;
use becket_wire::account::guard_id;
use becket_wire::rpc::{Ask, AskReply, EventQuery, EventRow, Response};
use becket_wire::session::{SessionQuery, SessionRow};
use ratatui::crossterm::event;

use crate::client::{Client, HangUp, STOPPED};
use crate::coverage::{last_day, ran_denied_of_last_day};
use crate::launch::state;
use crate::tui::model::EventLine;
use crate::unhooked::why_no_sessions;
use crate::world::{World, denied_calls};

/// Messages in the channel; a sender blocks while it is full.
pub const QUEUE: usize = 1024;
/// So many of a session's past events are asked for.
const PAST: u32 = 50;
/// So many ended sessions are looked through for those that were killed.
const ENDED: u32 = 50;
/// Between two tries to reach the daemon: short while one replaces another, then longer.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// A daemon that is away for so long is only being replaced.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often launches are looked for.
const LAUNCHES: Duration = Duration::from_secs(1);

/// The pause between two looks for the reason why there is no session.
const WHY_NONE: Duration = Duration::from_secs(2);
/// How often transcripts are compared with the log: all of the last day are read.
const COVERAGE: Duration = Duration::from_secs(300);
/// The pause between two looks for denied calls that ran, which the database alone tells.
const RAN_DENIED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub enum Message {
    All(Vec<SessionRow>),
    One(Box<SessionRow>),
    /// The daemon is there, and what it says is wrong.
    Troubles(Vec<String>),
    /// Tool calls that no guard saw, in words.
    Unseen(Option<String>),
    /// The daemon cannot be heard, and why.
    Lost(String),
    Event {
        session: String,
        line: EventLine,
    },
    /// The input that came at once, and when it was read.
    Input(Vec<event::Event>, Instant),
    /// The reason why no session is listed.
    WhyNone(String),
    /// The terminal has gone, or a signal came.
    Leave,
    /// What a deed gave: words, or why not.
    Done(Result<String, String>),
}

/// The view has gone, or wants no more.
struct Gone;

fn send(to: &SyncSender<Message>, message: Message) -> Result<(), Gone> {
    to.send(message).map_err(|_| Gone)
}

/// Follows the live sessions, from one daemon to the next, until the view goes.
pub fn watch(world: &World, to: &SyncSender<Message>) {
    let mut missed: Option<Instant> = None;
    let mut connect: fn(&World) -> Result<Option<Client>> =
        |world| Client::connect_or_start(world).map(Some);
    loop {
        let ended = connect(world).and_then(|client| {
            connect = Client::connect_again;
            let mut heard = false;
            let ended = client.map(|client| hear(client, to, &mut heard));
            if heard {
                missed = None;
            }
            ended.transpose()
        });
        let since = *missed.get_or_insert_with(Instant::now);
        let (lost, pause) = match ended {
            Ok(Some(Gone)) => return,
            Ok(None) => (Some(STOPPED.to_owned()), PATIENCE),
            Err(_) if since.elapsed() < PATIENCE => (None, PAUSE),
            Err(why) => (Some(format!("{why:#}; try becket doctor")), LONG_PAUSE),
        };
        // Where none may be started, there is nothing to wait for.
        let in_vain = world.no_daemon && lost.is_some();
        if lost.is_some_and(|why| send(to, Message::Lost(why)).is_err()) || in_vain {
            return;
        }
        std::thread::park_timeout(pause);
    }
}

/// The sessions that were killed before the view began.
pub fn killed(world: &World, to: &SyncSender<Message>) {
    let query = SessionQuery {
        all: true,
        limit: Some(ENDED),
        ..SessionQuery::default()
    };
    let rows = Client::connect_or_start(world).and_then(|mut client| client.sessions(query));
    for row in rows.unwrap_or_default() {
        if row.ended_at.is_some() && send(to, Message::One(Box::new(row))).is_err() {
            return;
        }
    }
}

/// What one daemon says, until it goes: that is the error.
fn hear(mut client: Client, to: &SyncSender<Message>, heard: &mut bool) -> Result<Gone> {
    let troubles = client.status()?.troubles;
    if send(to, Message::Troubles(troubles)).is_err() {
        return Ok(Gone);
    }
    client.ask(Ask::Watch)?;
    loop {
        let message = match client.wait()? {
            Response::Reply(AskReply::Sessions(rows)) => Message::All(rows),
            Response::Reply(AskReply::Changed(row)) => Message::One(row),
            Response::Reply(AskReply::No(why)) => bail!("the daemon would not: {why}"),
            Response::Reply(AskReply::Done) | Response::Yielding => bail!("the daemon went away"),
            other => bail!("the daemon said something else: {other:?}"),
        };
        *heard = true;
        if send(to, message).is_err() {
            return Ok(Gone);
        }
    }
}

/// Follows the events of one session at a time.
#[derive(Debug)]
pub struct Follower {
    world: World,
    to: SyncSender<Message>,
    session: Option<String>,
    current: Arc<Mutex<Line>>,
}

/// The connection of one thread: the next one hangs it up.
#[derive(Debug, Default)]
enum Line {
    #[default]
    NotYet,
    Open(HangUp),
    Unwanted,
}

impl Follower {
    pub fn new(world: World, to: SyncSender<Message>) -> Self {
        Self {
            world,
            to,
            session: None,
            current: Arc::default(),
        }
    }

    pub fn turn_to(&mut self, session: Option<&str>) {
        if self.session.as_deref() == session {
            return;
        }
        self.hang_up();
        self.session = session.map(str::to_owned);
        self.current = Arc::default();
        if let Some(session) = self.session.clone() {
            let (world, to, line) = (self.world.clone(), self.to.clone(), self.current.clone());
            std::thread::spawn(move || follow(&world, &to, &line, &session));
        }
    }

    fn hang_up(&mut self) {
        let mut line = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Line::Open(hang_up) = std::mem::replace(&mut *line, Line::Unwanted) {
            hang_up.now();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// One session's events, from one daemon to the next, until they are no longer wanted. Errors
/// are reported by [`watch`].
fn follow(world: &World, to: &SyncSender<Message>, line: &Mutex<Line>, session: &str) {
    loop {
        if let Ok(Some(Gone)) = Client::connect_again(world).and_then(|client| {
            let Some(client) = client else {
                return Ok(None);
            };
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*line, Line::Unwanted) {
                return Ok(Some(Gone));
            }
            *line = Line::Open(client.hang_up()?);
            drop(line);
            events(world, client, to, session)
        }) {
            return;
        }
        if matches!(
            *line.lock().unwrap_or_else(PoisonError::into_inner),
            Line::Unwanted
        ) {
            return;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

/// The past events come again from each daemon; the view knows which it has.
fn events(
    world: &World,
    mut client: Client,
    to: &SyncSender<Message>,
    session: &str,
) -> Result<Option<Gone>> {
    client.ask(Ask::Events(EventQuery {
        session: Some(session.to_owned()),
        limit: Some(PAST),
        follow: true,
        ..EventQuery::default()
    }))?;
    loop {
        match client.wait()? {
            Response::Row(row) => {
                let mut line = EventLine::new(&row);
                if let Some(code) = allow_once(world, &row) {
                    line.about = format!("allow-once {code}  {}", line.about);
                }
                let message = Message::Event {
                    session: session.to_owned(),
                    line,
                };
                if send(to, message).is_err() {
                    return Ok(Some(Gone));
                }
            }
            Response::Reply(AskReply::Done) => {}
            // A session without any event: one that has no hooks has none ever.
            Response::Reply(AskReply::NoSuchSession(_)) => return Ok(Some(Gone)),
            _ => return Ok(None),
        }
    }
}

/// The code by which a call that a guard denied can be allowed once.
fn allow_once(world: &World, row: &EventRow) -> Option<String> {
    let decision = row.decision.as_ref()?;
    let is_guards = guard_id(decision.by.as_deref()?).is_some() && decision.answer == "deny";
    let mut denied = denied_calls(world).into_iter().filter(|_| is_guards);
    denied
        .find(|denied| denied.event_id == row.id)
        .map(|denied| denied.code)
}

/// Looks for launches whose Claude Code says nothing, until the view goes. The daemon does not know
/// them, so they are told again and again.
pub fn launches(place: &Place, to: &SyncSender<Message>) {
    let mut shown: Vec<SessionRow> = Vec::new();
    loop {
        let found = state::without_session(place);
        shown.retain(|row| found.iter().all(|other| other.line != row.line));
        let gone = shown.into_iter().map(|row| SessionRow {
            ended_at: Some(now_ms()),
            ..row
        });
        for row in gone.chain(found.iter().cloned()) {
            if send(to, Message::One(Box::new(row))).is_err() {
                return;
            }
        }
        shown = found;
        std::thread::park_timeout(LAUNCHES);
    }
}

/// Looks for tool calls that no guard saw and for denied ones that ran, until the view goes.
pub fn coverage(world: &World, to: &SyncSender<Message>) {
    let mut ran_denied = 0;
    let mut due = Instant::now();
    loop {
        let ran = ran_denied_of_last_day(world).unwrap_or(ran_denied);
        if ran != ran_denied || Instant::now() >= due {
            let unseen = last_day(world).ok().and_then(|(_, unseen)| unseen);
            let unseen = unseen.map(|what| format!("{what}; see becket coverage"));
            if send(to, Message::Unseen(unseen)).is_err() {
                return;
            }
            ran_denied = ran;
            due = Instant::now() + COVERAGE;
        }
        std::thread::park_timeout(RAN_DENIED);
    }
}

/// Tells the reason why no session is listed, while `none` says so, until the view goes.
pub fn why_none(world: &World, none: &AtomicBool, to: &SyncSender<Message>) {
    loop {
        if none.load(Ordering::Relaxed)
            && send(to, Message::WhyNone(why_no_sessions(world))).is_err()
        {
            return;
        }
        std::thread::park_timeout(WHY_NONE);
    }
}

/// Reads the terminal until it or the view is gone.
pub fn listen(to: &SyncSender<Message>) {
    loop {
        let message = input().unwrap_or(Message::Leave);
        let last = matches!(message, Message::Leave);
        if send(to, message).is_err() || last {
            return;
        }
    }
}

/// Waits for input and takes all that has come: what was read at once belongs together, however
/// busy the machine is.
fn input() -> io::Result<Message> {
    let mut events = vec![event::read()?];
    let at = Instant::now();
    while events.len() < QUEUE && event::poll(Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(Message::Input(events, at))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::sync::mpsc::{Receiver, sync_channel};

    use becket_wire::frame::Decoder;
    use becket_wire::rpc::{Counts, DaemonStatus, EventRow, Request, Source};
    use becket_wire::{EventId, PROTOCOL, Place, Version};

    use crate::world::Said;

    use super::*;

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
            caller.say(&Response::Reply(AskReply::Status(Box::new(DaemonStatus {
                pid: 1,
                version: Version::current(),
                protocol: PROTOCOL,
                socket: String::new(),
                started_at: 0,
                sessions: 1,
                events: 1,
                counts: Counts::default(),
                troubles: vec!["a trouble".into()],
                ending: false,
            }))));
            assert_eq!(caller.asked(), Some(Ask::Watch));
            caller.say(&Response::Reply(AskReply::Sessions(vec![row(session)])));
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
        first.say(&Response::Reply(AskReply::Changed(Box::new(row("b")))));
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
            caller.say(&Response::Reply(AskReply::No("not today".into())));
            if let Ok(Message::Lost(why)) = from.try_recv() {
                assert!(why.contains("not today"), "{why}");
                break;
            }
        }
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
        first.say(&Response::Reply(AskReply::Done));
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
}
