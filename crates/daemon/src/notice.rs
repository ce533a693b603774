//! Runs the person's own command for a notice, within bounds: it may hang, fail or flood us, and
//! nothing else suffers from it.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::mask::Masker;
use becket_engine::notice::{Notice, NoticeKind};
use becket_engine::process::{Bounds, Cancel, Program, run_command};
use becket_engine::session::json;
use becket_wire::session::SessionRow;
use tokio::sync::Semaphore;
use tracing::{info, warn};

use crate::counters::Counters;

/// How long a command may take.
const TIME: Duration = Duration::from_secs(10);
/// How many may run at once.
const AT_ONCE: usize = 4;
/// A session is told of once in this time, for each kind of notice.
const APART: Duration = Duration::from_secs(5);
/// How much of each of its streams goes into the log.
const LOGGED: usize = 2 << 10;

#[derive(Debug)]
pub(crate) struct Notices {
    /// When each session was last told of, by kind.
    last: HashMap<(String, NoticeKind), Instant>,
    room: Arc<Semaphore>,
    counters: Arc<Counters>,
    cancel: Cancel,
}

impl Notices {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            last: HashMap::new(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            counters,
            cancel: Cancel::new(),
        }
    }

    /// Runs the notice's command, unless there are too many. The session's row is its stdin.
    pub(crate) fn run(&mut self, notice: &Notice, row: &SessionRow, masker: Arc<Masker>) {
        let Some(program) = &notice.command else {
            return;
        };
        let now = Instant::now();
        self.last.retain(|_, at| now.duration_since(*at) < APART);
        let told = (notice.session.clone(), notice.kind);
        if self.last.contains_key(&told) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            let trouble = format!("{AT_ONCE} notice commands ran at once: one was left out");
            return self.counters.set_notice_trouble(Some(trouble));
        };
        self.last.insert(told, now);
        let Some(mut command) = command_of(program) else {
            return;
        };
        command.envs(notice.variables());
        let row = row.clone();
        let (counters, cancel) = (Arc::clone(&self.counters), self.cancel.clone());
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut row = serde_json::to_vec(&json(&row)).unwrap_or_default();
            row.push(b'\n');
            let trouble = watch(&mut command, &row, &cancel, &masker).err();
            let trouble = trouble.map(|why| format!("the notice command {why}"));
            if let Some(trouble) = &trouble {
                warn!("{trouble}");
            }
            counters.set_notice_trouble(trouble);
        });
    }
}

/// No command outlives the daemon.
impl Drop for Notices {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn command_of(program: &Program) -> Option<Command> {
    let mut command;
    match program {
        Program::Shell(line) => {
            command = Command::new("/bin/sh");
            command.args(["-c", line]);
        }
        Program::List(words) => {
            let (program, args) = words.split_first()?;
            command = Command::new(program);
            command.args(args);
        }
    }
    Some(command)
}

/// Runs the command, logs what it printed, and says what went wrong.
fn watch(
    command: &mut Command,
    stdin: &[u8],
    cancel: &Cancel,
    masker: &Masker,
) -> Result<(), String> {
    let bounds = Bounds {
        time: Some(TIME),
        bytes: LOGGED,
        own_group: true,
        cancel: Some(cancel),
    };
    let done = run_command(command, stdin, &bounds);
    let done = done.map_err(|why| format!("did not start: {why}"))?;
    let said = [&*done.stdout, &*done.stderr].concat();
    if !said.is_empty() {
        let said = masker.mask(&said).bytes;
        info!(said = %String::from_utf8_lossy(&said).escape_debug(), "the notice command");
    }
    match done.status {
        None => Err(format!("was killed after {} s", TIME.as_secs())),
        Some(status) if !status.success() => Err(format!("ended with {status}")),
        Some(_) => Ok(()),
    }
}
