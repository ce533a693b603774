//! Infers changes of sessions that no event reports: an interrupt, an answered permission, a failed turn, and in
//! print mode context and cost. Once a second it reads the files that Claude Code writes: the transcript and the
//! session file. For an idle session it only checks whether the session file is newer.

pub(crate) mod followed;

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becket_engine::effort::{EXHAUSTED, is_exhausted};
use becket_engine::session::Inference;
use becket_engine::session_file::{self, SessionFileState};
use becket_engine::transcript::{TranscriptFact, TranscriptFinding, TurnTokens};
use becket_wire::session::Figures;

use crate::core::Message;
use crate::lifecycle::now_ms;
use crate::registry::RegistryRequest;
use crate::serve::Server;
use crate::transcript_calls::modified_ms;
use followed::FollowedTranscript;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a busy Claude Code has no dialog open, in milliseconds.
const SETTLED: i64 = 500;
/// The time that the process which let an agent stop has to report it, in milliseconds. Its report says whether
/// the stop was blocked and whether the user was notified. The spool is taken in every two seconds.
const STOP_REPORT: i64 = 5_000;

/// The time for which a transcript is read after its turn, in milliseconds, for the tokens of the last reply.
pub(crate) const LAST_REPLY: i64 = 20_000;

/// A session that works, or may work without an event that says so.
#[derive(Debug, Clone)]
pub(crate) struct ActiveSession {
    pub(crate) session: String,
    pub(crate) transcript: PathBuf,
    pub(crate) pid: Option<u32>,
    pub(crate) pid_start: Option<u64>,
    /// True if the whole transcript is read, because only it has context and cost.
    pub(crate) whole: bool,
    /// True if the last look had a trouble, which a new look may clear.
    pub(crate) troubled: bool,
    /// True if its hooks judge whether it may stop.
    pub(crate) wants_to_stop: bool,
    /// The time since which it is idle according to its events.
    pub(crate) idle_since: Option<i64>,
    /// The time when its turn began, to count the tokens of the turn.
    pub(crate) prompted_at: Option<i64>,
}

impl ActiveSession {
    fn is_followed(&self, now: i64) -> bool {
        self.idle_since.is_none_or(|since| now - since < LAST_REPLY)
    }
}

/// The findings of one look at a session.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SessionInferences {
    pub(crate) session: String,
    /// The inferences, each with its time if that is known.
    pub(crate) inferences: Vec<(Inference, Option<i64>)>,
    pub(crate) figures: Option<Figures>,
    pub(crate) tokens: Option<TurnTokens>,
    pub(crate) trouble: Option<String>,
}

/// Looks at the active sessions once a second until the daemon ends.
pub(crate) async fn run(server: Arc<Server>) {
    let mut transcripts = Transcripts::default();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(active) = server.ask_registry(RegistryRequest::Active).await else {
            return;
        };
        if active.is_empty() && transcripts.0.is_empty() {
            continue;
        }
        let looked = tokio::task::spawn_blocking(move || {
            let inferences = transcripts.look(&active);
            (transcripts, inferences)
        });
        let Ok((same_transcripts, inferences)) = looked.await else {
            return;
        };
        transcripts = same_transcripts;
        if !inferences.is_empty() {
            drop(server.core.send(Message::Inferred(inferences)).await);
        }
    }
}

/// The transcripts that are followed, by session.
#[derive(Debug, Default)]
struct Transcripts(HashMap<String, FollowedTranscript>);

impl Transcripts {
    fn look(&mut self, active: &[ActiveSession]) -> Vec<SessionInferences> {
        let now = now_ms();
        let followed: HashSet<&str> = active
            .iter()
            .filter(|one| one.is_followed(now))
            .map(|one| &*one.session)
            .collect();
        self.0.retain(|session, _| followed.contains(&**session));
        let mut all = Vec::new();
        for one in active {
            let mut found = SessionInferences {
                session: one.session.clone(),
                ..SessionInferences::default()
            };
            if one.is_followed(now) {
                let transcript = self.0.entry(one.session.clone()).or_default();
                found.read_transcript(one, transcript);
            }
            found.inferences.extend(infer_from_session_file(one, now));
            if found.is_news() || one.troubled {
                all.push(found);
            }
        }
        all
    }
}

impl SessionInferences {
    fn read_transcript(&mut self, one: &ActiveSession, followed: &mut FollowedTranscript) {
        let (findings, trouble) = followed.look(&one.transcript, one.whole, one.prompted_at);
        if findings
            .iter()
            .any(|finding| matches!(finding.fact, TranscriptFact::Usage))
        {
            self.figures = one.whole.then(|| followed.tail.figures());
            self.tokens = one.prompted_at.map(|_| followed.tail.turn());
        }
        if one.idle_since.is_some() {
            return;
        }
        self.inferences = findings
            .into_iter()
            .filter_map(infer_from_finding)
            .collect();
        self.trouble = trouble;
    }

    fn is_news(&self) -> bool {
        let figures = self.figures.is_some() || self.tokens.is_some();
        !self.inferences.is_empty() || figures || self.trouble.is_some()
    }
}

/// Infers a change of status from a line of the transcript.
fn infer_from_finding(finding: TranscriptFinding) -> Option<(Inference, Option<i64>)> {
    let at = finding.at;
    let main = finding.is_main();
    let inference = match finding.fact {
        TranscriptFact::Interrupted if main => Inference::Interrupted,
        TranscriptFact::ApiError {
            text: Some(text), ..
        } if main && is_exhausted(&text) => Inference::TurnDied {
            error: Some(EXHAUSTED.to_owned()),
        },
        TranscriptFact::ApiError { error, .. } if main => Inference::TurnDied { error },
        TranscriptFact::TurnEnded if main => Inference::TurnDied { error: None },
        TranscriptFact::ToolResult { tool_use_id, .. } => Inference::PermissionAnswered {
            agent_id: finding.agent,
            tool_use_id,
        },
        _ => return None,
    };
    Some((inference, at))
}

/// Infers a change of status from Claude Code's session file. The transcript does not show a turn that was
/// interrupted before the first word of the reply, and events do not show a turn whose prompt was typed during
/// the one before.
fn infer_from_session_file(one: &ActiveSession, now: i64) -> Option<(Inference, Option<i64>)> {
    let path = session_file::path_of(&one.transcript, one.pid?)?;
    if let Some(idle) = one.idle_since
        && modified_ms(std::fs::metadata(&path)).is_none_or(|written| written <= idle)
    {
        return None;
    }
    let file = session_file::read(&read_bounded(&path).ok()?)?;
    let same = file.session_id.as_deref() == Some(&*one.session)
        && (file.pid_start.is_none() || file.pid_start == one.pid_start);
    let since = file.state_since;
    match file.state {
        SessionFileState::Idle if one.wants_to_stop && now - since < STOP_REPORT => None,
        SessionFileState::Idle if same && one.idle_since.is_none() => {
            Some((Inference::Interrupted, Some(since)))
        }
        // Between two dialogs and just before one, it is `busy` for a moment.
        SessionFileState::Busy if same && now - since >= SETTLED => {
            Some((Inference::Busy, Some(since)))
        }
        _ => None,
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let bound = session_file::MAX_BYTES as u64 + 1;
    followed::open(path)?
        .take(bound)
        .read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    const INTERRUPTED: &str = r#"{"type":"user","timestamp":"2026-11-15T12:00:00.000Z","isSidechain":false,"message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;

    fn active(folder: &Path, whole: bool) -> ActiveSession {
        ActiveSession {
            session: "s".to_owned(),
            transcript: folder.join("projects/p/s.jsonl"),
            pid: Some(77),
            pid_start: Some(5),
            whole,
            troubled: false,
            wants_to_stop: false,
            idle_since: None,
            prompted_at: None,
        }
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["projects/p", "sessions"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        folder
    }

    #[test]
    fn an_interrupt_is_found_once_even_if_its_line_comes_in_pieces() {
        let folder = folder();
        let one = active(folder.path(), false);
        let mut transcripts = Transcripts::default();
        assert!(
            transcripts.look(std::slice::from_ref(&one)).is_empty(),
            "no file yet"
        );
        let (begin, end) = INTERRUPTED.split_at(100);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&one.transcript)
            .unwrap();
        file.write_all(begin.as_bytes()).unwrap();
        assert!(
            transcripts.look(std::slice::from_ref(&one)).is_empty(),
            "half a line"
        );
        writeln!(file, "{end}").unwrap();
        let found = transcripts.look(std::slice::from_ref(&one));
        assert_eq!(
            found[0].inferences,
            [(Inference::Interrupted, Some(1_794_744_000_000))]
        );
        assert!(
            transcripts.look(std::slice::from_ref(&one)).is_empty(),
            "nothing new"
        );
    }

    #[test]
    fn only_the_end_of_a_long_transcript_is_read() {
        let folder = folder();
        let one = active(folder.path(), false);
        let past = format!("{INTERRUPTED}\n").repeat(10_000);
        fs::write(&one.transcript, past).unwrap();
        let found = Transcripts::default().look(std::slice::from_ref(&one));
        let lines = found[0].inferences.len() as u64;
        assert!(
            lines > 100 && lines * INTERRUPTED.len() as u64 <= followed::OLD_BYTES,
            "{lines}"
        );
    }

    #[test]
    fn the_reply_of_a_turn_counts_with_400_kb_after_it() {
        let folder = folder();
        let mut one = active(folder.path(), false);
        one.prompted_at = Some(7);
        let reply = r#"{"type":"assistant","timestamp":"2026-11-15T12:00:00.000Z","message":{"id":"m","model":"claude-opus-4-5","usage":{"input_tokens":10,"output_tokens":5}}}"#;
        let after = "x".repeat(400 << 10);
        let lines = format!("{reply}\n{{\"type\":\"attachment\",\"text\":\"{after}\"}}\n");
        fs::write(&one.transcript, lines).unwrap();
        let found = Transcripts::default().look(std::slice::from_ref(&one));
        let tokens = TurnTokens {
            since: 7,
            input: 10,
            output: 5,
        };
        assert_eq!(found[0].tokens, Some(tokens));
    }

    #[test]
    fn the_session_file_counts_only_for_its_session_and_process() {
        let folder = folder();
        let one = active(folder.path(), false);
        let say = |session: &str, start: &str, state: &str| {
            let file = format!(
                r#"{{"pid":77,"sessionId":"{session}","procStart":"{start}","status":"{state}","statusUpdatedAt":9}}"#
            );
            fs::write(folder.path().join("sessions/77.json"), file).unwrap();
            infer_from_session_file(&one, 9 + SETTLED)
                .map(|(inference, at)| (inference, at.unwrap()))
        };
        assert_eq!(say("s", "5", "idle"), Some((Inference::Interrupted, 9)));
        assert_eq!(say("s", "6", "idle"), None);
        assert_eq!(say("t", "5", "idle"), None);
        assert_eq!(say("s", "5", "waiting"), None);
        assert_eq!(say("s", "5", "busy"), Some((Inference::Busy, 9)));
        assert_eq!(
            infer_from_session_file(&one, 8 + SETTLED),
            None,
            "it may be for a moment"
        );
    }

    #[test]
    fn the_process_that_let_an_agent_stop_may_report_it_first() {
        let folder = folder();
        let mut one = active(folder.path(), false);
        let idle = r#"{"pid":77,"sessionId":"s","status":"idle","statusUpdatedAt":9}"#;
        fs::write(folder.path().join("sessions/77.json"), idle).unwrap();
        let interrupted = Some((Inference::Interrupted, Some(9)));
        assert_eq!(infer_from_session_file(&one, 9), interrupted);
        one.wants_to_stop = true;
        assert_eq!(infer_from_session_file(&one, 8 + STOP_REPORT), None);
        let after = infer_from_session_file(&one, 9 + STOP_REPORT);
        assert_eq!(after, interrupted, "it was not reported");
    }

    #[test]
    fn an_idle_session_ignores_an_older_session_file() {
        let folder = folder();
        let mut one = active(folder.path(), false);
        let path = folder.path().join("sessions/77.json");
        let since = now_ms() - SETTLED;
        let say = |state: &str| {
            let file = format!(
                r#"{{"pid":77,"sessionId":"s","procStart":"5","status":"{state}","statusUpdatedAt":{since}}}"#
            );
            fs::write(&path, file).unwrap();
        };
        fs::write(&one.transcript, format!("{INTERRUPTED}\n")).unwrap();
        let look = |one: &ActiveSession| Transcripts::default().look(std::slice::from_ref(one));
        say("busy");
        one.idle_since = Some(since - 1);
        let found = look(&one);
        assert_eq!(found[0].inferences, [(Inference::Busy, Some(since))]);
        one.idle_since = Some(now_ms() + 1000);
        assert!(look(&one).is_empty(), "nothing is newer");
        one.idle_since = Some(since - 1);
        say("idle");
        assert!(look(&one).is_empty(), "that is known");
    }

    #[test]
    fn a_transcript_that_cannot_be_read_is_reported() {
        let folder = folder();
        let mut one = active(folder.path(), true);
        one.transcript = folder.path().join("projects/p");
        let mut transcripts = Transcripts::default();
        let found = transcripts.look(std::slice::from_ref(&one));
        assert!(
            found[0].trouble.as_deref().unwrap().contains("transcript"),
            "{found:?}"
        );
        one.troubled = true;
        one.transcript = folder.path().join("projects/p/s.jsonl");
        fs::write(&one.transcript, "").unwrap();
        let found = transcripts.look(std::slice::from_ref(&one));
        assert_eq!(found.len(), 1, "that it can be read again is news too");
        assert_eq!(found[0].trouble, None);
    }
}
