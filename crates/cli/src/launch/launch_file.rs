//! The file `launches/<pid>.json`: the session of a Claude Code that `becket run` started, kept current
//! by the launcher. The name is the pid of the launcher. A reader compares the start time, so that a
//! file of a killed launcher never counts.

use std::fs;
use std::io;
use std::path::Path;

use becket_daemon::lifecycle::now_ms;
use becket_engine::replace::{Snapshot, make_folder};
use becket_wire::Place;
use becket_wire::process::{parent_and_start, process_state};
use becket_wire::session::{Display, MAIN, SessionRow, Status};
use serde::{Deserialize, Serialize};

use super::child::Process;

/// The bound of a launch file, which has a few hundred bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// The content of a launch file. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchFile {
    /// None until SessionStart. Only then `trouble` may be set.
    pub session_id: Option<String>,
    pub started_at: String,
    pub last_updated: String,
    pub transcript_path: Option<String>,
    pub project_dir: String,
    /// The launcher's start time, in clock ticks since boot.
    pub launcher_start: u64,
    pub claude_pid: u32,
    pub claude_start: u64,
    pub agent_id: Option<String>,
    pub trouble: Option<String>,
}

impl LaunchFile {
    /// Returns the file of a launch without a session.
    pub fn new(launcher: Process, cwd: &Path) -> Self {
        Self {
            started_at: rfc3339(now_ms()),
            last_updated: rfc3339(now_ms()),
            project_dir: cwd.to_string_lossy().into_owned(),
            launcher_start: launcher.start,
            ..Self::default()
        }
    }

    pub fn write(&self, place: &Place, launcher: u32) -> io::Result<()> {
        make_folder(&place.launches(), 0o700)?;
        let text = serde_json::to_vec_pretty(self)?;
        let file = Snapshot::read(&place.launch(launcher), LONGEST_FILE)?;
        file.replace(&text, 0o600).map(drop)
    }

    fn read(path: &Path) -> Option<Self> {
        let file = Snapshot::read(path, LONGEST_FILE).ok()?;
        serde_json::from_slice(file.bytes()?).ok()
    }

    /// Reads the file of a launcher if that process lives.
    pub fn of(place: &Place, launcher: u32) -> Option<Self> {
        let file = Self::read(&place.launch(launcher))?;
        is_alive(launcher, file.launcher_start).then_some(file)
    }

    /// Returns the row that views show for a launch without a session.
    fn row(&self, launcher: u32) -> Option<SessionRow> {
        let trouble = self.trouble.clone()?;
        let began = self.started_at.parse::<jiff::Timestamp>().ok()?;
        Some(SessionRow {
            line: format!("launch:{launcher}"),
            title: Some(format!("becket run {launcher}")),
            pid: Some(self.claude_pid),
            pid_start: Some(self.claude_start),
            alive: true,
            hooked: false,
            project: Some(self.project_dir.clone()),
            cwd: Some(self.project_dir.clone()),
            started_at: began.as_millisecond(),
            status_since: began.as_millisecond(),
            // Claude Code may show a dialog, which the user has to answer.
            status: Status::Attention {
                reason: trouble.clone(),
            },
            display: Display::Attention,
            display_since: began.as_millisecond(),
            waiting_for: Some(MAIN.to_owned()),
            waiting_reason: Some(trouble),
            ..SessionRow::default()
        })
    }
}

/// Formats a moment in seconds.
pub fn rfc3339(ms: i64) -> String {
    let moment = jiff::Timestamp::from_second(ms.div_euclid(1000));
    moment.unwrap_or_default().to_string()
}

/// Returns the rows of launches that have trouble and no session.
pub fn without_session(place: &Place) -> Vec<SessionRow> {
    let rows = living(place).filter_map(|(launcher, file)| file.row(launcher));
    rows.collect()
}

/// Finds the session of a launch, or the launch without one, by the pid of the launcher or of Claude
/// Code.
pub fn by_pid(place: &Place, pid: u32) -> Option<Result<String, SessionRow>> {
    let mut all = living(place);
    let (launcher, file) =
        all.find(|(launcher, file)| pid == *launcher || pid == file.claude_pid)?;
    match file.session_id {
        Some(session) => Some(Ok(session)),
        None => file.row(launcher).map(Err),
    }
}

/// Returns the launcher that has this session now.
pub fn launcher_of(place: &Place, session: &str) -> Option<u32> {
    let mut all = living(place);
    let (launcher, _) = all.find(|(_, file)| file.session_id.as_deref() == Some(session))?;
    Some(launcher)
}

/// Removes the files of launchers that have ended.
pub fn sweep(place: &Place) {
    for launcher in launchers(place) {
        if LaunchFile::of(place, launcher).is_none() {
            drop(fs::remove_file(place.launch(launcher)));
        }
    }
}

/// Returns the files of launchers that live, with their pids.
fn living(place: &Place) -> impl Iterator<Item = (u32, LaunchFile)> {
    let all = launchers(place).into_iter();
    all.filter_map(|launcher| Some((launcher, LaunchFile::of(place, launcher)?)))
}

/// Returns the pids in the names of launch files.
fn launchers(place: &Place) -> Vec<u32> {
    let entries = fs::read_dir(place.launches()).into_iter().flatten();
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.strip_suffix(".json")?.parse().ok());
    pids.collect()
}

/// Returns the start time of a process, in clock ticks since boot.
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(parent_and_start(&stat)?.1)
}

/// Returns true if the process with this pid and start time lives.
pub fn is_alive(pid: u32, start: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = process_state(&stat).is_none_or(|state| matches!(state, 'Z' | 'X'));
    !ended && parent_and_start(&stat).is_some_and(|(_, found)| found == start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_only_while_its_launcher_lives() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        let me = std::process::id();
        let file = LaunchFile {
            session_id: Some("s1".to_owned()),
            launcher_start: start_of(me).unwrap(),
            ..LaunchFile::default()
        };
        file.write(&place, me).unwrap();
        assert_eq!(LaunchFile::of(&place, me), Some(file.clone()));

        // The same pid, but another process had it.
        let stale = LaunchFile {
            launcher_start: file.launcher_start - 1,
            ..file.clone()
        };
        stale.write(&place, me).unwrap();
        assert_eq!(LaunchFile::of(&place, me), None);
        sweep(&place);
        assert!(!place.launch(me).exists());

        file.write(&place, me).unwrap();
        fs::write(place.launch(me + 1), "not JSON").unwrap();
        sweep(&place);
        assert_eq!(launchers(&place), [me]);
    }
}
