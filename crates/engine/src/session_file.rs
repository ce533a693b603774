//! The file that Claude Code writes about a running session: `sessions/PID.json` in its config folder. It shows
//! an interrupt before the first word of a reply, of which the transcript has no trace. Versions before 2.1.197
//! write no status into it.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The longest file that is read. Claude Code's are about 1 KB.
pub const MAX_BYTES: usize = 64 << 10;

/// One running Claude Code, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// The start time in `/proc/PID/stat`: a file may outlive its process, and the system uses a pid again.
    pub pid_start: Option<u64>,
    pub session_id: Option<String>,
    pub state: SessionFileState,
    /// The time since when `state` holds.
    pub state_since: i64,
}

/// The state in a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFileState {
    Busy,
    /// Also while a shell command runs in the background (`shell`).
    Idle,
    /// Waiting for the user, or a word that becket does not know.
    Other,
}

/// Returns the path of the file of this process, from a transcript of the same config folder:
/// `CONFIG/projects/PROJECT/SESSION.jsonl`.
pub fn path_of(transcript: &Path, pid: u32) -> Option<PathBuf> {
    let projects = transcript.parent()?.parent()?;
    let config = projects.parent()?;
    (projects.file_name()? == "projects").then(|| config.join(format!("sessions/{pid}.json")))
}

/// Reads such a file. Returns none for any other one, one without a status, or while Claude Code still writes it.
pub fn read(content: &[u8]) -> Option<SessionFile> {
    if content.len() > MAX_BYTES {
        return None;
    }
    let file: Value = serde_json::from_slice(content).ok()?;
    let text = |field: &str| file[field].as_str();
    Some(SessionFile {
        pid_start: text("procStart").and_then(|start| start.parse().ok()),
        session_id: text("sessionId").map(str::to_owned),
        state: match text("status")? {
            "busy" => SessionFileState::Busy,
            "idle" | "shell" => SessionFileState::Idle,
            _ => SessionFileState::Other,
        },
        state_since: file["statusUpdatedAt"].as_i64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 2.1.325 wrote it at a permission dialog.
    const REAL: &str = r#"{"pid":15350,"sessionId":"65b33535-6094-4677-9e0e-456c9b3e4a29","cwd":"/home/dev/project","startedAt":1794747630165,"procStart":"1199065","version":"2.1.325","peerProtocol":1,"peerFeatures":["notify_idle","reply_across_default_dirs","artifact_yield"],"kind":"interactive","entrypoint":"cli","asksForConvertedSkills":null,"tmux":"0:@0.%0","name":"project-22","nameSource":"derived","nameSince":1794747630165,"status":"waiting","updatedAt":1794747729704,"statusUpdatedAt":1794747729704,"waitingFor":"permission prompt"}"#;

    #[test]
    fn reads_the_files_of_claude_code() {
        let file = read(REAL.as_bytes()).unwrap();
        assert_eq!(file.pid_start, Some(1_199_065));
        let id = "65b33535-6094-4677-9e0e-456c9b3e4a29";
        assert_eq!(file.session_id.as_deref(), Some(id));
        assert_eq!(file.state, SessionFileState::Other);
        assert_eq!(file.state_since, 1_794_747_729_704);
    }

    #[test]
    fn each_status_has_its_state() {
        let said = |status: &str| read(&REAL.replace("\"waiting\"", status).into_bytes());
        let state = |status| said(status).map(|file| file.state);
        assert_eq!(state("\"busy\""), Some(SessionFileState::Busy));
        assert_eq!(state("\"idle\""), Some(SessionFileState::Idle));
        assert_eq!(state("\"shell\""), Some(SessionFileState::Idle));
        assert_eq!(state("\"asleep\""), Some(SessionFileState::Other));
        assert_eq!(state("7"), None);
    }

    #[test]
    fn other_files_read_as_none() {
        for content in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"pid":-1}"#,
            r#"{"pid":"7"}"#,
            "\u{0}",
        ] {
            assert_eq!(read(content.as_bytes()), None, "{content}");
        }
        assert_eq!(read(&REAL.as_bytes()[..200]), None);
        assert_eq!(read(&vec![b' '; MAX_BYTES + 1]), None);
    }

    #[test]
    fn lies_in_the_config_folder_of_the_transcript() {
        let path = Path::new("/home/dev/.claude/projects/-home-dev-project/x.jsonl");
        let found = path_of(path, 7).unwrap();
        assert_eq!(found, Path::new("/home/dev/.claude/sessions/7.json"));
        assert_eq!(path_of(Path::new("/x.jsonl"), 7), None);
        assert_eq!(path_of(Path::new("/a/b/c/x.jsonl"), 7), None);
    }
}
