//! The open calls of an agent, and the open questions to the user with the events that answer them.

use becket_wire::Head;
use serde::{Deserialize, Serialize};

use super::notifications::asking_agent;
use super::{INTERACTIVE, SessionEvent, words};
use crate::is_default;

/// The most open calls, and the most open questions: more than there ever are. Past it the oldest call and the
/// newest question are dropped. All of them are written with every event, so a higher limit would cost time.
const MAX_CALLS: usize = 32;
const MAX_QUESTIONS: usize = 64;

/// A tool call that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCall {
    id: String,
    tool: String,
    prompt_id: Option<String>,
    /// [`hash`] of the input as it was when the call began.
    input: u64,
    at: i64,
    /// The call in words.
    #[serde(default, skip_serializing_if = "is_default")]
    doing: Option<String>,
}

/// The open calls, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenCalls(Vec<OpenCall>);

impl OpenCalls {
    pub(super) fn begin(&mut self, event: &SessionEvent<'_>) {
        // No event could end a call without an id.
        let Some(id) = event.tool_use_id() else {
            return;
        };
        self.end(Some(id));
        if self.0.len() >= MAX_CALLS {
            self.0.remove(0);
        }
        self.0.push(OpenCall {
            id: id.to_owned(),
            tool: event.tool().to_owned(),
            prompt_id: event.prompt_id().map(str::to_owned),
            input: hash(event.head),
            at: event.at,
            doing: words::ongoing(event),
        });
    }

    pub(super) fn end(&mut self, id: Option<&str>) {
        self.0.retain(|call| Some(&*call.id) != id);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the tool of the newest open call.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.last().map(|call| &*call.tool)
    }

    /// Returns the id of the open call, if there is exactly one.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [call] => Some(&call.id),
            _ => None,
        }
    }

    /// Returns the newest open call in words.
    pub(super) fn newest_doing(&self) -> Option<String> {
        self.0.last()?.doing.clone()
    }

    /// Finds the open call of a permission request: with the same tool and input, and without a question yet.
    /// The request itself does not name it.
    pub(super) fn unasked(
        &self,
        event: &SessionEvent<'_>,
        asked: &[PendingQuestion],
    ) -> Option<String> {
        let input = hash(event.head);
        let prompt_id = event.prompt_id();
        let call = self.0.iter().find(|call| {
            call.tool == event.tool()
                && call.input == input
                && agree(call.prompt_id.as_deref(), prompt_id)
                && asked.iter().all(|one| one.call.as_ref() != Some(&call.id))
        })?;
        Some(call.id.clone())
    }

    pub(super) fn subagents_since(&self) -> Option<i64> {
        let mut calls = self.0.iter();
        let call = calls.find(|call| ["Agent", "Task"].contains(&&*call.tool))?;
        Some(call.at)
    }
}

/// The failed calls of one turn. A call that two registrations report counts once, even if their events differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FailedCalls(Vec<String>);

impl FailedCalls {
    /// Returns true if no event reported this failure yet. A call without an id is always new.
    pub(super) fn is_news(&mut self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        if self.0.iter().any(|known| known == id) {
            return false;
        }
        if self.0.len() >= MAX_CALLS {
            self.0.remove(0);
        }
        self.0.push(id.to_owned());
        true
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Permission for a tool with this input. For an interactive tool: its own question.
    Tool { tool: String, input: u64 },
    /// A question of an MCP server.
    Elicitation { server: String, id: Option<String> },
    /// A dialog that only a notification reported.
    Notice {
        reason: String,
        /// The agent that the message names, if it is not the agent of the event.
        agent: Option<String>,
    },
}

impl Question {
    /// Makes the question that a permission request for this call is.
    pub fn of_call(head: &Head<'_>) -> Self {
        Self::Tool {
            tool: head.tool.as_deref().unwrap_or("a tool").to_owned(),
            input: hash(head),
        }
    }
}

/// One open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingQuestion {
    pub question: Question,
    pub prompt_id: Option<String>,
    /// The `tool_use_id` of the call that it is about, if known.
    pub call: Option<String>,
    pub at: i64,
    /// The question in words, if the event has any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub words: Option<String>,
}

impl PendingQuestion {
    pub(super) fn permission(event: &SessionEvent<'_>, call: Option<String>) -> Self {
        let tool = event.tool().to_owned();
        let input = hash(event.head);
        Self::new(event, Question::Tool { tool, input }, call)
    }

    pub(super) fn elicitation(event: &SessionEvent<'_>) -> Self {
        let server = event.server().unwrap_or("unknown");
        let id = event.elicitation_id().map(str::to_owned);
        let server = server.to_owned();
        Self::new(event, Question::Elicitation { server, id }, None)
    }

    /// Makes the question of a notification. Without a reason the message is the reason, and names the agent
    /// that asks.
    pub(super) fn notice(event: &SessionEvent<'_>, reason: &str, call: Option<String>) -> Self {
        let message = event.head.message.as_deref().unwrap_or_default();
        let words = words::one_line(message);
        let known = [reason, &words, "Input"];
        let agent = asking_agent(&words).filter(|_| reason.is_empty());
        let agent = agent.map(str::to_owned);
        let reason = known.into_iter().find(|text| !text.is_empty());
        let call = call.filter(|_| agent.is_none());
        let question = Question::Notice {
            reason: reason.unwrap_or_default().to_owned(),
            agent,
        };
        Self {
            words: (!words.is_empty()).then_some(words),
            ..Self::new(event, question, call)
        }
    }

    fn new(event: &SessionEvent<'_>, question: Question, call: Option<String>) -> Self {
        Self {
            question,
            prompt_id: event.prompt_id().map(str::to_owned),
            call,
            at: event.at,
            words: words::question(event),
        }
    }

    /// Returns the question in words.
    pub fn in_words(&self) -> String {
        if let Some(words) = &self.words {
            return words.clone();
        }
        match &self.question {
            Question::Tool { tool, .. } => match &**tool {
                "AskUserQuestion" => "asks a question".to_owned(),
                "EnterPlanMode" => "wants to plan first".to_owned(),
                "ExitPlanMode" => "has a plan to approve".to_owned(),
                tool => format!("wants to use {tool}"),
            },
            Question::Elicitation { server, .. } => format!("{server} asks for input"),
            Question::Notice { reason, .. } => reason.clone(),
        }
    }

    pub fn reason(&self) -> String {
        match &self.question {
            Question::Tool { tool, .. } if INTERACTIVE.contains(&&**tool) => tool.clone(),
            Question::Tool { tool, .. } => format!("Permission for {tool}"),
            Question::Elicitation { server, .. } => format!("MCP input: {server}"),
            Question::Notice { reason, .. } => reason.clone(),
        }
    }

    fn is_notice(&self) -> bool {
        matches!(self.question, Question::Notice { .. })
    }

    /// Returns the agent of a notification about another agent.
    fn other_agent(&self) -> Option<&str> {
        match &self.question {
            Question::Notice { agent, .. } => agent.as_deref(),
            _ => None,
        }
    }

    fn is_the_same_as(&self, new: &Self) -> bool {
        // A server's question without an id may be a second one.
        let nameless = matches!(new.question, Question::Elicitation { id: None, .. });
        !nameless && self.question == new.question && self.is_of(new.prompt_id.as_deref())
    }

    fn is_of(&self, prompt_id: Option<&str>) -> bool {
        agree(self.prompt_id.as_deref(), prompt_id)
    }
}

/// Returns true if two ids do not contradict each other.
fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// The questions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Questions(Vec<PendingQuestion>);

impl Questions {
    pub(super) fn all(&self) -> &[PendingQuestion] {
        &self.0
    }

    /// Returns true if a question has an event of its own.
    pub(super) fn has_own_event(&self) -> bool {
        self.0.iter().any(|one| !one.is_notice())
    }

    /// Removes the dialog that only a notification reported.
    pub(super) fn end_notices(&mut self) {
        self.0
            .retain(|one| !one.is_notice() || one.other_agent().is_some());
    }

    /// Removes all other questions. Returns true if there was any.
    fn retain(&mut self, keeps: impl Fn(&PendingQuestion) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(keeps);
        self.0.len() < before
    }

    /// Removes the questions of an agent that has ended. Returns false if it had none.
    pub(super) fn agent_ended(&mut self, agent: &str) -> bool {
        self.retain(|one| one.other_agent() != Some(agent))
    }

    /// Removes this agent's own questions. Other agents go on when it stops.
    pub(super) fn end_own(&mut self) {
        self.0.retain(|one| one.other_agent().is_some());
    }

    pub(super) fn are_of_other_agents(&self) -> bool {
        self.0.iter().all(|one| one.other_agent().is_some())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a question, unless it is open already. Two equal calls ask twice, and each question is linked to
    /// its call; a question without a link equals any other with the same content.
    pub(super) fn push(&mut self, new: PendingQuestion) -> bool {
        // One dialog is open at a time.
        if new.is_notice() {
            self.0
                .retain(|old| !old.is_notice() || old.other_agent() != new.other_agent());
        }
        let is_open = self.0.iter().any(|old| match (&old.call, &new.call) {
            (Some(old), Some(new)) => old == new,
            (_, None) => old.is_the_same_as(&new),
            (None, Some(_)) => false,
        });
        if is_open || self.0.len() >= MAX_QUESTIONS {
            return false;
        }
        self.0.push(new);
        true
    }

    /// Removes the question about a call that has ended. The link to the call comes first, because the input
    /// may have been rewritten since the question.
    pub(super) fn call_ended(&mut self, event: &SessionEvent<'_>) {
        if self.0.is_empty() {
            return;
        }
        self.forget_elicitations_of(event.tool());
        let linked = event.tool_use_id();
        if self.retain(|one| linked.is_none() || one.call.as_deref() != linked) {
            return;
        }
        let input = hash(event.head);
        self.remove_first(|one| {
            matches!(&one.question, Question::Tool { tool, input: asked }
                if tool == event.tool() && *asked == input)
                && one.is_of(event.prompt_id())
        });
    }

    /// Removes the questions of a server when its tool ends: if a hook answered, there is no ElicitationResult.
    fn forget_elicitations_of(&mut self, tool: &str) {
        let Some(tool) = tool.strip_prefix("mcp__") else {
            return;
        };
        self.0.retain(|one| match &one.question {
            Question::Elicitation { server, .. } => !is_tool_of(tool, server),
            Question::Tool { .. } | Question::Notice { .. } => true,
        });
    }

    pub(super) fn elicited(&mut self, event: &SessionEvent<'_>) {
        let by = event.server();
        self.remove_first(|one| match &one.question {
            Question::Elicitation { server, id } => {
                agree(Some(server), by) && agree(id.as_deref(), event.elicitation_id())
            }
            Question::Tool { .. } | Question::Notice { .. } => false,
        });
    }

    fn remove_first(&mut self, is_answered: impl Fn(&PendingQuestion) -> bool) {
        if let Some(place) = self.0.iter().position(is_answered) {
            self.0.remove(place);
        }
    }

    pub(super) fn prompt_answered(&mut self, prompt_id: Option<&str>) {
        self.0
            .retain(|one| !one.is_of(prompt_id) || one.other_agent().is_some());
    }

    pub(super) fn clamp_times(&mut self, now: i64) {
        for one in &mut self.0 {
            one.at = one.at.min(now);
        }
    }

    pub(super) fn end(&mut self, question: &Question) -> bool {
        let found = self.0.iter().position(|one| one.question == *question);
        found.map(|nth| self.0.remove(nth)).is_some()
    }

    /// Removes the question about that call, or all of this agent's own questions up to `at`.
    pub(super) fn answered(&mut self, call: Option<&str>, at: i64) -> bool {
        self.retain(|one| match call {
            Some(_) => one.call.as_deref() != call,
            None => one.at > at || one.other_agent().is_some(),
        })
    }
}

/// Returns true if `SERVER__TOOL` belongs to the server. In tool names, Claude Code replaces all characters but
/// letters, digits, `_` and `-` by `_`.
fn is_tool_of(tool: &str, server: &str) -> bool {
    let mut rest = tool.chars();
    let begins_with_server = server.chars().all(|c| {
        let is_kept = c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        rest.next() == Some(if is_kept { c } else { '_' })
    });
    begins_with_server && rest.as_str().starts_with("__")
}

/// Computes a hash of the tool's input that is the same after a restart: like FNV-1a, but with eight bytes at a
/// step, because an input may be a whole file.
fn hash(head: &Head<'_>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let input = head.tool_input.unwrap_or_default().as_bytes();
    let (words, rest) = input.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words
        .chain(rest)
        .fold(BASIS ^ input.len() as u64, |hash, part| {
            (hash ^ part).wrapping_mul(PRIME).rotate_left(23)
        })
}
