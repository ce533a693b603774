//! Runs the user's own command for a notice, with limits: it may hang, fail or print without end, and nothing
//! else suffers.

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

/// The time limit of a command.
const TIME: Duration = Duration::from_secs(10);
/// The number of commands that may run at once.
const AT_ONCE: usize = 4;
/// The least time between two notices of one kind about one session.
const APART: Duration = Duration::from_secs(5);
/// The number of bytes of each output stream that go into the log.
const LOGGED: usize = 2 << 10;

#[derive(Debug)]
pub(crate) struct Notices {
    /// The time of the last notice, by session and kind.
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

    /// Runs the command of a notice, unless too many run. Its stdin is the session's row.
    pub(crate) fn run(&mut self, notice: &Notice, row: &SessionRow, masker: Arc<Masker>) {
        let Some(program) = &notice.command else {
            return;
        };
        let now = Instant::now();
        self.last.retain(|_, at| now.duration_since(*at) < APART);
        let key = (notice.session.clone(), notice.kind);
        if self.last.contains_key(&key) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            let trouble = format!("{AT_ONCE} notice commands ran at once: one was left out");
            return self.counters.set_notice_trouble(Some(trouble));
        };
        self.last.insert(key, now);
        let Some(mut command) = make_command(program) else {
            return;
        };
        command.envs(notice.variables());
        let row = row.clone();
        let (counters, cancel) = (Arc::clone(&self.counters), self.cancel.clone());
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut row = serde_json::to_vec(&json(&row)).unwrap_or_default();
            row.push(b'\n');
            let trouble = run(&mut command, &row, &cancel, &masker).err();
            let trouble = trouble.map(|why| format!("the notice command {why}"));
            if let Some(trouble) = &trouble {
                warn!("{trouble}");
            }
            counters.set_notice_trouble(trouble);
        });
    }
}

impl Drop for Notices {
    /// Ends the commands with the daemon.
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn make_command(program: &Program) -> Option<Command> {
    let words = match program {
        Program::Shell(line) => vec!["/bin/sh", "-c", line],
        Program::List(words) => words.iter().map(String::as_str).collect(),
    };
    let (program, args) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(args);
    Some(command)
}

/// Runs the command and logs its output.
fn run(
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
    let output = [&*done.stdout, &*done.stderr].concat();
    if !output.is_empty() {
        let output = masker.mask(&output).bytes;
        info!(said = %String::from_utf8_lossy(&output).escape_debug(), "the notice command");
    }
    match done.status {
        None => Err(format!("was killed after {} s", TIME.as_secs())),
        Some(status) if !status.success() => Err(format!("ended with {status}")),
        Some(_) => Ok(()),
    }
}
