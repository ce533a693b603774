//! Follows the session of one launch through the daemon, and keeps its launch file current.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use becket_daemon::lifecycle::now_ms;
use becket_engine::limit;
use becket_wire::Place;
use becket_wire::session::{SessionRow, Status};

use super::child::{self, Process};
use crate::launch::launch_file::{LaunchFile, rfc3339};
use crate::tui::feed::Message;
use crate::ui::time::lasted;

/// The time after the end of a rate limit before becket acts. Claude Code 2.1.325 continues by itself
/// after about 100 seconds (measured).
pub const AFTER_RESET: Duration = Duration::from_secs(300);
/// The time for a turn that handed its context over to end by itself.
pub const HANDOVER_GRACE: Duration = Duration::from_secs(5);
/// The interval in which the clock is checked: a machine may sleep before the end of a limit.
pub const TICK: Duration = Duration::from_secs(60);
/// A minute in milliseconds. The message about a limit rounds its end down to the minute.
const MINUTE: i64 = 60_000;

/// An observer of the sessions of a launch, one after the other.
pub trait Observer: Send {
    fn began(&mut self, row: &SessionRow);
    fn ended(&mut self, session_id: &str, at: i64);
}

/// The observer of a launch of which no other record is kept.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn began(&mut self, _: &SessionRow) {}
    fn ended(&mut self, _: &str, _: i64) {}
}

/// The result of following a launch.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    pub session: Option<String>,
    /// The reason that SessionEnd gave.
    pub reason: Option<String>,
    /// The reason why there is no session or no launch file.
    pub trouble: Option<String>,
    /// True if the session has a transcript, so that it can be resumed.
    pub resumable: bool,
    /// True if the last turn did not end by itself.
    pub cut_off: bool,
    /// The end of the rate limit of the last turn, in milliseconds since 1970.
    pub limit: Option<i64>,
    /// True if Claude Code was ended to continue after that limit.
    pub limit_over: bool,
    /// True if the context of the effort was handed over to a fresh Claude Code.
    pub handover: bool,
}

/// Follows one launch.
#[derive(Debug)]
pub struct Follower<'a> {
    pub place: &'a Place,
    pub launcher: Process,
    pub child: Process,
    pub cwd: &'a Path,
    pub agent_id: Option<String>,
    pub establish_timeout: Duration,
    /// True if the session is continued after a rate limit.
    pub resumes: bool,
    /// The time after the end of the limit before the session is continued.
    pub after_reset: Duration,
    /// True if a Claude Code whose context was handed over is replaced.
    pub starts_fresh: bool,
    /// The time after the handover before Claude Code is ended.
    pub handover_grace: Duration,
}

#[derive(Default)]
struct FollowState {
    file: LaunchFile,
    followed: Followed,
    /// The deadline for the first session.
    establish: Option<Instant>,
    /// The start of the current session.
    began: i64,
    /// The status that was last written.
    status: &'static str,
    /// True if the session was working in its last live row.
    works: bool,
    /// The message about the rate limit of the last turn.
    limited: Option<String>,
    /// The time at which a Claude Code is ended whose context was handed over.
    fresh_at: Option<Instant>,
    /// The reason why the daemon cannot be reached.
    lost: Option<String>,
}

impl Follower<'_> {
    /// Follows until `Leave` arrives, because Claude Code has ended. `last_rows` returns the rows that the
    /// stream of the daemon may not have sent by then.
    pub fn run(
        &self,
        heard: &Receiver<Message>,
        observer: &mut dyn Observer,
        last_rows: impl FnOnce() -> Vec<SessionRow>,
    ) -> Followed {
        let mut state = FollowState {
            file: self.file(),
            establish: Instant::now().checked_add(self.establish_timeout),
            ..FollowState::default()
        };
        loop {
            match heard.recv_timeout(self.time_to_deadline(&state)) {
                Ok(Message::Sessions(rows)) => self.receive_rows(rows, &mut state, observer),
                Ok(Message::SessionChanged(row)) => {
                    self.receive_rows(vec![*row], &mut state, observer);
                }
                Ok(Message::Disconnected(why)) => state.lost = Some(why),
                Ok(Message::Leave) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.handle_deadlines(&mut state);
        }
        self.receive_rows(last_rows(), &mut state, observer);
        drop(std::fs::remove_file(self.place.launch(self.launcher.pid)));
        // The transcript has the exact end, but is written after the event.
        let transcript = state.file.transcript_path.as_deref().map(Path::new);
        let exact = transcript.and_then(limit::at_end);
        state.followed.limit = exact.or(state.followed.limit).filter(|at| *at > now_ms());
        state.followed.resumable = transcript.is_some_and(Path::is_file);
        let limited = state.limited.is_some() || state.followed.limit_over;
        state.followed.cut_off = limited || state.works;
        if let Some(session) = &state.followed.session {
            observer.ended(session, now_ms());
        }
        state.followed
    }

    fn file(&self) -> LaunchFile {
        LaunchFile {
            claude_pid: self.child.pid,
            claude_start: self.child.start,
            agent_id: self.agent_id.clone(),
            ..LaunchFile::new(self.launcher, self.cwd)
        }
    }

    fn receive_rows(
        &self,
        mut rows: Vec<SessionRow>,
        state: &mut FollowState,
        observer: &mut dyn Observer,
    ) {
        let child = (Some(self.child.pid), Some(self.child.start));
        rows.retain(|row| (row.pid, row.pid_start) == child);
        rows.sort_by_key(|row| row.started_at);
        for row in &rows {
            self.receive_row(row, state, observer);
        }
    }

    fn receive_row(&self, row: &SessionRow, state: &mut FollowState, observer: &mut dyn Observer) {
        let known = state.followed.session.as_ref() == Some(&row.session_id);
        // This is the session before `/clear`.
        if !known && row.ended_at.is_some() && row.started_at <= state.began {
            return;
        }
        if !known {
            if let Some(before) = state.followed.session.replace(row.session_id.clone()) {
                observer.ended(&before, now_ms());
            }
            observer.began(row);
            state.began = row.started_at;
            (state.establish, state.followed.trouble) = (None, None);
        }
        let ended = row.ended_at.is_some();
        state.followed.reason = row.end_reason.clone().filter(|_| ended);
        update_limit(row, state);
        let handover = row.effort.as_ref().is_some_and(|effort| effort.handover);
        // The row of an ended session may lack its effort.
        state.followed.handover = handover || (ended && state.followed.handover);
        state.fresh_at = if !(state.followed.handover && self.starts_fresh) {
            None
        } else if row.status == Status::Idle && state.works {
            // Other hooks of the Stop may still run.
            Instant::now().checked_add(self.handover_grace / 3)
        } else {
            let at = state.fresh_at;
            at.or_else(|| Instant::now().checked_add(self.handover_grace))
        };
        if !ended {
            state.works = row.status != Status::Idle;
        }
        if !known || state.status != row.status.word() {
            state.status = row.status.word();
            self.write(row, state);
        }
    }

    fn write(&self, row: &SessionRow, state: &mut FollowState) {
        let project_dir = row.project.clone();
        state.file = LaunchFile {
            session_id: Some(row.session_id.clone()),
            started_at: rfc3339(row.started_at),
            last_updated: rfc3339(row.last_activity),
            transcript_path: row.transcript_path.clone(),
            project_dir: project_dir.unwrap_or_else(|| state.file.project_dir.clone()),
            trouble: None,
            ..state.file.clone()
        };
        self.write_file(state);
    }

    /// Writes the launch file. If that fails, the session goes on without it.
    fn write_file(&self, state: &mut FollowState) {
        if let Err(why) = state.file.write(self.place, self.launcher.pid) {
            let file = self.place.launch(self.launcher.pid);
            state.followed.trouble = Some(format!("could not write {}: {why}", file.display()));
        }
    }

    fn time_to_deadline(&self, state: &FollowState) -> Duration {
        let now = Instant::now();
        let deadlines = [state.establish, state.fresh_at].into_iter().flatten();
        let resume = state.followed.limit.map(|at| until(at) + self.after_reset);
        deadlines
            .map(|at| at.saturating_duration_since(now))
            .chain(resume)
            .fold(TICK, Duration::min)
    }

    fn handle_deadlines(&self, state: &mut FollowState) {
        if state.establish.is_some_and(|at| at <= Instant::now()) {
            state.establish = None;
            let span = lasted(self.establish_timeout.as_millis() as i64);
            let why = state.lost.as_ref().map(|why| format!(" ({why})"));
            let why = why.unwrap_or_default();
            let trouble = format!("no session yet after {span}{why}");
            state.followed.trouble = Some(trouble.clone());
            state.file.trouble = Some(trouble);
            self.write_file(state);
        }
        if state.fresh_at.is_some_and(|at| at <= Instant::now()) {
            state.fresh_at = None;
            child::end(self.child);
        }
        if state.limited.is_some() && state.followed.limit.is_none() {
            let transcript = state.file.transcript_path.as_deref().map(Path::new);
            state.followed.limit = transcript.and_then(limit::at_end);
        }
        let stays = state.limited.is_some() && state.status == Status::Idle.word();
        let due = |at: i64| now_ms() - at >= self.after_reset.as_millis() as i64;
        if self.resumes && stays && state.followed.limit.is_some_and(due) {
            state.limited = None;
            state.followed.limit_over = true;
            child::end(self.child);
        }
    }
}

/// Updates the rate limit from the error of the last turn.
fn update_limit(row: &SessionRow, state: &mut FollowState) {
    let error = row.error.as_deref();
    let error = error.filter(|error| limit::is_limit(error.split(':').next().unwrap_or_default()));
    if error == state.limited.as_deref() {
        return;
    }
    state.limited = error.map(str::to_owned);
    let zone = becket_engine::local_time::zone();
    let at = error.and_then(|error| limit::reset(error, row.last_activity, &zone));
    state.followed.limit = at.map(|at| at + MINUTE);
}

/// Returns the time until `at`.
pub fn until(at: i64) -> Duration {
    Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;

    use becket_wire::effort::EffortBrief;

    use super::*;

    fn follower<'a>(place: &'a Place, child: &std::process::Child) -> Follower<'a> {
        Follower {
            place,
            launcher: Process::of(std::process::id()),
            child: Process::of(child.id()),
            cwd: Path::new("/w"),
            agent_id: None,
            establish_timeout: Duration::from_secs(600),
            resumes: true,
            after_reset: Duration::ZERO,
            starts_fresh: true,
            handover_grace: Duration::ZERO,
        }
    }

    /// A session that has stayed at its limit is ended when that is over, and only then.
    #[test]
    fn a_session_that_stays_at_its_limit_is_ended_when_that_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let follower = follower(&place, &child);
        let row = SessionRow {
            session_id: "s1".to_owned(),
            pid: Some(follower.child.pid),
            pid_start: Some(follower.child.start),
            ..SessionRow::default()
        };
        let limited = |reset: i64| {
            let error = format!("rate_limit: limit reached|{reset}");
            Message::SessionChanged(Box::new(SessionRow {
                error: Some(error),
                ..row.clone()
            }))
        };
        let (to, heard) = channel();
        let soon = now_ms() / 1000 - 59;
        to.send(Message::SessionChanged(Box::new(row.clone())))
            .unwrap();
        to.send(limited(soon)).unwrap();
        // The user went on before that.
        to.send(Message::SessionChanged(Box::new(row.clone())))
            .unwrap();
        to.send(Message::Leave).unwrap();
        let followed = follower.run(&heard, &mut NoObserver, Vec::new);
        assert_eq!((followed.limit, followed.limit_over), (None, false));
        assert!(child.try_wait().unwrap().is_none());

        to.send(limited(soon)).unwrap();
        let ended = std::thread::spawn(move || {
            drop(child.wait());
            to.send(Message::Leave).is_ok()
        });
        let followed = follower.run(&heard, &mut NoObserver, Vec::new);
        assert!(followed.limit_over);
        assert_eq!(followed.session.as_deref(), Some("s1"));
        assert!(ended.join().unwrap());
    }

    #[test]
    fn a_claude_code_that_handed_its_context_over_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let follower = follower(&place, &child);
        let row = |handover| SessionRow {
            session_id: "s1".to_owned(),
            pid: Some(follower.child.pid),
            pid_start: Some(follower.child.start),
            status: Status::Working {
                detail: Some("Bash".to_owned()),
            },
            effort: Some(EffortBrief {
                handover,
                ..EffortBrief::default()
            }),
            ..SessionRow::default()
        };
        let (to, heard) = channel();
        for handover in [false, true] {
            to.send(Message::SessionChanged(Box::new(row(handover))))
                .unwrap();
        }
        let last = SessionRow {
            ended_at: Some(1),
            ..row(false)
        };
        let ended = std::thread::spawn(move || {
            drop(child.wait());
            to.send(Message::Leave).is_ok()
        });
        let followed = follower.run(&heard, &mut NoObserver, || vec![last]);
        assert!(followed.handover);
        assert!(ended.join().unwrap());
    }
}
