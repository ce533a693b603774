//! Follows the session of one launch through the daemon, and keeps its launch file current.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use becket_daemon::life::now_ms;
use becket_engine::limit;
use becket_wire::Place;
use becket_wire::session::{SessionRow, Status};

use super::child::{self, Process};
use super::launch_file::LaunchFile;
use crate::tui::feed::Message;
use crate::ui::time;

/// The time after a limit's end until becket acts. Claude Code 2.1.325 goes on by itself after about 100 seconds
/// (measured).
pub const AFTER_RESET: Duration = Duration::from_secs(300);
/// The time in which a turn that handed its context over may end by itself.
pub const HANDOVER_GRACE: Duration = Duration::from_secs(5);
/// The longest pause between two looks at the clock: a limit's end may be hours away, and the machine may sleep.
pub const TICK: Duration = Duration::from_secs(60);
/// The precision of a limit's message, which is rounded down to the minute, in milliseconds.
const MINUTE: i64 = 60_000;

/// Receives the begin and the end of every session of a launch, one after the other.
pub trait Observer: Send {
    fn began(&mut self, row: &SessionRow);
    fn ended(&mut self, session_id: &str, at: i64);
}

/// The observer of a launch without other records.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn began(&mut self, _: &SessionRow) {}
    fn ended(&mut self, _: &str, _: i64) {}
}

/// The state of a launch when its Claude Code has ended.
#[derive(Debug, Default)]
pub struct Followed {
    pub session: Option<String>,
    /// The reason in the SessionEnd event.
    pub reason: Option<String>,
    /// The reason why there is no session, or no launch file.
    pub trouble: Option<String>,
    /// True if the session has a transcript, so that it can be resumed.
    pub resumable: bool,
    /// True if the last turn did not end by itself.
    pub cut_off: bool,
    /// The end of the rate limit that the last turn ran into: milliseconds since 1970.
    pub limit: Option<i64>,
    /// True if Claude Code was ended to go on after that limit.
    pub limit_over: bool,
    /// True if the context of the effort was handed over to a fresh Claude Code.
    pub handover: bool,
}

/// The follower of one launch.
#[derive(Debug)]
pub struct Follower<'a> {
    pub place: &'a Place,
    pub launcher: Process,
    pub child: Process,
    pub cwd: &'a Path,
    pub agent_id: Option<String>,
    pub establish_timeout: Duration,
    /// True if the session goes on after a rate limit.
    pub resumes: bool,
    /// The time from the limit's end until the session is resumed.
    pub after_reset: Duration,
    /// True if a Claude Code whose context was handed over is ended.
    pub starts_fresh: bool,
    /// The time from the handover until that end.
    pub handover_grace: Duration,
}

struct FollowState {
    file: LaunchFile,
    followed: Followed,
    /// The time limit for the first session.
    establish: Option<Instant>,
    /// The begin of the current session.
    began: i64,
    /// The status of the current session in the launch file.
    status: &'static str,
    /// True if the session was working at its last message.
    works: bool,
    /// The message of the limit that the last turn ran into.
    limited: Option<String>,
    /// The time at which a Claude Code whose context was handed over is ended.
    fresh_at: Option<Instant>,
    /// The reason why there is no connection to the daemon.
    lost: Option<String>,
}

impl Follower<'_> {
    /// Follows the launch until `Leave` tells that Claude Code has ended. `last_rows` returns the rows that the
    /// daemon's stream may not have delivered by then.
    pub fn run(
        &self,
        messages: &Receiver<Message>,
        observer: &mut dyn Observer,
        last_rows: impl FnOnce() -> Vec<SessionRow>,
    ) -> Followed {
        let mut state = FollowState {
            file: self.file(),
            followed: Followed::default(),
            establish: Instant::now().checked_add(self.establish_timeout),
            began: 0,
            status: "",
            works: false,
            limited: None,
            fresh_at: None,
            lost: None,
        };
        loop {
            match messages.recv_timeout(self.next_look(&state)) {
                Ok(Message::All(rows)) => self.apply_all(rows, &mut state, observer),
                Ok(Message::One(row)) => self.apply_all(vec![*row], &mut state, observer),
                Ok(Message::Lost(why)) => state.lost = Some(why),
                Ok(Message::Leave) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.check_deadlines(&mut state);
        }
        self.apply_all(last_rows(), &mut state, observer);
        drop(std::fs::remove_file(self.place.launch(self.launcher.pid)));
        // The transcript has the limit's end to the second, but is written after the event.
        let exact = state.file.transcript_path.as_deref().and_then(limit_in);
        state.followed.limit = exact.or(state.followed.limit).filter(|at| *at > now_ms());
        let transcript = state.file.transcript_path.as_deref();
        state.followed.resumable = transcript.is_some_and(|path| Path::new(path).is_file());
        let limited = state.limited.is_some() || state.followed.limit_over;
        state.followed.cut_off = limited || state.works;
        if let Some(session) = &state.followed.session {
            observer.ended(session, now_ms());
        }
        state.followed
    }

    fn file(&self) -> LaunchFile {
        LaunchFile {
            started_at: rfc3339(now_ms()),
            last_updated: rfc3339(now_ms()),
            project_dir: self.cwd.to_string_lossy().into_owned(),
            launcher_start: self.launcher.start,
            claude_pid: self.child.pid,
            claude_start: self.child.start,
            agent_id: self.agent_id.clone(),
            ..LaunchFile::default()
        }
    }

    /// Applies the rows that belong to this launch.
    fn apply_all(
        &self,
        mut rows: Vec<SessionRow>,
        state: &mut FollowState,
        observer: &mut dyn Observer,
    ) {
        let child = (Some(self.child.pid), Some(self.child.start));
        rows.retain(|row| (row.pid, row.pid_start) == child);
        rows.sort_by_key(|row| row.started_at);
        for row in &rows {
            self.apply(row, state, observer);
        }
    }

    fn apply(&self, row: &SessionRow, state: &mut FollowState, observer: &mut dyn Observer) {
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
        note_limit(row, state);
        let handover = row.effort.as_ref().is_some_and(|effort| effort.handover);
        // The row of an ended session may lack its effort.
        state.followed.handover = handover || (ended && state.followed.handover);
        state.fresh_at = if !state.followed.handover || !self.starts_fresh {
            None
        } else if row.status == Status::Idle && state.works {
            // Other hooks of the Stop may still run.
            Instant::now().checked_add(self.handover_grace / 3)
        } else {
            state
                .fresh_at
                .or_else(|| Instant::now().checked_add(self.handover_grace))
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
        self.keep(state);
    }

    /// Writes the launch file. If it cannot be written, the session goes on without it.
    fn keep(&self, state: &mut FollowState) {
        if let Err(why) = state.file.write(self.place, self.launcher.pid) {
            let file = self.place.launch(self.launcher.pid);
            state.followed.trouble = Some(format!("could not write {}: {why}", file.display()));
        }
    }

    /// Returns the time until the next deadline, one minute at most.
    fn next_look(&self, state: &FollowState) -> Duration {
        let now = Instant::now();
        let establish = state.establish.map(|at| at.saturating_duration_since(now));
        let fresh = state.fresh_at.map(|at| at.saturating_duration_since(now));
        let resume = state.followed.limit.map(|at| until(at) + self.after_reset);
        [establish, fresh, resume]
            .into_iter()
            .flatten()
            .fold(TICK, Duration::min)
    }

    /// Acts on the deadlines that have passed.
    fn check_deadlines(&self, state: &mut FollowState) {
        if state.establish.is_some_and(|at| at <= Instant::now()) {
            state.establish = None;
            let span = time::lasted(self.establish_timeout.as_millis() as i64);
            let why = state
                .lost
                .as_ref()
                .map(|why| format!(" ({why})"))
                .unwrap_or_default();
            let trouble = format!("no session yet after {span}{why}");
            state.followed.trouble = Some(trouble.clone());
            state.file.trouble = Some(trouble);
            self.keep(state);
        }
        if state.fresh_at.is_some_and(|at| at <= Instant::now()) {
            state.fresh_at = None;
            child::end(self.child);
        }
        if state.limited.is_some() && state.followed.limit.is_none() {
            state.followed.limit = state.file.transcript_path.as_deref().and_then(limit_in);
        }
        let is_due = (state.followed.limit)
            .is_some_and(|at| now_ms() - at >= self.after_reset.as_millis() as i64);
        let is_stuck = state.limited.is_some() && state.status == Status::Idle.word();
        if self.resumes && is_stuck && is_due {
            state.limited = None;
            state.followed.limit_over = true;
            child::end(self.child);
        }
    }
}

/// Notes the end of the rate limit that the last turn ran into, and forgets it after any other event.
fn note_limit(row: &SessionRow, state: &mut FollowState) {
    let error = row
        .error
        .as_deref()
        .filter(|error| limit::is_limit(error.split(':').next().unwrap_or_default()));
    if error == state.limited.as_deref() {
        return;
    }
    state.limited = error.map(str::to_owned);
    let zone = becket_engine::local_time::zone();
    let at = error.and_then(|error| limit::reset(error, row.last_activity, &zone));
    state.followed.limit = at.map(|at| at + MINUTE);
}

/// Returns the end of the limit that the last answer of a transcript names.
fn limit_in(transcript: &str) -> Option<i64> {
    limit::at_end(Path::new(transcript))
}

/// Returns the time from now until then.
pub fn until(at: i64) -> Duration {
    Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0))
}

fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000))
        .unwrap_or_default()
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;

    use becket_wire::effort::EffortBrief;

    use super::super::launch_file::start_of;
    use super::*;

    fn follower<'a>(place: &'a Place, child: &std::process::Child) -> Follower<'a> {
        let process = |pid: u32| Process {
            pid,
            start: start_of(pid).unwrap(),
        };
        Follower {
            place,
            launcher: process(std::process::id()),
            child: process(child.id()),
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
            Message::One(Box::new(SessionRow {
                error: Some(error),
                ..row.clone()
            }))
        };
        let (sender, messages) = channel();
        let soon = now_ms() / 1000 - 59;
        sender.send(Message::One(Box::new(row.clone()))).unwrap();
        sender.send(limited(soon)).unwrap();
        // The user went on before that.
        sender.send(Message::One(Box::new(row.clone()))).unwrap();
        sender.send(Message::Leave).unwrap();
        let followed = follower.run(&messages, &mut NoObserver, Vec::new);
        assert_eq!((followed.limit, followed.limit_over), (None, false));
        assert!(child.try_wait().unwrap().is_none());

        sender.send(limited(soon)).unwrap();
        let ended = std::thread::spawn(move || {
            drop(child.wait());
            sender.send(Message::Leave)
        });
        let followed = follower.run(&messages, &mut NoObserver, Vec::new);
        assert!(followed.limit_over);
        assert_eq!(followed.session.as_deref(), Some("s1"));
        assert!(ended.join().unwrap().is_ok());
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
        let (sender, messages) = channel();
        for handover in [false, true] {
            sender.send(Message::One(Box::new(row(handover)))).unwrap();
        }
        let last = SessionRow {
            ended_at: Some(1),
            ..row(false)
        };
        let ended = std::thread::spawn(move || {
            drop(child.wait());
            sender.send(Message::Leave)
        });
        let followed = follower.run(&messages, &mut NoObserver, || vec![last]);
        assert!(followed.handover);
        assert!(ended.join().unwrap().is_ok());
    }
}
