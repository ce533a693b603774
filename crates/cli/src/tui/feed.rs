//! The inputs of the view: the daemon's stream of sessions, the events of the selected session, the
//! terminal. Each has a thread, and all of them send to one channel.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SendError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use becket_daemon::lifecycle::now_ms;
use becket_wire::Place;
use becket_wire::question::QuestionRow;
use becket_wire::rpc::{AnswerWord, Ask, AskReply, EventQuery, EventRow, Response};
use becket_wire::session::{SessionQuery, SessionRow};
use ratatui::crossterm::event;

use crate::client::{self, Client, HangUp, STOPPED};
use crate::coverage::{last_day, ran_denied_of_last_day};
use crate::launch::launch_file;
use crate::tui::model::EventLine;
use crate::unhooked_processes::why_no_sessions;
use crate::world::{World, denied_calls};

/// The number of messages in the channel. A sender blocks while it is full.
pub const QUEUE: usize = 1024;
/// The number of past events that are requested for a session.
const PAST_EVENTS: u32 = 50;
/// The number of ended sessions that are searched for killed ones.
const ENDED_SESSIONS: u32 = 50;
/// The pause between two connection attempts while one daemon replaces another.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two connection attempts after an error was shown.
const LONG_RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The time for which a missing daemon is not reported, because another may replace it.
const REPLACEMENT_TIME: Duration = Duration::from_secs(1);
const LAUNCH_INTERVAL: Duration = Duration::from_secs(1);
const EMPTY_REASON_INTERVAL: Duration = Duration::from_secs(2);
/// The interval between two comparisons of transcripts with the log. Each reads all transcripts of
/// the last day.
const COVERAGE_INTERVAL: Duration = Duration::from_secs(300);
/// The interval between two searches for denied calls that ran. These need only the database.
const RAN_DENIED_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub enum Message {
    Sessions(Vec<SessionRow>),
    SessionChanged(Box<SessionRow>),
    /// The daemon is connected, and reports these problems.
    Troubles(Vec<String>),
    /// A warning about tool calls that no guard saw.
    CoverageWarning(Option<String>),
    /// The daemon cannot be reached, for this reason.
    Disconnected(String),
    Event {
        session: String,
        line: EventLine,
    },
    /// Input that arrived at once, and the time at which it was read.
    Input(Vec<event::Event>, Instant),
    /// The reason why no session is listed.
    EmptyReason(String),
    /// The terminal was closed, or a signal arrived.
    Leave,
    /// The question that the answer box waits for; none if the daemon does not know it any more.
    Question {
        session: String,
        id: Option<i64>,
        found: Result<Option<Box<QuestionRow>>, String>,
    },
    /// The result of an effect: a message, or an error.
    EffectDone(Result<String, String>),
}

/// Sends the live sessions, from one daemon to the next, until the view closes.
pub fn follow_sessions(world: &World, to: &SyncSender<Message>) -> Result<()> {
    let mut lost_at: Option<Instant> = None;
    let mut was_connected = false;
    loop {
        let client = if was_connected {
            Client::reconnect_once(world)
        } else {
            Client::connect_or_start(world).map(Some)
        };
        was_connected |= client.is_ok();
        let ended = client.and_then(|client| {
            let ended = client.map(|client| receive_sessions(client, to, &mut lost_at));
            ended.transpose()
        });
        let since = *lost_at.get_or_insert_with(Instant::now);
        let (error, pause) = match ended {
            Ok(None) => (Some(STOPPED.to_owned()), REPLACEMENT_TIME),
            Err(error) if is_view_closed(&error) => return Err(error),
            Err(_) if since.elapsed() < REPLACEMENT_TIME => (None, RETRY_PAUSE),
            Err(why) => (
                Some(format!("{why:#}; try becket doctor")),
                LONG_RETRY_PAUSE,
            ),
        };
        if let Some(why) = error {
            to.send(Message::Disconnected(why))?;
            // Without permission to start a daemon there is nothing to wait for.
            if world.no_daemon {
                return Ok(());
            }
        }
        std::thread::park_timeout(pause);
    }
}

/// Returns true if the receiver of the messages was dropped.
fn is_view_closed(error: &anyhow::Error) -> bool {
    error.is::<SendError<Message>>()
}

/// Sends the sessions that were killed before the view was opened.
pub fn load_killed_sessions(world: &World, to: &SyncSender<Message>) -> Result<()> {
    let query = SessionQuery {
        all: true,
        limit: Some(ENDED_SESSIONS),
        ..SessionQuery::default()
    };
    let mut rows = Client::connect_or_start(world)?.sessions(query)?;
    rows.retain(|row| row.ended_at.is_some());
    for row in rows {
        to.send(Message::SessionChanged(Box::new(row)))?;
    }
    Ok(())
}

/// Sends the sessions of one daemon until its connection closes, which is an error. Clears `lost_at`
/// once the daemon has sent sessions.
fn receive_sessions(
    mut client: Client,
    to: &SyncSender<Message>,
    lost_at: &mut Option<Instant>,
) -> Result<Infallible> {
    to.send(Message::Troubles(client.status()?.troubles))?;
    client.ask(Ask::Watch)?;
    loop {
        let message = match client.next_in_stream()? {
            Response::Reply(AskReply::Sessions(rows)) => Message::Sessions(rows),
            Response::Reply(AskReply::Changed(row)) => Message::SessionChanged(row),
            Response::Reply(AskReply::Refused(why)) => bail!("the daemon would not: {why}"),
            Response::Reply(AskReply::Done) | Response::Yielding => bail!("the daemon went away"),
            _ => return Err(client::unexpected_reply()),
        };
        *lost_at = None;
        to.send(message)?;
    }
}

/// Follows the events of one session at a time.
#[derive(Debug)]
pub struct Follower {
    world: World,
    to: SyncSender<Message>,
    session: Option<String>,
    current: Arc<Mutex<FollowerConnection>>,
}

/// The connection of one follower thread. The next thread closes it.
#[derive(Debug, Default)]
enum FollowerConnection {
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

    pub fn show_session(&mut self, session: Option<&str>) {
        if self.session.as_deref() == session {
            return;
        }
        self.hang_up();
        self.session = session.map(str::to_owned);
        self.current = Arc::default();
        if let Some(session) = self.session.clone() {
            let (world, to, connection) =
                (self.world.clone(), self.to.clone(), self.current.clone());
            std::thread::spawn(move || follow_events(&world, &to, &connection, &session));
        }
    }

    /// Fetches a question of a session. Without a number: one that only the terminal can answer.
    pub fn load_question(&self, session: String, id: Option<i64>) {
        let (world, to) = (self.world.clone(), self.to.clone());
        std::thread::spawn(move || {
            let found = find_question(&world, &session, id);
            let found = found.map(|row| row.map(Box::new));
            let found = found.map_err(|error| format!("{error:#}"));
            drop(to.send(Message::Question { session, id, found }));
        });
    }

    fn hang_up(&mut self) {
        let mut line = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let FollowerConnection::Open(hang_up) =
            std::mem::replace(&mut *line, FollowerConnection::Unwanted)
        {
            hang_up.now();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.hang_up();
    }
}

fn find_question(world: &World, session: &str, id: Option<i64>) -> Result<Option<QuestionRow>> {
    let mut client = Client::reconnect_once(world)?.ok_or_else(client::gone)?;
    let mut rows = client.questions()?.into_iter();
    Ok(rows.find(|row| {
        let is_meant = id.map_or(!row.can_be_answered, |id| row.id == id);
        is_meant && row.session_id == session
    }))
}

/// Sends the events of one session, from one daemon to the next, until they are no longer wanted.
/// [`follow_sessions`] reports errors.
fn follow_events(
    world: &World,
    to: &SyncSender<Message>,
    connection: &Mutex<FollowerConnection>,
    session: &str,
) {
    loop {
        match follow_events_of_one_daemon(world, to, connection, session) {
            Ok(()) => return,
            Err(error) if is_view_closed(&error) => return,
            Err(_) => {}
        }
        if matches!(
            *connection.lock().unwrap_or_else(PoisonError::into_inner),
            FollowerConnection::Unwanted
        ) {
            return;
        }
        std::thread::park_timeout(REPLACEMENT_TIME);
    }
}

fn follow_events_of_one_daemon(
    world: &World,
    to: &SyncSender<Message>,
    connection: &Mutex<FollowerConnection>,
    session: &str,
) -> Result<()> {
    let client = Client::reconnect_once(world)?.ok_or_else(client::gone)?;
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*connection, FollowerConnection::Unwanted) {
        return Ok(());
    }
    *connection = FollowerConnection::Open(client.hang_up()?);
    drop(connection);
    receive_events(world, client, to, session)
}

/// Sends events until the connection closes, which is an error. Each daemon sends the past events
/// again; the view skips the events that it has.
fn receive_events(
    world: &World,
    mut client: Client,
    to: &SyncSender<Message>,
    session: &str,
) -> Result<()> {
    client.ask(Ask::Events(EventQuery {
        session: Some(session.to_owned()),
        limit: Some(PAST_EVENTS),
        follow: true,
        ..EventQuery::default()
    }))?;
    loop {
        match client.next_in_stream()? {
            Response::Row(row) => {
                let mut line = EventLine::new(&row);
                if let Some(code) = allow_once(world, &row) {
                    line.about += &format!("  (let it pass: becket allow {code})");
                }
                to.send(Message::Event {
                    session: session.to_owned(),
                    line,
                })?;
            }
            Response::Reply(AskReply::Done) => {}
            // A session without events. One without hooks will never have any.
            Response::Reply(AskReply::NoSuchSession(_)) => return Ok(()),
            _ => return Err(client::unexpected_reply()),
        }
    }
}

/// Returns the code that allows a call once which a guard denied.
fn allow_once(world: &World, row: &EventRow) -> Option<String> {
    let decision = row.decision.as_ref()?;
    let is_guards = decision.by.as_ref()?.guard().is_some() && decision.answer == AnswerWord::Deny;
    let mut denied = denied_calls(world).into_iter().filter(|_| is_guards);
    denied
        .find(|denied| denied.event_id == row.id)
        .map(|denied| denied.code)
}

/// Sends launches without a session until the view closes. The daemon does not know them, so they
/// are read at intervals.
pub fn poll_launches(place: &Place, to: &SyncSender<Message>) -> Result<()> {
    let mut shown: Vec<SessionRow> = Vec::new();
    loop {
        let found = launch_file::without_session(place);
        shown.retain(|row| found.iter().all(|other| other.line != row.line));
        let gone = shown.into_iter().map(|row| SessionRow {
            ended_at: Some(now_ms()),
            ..row
        });
        for row in gone.chain(found.iter().cloned()) {
            to.send(Message::SessionChanged(Box::new(row)))?;
        }
        shown = found;
        std::thread::park_timeout(LAUNCH_INTERVAL);
    }
}

/// Sends warnings about tool calls that no guard saw and denied calls that ran, until the view
/// closes.
pub fn poll_coverage(world: &World, to: &SyncSender<Message>) -> Result<()> {
    let mut ran_denied = 0;
    let mut due = Instant::now();
    loop {
        let ran = ran_denied_of_last_day(world).unwrap_or(ran_denied);
        if ran != ran_denied || Instant::now() >= due {
            let unseen = last_day(world).ok().and_then(|(_, unseen)| unseen);
            let unseen = unseen.map(|what| format!("{what}; see becket guard coverage"));
            to.send(Message::CoverageWarning(unseen))?;
            ran_denied = ran;
            due = Instant::now() + COVERAGE_INTERVAL;
        }
        std::thread::park_timeout(RAN_DENIED_INTERVAL);
    }
}

/// Sends the reason why no session is listed while `is_empty` is true, until the view closes.
pub fn poll_empty_reason(
    world: &World,
    is_empty: &AtomicBool,
    to: &SyncSender<Message>,
) -> Result<()> {
    loop {
        if is_empty.load(Ordering::Relaxed) {
            to.send(Message::EmptyReason(why_no_sessions(world)))?;
        }
        std::thread::park_timeout(EMPTY_REASON_INTERVAL);
    }
}

/// Sends the input of the terminal until it or the view closes. Input that was read at once belongs
/// together, however busy the machine is.
pub fn read_input(to: &SyncSender<Message>) -> Result<()> {
    while let Ok(first) = event::read() {
        let at = Instant::now();
        let mut events = vec![first];
        while events.len() < QUEUE && event::poll(Duration::ZERO).unwrap_or(false) {
            events.extend(event::read());
        }
        to.send(Message::Input(events, at))?;
    }
    Ok(to.send(Message::Leave)?)
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

    use crate::world::ConfigOverrides;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn world(home: &Path) -> World {
        World {
            place: Place::new(home),
            claude_home: None,
            cwd: home.to_path_buf(),
            programs: home.to_path_buf(),
            no_daemon: false,
            overrides: ConfigOverrides::default(),
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

        /// Answers the first requests of a client that watches.
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
            Message::Sessions(rows) => format!("all {}", rows[0].session_id),
            Message::SessionChanged(row) => format!("one {}", row.session_id),
            Message::Troubles(troubles) => troubles.join(" "),
            Message::Disconnected(why) => format!("lost: {why}"),
            Message::Event { session, line } => format!("{session}: {} {}", line.seq, line.event),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sessions_are_followed_from_one_daemon_to_the_next() {
        let home = tempfile::tempdir().unwrap();
        let world = world(home.path());
        let listener = listen_at(&world);
        let (to, from) = sync_channel(QUEUE);
        std::thread::spawn(move || follow_sessions(&world, &to));
        let mut first = Caller::watched(&listener, "a");
        first.say(&Response::Reply(AskReply::Changed(Box::new(row("b")))));
        let heard: Vec<String> = (0..3).map(|_| next(&from)).collect();
        assert_eq!(heard, ["a trouble", "all a", "one b"]);
        first.say(&Response::Yielding);
        drop(first);
        let second = Caller::watched(&listener, "c");
        assert_eq!([next(&from), next(&from)], ["a trouble", "all c"]);
        // A refusal is reported once the time for a replacement of the daemon is over.
        drop(second);
        loop {
            let mut caller = Caller::accept(&listener);
            caller.asked();
            caller.say(&Response::Reply(AskReply::Refused("not today".into())));
            if let Ok(Message::Disconnected(why)) = from.try_recv() {
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
        follower.show_session(Some("a"));
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
        follower.show_session(Some("a"));
        follower.show_session(Some("b"));
        assert_eq!(first.asked(), None);
        let mut second = Caller::accept(&listener);
        assert_eq!(second.asked(), query("b"));
        drop(follower);
        assert_eq!(second.asked(), None);
    }

    #[test]
    fn the_question_with_this_number_is_fetched_by_a_client_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let world = world(home.path());
        let listener = listen_at(&world);
        let (to, from) = sync_channel(QUEUE);
        let follower = Follower::new(world, to);
        let rows = [
            (4, "a", true),
            (5, "b", true),
            (6, "a", false),
            (7, "a", true),
        ];
        let rows = rows.map(|(id, session, can_be_answered)| QuestionRow {
            id,
            session_id: session.into(),
            can_be_answered,
            ..QuestionRow::default()
        });
        // Without a number it is a question that only the terminal can answer.
        for (asked, found) in [(Some(7), Some(7)), (Some(5), None), (None, Some(6))] {
            follower.load_question("a".into(), asked);
            let mut caller = Caller::accept(&listener);
            assert_eq!(caller.asked(), Some(Ask::Questions));
            caller.say(&Response::Reply(AskReply::Questions(rows.to_vec())));
            match from.recv_timeout(SOON).unwrap() {
                Message::Question { id, found: row, .. } => {
                    assert_eq!((id, row.unwrap().map(|row| row.id)), (asked, found));
                }
                other => panic!("{other:?}"),
            }
        }
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
