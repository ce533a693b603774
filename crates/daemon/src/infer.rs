//! What no event says: an interrupt, an answered permission, a turn that died, and in print mode
//! context and cost. It is looked up in what Claude Code itself writes down, once a second and only
//! for sessions that are at work.

mod followed;

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becket_engine::session::Inference;
use becket_engine::session_file::{self, State};
use becket_engine::transcript::{Finding, What};
use becket_wire::session::Figures;
use tokio::sync::oneshot;

use crate::dispatch::Message;
use crate::registry::Asked;
use crate::serve::Door;
use followed::Followed;

/// How often it is looked.
const OFTEN: Duration = Duration::from_secs(1);
/// A session that is at work.
#[derive(Debug, Clone)]
pub(crate) struct AtWork {
    pub(crate) session: String,
    pub(crate) transcript: PathBuf,
    pub(crate) pid: Option<u32>,
    pub(crate) pid_start: Option<u64>,
    /// Whether the whole transcript is wanted: nothing else tells of context and cost.
    pub(crate) whole: bool,
}

/// What was found out about one session.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) session: String,
    /// Each with its time, if that is known.
    pub(crate) inferences: Vec<(Inference, Option<i64>)>,
    pub(crate) figures: Option<Figures>,
    /// What cannot be read, and whether that is new.
    pub(crate) trouble: Option<String>,
    is_news: bool,
}

/// Looks for as long as the daemon lives.
pub(crate) async fn look(door: Arc<Door>) {
    let mut transcripts = Transcripts::default();
    loop {
        tokio::time::sleep(OFTEN).await;
        let (reply, at_work) = oneshot::channel();
        let asked = Message::Asked(Asked::AtWork(reply));
        if door.dispatcher.send(asked).await.is_err() {
            return;
        }
        let Ok(at_work) = at_work.await else { return };
        if at_work.is_empty() && transcripts.0.is_empty() {
            continue;
        }
        let looked = tokio::task::spawn_blocking(move || {
            let found = transcripts.look(&at_work);
            (transcripts, found)
        });
        let Ok((again, found)) = looked.await else {
            return;
        };
        transcripts = again;
        if !found.is_empty() {
            drop(door.dispatcher.send(Message::Found(found)).await);
        }
    }
}

/// The transcripts that are being followed, by session.
#[derive(Debug, Default)]
struct Transcripts(HashMap<String, Followed>);

impl Transcripts {
    fn look(&mut self, at_work: &[AtWork]) -> Vec<Found> {
        let wanted: HashSet<&str> = at_work.iter().map(|one| &*one.session).collect();
        self.0.retain(|session, _| wanted.contains(&**session));
        let found = at_work.iter().map(|one| {
            let followed = self.0.entry(one.session.clone()).or_default();
            let (findings, trouble) = followed.look(&one.transcript, one.whole);
            let usage = |finding: &Finding| matches!(finding.what, What::Usage(_));
            let reckoned = one.whole && findings.iter().any(usage);
            let mut inferences: Vec<_> = findings.into_iter().filter_map(inference).collect();
            inferences.extend(own_word(one));
            Found {
                session: one.session.clone(),
                inferences,
                figures: reckoned.then(|| followed.figures()),
                is_news: followed.is_news(&trouble),
                trouble,
            }
        });
        found.filter(Found::tells).collect()
    }
}

impl Found {
    fn tells(&self) -> bool {
        !self.inferences.is_empty() || self.figures.is_some() || self.is_news
    }
}

/// What a line of the transcript means for the status.
fn inference(finding: Finding) -> Option<(Inference, Option<i64>)> {
    let at = finding.at;
    let main = finding.is_main();
    let inference = match finding.what {
        What::Interrupted { .. } if main => Inference::Interrupted,
        What::ApiError { error, .. } if main => Inference::TurnDied { error },
        What::TurnEnded if main => Inference::TurnDied { error: None },
        What::ToolResult { tool_use_id, .. } => Inference::PermissionAnswered {
            agent_id: finding.agent,
            tool_use_id: Some(tool_use_id),
        },
        _ => return None,
    };
    Some((inference, at))
}

/// What Claude Code says of itself: the transcript is silent on a turn that was broken off before
/// the first word of the reply.
fn own_word(one: &AtWork) -> Option<(Inference, Option<i64>)> {
    let path = session_file::beside(&one.transcript, one.pid?)?;
    let file = session_file::read(&bounded(&path).ok()?)?;
    let same = file.session_id.as_deref() == Some(&*one.session)
        && (file.pid_start.is_none() || file.pid_start == one.pid_start);
    let since = file.state_since?;
    match file.state? {
        State::Idle if same => Some((Inference::Interrupted, Some(since))),
        State::Busy if same => {
            let answered = Inference::PermissionAnswered {
                agent_id: None,
                tool_use_id: None,
            };
            Some((answered, Some(since)))
        }
        _ => None,
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let bound = session_file::LONGEST as u64 + 1;
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

    fn at_work(folder: &Path, whole: bool) -> AtWork {
        AtWork {
            session: "s".to_owned(),
            transcript: folder.join("projects/p/s.jsonl"),
            pid: Some(77),
            pid_start: Some(5),
            whole,
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
    fn an_interrupt_is_found_once_however_the_line_comes() {
        let folder = folder();
        let one = at_work(folder.path(), false);
        let mut transcripts = Transcripts::default();
        let found = transcripts.look(std::slice::from_ref(&one));
        assert_eq!((found[0].inferences.len(), &found[0].trouble), (0, &None));
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
    fn of_a_long_past_only_the_end_is_read() {
        let folder = folder();
        let one = at_work(folder.path(), false);
        let past = format!("{INTERRUPTED}\n").repeat(2_000);
        fs::write(&one.transcript, past).unwrap();
        let found = Transcripts::default().look(std::slice::from_ref(&one));
        let lines = found[0].inferences.len() as u64;
        assert!(
            lines > 100 && lines * INTERRUPTED.len() as u64 <= followed::OF_THE_PAST,
            "{lines}"
        );
    }

    #[test]
    fn claude_codes_own_word_counts_only_for_this_session_and_process() {
        let folder = folder();
        let one = at_work(folder.path(), false);
        let say = |session: &str, start: &str, state: &str| {
            let file = format!(
                r#"{{"pid":77,"sessionId":"{session}","procStart":"{start}","status":"{state}","statusUpdatedAt":9}}"#
            );
            fs::write(folder.path().join("sessions/77.json"), file).unwrap();
            own_word(&one).map(|(inference, at)| (inference, at.unwrap()))
        };
        assert_eq!(say("s", "5", "idle"), Some((Inference::Interrupted, 9)));
        assert_eq!(say("s", "6", "idle"), None);
        assert_eq!(say("t", "5", "idle"), None);
        assert_eq!(say("s", "5", "waiting"), None);
        assert!(matches!(
            say("s", "5", "busy"),
            Some((Inference::PermissionAnswered { .. }, 9))
        ));
    }

    #[test]
    fn a_transcript_that_cannot_be_read_is_told() {
        let folder = folder();
        let mut one = at_work(folder.path(), true);
        one.transcript = folder.path().join("projects/p");
        let found = Transcripts::default().look(std::slice::from_ref(&one));
        assert!(
            found[0].trouble.as_deref().unwrap().contains("transcript"),
            "{found:?}"
        );
    }
}
