//! The end of a turn, from which the built-ins on Stop decide if Claude has to go on.

use std::path::PathBuf;
use std::sync::LazyLock;

use becket_wire::Output;
use becket_wire::answer::Answer;
use becket_wire::event::{Event, EventName, PermissionMode};
use regex::Regex;

/// A turn that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTurn {
    pub event: EventName,
    /// The subagent whose turn it was.
    pub agent: Option<String>,
    pub transcript: Option<PathBuf>,
    /// True if a hook has already kept the agent going.
    pub active: bool,
    /// True if the last message is a question to the user.
    pub asked: bool,
    /// True if background work will wake Claude again.
    pub waits: bool,
    /// True in plan mode.
    pub plans: bool,
}

/// The states of a background task that has ended.
const OVER: [&str; 5] = ["completed", "failed", "killed", "stopped", "cancelled"];

impl EndedTurn {
    /// Reads a Stop or a SubagentStop. Returns none for any other event.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let event = Event::parse(payload).ok()?;
        let name = event.name();
        let common = event.common();
        let plans = common.permission_mode == Some(PermissionMode::Plan);
        let (active, said, tasks, transcript) = match &event {
            Event::Stop(stop) => (
                stop.stop_hook_active,
                &stop.last_assistant_message,
                &stop.background_tasks,
                &common.transcript_path,
            ),
            Event::SubagentStop(stop) => (
                stop.stop_hook_active,
                &stop.last_assistant_message,
                &stop.background_tasks,
                &stop.agent_transcript_path,
            ),
            _ => return None,
        };
        let mut tasks = tasks.iter().flatten();
        Some(Self {
            event: name,
            agent: common.agent_id.clone(),
            transcript: transcript.as_deref().map(PathBuf::from),
            active: active.unwrap_or(false),
            asked: said.as_deref().is_some_and(asks),
            waits: tasks.any(|task| !has_ended(task.status.as_deref())),
            plans,
        })
    }

    /// Returns true if the turn is really over: Claude takes its work for done.
    pub fn is_final(&self) -> bool {
        !(self.active || self.asked || self.waits || self.plans)
    }

    /// Makes an output that lets Claude go on with this task.
    pub fn go_on(&self, reason: String) -> Output {
        Answer::refusal(self.event.clone(), reason)
            .map_or_else(Output::silence, |answer| answer.render())
    }
}

fn has_ended(status: Option<&str>) -> bool {
    status.is_some_and(|status| OVER.contains(&status))
}

/// Returns true if a message ends with a question to its reader. A list of choices may follow the question.
fn asks(message: &str) -> bool {
    let mut before = message.trim_end();
    while let Some((above, last)) = before.rsplit_once('\n') {
        if !CHOICE.is_match(last.trim()) {
            break;
        }
        before = above.trim_end();
    }
    ends_with_question(message) || ends_with_question(before)
}

/// The beginning of an item of a list.
static CHOICE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-*•] |[*(]*(?:[0-9]+|[A-Za-z])[.):])").expect("a valid pattern")
});

/// Phrases that offer more work at the end of finished work. Such a question waits for no answer.
const OFFERS: &[&str] = &[
    "anything else",
    "is there anything",
    "would you like me to also",
    "would you like me to add",
    "do you want me to also",
    "want me to also",
    "shall i also",
    "should i also",
    "would you like any",
];

/// Returns true if the last words of a message are a question that waits for an answer.
fn ends_with_question(message: &str) -> bool {
    let message =
        message.trim_end_matches(|c: char| c.is_whitespace() || "*_`\"')]”’»".contains(c));
    if !message.ends_with(['?', '？']) {
        return false;
    }
    let last = message.trim_end_matches(['?', '？']);
    let sentence = last.rsplit(['.', '!', '?', '\n', '？', '。']).next();
    let sentence = sentence.unwrap_or(last).to_lowercase();
    !OFFERS.iter().any(|offer| sentence.contains(offer))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::stop;
    use super::*;

    #[test]
    fn what_claude_code_really_sent() {
        macro_rules! recorded {
            ($name:literal) => {
                EndedTurn::read(include_bytes!(concat!(
                    "../../../../wire/fixtures/",
                    $name,
                    ".json"
                )))
            };
        }
        assert!(recorded!("Stop").unwrap().is_final());
        assert!(recorded!("Stop.background").unwrap().waits);
        assert!(recorded!("Stop.stop_hook_active").unwrap().active);
        assert_eq!(
            recorded!("SubagentStop").unwrap().event,
            EventName::SubagentStop
        );
        assert_eq!(recorded!("PostToolUse.Edit"), None);
    }

    #[test]
    fn some_ends_are_none() {
        let is_final = |fields: Value| EndedTurn::read(&stop(&fields)).unwrap().is_final();
        assert!(is_final(json!({})));
        assert!(is_final(
            json!({"background_tasks": [{"status": "completed"}]})
        ));
        assert!(is_final(json!({"last_assistant_message": null})));
        for fields in [
            json!({"stop_hook_active": true}),
            json!({"last_assistant_message": "Which one?"}),
            json!({"background_tasks": [{"status": "completed"}, {"status": "running"}]}),
            json!({"background_tasks": [{"id": "1"}]}),
            json!({"permission_mode": "plan"}),
        ] {
            assert!(!is_final(fields.clone()), "{fields}");
        }
    }

    #[test]
    fn these_ask() {
        for text in [
            "Shall I go on?",
            "I see two ways. **Which do you want?**",
            "Which one?\n\n1. The first\n2. The second\n",
            "What now?\n- stop\n- go on",
            "How (and why)?",
        ] {
            assert!(asks(text), "{text}");
        }
    }

    #[test]
    fn these_do_not() {
        for text in [
            "",
            "Done.",
            "Why did it fail? See below.\n\nThe lock was held.",
            "It uses `a ? b : c` now.",
            "It uses `a?.b` and http://x/?q=1 now.",
            "1. Fixed\n2. Tested",
            "All done:\n- fixed\n- tested",
            "Done.\n\n- Is there anything else?",
        ] {
            assert!(!asks(text), "{text}");
        }
    }
}
