//! Compares the tool calls in Claude Code's transcripts with the log, for sessions with and without becket's hooks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_daemon::store::{self, EventRecord, RanDenied, SessionFilter, spool};
use becket_daemon::transcript_calls::{SessionCalls, transcripts_since};
use becket_engine::coverage::Coverage;
use becket_wire::rpc::complete_session;
use rusqlite::Connection;
use serde_json::Value;

use crate::client::{self, Client};
use crate::log;
use crate::ui::text::count;
use crate::world::World;

/// The period that doctor and the live view check, in milliseconds: a day.
pub const A_DAY: i64 = 24 * 60 * 60 * 1000;
/// The greatest number of ended sessions that are compared, the newest.
const ENDED: u32 = 1000;
/// The number of bytes that are read to find the session's folder, which the first lines of a transcript name.
const FIRST_LINES: u64 = 1 << 20;

/// The tool calls of one session, compared with the log.
#[derive(Debug)]
pub struct SessionCoverage {
    pub session_id: String,
    pub project: Option<String>,
    /// True if an event of the session has arrived.
    pub hooked: bool,
    /// None if the transcript was deleted, or never written.
    pub transcript: Option<PathBuf>,
    pub calls: SessionCalls,
    pub coverage: Coverage,
    /// The calls that ran although becket had denied them.
    pub ran_denied: Vec<RanDenied>,
}

/// The calls to compare.
#[derive(Debug, Clone, Copy)]
pub enum CoverageScope<'a> {
    /// All calls of the session whose id begins with this.
    Session(&'a str),
    /// The calls of all sessions since this time.
    Since(i64),
}

impl CoverageScope<'_> {
    fn since(self) -> i64 {
        match self {
            Self::Session(_) => 0,
            Self::Since(since) => since,
        }
    }
}

/// Compares the calls of transcripts with the log. Sessions without a call are left out.
pub fn compare(world: &World, scope: CoverageScope<'_>) -> Result<Vec<SessionCoverage>> {
    let database = store::open_to_read(&world.place.database())?;
    let spooled = spool::read_all(&world.place, &log::masker(world));
    let ran_denied = match &database {
        Some(database) => store::ran_denied(database, scope.since())?,
        None => Vec::new(),
    };
    let mut compared = Vec::new();
    for (session_id, found) in find(world, database.as_ref(), scope, &ran_denied)? {
        let transcript = found.transcript.as_deref();
        let mut calls = transcript.map_or_else(SessionCalls::default, SessionCalls::read);
        if let CoverageScope::Since(since) = scope {
            calls.calls.only_since(since);
        }
        if let Some(database) = &database {
            calls.compare(database, &session_id)?;
        }
        for id in spooled.iter().filter_map(EventRecord::call_seen) {
            calls.calls.see(id);
        }
        let coverage = calls.calls.coverage();
        let of_session = ran_denied.iter().filter(|ran| ran.session == session_id);
        let ran_denied: Vec<RanDenied> = of_session.cloned().collect();
        // Claude Code writes the transcript later than it sends the event.
        if coverage.calls > 0 || calls.trouble.is_some() || !ran_denied.is_empty() {
            compared.push(SessionCoverage {
                ran_denied,
                session_id,
                project: found.project.or_else(|| folder_of(transcript?)),
                hooked: found.hooked || coverage.unseen < coverage.calls,
                transcript: found.transcript,
                calls,
                coverage,
            });
        }
    }
    Ok(compared)
}

struct SessionTranscript {
    transcript: Option<PathBuf>,
    project: Option<String>,
    hooked: bool,
}

/// Finds the transcripts in Claude Code's config folder, and those that sessions of the log name. A session in which
/// a denied call ran is listed without a transcript, too.
fn find(
    world: &World,
    database: Option<&Connection>,
    scope: CoverageScope<'_>,
    ran_denied: &[RanDenied],
) -> Result<BTreeMap<String, SessionTranscript>> {
    let since = scope.since();
    let mut found = BTreeMap::new();
    let folder = world.claude_home.as_deref();
    for transcript in folder.map_or_else(Vec::new, |folder| transcripts_since(folder, since)) {
        let id = transcript.file_stem().map(|stem| stem.to_string_lossy());
        let Some(id) = id else {
            continue;
        };
        let one = SessionTranscript {
            project: None,
            hooked: false,
            transcript: Some(transcript.clone()),
        };
        found.insert(id.into_owned(), one);
    }
    let sessions = match (database, scope) {
        (None, _) => Vec::new(),
        (Some(database), CoverageScope::Session(prefix)) => {
            store::sessions(database, SessionFilter::Like(prefix))?
        }
        (Some(database), CoverageScope::Since(_)) => {
            let mut sessions = store::sessions(database, SessionFilter::Live)?;
            sessions.extend(store::sessions(database, SessionFilter::Ended(ENDED))?);
            sessions
        }
    };
    for session in sessions {
        let known = found.remove(&session.session_id);
        let is_wanted = known.is_some() || session.last_activity >= since;
        let named = session.transcript_path.map(PathBuf::from);
        let transcript = known.and_then(|known| known.transcript).or(named);
        let transcript = transcript.filter(|file| file.exists());
        let has_ran_denied = ran_denied
            .iter()
            .any(|ran| ran.session == session.session_id);
        if is_wanted && (transcript.is_some() || has_ran_denied) {
            let one = SessionTranscript {
                transcript,
                project: session.project,
                hooked: true,
            };
            found.insert(session.session_id, one);
        }
    }
    if let CoverageScope::Session(typed) = scope {
        let id = complete_session(typed, found.keys().map(String::as_str));
        let id = id.map_err(client::refusal)?;
        found.retain(|other, _| *other == id);
    }
    Ok(found)
}

/// Returns the folder that a session was started in, from its transcript.
fn folder_of(transcript: &Path) -> Option<String> {
    let lines = BufReader::new(File::open(transcript).ok()?.take(FIRST_LINES)).lines();
    lines.map_while(Result::ok).find_map(|line| {
        let line: Value = serde_json::from_str(&line).ok()?;
        Some(line["cwd"].as_str()?.to_owned())
    })
}

/// Counts the calls of the last day that ran although becket had denied them.
pub fn ran_denied_of_last_day(world: &World) -> Result<usize> {
    let Some(database) = store::open_to_read(&world.place.database())? else {
        return Ok(0);
    };
    Ok(store::ran_denied(&database, now_ms() - A_DAY)?.len())
}

/// Returns the number of calls of the last day and, if no guard saw some of them or denied ones ran, a text for
/// doctor and the live view.
pub fn last_day(world: &World) -> Result<(u32, Option<String>)> {
    // The view and doctor report a daemon in trouble themselves.
    Client::take_in(world).ok();
    let compared = compare(world, CoverageScope::Since(now_ms() - A_DAY))?;
    let calls = compared.iter().map(|one| one.coverage.calls).sum();
    let unseen: u32 = compared.iter().map(|one| one.coverage.unseen).sum();
    let worst = compared.iter().max_by_key(|one| one.coverage.unseen);
    let project = worst.and_then(|one| one.project.as_deref());
    let project = project.map_or_else(String::new, |path| format!(", most of them in {path}"));
    let mut findings = Vec::new();
    let ran_denied = ran_denied_of_last_day(world)?;
    if ran_denied > 0 {
        let calls = count(ran_denied, "call", "calls");
        findings.push(format!("{calls} that becket had denied ran"));
    }
    if unseen > 0 {
        findings.push(format!(
            "no guard saw {unseen} of {calls} tool calls of the last 24 hours{project}"
        ));
    }
    Ok((calls, (!findings.is_empty()).then(|| findings.join("; "))))
}
