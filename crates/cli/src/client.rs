//! Talks to the daemon for the verbs, and starts it where there is none. Verbs use the shim's code only through
//! this module.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
pub use becket_hook::wake::is_unregistered;
use becket_hook::{Link, connect, wake};
pub use becket_hook::{envelope, print as print_answer, read_payload};
use becket_wire::effort::EffortTold;
use becket_wire::place::UNREGISTERED;
#[cfg(target_os = "linux")]
use becket_wire::process::process_state;
use becket_wire::question::QuestionRow;
use becket_wire::rpc::{
    Ask, AskReply, DaemonStatus, Envelope, EventQuery, EventRequest, EventRow, Request, Response,
};
use becket_wire::session::{SessionQuery, SessionRow};
use becket_wire::{NoAnswer, Place, StartReport, Version, bounds};

use crate::failure::{Code, Failure};
use crate::work;
use crate::world::World;

/// The time limit for the start of a daemon. An older daemon may wait for its hooks first.
const START: Duration = Duration::from_secs(45);
/// The time limit for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The silence after which the daemon's process is checked: a stopped process never answers.
const SILENCE: Duration = Duration::from_secs(2);
/// The time limit for a reader of a stream, which waits as long as it takes.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// The time for which a follower tries to reach the next daemon.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// The pause between two tries where the user stopped the daemon, which may be for days.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// The message of a follower that waits because the user stopped the daemon.
pub const STOPPED: &str =
    "the daemon was stopped; waiting for an event or for `becket daemon start`";

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    link: Link,
    /// The time at which the caller gives up. It cuts every other time limit short.
    until: Option<Instant>,
}

impl Client {
    /// Connects to the running daemon. Returns none if no daemon runs.
    pub fn connect(world: &World) -> Result<Option<Self>> {
        let socket = world.socket();
        match Link::connect(&socket, Instant::now() + ANSWER) {
            Ok(link) => Ok(Some(Self { link, until: None })),
            Err(NoAnswer::Absent) => Ok(None),
            Err(missed) => Err(unreachable(world, &missed)),
        }
    }

    /// Connects, after starting the daemon if there is none.
    pub fn connect_or_start(world: &World) -> Result<Self> {
        if let Some(client) = Self::connect(world)? {
            return Ok(client);
        }
        start(world)?;
        Self::connect(world)?.ok_or_else(|| unreachable(world, &NoAnswer::Absent))
    }

    /// Connects again after the connection to a daemon was lost, and starts a daemon if need be. A home that was
    /// deleted since then is an error. Returns none if the user stopped the daemon: neither is undone here.
    pub fn reconnect_once(world: &World) -> Result<Option<Self>> {
        let home = world.place.home();
        if !home.exists() {
            let what = format!("{} is gone, and its daemon with it", home.display());
            return Err(Failure::new(Code::Unreachable, what).into());
        }
        match Self::connect(world)? {
            None if world.place.stopped_mark().exists() => Ok(None),
            None => Self::connect_or_start(world).map(Some),
            client => Ok(client),
        }
    }

    /// Connects to the daemon that follows one that has ended, with several tries: the next one may be killed
    /// while it starts. Returns none if the user stopped the daemon.
    pub fn reconnect_with_retries(world: &World) -> Result<Option<Self>> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Self::reconnect_once(world) {
                Err(_) if world.place.home().exists() && Instant::now() < until => {
                    std::thread::park_timeout(PAUSE);
                }
                client => return client,
            }
        }
    }

    /// Connects to the next daemon for the reader of a stream. If the user stopped the daemon, waits until another
    /// process starts one, or until this time.
    pub fn reconnect_or_wait(world: &World, until: Option<Instant>) -> Result<Self> {
        let mut is_reported = false;
        loop {
            if let Some(client) = Self::reconnect_with_retries(world)? {
                return Ok(client);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(lost(NoAnswer::Slow));
            }
            if !std::mem::replace(&mut is_reported, true) {
                anstream::eprintln!("{STOPPED}");
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            std::thread::park_timeout(left.map_or(LONG_PAUSE, |left| left.min(LONG_PAUSE)));
        }
    }

    /// Sets the time at which the caller gives up.
    pub fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    fn allow(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        self.link.deadline = self.until.map_or(deadline, |until| until.min(deadline));
    }

    pub fn ask(&mut self, ask: Ask) -> Result<()> {
        let frame = Request::Ask(ask).to_frame()?;
        self.link.send(&frame).map_err(lost)
    }

    /// Receives the next message of an answer.
    pub fn next(&mut self) -> Result<Response> {
        self.allow(SILENCE);
        match self.link.receive() {
            Err(NoAnswer::Slow) => {}
            response => return response.map_err(lost),
        }
        self.refuse_stopped()?;
        self.allow(ANSWER);
        self.link.receive().map_err(lost)
    }

    /// Fails if the daemon's process is stopped, as by Ctrl-Z or SIGSTOP.
    fn refuse_stopped(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Ok(peer) = rustix::net::sockopt::socket_peercred(&self.link.socket) {
            let pid = peer.pid.as_raw_nonzero();
            let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = process_state(&String::from_utf8_lossy(&stat));
            if matches!(state, Some('T' | 't')) {
                let what = format!("the daemon (pid {pid}) is stopped, so it does not answer");
                let failure = Failure::new(Code::TimedOut, what);
                return Err(failure.hint(format!("kill -CONT {pid}")).into());
            }
        }
        Ok(())
    }

    /// Receives the next message of a stream, however long it takes.
    pub fn next_in_stream(&mut self) -> Result<Response> {
        self.allow(FOR_EVER);
        self.link.receive().map_err(lost)
    }

    /// Returns a handle that closes this connection from another thread, which wakes its reader.
    pub fn hang_up(&self) -> Result<HangUp> {
        Ok(HangUp(self.link.socket.try_clone()?))
    }

    fn reply(&mut self) -> Result<AskReply> {
        match self.next()? {
            Response::Reply(told) => Ok(told),
            Response::Refused { version } => {
                let what = format!(
                    "the daemon has version {version} and another protocol than this becket"
                );
                let failure = Failure::new(Code::Unreachable, what);
                Err(failure.hint("becket daemon start").into())
            }
            _ => Err(unexpected_reply()),
        }
    }

    pub fn status(&mut self) -> Result<DaemonStatus> {
        self.ask(Ask::Status)?;
        match self.reply()? {
            AskReply::Status(status) => Ok(*status),
            other => Err(refusal(other)),
        }
    }

    pub fn sessions(&mut self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        self.ask(Ask::Sessions(query))?;
        match self.reply()? {
            AskReply::Sessions(rows) => Ok(rows),
            other => Err(refusal(other)),
        }
    }

    /// Returns the questions that wait for a person, oldest first.
    pub fn questions(&mut self) -> Result<Vec<QuestionRow>> {
        self.ask(Ask::Questions)?;
        match self.reply()? {
            AskReply::Questions(rows) => Ok(rows),
            other => Err(refusal(other)),
        }
    }

    /// Sends an event or a status line as the shim would, and waits for the answer, which it drops.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let frame = request.to_frame()?;
        self.link.send(&frame).map_err(lost)?;
        loop {
            match self.next()? {
                Response::Answer { .. } => return Ok(()),
                Response::Hold { .. } => {}
                _ => return Err(unexpected_reply()),
            }
        }
    }

    /// Returns the events that match the query, oldest first.
    pub fn events(&mut self, query: EventQuery) -> Result<Vec<EventRow>> {
        self.ask(Ask::Events(query))?;
        let mut rows = Vec::new();
        loop {
            match self.next()? {
                Response::Row(row) => rows.push(*row),
                Response::Reply(AskReply::Done) => return Ok(rows),
                _ => return Err(unexpected_reply()),
            }
        }
    }

    /// Asks about tasks and efforts.
    pub fn effort(&mut self, ask: Ask) -> Result<EffortTold> {
        self.ask(ask)?;
        match self.reply()? {
            AskReply::Effort(told) => Ok(*told),
            AskReply::Refused(why) => Err(work::refusal(&why)),
            other => Err(refusal(other)),
        }
    }

    /// Has the running daemon move the spool into the database, which the caller reads next. Without a daemon,
    /// the caller reads the spool's files itself.
    pub fn take_in(world: &World) -> Result<()> {
        if world.no_daemon {
            return Ok(());
        }
        Self::connect(world)?.map_or(Ok(()), |mut client| client.execute(Ask::TakeIn))
    }

    /// Does the same, but a failure does not stop the caller. A daemon that does not answer is reported, since the
    /// events that it still has will be missing.
    pub fn take_in_or_warn(world: &World) {
        if let Err(error) = Self::take_in(world)
            && let Some(failure) = error.downcast_ref::<Failure>().filter(|it| it.is_late())
        {
            anstream::eprintln!("warning: {failure}; reading the database without it");
            let hint = failure.hinted().unwrap_or_default();
            anstream::eprintln!("hint: {hint}");
        }
    }

    /// Sends a request whose reply carries no data.
    pub fn execute(&mut self, ask: Ask) -> Result<()> {
        self.ask(ask)?;
        match self.reply()? {
            missing @ (AskReply::NoSuchSession(_) | AskReply::Ambiguous(_)) => {
                Err(refusal(missing))
            }
            AskReply::Refused(why) => Err(anyhow!("the daemon refused: {why}")),
            _ => Ok(()),
        }
    }
}

/// A handle that closes a connection from another thread.
#[derive(Debug)]
pub struct HangUp(OwnedFd);

impl HangUp {
    pub fn now(self) {
        // The connection may have ended already.
        rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both).ok();
    }
}

/// Gets the status line from the daemon, which is started if there is none.
pub fn status_line(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
) -> Result<Vec<u8>, NoAnswer> {
    let wait = bounds::STATUS_LINE;
    let request = Request::StatusLine(EventRequest {
        envelope: envelope.clone(),
        sent: envelope.at,
        payload: payload.to_vec(),
    });
    let frame = request.to_frame().map_err(|_| NoAnswer::Broken)?;
    let mut link = match connect(place, wait) {
        Err(NoAnswer::Absent) if !place.stopped_mark().exists() => {
            wake::start_and_connect(place, wait)?
        }
        link => link?,
    };
    link.deadline = Instant::now() + wait;
    link.send(&frame)?;
    match link.receive()? {
        Response::Answer { output, .. } => Ok(output.stdout),
        Response::Busy => Err(NoAnswer::Busy),
        Response::Refused { version } => Err(NoAnswer::Refused(version)),
        _ => Err(NoAnswer::Broken),
    }
}

/// Returns true if the daemon exists and did not answer in time.
pub fn is_late(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Failure::is_late)
}

/// Returns true if there is no daemon, or it could not be reached.
pub fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Failure::is_unreachable)
}

fn lost(missed: NoAnswer) -> anyhow::Error {
    match missed {
        NoAnswer::Slow => Failure::new(Code::TimedOut, "the daemon did not answer in time")
            .hint("becket doctor")
            .into(),
        _ => gone(),
    }
}

/// Fails if `BECKET_NO_DAEMON` is set. `what` names the work that needs the daemon.
pub fn require_daemon(world: &World, what: &str) -> Result<()> {
    if !world.no_daemon {
        return Ok(());
    }
    let what = format!("{what}, and BECKET_NO_DAEMON is set");
    let failure = Failure::new(Code::Unreachable, what);
    Err(failure.hint("unset BECKET_NO_DAEMON").into())
}

/// Makes the error for a daemon that ended before its answer was complete.
pub fn gone() -> anyhow::Error {
    Failure::new(Code::Unreachable, "the daemon went away")
        .hint("try again; then: becket doctor")
        .into()
}

fn unreachable(world: &World, missed: &NoAnswer) -> anyhow::Error {
    let socket = world.socket();
    let what = format!(
        "could not reach the daemon on {} ({missed})",
        socket.display()
    );
    let failure = Failure::new(Code::Unreachable, what);
    failure.hint("becket doctor").into()
}

/// Makes the error for a start lock that could not be taken: another process holds it, or its file cannot be
/// opened.
fn start_lock_error(world: &World) -> anyhow::Error {
    let lock = world.place.start_lock();
    let mut options = std::fs::OpenOptions::new();
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let failure = match options.append(true).custom_flags(no_link).open(&lock) {
        Ok(_) => {
            let what = "another process has been starting the daemon for too long";
            Failure::new(Code::TimedOut, what)
        }
        Err(why) => {
            let lock = lock.display();
            let what = format!("the daemon did not start: could not take the lock {lock}: {why}");
            Failure::new(Code::Unreachable, what)
        }
    };
    failure.hint("becket doctor").into()
}

/// Keeps the registered entries that a running Claude Code still has from starting another daemon.
pub fn mark_unregistered(place: &Place) {
    let mark = wake::create(&place.stopped_mark());
    drop(mark.and_then(|mut mark| mark.write_all(UNREGISTERED.as_bytes())));
}

/// Starts the daemon, unless one runs. Returns true if this call started it.
pub fn start(world: &World) -> Result<bool> {
    require_daemon(world, "a daemon has to be started")?;
    let until = Instant::now() + START;
    let Some(_lock) = wake::start_lock(&world.place, until) else {
        return Err(start_lock_error(world));
    };
    // The previous holder of the lock may have started it. One that ends meanwhile does not answer.
    let status = Client::connect(world)?.map(|mut client| client.status());
    match status {
        Some(Ok(status)) if status.version >= Version::current() && !status.ending => {
            return Ok(false);
        }
        // It holds the lock, so another could not start.
        Some(Err(error)) if is_late(&error) => return Err(error),
        _ => {}
    }
    match wake::start(&world.place, until) {
        StartReport::Ready => Ok(true),
        StartReport::Running(_) => Ok(false),
        StartReport::Failed(why) => {
            let what = format!("the daemon did not start: {why}");
            let failure = Failure::new(Code::Unreachable, what);
            let log = world.place.daemon_log();
            let hint = format!("becket doctor, or read {}", log.display());
            Err(failure.hint(hint).into())
        }
    }
}

/// Makes the error for a reply without the data that was asked for.
pub fn refusal(told: AskReply) -> anyhow::Error {
    let failure = match told {
        AskReply::NoSuchSession(prefix) => {
            let what = format!("no session has an id that begins with `{prefix}`");
            Failure::new(Code::Missing, what).hint("becket sessions --all shows the ids")
        }
        AskReply::Ambiguous(ids) => {
            let what = "several sessions have an id that begins like this";
            Failure::new(Code::Usage, what).hint(format!("one of: {}", ids.join(", ")))
        }
        AskReply::Refused(why) => Failure::new(Code::Failed, why),
        _ => return unexpected_reply(),
    };
    failure.into()
}

/// Makes the error for a reply that no request of this kind gets.
pub fn unexpected_reply() -> anyhow::Error {
    let what = "the daemon sent a reply that does not belong to this request";
    Failure::new(Code::Failed, what)
        .hint("becket daemon stop; then try again")
        .into()
}
