//! Follows the session of one launch through the daemon, and keeps its launch file current.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use becket_daemon::life::now_ms;
use becket_wire::Place;
use becket_wire::session::SessionRow;

use super::child::{self, Process};
use super::state::LaunchFile;
use crate::tui::feed::Message;

/// A limit's end is told to the minute, and clocks differ.
const AFTER_RESET: Duration = Duration::from_secs(5);

/// Told of every session that the launch has, one after the other.
pub trait Observer: Send {
    fn began(&mut self, row: &SessionRow);
    fn ended(&mut self, session_id: &str, at: i64);
}

/// For a launch that nobody else keeps a record of.
#[derive(Debug)]
pub struct Nobody;

impl Observer for Nobody {
    fn began(&mut self, _: &SessionRow) {}
    fn ended(&mut self, _: &str, _: i64) {}
}

/// What is known of a launch when its Claude Code has ended.
#[derive(Debug, Default)]
pub struct Followed {
    pub session: Option<String>,
    /// What SessionEnd said.
    pub reason: Option<String>,
    /// Why there is no session.
    pub trouble: Option<String>,
    /// When the rate limit ends that the last turn ran into.
    pub limit: Option<i64>,
    /// It was ended because that time had come.
    pub limit_over: bool,
}

/// One launch.
#[derive(Debug)]
pub struct Follower<'a> {
    pub place: &'a Place,
    pub launcher: Process,
    pub child: Process,
    pub cwd: &'a Path,
    pub agent_id: Option<String>,
    pub establish_timeout: Duration,
    /// A limit is waited for, and then the session goes on.
    pub goes_on: bool,
}

/// What it keeps in mind meanwhile.
struct State {
    file: LaunchFile,
    followed: Followed,
    /// Until when the first session has to be there.
    establish: Option<Instant>,
    /// When the limit is over.
    resume: Option<Instant>,
    /// Why the daemon cannot be heard.
    lost: Option<String>,
}

impl Follower<'_> {
    /// Follows until `Leave` comes: Claude Code has ended. Then the launch file goes.
    pub fn run(&self, heard: &Receiver<Message>, observer: &mut dyn Observer) -> Followed {
        let mut state = State {
            file: self.file(),
            followed: Followed::default(),
            establish: Instant::now().checked_add(self.establish_timeout),
            resume: None,
            lost: None,
        };
        loop {
            let now = Instant::now();
            let next = [state.establish, state.resume].into_iter().flatten().min();
            // A year is as good as for ever.
            let left = next.map_or(Duration::from_secs(365 * 86_400), |next| {
                next.saturating_duration_since(now)
            });
            match heard.recv_timeout(left) {
                Ok(Message::All(rows)) => {
                    for row in rows.iter().filter(|row| self.is_ours(row)) {
                        self.hear(row, &mut state, observer);
                    }
                }
                Ok(Message::One(row)) if self.is_ours(&row) => {
                    self.hear(&row, &mut state, observer);
                }
                Ok(Message::Lost(why)) => state.lost = Some(why),
                Ok(Message::Leave) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.time_is_up(&mut state),
            }
        }
        drop(std::fs::remove_file(self.place.launch(self.launcher.pid)));
        if let Some(session) = &state.followed.session {
            observer.ended(session, now_ms());
        }
        state.followed
    }

    fn is_ours(&self, row: &SessionRow) -> bool {
        row.pid == Some(self.child.pid) && row.pid_start == Some(self.child.start)
    }

    fn file(&self) -> LaunchFile {
        LaunchFile {
            started_at: rfc3339(now_ms()),
            project_dir: self.cwd.to_string_lossy().into_owned(),
            launcher_start: self.launcher.start,
            claude_pid: self.child.pid,
            claude_start: self.child.start,
            agent_id: self.agent_id.clone(),
            ..LaunchFile::default()
        }
    }

    fn hear(&self, row: &SessionRow, state: &mut State, observer: &mut dyn Observer) {
        let known = state.followed.session.as_ref() == Some(&row.session_id);
        if row.ended_at.is_some() {
            if known {
                state.followed.reason.clone_from(&row.end_reason);
            }
            return;
        }
        if !known {
            if let Some(before) = state.followed.session.replace(row.session_id.clone()) {
                observer.ended(&before, row.started_at);
            }
            observer.began(row);
            (state.establish, state.followed.trouble) = (None, None);
        }
        state.followed.reason = None;
        self.look_for_limit(row, state);
        let file = LaunchFile {
            session_id: Some(row.session_id.clone()),
            started_at: rfc3339(row.started_at),
            last_updated: rfc3339(row.last_activity),
            transcript_path: row.transcript_path.clone(),
            project_dir: row
                .project
                .clone()
                .unwrap_or_else(|| state.file.project_dir.clone()),
            trouble: None,
            ..state.file.clone()
        };
        if file != state.file {
            // Where nothing can be written, the session goes on without its file.
            drop(file.write(self.place, self.launcher.pid));
            state.file = file;
        }
    }

    fn look_for_limit(&self, row: &SessionRow, state: &mut State) {
        let at = row.error.as_deref().and_then(|error| {
            let _ = error;
            None
        });
        if at == state.followed.limit {
            return;
        }
        state.followed.limit = at;
        let wait = at.map(|at| Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0)));
        let wait = wait.filter(|_| self.goes_on);
        state.resume = wait.and_then(|wait| Instant::now().checked_add(wait + AFTER_RESET));
    }

    fn time_is_up(&self, state: &mut State) {
        let now = Instant::now();
        if state.establish.is_some_and(|at| at <= now) {
            state.establish = None;
            let span = self.establish_timeout.as_secs();
            let why = state.lost.as_ref().map(|why| format!(" ({why})"));
            let trouble = format!(
                "no SessionStart came within {span} s{}; run becket doctor",
                why.unwrap_or_default()
            );
            state.followed.trouble = Some(trouble.clone());
            state.file.trouble = Some(trouble);
            drop(state.file.write(self.place, self.launcher.pid));
        }
        if state.resume.is_some_and(|at| at <= now) {
            state.resume = None;
            state.followed.limit_over = true;
            child::end(self.child);
        }
    }
}

fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000))
        .unwrap_or_default()
        .to_string()
}
