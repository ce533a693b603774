//! `launches/<pid>.json`: the session of a Claude Code that `becket run` started. The launcher keeps the file
//! current. Its name is the launcher's pid; a reader compares the launcher's start time, so that the file of a killed
//! launcher never counts.

use std::fs;
use std::io;
use std::path::Path;

use becket_engine::replace::{Snapshot, store};
use becket_wire::Place;
use becket_wire::process::{parent_and_start, process_state};
use becket_wire::session::{Display, MAIN, SessionRow, Status};
use serde::{Deserialize, Serialize};

/// The most bytes of a launch file that are read. It has a few hundred.
const MAX_BYTES: u64 = 64 << 10;

/// The content of a launch file. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchFile {
    /// None until SessionStart. Only until then `trouble` may be set.
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
    pub fn write(&self, place: &Place, launcher: u32) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        store(&place.launch(launcher), &text, LONGEST_FILE)
    }

    fn read(path: &Path) -> Option<Self> {
        let file = Snapshot::read(path, MAX_BYTES).ok()?;
        serde_json::from_slice(file.bytes()?).ok()
    }

    /// Reads the file of this launcher. Returns none if that process has ended.
    pub fn of(place: &Place, launcher: u32) -> Option<Self> {
        let file = Self::read(&place.launch(launcher))?;
        is_alive(launcher, file.launcher_start).then_some(file)
    }

    /// Makes the row by which views show a launch without a session.
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
            // Claude Code may show a dialog: the user has to look.
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

/// Returns the rows of launches without a session, which views list beside the sessions.
pub fn without_session(place: &Place) -> Vec<SessionRow> {
    let files = launchers(place).into_iter();
    files
        .filter_map(|launcher| LaunchFile::of(place, launcher)?.row(launcher))
        .collect()
}

/// Finds a launch by the pid of the launcher or of Claude Code. Returns the id of its session, else the row of the
/// launch.
pub fn by_pid(place: &Place, pid: u32) -> Option<Result<String, SessionRow>> {
    launchers(place).into_iter().find_map(|launcher| {
        let file = LaunchFile::of(place, launcher)?;
        if pid != launcher && pid != file.claude_pid {
            return None;
        }
        match &file.session_id {
            Some(session) => Some(Ok(session.clone())),
            None => file.row(launcher).map(Err),
        }
    })
}

/// Returns the pid of the launcher that has this session now.
pub fn launcher_of(place: &Place, session: &str) -> Option<u32> {
    launchers(place).into_iter().find(|launcher| {
        LaunchFile::of(place, *launcher)
            .is_some_and(|file| file.session_id.as_deref() == Some(session))
    })
}

/// Removes the files of launchers that have ended.
pub fn remove_stale(place: &Place) {
    for launcher in launchers(place) {
        if LaunchFile::of(place, launcher).is_none() {
            drop(fs::remove_file(place.launch(launcher)));
        }
    }
}

/// Returns the pids in the names of the launch files.
fn launchers(place: &Place) -> Vec<u32> {
    let entries = fs::read_dir(place.launches())
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".json")?
                .parse()
                .ok()
        })
        .collect()
}

/// Returns the start time of a process in clock ticks since boot.
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(parent_and_start(&stat)?.1)
}

/// Returns true if a process with this pid and start time lives. The system reuses pids.
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
        remove_stale(&place);
        assert!(!place.launch(me).exists());

        file.write(&place, me).unwrap();
        fs::write(place.launch(me + 1), "not JSON").unwrap();
        remove_stale(&place);
        assert_eq!(launchers(&place), [me]);
    }
}
