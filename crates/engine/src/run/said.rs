//! What a run means: the answer that it gave, and the row that is kept of it.

use std::time::Duration;

use becket_wire::answer::AnswerError;
use becket_wire::event::EventName;
use becket_wire::run::{CANCELLED, CUT_OFF, RunRow};
use becket_wire::{Answer, EventId};
use serde_json::{Map, Value};

use super::capture::KEPT;
use super::{Outcome, Ran};

/// How much of a failure is told: in characters.
const TOLD: usize = 500;
/// The longest first line that may say `{"async": true}`, and the longest time that it may ask for.
const FIRST_LINE: usize = 4096;
const LONGEST_ASYNC: Duration = Duration::from_secs(24 * 3600);

/// The event that a hook ran on.
#[derive(Debug, Clone, Copy)]
pub struct Occasion<'a> {
    pub event_id: EventId,
    pub event: &'a EventName,
    pub session_id: Option<&'a str>,
    pub agent_id: Option<&'a str>,
}

impl Ran {
    /// What it answers to the event, else in what way it failed. A hook that went on in the
    /// background, or that had to be ended because nobody waits, says nothing.
    pub fn answer(&self, event: &EventName) -> Result<Answer, String> {
        match &self.outcome {
            Outcome::Exited(code) => self.read(event, *code).map_err(|why| brief(&why)),
            Outcome::Cancelled | Outcome::WentAsync => Ok(Answer::silent(event.clone())),
            Outcome::TimedOut => Err(format!(
                "the hook was ended after its {:?}: its time was up",
                round(self.limit)
            )),
            Outcome::CutOff => Err("becket ended before the hook did".to_owned()),
            Outcome::Signalled(signal) => {
                Err(format!("the hook was killed by {}", signal_words(*signal)))
            }
            Outcome::NotStarted(why) => Err(brief(&format!("the hook did not start: {why}"))),
        }
    }

    fn read(&self, event: &EventName, code: i32) -> Result<Answer, String> {
        // That it goes on in the background is no part of what it says.
        let beginning = went_async(&self.stdout).map_or(0, |(len, _)| len);
        // As JavaScript would read it: bytes that are no text are replaced, and a mark of the byte
        // order is white space.
        let stdout = String::from_utf8_lossy(&self.stdout[beginning..]);
        let stdout = stdout.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if code == 0 && stdout.starts_with('{') {
            if self.stdout.len() >= KEPT && self.dropped > 0 {
                return Err("the hook's answer is longer than 1 MiB".to_owned());
            }
            // Claude Code takes it as plain text; nobody means to say that.
            let json = serde_json::from_str::<Value>(stdout);
            json.map_err(|error| format!("the hook's answer is no whole JSON: {error}"))?;
        }
        let answer = Answer::read(event.clone(), code, stdout.as_bytes(), &self.stderr);
        answer.map_err(|error| match error {
            AnswerError::Failed { exit, .. } if (129..=192).contains(&exit) => format!(
                "{error} (that is how a shell tells of {})",
                signal_words(exit - 128)
            ),
            error => error.to_string(),
        })
    }

    /// The row of this run. `read` is what `answer` said.
    pub fn row(&self, on: Occasion<'_>, read: &Result<Answer, String>) -> RunRow {
        let exit = match self.outcome {
            Outcome::Exited(code) => Some(code),
            _ => None,
        };
        let decision = read.as_ref().ok().and_then(Answer::decision);
        RunRow {
            hook: self.hook.clone(),
            event_id: on.event_id,
            event: on.event.to_string(),
            session_id: on.session_id.map(str::to_owned),
            agent_id: on.agent_id.map(str::to_owned),
            at: self.at,
            took_us: i64::try_from(self.took.as_micros()).unwrap_or(i64::MAX),
            exit,
            outcome: self.word(read.is_ok()).to_owned(),
            decision: decision.map(|(word, _)| word.to_owned()),
            said: (self.stdout.len() + self.stderr.len()) as u64 + self.dropped,
            note: read.as_ref().err().cloned(),
        }
    }

    fn word(&self, was_read: bool) -> &'static str {
        match self.outcome {
            Outcome::Exited(_) if was_read => "ok",
            Outcome::Exited(0) => "invalid",
            Outcome::Exited(_) => "failed",
            Outcome::Signalled(_) => "killed",
            Outcome::TimedOut => "timed out",
            Outcome::Cancelled => CANCELLED,
            Outcome::CutOff => CUT_OFF,
            Outcome::WentAsync => "async",
            Outcome::NotStarted(_) => "not started",
        }
    }
}

/// Whether what was written so far begins with a line that says `{"async": true}`: that line's
/// length, and the time that it asks for (`asyncTimeout`, in milliseconds). Like Claude Code we do
/// not wait for the line's end.
pub(super) fn went_async(stdout: &[u8]) -> Option<(usize, Option<Duration>)> {
    let newline = memchr::memchr(b'\n', &stdout[..stdout.len().min(FIRST_LINE)]);
    let len = newline.map_or(stdout.len(), |at| at + 1);
    let line = stdout[..len].trim_ascii();
    if len > FIRST_LINE || !line.starts_with(b"{") || !line.ends_with(b"}") {
        return None;
    }
    let said: Map<String, Value> = serde_json::from_slice(line).ok()?;
    if said.get("async") != Some(&Value::Bool(true)) {
        return None;
    }
    let timeout = said.get("asyncTimeout").and_then(Value::as_f64);
    let timeout = timeout.filter(|timeout| *timeout > 0.0).map(|timeout| {
        Duration::try_from_secs_f64(timeout / 1000.0)
            .unwrap_or(LONGEST_ASYNC)
            .min(LONGEST_ASYNC)
    });
    Some((len, timeout))
}

fn brief(text: &str) -> String {
    match text.char_indices().nth(TOLD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
    }
}

fn round(took: Duration) -> Duration {
    Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

fn signal_words(signal: i32) -> String {
    let name = match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}
