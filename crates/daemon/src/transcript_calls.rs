//! Compares the tool calls in a session's transcripts with the PreToolUse events in the database, at the end of a
//! session and for `becket guard coverage`, `doctor` and the live view.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use becket_engine::coverage::{Coverage, ToolCalls};
use becket_engine::transcript::Tail;
use rusqlite::Connection;

use crate::inference::followed::{open, unreadable};
use crate::store::{CallsOf, calls_seen, first_event};

/// The number of bytes that are read of a transcript at once.
const AT_ONCE: usize = 256 << 10;
/// The depth to which a session's folder is searched for transcripts of subagents, and the number of them.
const MAX_DEPTH: usize = 3;
const MAX_SUBAGENTS: usize = 10_000;
/// The time by which an event may be older than the line of its call, in milliseconds.
const EARLIER: i64 = 60_000;

/// A session that has ended and whose calls are to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedSession {
    pub(crate) session: String,
    pub(crate) transcript: PathBuf,
    pub(crate) ended_at: i64,
}

/// The calls of one session.
#[derive(Debug, Default)]
pub struct SessionCalls {
    pub calls: ToolCalls,
    /// The part of its transcripts that could not be read, in words.
    pub trouble: Option<String>,
}

impl SessionCalls {
    /// Reads a session's transcript and those of its subagents, as streams.
    pub fn read(transcript: &Path) -> Self {
        let mut calls = Self::default();
        calls.add_file(transcript);
        for file in subagents(&transcript.with_extension("")) {
            calls.add_file(&file);
        }
        calls
    }

    fn add_file(&mut self, path: &Path) {
        let trouble = match self.read_file(path) {
            Ok(trouble) => trouble,
            Err(why) => Some(format!("{} cannot be read: {why}", path.display())),
        };
        self.trouble = self.trouble.take().or(trouble);
    }

    /// Reads the calls of one transcript. Returns a description of the lines that cannot be read.
    fn read_file(&mut self, path: &Path) -> io::Result<Option<String>> {
        let file = open(path)?;
        let mut rest = file.metadata()?.len();
        let mut file = file.take(rest);
        let (mut tail, mut bytes) = (Tail::default(), vec![0; AT_ONCE]);
        while rest > 0 {
            let count = file.read(&mut bytes)?;
            if count == 0 {
                break;
            }
            rest -= count as u64;
            self.calls.take(tail.push(&bytes[..count]));
        }
        Ok(unreadable(tail.unread()))
    }

    /// Marks the calls whose PreToolUse events are in the database, and forgets those that are older than
    /// the database.
    pub fn compare(&mut self, database: &Connection, session: &str) -> rusqlite::Result<()> {
        let calls = &mut self.calls;
        calls.only_since(first_event(database)?.unwrap_or(0));
        calls_seen(database, CallsOf::Session(session), &mut |id| calls.see(id))?;
        // A fork has the calls of another session in its transcript.
        let oldest = calls.unseen().first().map(|(_, call)| call.at);
        if let Some(oldest) = oldest {
            let since = oldest.unwrap_or(0).saturating_sub(EARLIER);
            calls_seen(database, CallsOf::AllSince(since), &mut |id| calls.see(id))?;
        }
        Ok(())
    }
}

/// Counts the seen and unseen calls of sessions that have ended.
pub(crate) fn count_ended(
    database: &Connection,
    ended: &[EndedSession],
) -> Vec<(String, Coverage)> {
    let mut counted = Vec::new();
    for session in ended {
        let mut calls = SessionCalls::read(&session.transcript);
        if calls.compare(database, &session.session).is_err() {
            continue;
        }
        let coverage = calls.calls.coverage().at_end(session.ended_at);
        if coverage.calls > 0 {
            counted.push((session.session.clone(), coverage));
        }
    }
    counted
}

/// Lists the transcripts of a session's subagents: `SESSION/subagents/agent-ID.jsonl`, or deeper.
fn subagents(session: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(session.join("subagents"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in entries(&folder) {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if path.extension() == Some(OsStr::new("jsonl")) && found.len() < MAX_SUBAGENTS {
                found.push(path);
            }
        }
    }
    found
}

/// Lists the transcripts of sessions in Claude Code's config folder that changed since a time:
/// `projects/PROJECT/SESSION.jsonl`.
pub fn transcripts_since(claude_home: &Path, since: i64) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for project in entries(&claude_home.join("projects")) {
        for entry in entries(&project.path()) {
            let path = entry.path();
            let is_transcript = path.extension() == Some(OsStr::new("jsonl"));
            if is_transcript && modified_ms(entry.metadata()).is_some_and(|at| at >= since) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Returns the time when a file was last written, in milliseconds since 1970.
pub(crate) fn modified_ms(file: io::Result<fs::Metadata>) -> Option<i64> {
    let modified = file.and_then(|file| file.modified()).ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}
