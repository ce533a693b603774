//! The open calls of an agent and what the person is asked: which event answers which question.

use becket_wire::Head;
use serde::{Deserialize, Serialize};

use super::doing::{self, Deed};
use super::notified::asking_agent;
use super::{INTERACTIVE, Moment};
use crate::is_default;

/// Calls that may be open at once, and questions that may be pending at once: more than there are.
/// Past it the oldest call is forgotten, and the newest question. All of them are written with every
/// event, so that a bound too high would be paid for.
const MAX_CALLS: usize = 32;
const MAX_QUESTIONS: usize = 64;

/// A tool call that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Call {
    id: String,
    tool: String,
    prompt_id: Option<String>,
    /// [`hash`] of the input as it was when the call began.
    input: u64,
    at: i64,
    /// What it does, in words.
    #[serde(default, skip_serializing_if = "is_default")]
    doing: Option<String>,
}

/// The open calls, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls(Vec<Call>);

impl Calls {
    pub(super) fn begin(&mut self, moment: &Moment<'_>) {
        // A call without an id could never be seen to end.
        let Some(id) = moment.tool_use_id() else {
            return;
        };
        self.end(Some(id));
        if self.0.len() >= MAX_CALLS {
            self.0.remove(0);
        }
        self.0.push(Call {
            id: id.to_owned(),
            tool: moment.tool().to_owned(),
            prompt_id: moment.prompt_id().map(str::to_owned),
            input: hash(moment.head),
            at: moment.at,
            doing: Deed::of(moment).map(|deed| deed.ongoing()),
        });
    }

    pub(super) fn end(&mut self, id: Option<&str>) {
        self.0.retain(|call| Some(&*call.id) != id);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The tool of the newest open call.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.last().map(|call| &*call.tool)
    }

    /// The id of the open call, if there is just one.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [call] => Some(&call.id),
            _ => None,
        }
    }

    /// What the newest open call does, in words.
    pub(super) fn newest_doing(&self) -> Option<String> {
        self.0.last()?.doing.clone()
    }

    /// The open call that a permission is asked for: of that tool and input, and not asked for yet.
    /// The request itself does not name it.
    pub(super) fn unasked(&self, moment: &Moment<'_>, asked: &[Pending]) -> Option<String> {
        let input = hash(moment.head);
        let prompt_id = moment.prompt_id();
        let same = |call: &&Call| {
            call.tool == moment.tool()
                && call.input == input
                && agree(call.prompt_id.as_deref(), prompt_id)
        };
        let free = |call: &&Call| asked.iter().all(|one| one.call.as_ref() != Some(&call.id));
        let call = self.0.iter().filter(same).find(free)?;
        Some(call.id.clone())
    }

    pub(super) fn subagents_since(&self) -> Option<i64> {
        let mut calls = self.0.iter();
        calls
            .find(|call| matches!(&*call.tool, "Agent" | "Task"))
            .map(|call| call.at)
    }
}

/// The calls of one turn that have failed. What two registrations tell of failed once, also where
/// what they tell is not the same to the letter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Failures(Vec<String>);

impl Failures {
    /// Whether nobody has told of it yet. Without an id every one is another.
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

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// May this tool run with this input? For an interactive tool: its own question.
    Tool { tool: String, input: u64 },
    /// An MCP server wants to know something.
    Elicitation { server: String, id: Option<String> },
    /// A dialog that only a notification told of.
    Notice {
        reason: String,
        /// The agent that the message names, where it is not the one that was told.
        agent: Option<String>,
    },
}

/// One question that is not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub question: Question,
    pub prompt_id: Option<String>,
    /// The `tool_use_id` of the call that it is about, where that is known.
    pub call: Option<String>,
    pub at: i64,
    /// The question in words, where the event has any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub words: Option<String>,
}

impl Pending {
    pub(super) fn interactive(moment: &Moment<'_>) -> Self {
        let call = moment.tool_use_id().map(str::to_owned);
        Self::permission(moment, call)
    }

    pub(super) fn permission(moment: &Moment<'_>, call: Option<String>) -> Self {
        let tool = moment.tool().to_owned();
        let input = hash(moment.head);
        Self::new(moment, Question::Tool { tool, input }, call)
    }

    pub(super) fn elicitation(moment: &Moment<'_>) -> Self {
        let server = moment.server().unwrap_or("unknown");
        let id = moment.elicitation_id().map(str::to_owned);
        let server = server.to_owned();
        Self::new(moment, Question::Elicitation { server, id }, None)
    }

    /// Without a reason the message is the reason, and says which agent asks.
    pub(super) fn notice(moment: &Moment<'_>, reason: &str, call: Option<String>) -> Self {
        let message = moment.head.message.as_deref().unwrap_or_default();
        let words = doing::one_line(message);
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
            ..Self::new(moment, question, call)
        }
    }

    fn new(moment: &Moment<'_>, question: Question, call: Option<String>) -> Self {
        Self {
            question,
            prompt_id: moment.prompt_id().map(str::to_owned),
            call,
            at: moment.at,
            words: doing::question(moment),
        }
    }

    /// What is asked, as a person reads it.
    pub fn in_words(&self) -> String {
        let plain = || match &self.question {
            Question::Tool { tool, .. } => match &**tool {
                "AskUserQuestion" => "asks a question".to_owned(),
                "EnterPlanMode" => "wants to plan first".to_owned(),
                "ExitPlanMode" => "has a plan to approve".to_owned(),
                tool => format!("wants to use {tool}"),
            },
            Question::Elicitation { server, .. } => format!("{server} asks for input"),
            Question::Notice { reason, .. } => reason.clone(),
        };
        self.words.clone().unwrap_or_else(plain)
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

    /// The agent of a notice that is about another one.
    fn other_agent(&self) -> Option<&str> {
        match &self.question {
            Question::Notice { agent, .. } => agent.as_deref(),
            _ => None,
        }
    }

    fn is_the_same_as(&self, new: &Self) -> bool {
        // What a server asks without an id may be a second question.
        let nameless = matches!(new.question, Question::Elicitation { id: None, .. });
        !nameless && self.question == new.question && self.is_of(new.prompt_id.as_deref())
    }

    fn is_of(&self, prompt_id: Option<&str>) -> bool {
        agree(self.prompt_id.as_deref(), prompt_id)
    }
}

/// Two ids that do not contradict each other.
fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// The questions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asks(Vec<Pending>);

impl Asks {
    pub(super) fn all(&self) -> &[Pending] {
        &self.0
    }

    /// Returns true if an event of its own told of a question.
    pub(super) fn knows_more(&self) -> bool {
        self.0.iter().any(|one| !one.is_notice())
    }

    /// Forgets the dialog that only a notification told of.
    pub(super) fn end_notices(&mut self) {
        self.0
            .retain(|one| !one.is_notice() || one.other_agent().is_some());
    }

    /// An agent that notices named has ended. False if none did.
    pub(super) fn agent_ended(&mut self, agent: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|one| one.other_agent() != Some(agent));
        self.0.len() < before
    }

    /// What other agents ask, who go on when this one stops.
    pub(super) fn of_other_agents(&self) -> Self {
        let theirs = self.0.iter().filter(|one| one.other_agent().is_some());
        Self(theirs.cloned().collect())
    }

    pub(super) fn are_of_other_agents(&self) -> bool {
        self.0.iter().all(|one| one.other_agent().is_some())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a question, unless it is one that stands there already. Two calls alike ask twice, and
    /// each is linked to its own; a question without a link is the same as any other like it.
    pub(super) fn push(&mut self, new: Pending) -> bool {
        // One dialog is open at a time.
        if new.is_notice() {
            self.0
                .retain(|old| !old.is_notice() || old.other_agent() != new.other_agent());
        }
        let stands = self.0.iter().any(|old| match (&old.call, &new.call) {
            (Some(old), Some(new)) => old == new,
            (_, None) => old.is_the_same_as(&new),
            (None, Some(_)) => false,
        });
        if stands || self.0.len() >= MAX_QUESTIONS {
            return false;
        }
        self.0.push(new);
        true
    }

    /// A call has ended: the question that was about it is answered. The link to the call comes
    /// first, because the input may have been rewritten since the question.
    pub(super) fn call_ended(&mut self, moment: &Moment<'_>) {
        if self.0.is_empty() {
            return;
        }
        self.forget_elicitations_of(moment.tool());
        let linked = moment.tool_use_id();
        let by_call = |one: &Pending| linked.is_some() && one.call.as_deref() == linked;
        let before = self.0.len();
        self.0.retain(|one| !by_call(one));
        if self.0.len() < before {
            return;
        }
        let input = hash(moment.head);
        let place = self.0.iter().position(|one| {
            matches!(&one.question, Question::Tool { tool, input: asked }
                if tool == moment.tool() && *asked == input)
                && one.is_of(moment.prompt_id())
        });
        if let Some(place) = place {
            self.0.remove(place);
        }
    }

    /// The end of a server's tool ends what that server asked meanwhile: where a hook answered,
    /// there is no ElicitationResult.
    fn forget_elicitations_of(&mut self, tool: &str) {
        let Some(tool) = tool.strip_prefix("mcp__") else {
            return;
        };
        self.0.retain(|one| match &one.question {
            Question::Elicitation { server, .. } => !is_tool_of(tool, server),
            Question::Tool { .. } | Question::Notice { .. } => true,
        });
    }

    pub(super) fn elicited(&mut self, moment: &Moment<'_>) {
        let by = moment.server();
        let place = self.0.iter().position(|one| match &one.question {
            Question::Elicitation { server, id } => {
                agree(Some(server), by) && agree(id.as_deref(), moment.elicitation_id())
            }
            Question::Tool { .. } | Question::Notice { .. } => false,
        });
        if let Some(place) = place {
            self.0.remove(place);
        }
    }

    pub(super) fn prompt_answered(&mut self, prompt_id: Option<&str>) {
        self.0
            .retain(|one| !one.is_of(prompt_id) || one.other_agent().is_some());
    }

    pub(super) fn nothing_after(&mut self, now: i64) {
        for one in &mut self.0 {
            one.at = one.at.min(now);
        }
    }

    /// Forgets the question about that call, or all of this agent's own that were asked by then.
    pub(super) fn answered(&mut self, call: Option<&str>, at: i64) -> bool {
        let before = self.0.len();
        self.0.retain(|one| match call {
            Some(_) => one.call.as_deref() != call,
            None => one.at > at || one.other_agent().is_some(),
        });
        self.0.len() < before
    }
}

/// `SERVER__TOOL` against a server's name, which Claude Code writes there with `_` for all but
/// letters, digits, `_` and `-`.
fn is_tool_of(tool: &str, server: &str) -> bool {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    };
    let mut rest = tool.chars();
    server.chars().all(|c| rest.next() == Some(plain(c))) && rest.as_str().starts_with("__")
}

/// A hash of the tool's input that stays the same over restarts: made like FNV-1a, but with eight
/// bytes at a step, because an input may be a whole file.
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
