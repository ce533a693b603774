//! What the view hears: the daemon's stream of sessions, the selected session's events, the
//! terminal. A thread each; all of it comes through one channel.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use becket_daemon::life::now_ms;
use becket_wire::Place;
use becket_wire::rpc::{Ask, EventQuery, Response, Told};
use becket_wire::session::SessionRow;
use ratatui::crossterm::event;

use crate::client::{Client, HangUp, STOPPED};
use crate::launch::state;
use crate::tui::model::EventLine;
use crate::world::World;

/// Whoever sends waits while so many wait to be taken.
pub const QUEUE: usize = 1024;
/// So many of a session's past events are asked for.
const PAST: u32 = 50;
/// Between two tries to reach the daemon: short while one replaces another, then longer.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// A daemon that is away for so long is only being replaced.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often launches are looked for.
const LAUNCHES: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub enum Message {
    All(Vec<SessionRow>),
    One(Box<SessionRow>),
    /// The daemon is there, and what it says is wrong.
    Troubles(Vec<String>),
    /// The daemon cannot be heard, and why.
    Lost(String),
    Event {
        session: String,
        line: EventLine,
    },
    Input(event::Event),
    /// The terminal has gone, or somebody wants us to.
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

/// What one daemon says, until it goes: that is the error.
fn hear(mut client: Client, to: &SyncSender<Message>, heard: &mut bool) -> Result<Gone> {
    let troubles = client.status()?.troubles;
    if send(to, Message::Troubles(troubles)).is_err() {
        return Ok(Gone);
    }
    client.ask(Ask::Watch)?;
    loop {
        let message = match client.wait()? {
            Response::Told(Told::Sessions(rows)) => Message::All(rows),
            Response::Told(Told::Changed(row)) => Message::One(row),
            Response::Told(Told::No(why)) => bail!("the daemon would not: {why}"),
            Response::Told(Told::Done) | Response::Yielding => bail!("the daemon went away"),
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

/// One session's events, from one daemon to the next, until they are no longer wanted. What goes
/// wrong is told by whoever watches.
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
            events(client, to, session)
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
fn events(mut client: Client, to: &SyncSender<Message>, session: &str) -> Result<Option<Gone>> {
    client.ask(Ask::Events(EventQuery {
        session: Some(session.to_owned()),
        limit: Some(PAST),
        follow: true,
        ..EventQuery::default()
    }))?;
    loop {
        match client.wait()? {
            Response::Row(row) => {
                let message = Message::Event {
                    session: session.to_owned(),
                    line: EventLine::new(&row),
                };
                if send(to, message).is_err() {
                    return Ok(Some(Gone));
                }
            }
            Response::Told(Told::Done) => {}
            // A session without any event: one that has no hooks has none ever.
            Response::Told(Told::NoSuchSession(_)) => return Ok(Some(Gone)),
            _ => return Ok(None),
        }
    }
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

/// Reads the terminal until it or the view is gone.
pub fn listen(to: &SyncSender<Message>) {
    loop {
        let message = event::read().map_or(Message::Leave, Message::Input);
        let last = matches!(message, Message::Leave);
        if send(to, message).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
