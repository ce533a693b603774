//! Runs the person's own command for a notice, within bounds: it may hang, fail or flood us, and
//! nothing else suffers from it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::notice::Notice;
use becket_engine::run::Program;
use becket_engine::session::json;
use becket_wire::session::SessionRow;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::counters::Counters;

/// How long a command may take.
const TIME: Duration = Duration::from_secs(10);
/// How many may run at once.
const AT_ONCE: usize = 4;
/// A session is told of once in this time.
const APART: Duration = Duration::from_secs(5);
/// How much a command may print, and how much of it goes into the log.
const READ: u64 = 64 << 10;
const LOGGED: usize = 2 << 10;
/// How long what is still in the pipe may take, once the command has ended.
const REST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Notices {
    /// When each session was last told of.
    last: HashMap<String, Instant>,
    room: Arc<Semaphore>,
    counters: Arc<Counters>,
}

impl Notices {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            last: HashMap::new(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            counters,
        }
    }

    /// Runs the notice's command, unless there are too many. The session's row is its stdin.
    pub(crate) fn run(&mut self, notice: &Notice, row: &SessionRow) {
        let Some(program) = &notice.command else {
            return;
        };
        let now = Instant::now();
        self.last.retain(|_, at| now.duration_since(*at) < APART);
        if self.last.contains_key(&notice.session) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            let trouble = format!("{AT_ONCE} notice commands ran at once: one was left out");
            return self.counters.set_notice_trouble(Some(trouble));
        };
        self.last.insert(notice.session.clone(), now);
        let started = start(program, notice, row);
        let counters = Arc::clone(&self.counters);
        tokio::spawn(async move {
            let _permit = permit;
            let trouble = match started {
                Ok((child, printed)) => watch(child, printed).await.err(),
                Err(why) => Some(format!("did not start: {why}")),
            };
            let trouble = trouble.map(|why| format!("the notice command {why}"));
            if let Some(trouble) = &trouble {
                warn!("{trouble}");
            }
            counters.set_notice_trouble(trouble);
        });
    }
}

fn start(
    program: &Program,
    notice: &Notice,
    row: &SessionRow,
) -> io::Result<(Child, pipe::Receiver)> {
    let mut command = match program {
        Program::Shell(line) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line]);
            shell
        }
        Program::List(words) => {
            let (program, args) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
            let mut command = Command::new(program);
            command.args(args);
            command
        }
    };
    let (printed, writer) = io::pipe()?;
    let child = command
        .envs(notice.variables())
        .stdin(told(row)?)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    let printed = pipe::Receiver::from_owned_fd(printed.into())?;
    Ok((child, printed))
}

/// A file in memory: nobody has to wait until a command reads it.
fn told(row: &SessionRow) -> io::Result<Stdio> {
    let file = rustix::fs::memfd_create("notice", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    serde_json::to_writer(&mut file, &json(row))?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file.into())
}

/// Waits for the command's end, and says what went wrong. What it left behind in the background is
/// its own business, unless it took too long.
async fn watch(child: Child, printed: pipe::Receiver) -> Result<(), String> {
    let mut said = Vec::new();
    let outcome = {
        let mut ending = pin!(end(child));
        let mut listening = pin!(listen(printed, &mut said));
        tokio::select! {
            outcome = &mut ending => {
                drop(timeout(REST, listening).await);
                outcome
            }
            () = &mut listening => ending.await,
        }
    };
    if !said.is_empty() {
        info!(said = %String::from_utf8_lossy(&said).escape_debug(), "the notice command");
    }
    outcome
}

async fn end(mut child: Child) -> Result<(), String> {
    let mut group = Group::of(&child);
    let ended = timeout(TIME, child.wait()).await;
    if let Ok(Ok(_)) = &ended {
        group.0 = None;
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("ended with {status}")),
        Ok(Err(why)) => Err(format!("was lost: {why}")),
        Err(_) => {
            drop(group);
            drop(child.wait().await);
            Err(format!("was killed after {} s", TIME.as_secs()))
        }
    }
}

/// A command with all that it started. Nobody has waited for it yet, so the number is still its
/// own. Dropped, it is killed: by its time, or by the daemon's end.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// Reads to the end or the bound, where the pipe closes, and keeps the beginning.
async fn listen(printed: pipe::Receiver, said: &mut Vec<u8>) {
    let mut printed = printed.take(READ);
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = printed.read(&mut buffer).await {
        let room = LOGGED.saturating_sub(said.len());
        said.extend_from_slice(&buffer[..len.min(room)]);
    }
}
