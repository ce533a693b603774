//! Follows the session of one launch through the daemon, and keeps its launch file current.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use becket_daemon::life::now_ms;
use becket_engine::limit;
use becket_wire::Place;
use becket_wire::session::SessionRow;

use super::child::{self, Process};
use super::state::LaunchFile;
use crate::tui::feed::Message;

/// Claude Code 2.1.325 goes on by itself, about 100 seconds after a limit's end (measured): becket
/// acts only where it did not.
pub const AFTER_RESET: Duration = Duration::from_secs(300);

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
    /// So much later.
    pub after_reset: Duration,
}

/// What it keeps in mind meanwhile.
struct State {
    file: LaunchFile,
    followed: Followed,
    /// Until when the first session has to be there.
    establish: Option<Instant>,
    /// When the limit is over.
    resume: Option<Instant>,
    /// The transcript of a session whose last turn ran into a limit.
    limited: Option<String>,
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
            limited: None,
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
        // The transcript has it to the second, but is written after the event.
        let exact = state
            .limited
            .and_then(|path| limit::at_end(Path::new(&path)).ok()??.reset);
        state.followed.limit = exact.or(state.followed.limit);
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

    /// A turn that ran into a rate limit says when it ends, as long as nothing else happened.
    fn look_for_limit(&self, row: &SessionRow, state: &mut State) {
        let error = row.error.as_deref().filter(|error| is_limit(error));
        let zone = jiff::tz::TimeZone::system();
        // Rounded down to the minute.
        let text = error.and_then(|error| limit::reset(error, row.last_activity, &zone));
        let at = text.map(|at| at + 60_000);
        state.limited = error.and(row.transcript_path.clone());
        if at == state.followed.limit {
            return;
        }
        state.followed.limit = at;
        let wait = at.map(|at| until(at) + self.after_reset);
        let wait = wait.filter(|_| self.goes_on);
        state.resume = wait.and_then(|wait| Instant::now().checked_add(wait));
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

fn is_limit(error: &str) -> bool {
    limit::is_limit(error.split(':').next().unwrap_or_default())
}

/// How long it is until then.
pub fn until(at: i64) -> Duration {
    Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;

    use super::super::state::start_of;
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
            goes_on: true,
            after_reset: Duration::ZERO,
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
        let (to, heard) = channel();
        let soon = now_ms() / 1000 - 59;
        to.send(Message::One(Box::new(row.clone()))).unwrap();
        to.send(limited(soon)).unwrap();
        // The user went on before that.
        to.send(Message::One(Box::new(row.clone()))).unwrap();
        to.send(Message::Leave).unwrap();
        let followed = follower.run(&heard, &mut Nobody);
        assert_eq!((followed.limit, followed.limit_over), (None, false));
        assert!(child.try_wait().unwrap().is_none());

        to.send(limited(soon)).unwrap();
        let ended = std::thread::spawn(move || {
            drop(child.wait());
            to.send(Message::Leave)
        });
        let followed = follower.run(&heard, &mut Nobody);
        assert!(followed.limit_over);
        assert_eq!(followed.session.as_deref(), Some("s1"));
        assert!(ended.join().unwrap().is_ok());
    }
}
