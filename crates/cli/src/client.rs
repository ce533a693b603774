//! Asks the daemon something, starting it if need be.

use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use becket_hook::{Link, wake};
use becket_wire::effort::EffortTold;
#[cfg(target_os = "linux")]
use becket_wire::process::process_state;
use becket_wire::rpc::{Ask, AskReply, DaemonStatus, EventQuery, EventRow, Request, Response};
use becket_wire::session::{SessionQuery, SessionRow};
use becket_wire::{NoAnswer, StartReport, Version};

use crate::failure::{Code, Failure};
use crate::log;
use crate::work;
use crate::world::World;

/// How long the daemon may take to start (an older one may wait for its hooks first), and to answer a
/// person.
const START: Duration = Duration::from_secs(45);
const ANSWER: Duration = Duration::from_secs(30);
/// After so long a silence, the daemon's process is looked at: one that was stopped does not answer at all.
const SILENCE: Duration = Duration::from_secs(2);
/// For those who follow: as long as it takes.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a follower waits for the next daemon, and between two tries.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// The same where the user stopped it: that may take days.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// What they wait for then.
pub const STOPPED: &str =
    "the daemon was stopped; waiting for an event or for `becket daemon start`";

#[derive(Debug)]
pub struct Client {
    link: Link,
    /// When the caller gives up, whatever else is allowed.
    until: Option<Instant>,
}

impl Client {
    /// Connects to the daemon that runs; none if there is none.
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

    /// The same for a client that had a daemon before. A home that was thrown away since then
    /// does not come back by them, nor a daemon that was told to end: none then.
    pub fn connect_again(world: &World) -> Result<Option<Self>> {
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

    /// The daemon that comes after one that has gone. It may be killed while it starts, too. None if
    /// it was told to end.
    pub fn next_daemon(world: &World) -> Result<Option<Self>> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Self::connect_again(world) {
                Err(_) if world.place.home().exists() && Instant::now() < until => {
                    std::thread::park_timeout(PAUSE);
                }
                client => return client,
            }
        }
    }

    /// The same for a follower. Where the daemon was told to end, it waits until another process
    /// starts one, or its own time is up.
    pub fn follow_on(world: &World, until: Option<Instant>) -> Result<Self> {
        let mut told = false;
        loop {
            if let Some(client) = Self::next_daemon(world)? {
                return Ok(client);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(lost(NoAnswer::Slow));
            }
            if !std::mem::replace(&mut told, true) {
                anstream::eprintln!("{STOPPED}");
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            std::thread::park_timeout(left.map_or(LONG_PAUSE, |left| left.min(LONG_PAUSE)));
        }
    }

    /// The same, with a time at which the caller gives up.
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

    /// The next word of an answer that has several.
    pub fn next(&mut self) -> Result<Response> {
        self.allow(SILENCE);
        match self.link.receive() {
            Err(NoAnswer::Slow) => {}
            word => return word.map_err(lost),
        }
        self.refuse_stopped()?;
        self.allow(ANSWER);
        self.link.receive().map_err(lost)
    }

    /// An error if the daemon's process was stopped, as by Ctrl-Z or SIGSTOP.
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

    /// The next word of a stream, however long it takes.
    pub fn wait(&mut self) -> Result<Response> {
        self.allow(FOR_EVER);
        self.link.receive().map_err(lost)
    }

    /// Ends this connection from another thread, which wakes the reader.
    pub fn hang_up(&self) -> Result<HangUp> {
        Ok(HangUp(self.link.socket.try_clone()?))
    }

    fn told(&mut self) -> Result<AskReply> {
        match self.next()? {
            Response::Reply(told) => Ok(told),
            Response::Refused { version } => Err(Failure::new(
                Code::Unreachable,
                format!("the daemon has version {version} and another protocol than this becket"),
            )
            .hint("becket daemon start")
            .into()),
            other => Err(anyhow!("unexpected reply from the daemon: {other:?}")),
        }
    }

    pub fn status(&mut self) -> Result<DaemonStatus> {
        self.ask(Ask::Status)?;
        match self.told()? {
            AskReply::Status(status) => Ok(*status),
            other => Err(anyhow!("unexpected reply from the daemon: {other:?}")),
        }
    }

    pub fn sessions(&mut self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        self.ask(Ask::Sessions(query))?;
        match self.told()? {
            AskReply::Sessions(rows) => Ok(rows),
            other => Err(log::refusal(other)),
        }
    }

    /// An event or a status line, as the shim would send it; what it is answered is not looked at.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let frame = request.to_frame()?;
        self.link.send(&frame).map_err(lost)?;
        loop {
            match self.next()? {
                Response::Answer { .. } => return Ok(()),
                Response::Hold { .. } => {}
                other => return Err(anyhow!("unexpected reply from the daemon: {other:?}")),
            }
        }
    }

    /// Part of the log, whole.
    pub fn events(&mut self, query: EventQuery) -> Result<Vec<EventRow>> {
        self.ask(Ask::Events(query))?;
        let mut rows = Vec::new();
        loop {
            match self.next()? {
                Response::Row(row) => rows.push(*row),
                Response::Reply(AskReply::Done) => return Ok(rows),
                other => return Err(anyhow!("unexpected reply from the daemon: {other:?}")),
            }
        }
    }

    /// Asks about tasks and efforts.
    pub fn effort(&mut self, ask: Ask) -> Result<EffortTold> {
        self.ask(ask)?;
        match self.told()? {
            AskReply::Effort(told) => Ok(*told),
            AskReply::No(why) => Err(work::refusal(&why)),
            other => Err(log::refusal(other)),
        }
    }

    /// Lets the daemon that runs take in the spool before the database is read. Without one there is
    /// nothing to do: the spool is read where it lies.
    pub fn take_in(world: &World) -> Result<()> {
        if world.no_daemon {
            return Ok(());
        }
        Self::connect(world)?.map_or(Ok(()), |mut client| client.done(Ask::TakeIn))
    }

    /// The same for a verb: a daemon in trouble does not stop the reading, but one that does not answer
    /// has events that are missing then.
    pub fn take_in_or_warn(world: &World) {
        if let Err(error) = Self::take_in(world)
            && let Some(failure) = error.downcast_ref::<Failure>().filter(|it| it.is_late())
        {
            anstream::eprintln!("warning: {failure}; reading the database without it");
            let hint = failure.hinted().unwrap_or_default();
            anstream::eprintln!("hint: {hint}");
        }
    }

    /// Asks for something that is only done, not told.
    pub fn done(&mut self, ask: Ask) -> Result<()> {
        self.ask(ask)?;
        match self.told()? {
            told @ (AskReply::NoSuchSession(_) | AskReply::Ambiguous(_)) => Err(log::refusal(told)),
            AskReply::No(why) => Err(anyhow!("the daemon refused: {why}")),
            _ => Ok(()),
        }
    }
}

/// The end of a connection, to be had from elsewhere.
#[derive(Debug)]
pub struct HangUp(OwnedFd);

impl HangUp {
    pub fn now(self) {
        // It may have ended by itself.
        rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both).ok();
    }
}

/// Returns true if the daemon is there and did not answer.
fn is_late(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(Failure::is_late)
}

fn lost(missed: NoAnswer) -> anyhow::Error {
    match missed {
        NoAnswer::Slow => Failure::new(Code::TimedOut, "the daemon did not answer in time")
            .hint("becket doctor")
            .into(),
        _ => gone(),
    }
}

/// The daemon has ended in the middle of it.
pub fn gone() -> anyhow::Error {
    Failure::new(Code::Unreachable, "the daemon went away")
        .hint("try again; then: becket doctor")
        .into()
}

fn unreachable(world: &World, missed: &NoAnswer) -> anyhow::Error {
    let socket = world.socket();
    Failure::new(
        Code::Unreachable,
        format!(
            "could not reach the daemon on {} ({missed})",
            socket.display()
        ),
    )
    .hint("becket doctor")
    .into()
}

/// Why the start lock could not be had: another process has it, or there can be none.
fn not_ours_to_start(world: &World) -> anyhow::Error {
    let lock = world.place.start_lock();
    let mut options = std::fs::OpenOptions::new();
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let failure = match options.append(true).custom_flags(no_link).open(&lock) {
        Ok(_) => Failure::new(
            Code::TimedOut,
            "another process has been starting the daemon for too long",
        ),
        Err(why) => Failure::new(
            Code::Unreachable,
            format!(
                "the daemon did not start: could not take the lock {}: {why}",
                lock.display()
            ),
        ),
    };
    failure.hint("becket doctor").into()
}

/// Starts the daemon, unless one runs. True if this call did it.
pub fn start(world: &World) -> Result<bool> {
    if world.no_daemon {
        return Err(Failure::new(
            Code::Unreachable,
            "BECKET_NO_DAEMON is set, so no daemon is started",
        )
        .hint("unset BECKET_NO_DAEMON")
        .into());
    }
    let until = Instant::now() + START;
    let Some(_lock) = wake::start_lock(&world.place, until) else {
        return Err(not_ours_to_start(world));
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
    let notice = wake::start(&world.place, until);
    match notice {
        StartReport::Ready => Ok(true),
        StartReport::Running(_) => Ok(false),
        StartReport::Failed(why) => Err(Failure::new(
            Code::Unreachable,
            format!("the daemon did not start: {why}"),
        )
        .hint(format!(
            "becket doctor, or read {}",
            world.place.daemon_log().display()
        ))
        .into()),
    }
}
