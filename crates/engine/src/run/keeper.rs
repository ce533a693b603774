//! The clocks of programs beyond our own death: a small process beside us hears of everything that
//! runs, and ends it in its time once we cannot do so any more.

mod calm;
mod found;
mod heard;
mod keep;
mod orphan;

use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use becket_wire::EventId;
use becket_wire::event::EventName;
use becket_wire::run::{CurrentRun, RunRow};
use rustix::pipe::PIPE_BUF;
use serde::{Deserialize, Serialize};

pub use calm::Calm;
use heard::Heard;
pub use keep::keep;

use super::child::milliseconds;
use super::{Occasion, Ran};

/// What the pipe holds while nobody reads it.
#[cfg(target_os = "linux")]
const ROOM: usize = 1 << 20;

/// Where a program has its token.
pub(super) const TOKEN: &str = "BECKET_RUN";

/// How many programs this process was about to start.
static STARTS: AtomicU64 = AtomicU64::new(0);

/// The name of that start: no other on this machine has the same.
pub(super) fn token(nth: u64) -> String {
    static SINCE: OnceLock<i64> = OnceLock::new();
    // A process' number is used again, but not in the same moment.
    let since = SINCE.get_or_init(milliseconds);
    format!("{}-{since}-{nth}", std::process::id())
}

/// What the keeper is told: one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A program is about to be started. If nothing more is heard of it, it has to be looked for.
    Starting(Start),
    /// It runs, or its time has changed.
    Begun(Ward),
    /// It could not be started.
    NotStarted(u64),
    /// That group is over: what came of it, if that is recorded only with the runs of its whole
    /// event.
    Over(i32, Option<RunRow>),
    /// The runs of that event are recorded.
    Recorded(EventId),
    /// Whoever ran them goes in order: what runs still was meant to go on.
    Leaving,
}

impl Line {
    /// What is longer would not be written in one piece, and goes without the row: to end in time
    /// matters more.
    fn into_bytes(mut self) -> Vec<u8> {
        let bytes = self.in_json();
        if bytes.len() <= PIPE_BUF {
            return bytes;
        }
        match &mut self {
            Self::Starting(start) => start.run = None,
            Self::Begun(ward) => ward.run = None,
            Self::Over(_, run) => *run = None,
            Self::NotStarted(_) | Self::Recorded(_) | Self::Leaving => {}
        }
        self.in_json()
    }

    fn in_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// A program that may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    nth: u64,
    /// What the program has in its environment, and no other but those that it starts.
    token: String,
    /// Whether it is put into a session of its own.
    own_session: bool,
    left_ms: u64,
    run: Option<RunRow>,
}

/// A program that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ward {
    /// The number under which its start was told.
    pub(super) nth: u64,
    /// Of the leader and of its group.
    pub(super) pid: i32,
    /// When the leader was started, in clock ticks since boot: a pid alone is used again.
    pub(super) start: u64,
    /// How long until its time is up.
    pub(super) left_ms: u64,
    /// What is recorded if the keeper sees its end. None: nothing.
    pub(super) run: Option<RunRow>,
}

/// Who keeps a program's clock if we cannot, and what is recorded then.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub keeper: Arc<Keeper>,
    /// The run, with what is known of it before it begins. None: nothing is recorded.
    pub run: Option<RunRow>,
}

impl Kept {
    /// Tells of a start that may come next; gives the number of it.
    pub(super) fn starting(&self, own_session: bool, timeout: Duration) -> u64 {
        let run = self.run.as_ref().map(|run| RunRow {
            at: milliseconds(),
            ..run.clone()
        });
        self.keeper.starting(own_session, timeout, run)
    }

    /// The run, as far as it may be told: what it wrote is masked only when it is recorded.
    pub(super) fn came_of_it(&self, ran: &Ran) -> Option<RunRow> {
        let known = self.run.as_ref()?;
        let event = EventName::from(&*known.event);
        let on = Occasion {
            event_id: known.event_id,
            event: &event,
            session_id: known.session_id.as_deref(),
            agent_id: known.agent_id.as_deref(),
        };
        Some(RunRow {
            note: None,
            ..ran.row(on, &ran.answer(&event))
        })
    }
}

/// Our end of it: started before the first program, and anew if it is gone. Whatever fails here fails
/// no hook: that has its clock with us.
#[derive(Debug, Default)]
pub struct Keeper {
    /// How it is started. None: nobody keeps anything.
    how: Option<How>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    started: Option<Started>,
    /// What it has heard: if it is gone, the next one has to hear the same.
    all: Heard,
}

#[derive(Debug)]
struct How {
    becket: PathBuf,
    home: PathBuf,
}

#[derive(Debug)]
struct Started {
    child: Child,
    pipe: ChildStdin,
}

impl Keeper {
    /// That becket is the keeper, and leaves what it saw in that home.
    pub fn of(becket: PathBuf, home: PathBuf) -> Self {
        Self {
            how: Some(How { becket, home }),
            ..Self::default()
        }
    }

    /// Before a program is started: we may be killed before we can say which it is.
    fn starting(&self, own_session: bool, timeout: Duration, run: Option<RunRow>) -> u64 {
        let nth = STARTS.fetch_add(1, Ordering::Relaxed);
        self.surely_tell(Line::Starting(Start {
            nth,
            token: token(nth),
            own_session,
            left_ms: whole_ms(timeout),
            run,
        }));
        nth
    }

    pub(super) fn not_started(&self, nth: u64) {
        self.tell(Line::NotStarted(nth));
    }

    pub(super) fn begun(&self, ward: Ward) {
        self.surely_tell(Line::Begun(ward));
    }

    pub(super) fn over(&self, pid: i32, run: Option<RunRow>) {
        self.tell(Line::Over(pid, run));
    }

    /// What came of the programs of that event is recorded: nobody else has to do it.
    pub fn recorded(&self, event: EventId) {
        self.tell(Line::Recorded(event));
    }

    /// The runs that are not recorded, for whoever wants to know what goes on.
    pub fn current(&self) -> Vec<CurrentRun> {
        self.lock().all.current()
    }

    /// We go, all is recorded, and what goes on in the background is left behind: it keeps its clock.
    pub fn leave(&self) {
        self.tell(Line::Leaving);
    }

    /// Starts it where there is none. That it is gone shows when it is told something; the next one
    /// is told the same, and before that all that is still open.
    fn surely_tell(&self, line: Line) {
        let Some(how) = &self.how else {
            return;
        };
        let bytes = line.clone().into_bytes();
        let mut told = self.lock();
        for _ in 0..2 {
            told.start(how);
            if write(&mut told.started, &bytes) {
                break;
            }
        }
        told.all.hear(line);
    }

    fn tell(&self, line: Line) {
        if self.how.is_some() {
            let mut told = self.lock();
            write(&mut told.started, &line.clone().into_bytes());
            told.all.hear(line);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn start(&mut self, how: &How) {
        if self.started.is_some() {
            return;
        }
        self.started = how.start().ok();
        for line in self.all.again() {
            write(&mut self.started, &line.into_bytes());
        }
    }
}

impl How {
    /// In a group of its own: no signal to ours reaches it. It ends with the pipe, and with what it
    /// has to keep then.
    fn start(&self) -> io::Result<Started> {
        let mut child = Command::new(&self.becket)
            .args(["keeper", "--home"])
            .arg(&self.home)
            .args(["--of", &std::process::id().to_string()])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take().ok_or(ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        // It listens in no hurry.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, ROOM);
        Ok(Started { child, pipe })
    }
}

pub(super) fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a line that fits into the pipe whole, or not at all. False if there is nobody to read it.
fn write(started: &mut Option<Started>, line: &[u8]) -> bool {
    let Some(Started { child, pipe }) = started else {
        return false;
    };
    match pipe.write_all(line) {
        Err(why) if why.kind() != ErrorKind::WouldBlock => {
            // It is gone; nobody else would bury it.
            let _ = child.kill();
            let _ = child.wait();
            *started = None;
            false
        }
        // A full pipe loses the line: nobody waits here.
        Ok(()) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests;
