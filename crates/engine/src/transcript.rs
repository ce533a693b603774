//! The tail of Claude Code's transcript: facts that no event tells (an interrupt, an answered permission, a
//! failed turn) and the cost. It takes bytes as they are appended, and knows no file.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use becket_wire::session::Figures;
use serde::Deserialize;
use serde_json::Value;

use crate::price::{self, Tokens};

/// The longest line. A longer one is skipped, because it would stay in memory until its end comes.
pub const LONGEST_LINE: usize = 4 << 20;

/// One fact from a line of the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptFinding {
    /// The time of the line: milliseconds since 1970.
    pub at: Option<i64>,
    /// The subagent that it is about; none for the main agent.
    pub agent: Option<String>,
    pub fact: TranscriptFact,
}

impl TranscriptFinding {
    /// Returns true if the fact is about the main agent.
    pub fn is_main(&self) -> bool {
        self.agent.is_none()
    }
}

/// A fact.
#[derive(Debug, Clone, PartialEq)]
pub enum TranscriptFact {
    /// The user interrupted the turn: with Esc, or by refusing a permission.
    Interrupted,
    /// The model asked for a tool.
    ToolCall { tool_use_id: String, tool: String },
    /// A tool call ended, and with it all that it was waiting for.
    ToolResult {
        tool_use_id: String,
        /// True if Claude Code refused the call before any hook: no such tool, wrong input.
        refused: bool,
    },
    /// A turn of the interactive program ended. Not every interrupted turn has this line, and in print mode
    /// there is none.
    TurnEnded,
    /// The turn failed.
    ApiError {
        /// Claude Code's word for the error: `rate_limit`, `unknown`.
        error: Option<String>,
        text: Option<String>,
    },
    /// The model has replied. It comes once per message, though a message has a line for each of its blocks.
    Usage,
}

/// The numbers of unreadable lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnreadLines {
    /// Lines over [`LONGEST_LINE`].
    pub too_long: u64,
    /// Lines that are no JSON, or no UTF-8.
    pub broken: u64,
}

/// A reader of a growing transcript. For the cost, it needs all bytes from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// The start of a line whose end has not come yet.
    part: Vec<u8>,
    /// True while the rest of a line that is too long arrives.
    skipping: bool,
    unread: UnreadLines,
    account: CostAccount,
}

impl Tail {
    /// Takes appended bytes. Returns the facts of the lines that they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<TranscriptFinding> {
        let mut found = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.part);
            if !std::mem::take(&mut self.skipping) {
                self.read(&line, &mut found);
            }
        }
        self.keep(bytes);
        found
    }

    /// Returns context and cost so far, in the form of a status line.
    pub fn figures(&self) -> Figures {
        self.account.figures()
    }

    /// Counts the tokens of replies since the prompt that was sent then, from zero if that is another turn; see
    /// [`Tail::turn`].
    pub fn count_since(&mut self, prompted_at: i64) {
        if self.account.turn.since != prompted_at {
            self.account.turn = TurnTokens {
                since: prompted_at,
                ..TurnTokens::default()
            };
        }
    }

    /// Returns the tokens of the replies since the prompt of [`Tail::count_since`].
    pub fn turn(&self) -> TurnTokens {
        self.account.turn
    }

    pub fn unread(&self) -> UnreadLines {
        self.unread
    }

    /// Keeps a part of a line. One that is too long is dropped.
    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.part.len() + bytes.len() > LONGEST_LINE {
            self.part = Vec::new();
            self.skipping = true;
            self.unread.too_long += 1;
        } else {
            self.part.extend_from_slice(bytes);
        }
    }

    fn read(&mut self, line: &[u8], found: &mut Vec<TranscriptFinding>) {
        match read(line) {
            Ok(None) => {}
            Ok(Some(line)) => line.find(found, &mut self.account),
            Err(_) => self.unread.broken += 1,
        }
    }
}

/// A line of a kind that may have facts.
struct TranscriptLine(Value);

/// The kinds of lines with facts. Most of a transcript's bytes are in other lines, which are not parsed.
const TELLING: [&str; 4] = ["user", "assistant", "system", "cost-state"];

const INTERRUPTED: &str = "[Request interrupted by user";

/// The start of the result of a call that Claude Code refused.
const REFUSED: &str = "<tool_use_error>";

#[derive(Deserialize)]
struct LineKind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

fn read(line: &[u8]) -> serde_json::Result<Option<TranscriptLine>> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let LineKind { kind } = serde_json::from_slice(line)?;
    if !kind.is_some_and(|kind| TELLING.contains(&&*kind)) {
        return Ok(None);
    }
    serde_json::from_slice(line).map(TranscriptLine).map(Some)
}

impl TranscriptLine {
    /// Adds the facts of the line.
    fn find(&self, found: &mut Vec<TranscriptFinding>, account: &mut CostAccount) {
        match self.text("type") {
            "user" => self.user(found),
            "assistant" => self.assistant(found, account),
            "system" => self.system(found, account),
            _ => account.take_state(&self.0),
        }
    }

    /// Adds interrupts and results.
    fn user(&self, found: &mut Vec<TranscriptFinding>) {
        let facts = self
            .blocks()
            .filter_map(|block| match block["type"].as_str() {
                Some("text") => {
                    let text = block["text"].as_str()?;
                    let is_interrupt = text.starts_with(INTERRUPTED) && text.ends_with(']');
                    is_interrupt.then_some(TranscriptFact::Interrupted)
                }
                Some("tool_result") => Some(TranscriptFact::ToolResult {
                    tool_use_id: block["tool_use_id"].as_str()?.to_owned(),
                    refused: (block["content"].as_str())
                        .is_some_and(|text| text.starts_with(REFUSED)),
                }),
                _ => None,
            });
        found.extend(facts.map(|fact| self.finding(fact)));
    }

    /// Returns the blocks of the message. A prompt of the user is plain text and has none.
    fn blocks(&self) -> impl Iterator<Item = &Value> {
        let content = self.0["message"]["content"].as_array();
        content.into_iter().flatten()
    }

    fn assistant(&self, found: &mut Vec<TranscriptFinding>, account: &mut CostAccount) {
        let message = &self.0["message"];
        if self.0["isApiErrorMessage"] == true {
            let text = message["content"][0]["text"].as_str();
            found.push(self.finding(TranscriptFact::ApiError {
                error: self.0["error"].as_str().map(str::to_owned),
                text: text.map(str::to_owned),
            }));
            return;
        }
        for block in self.blocks() {
            if let (Some("tool_use"), Some(id)) = (block["type"].as_str(), block["id"].as_str()) {
                found.push(self.finding(TranscriptFact::ToolCall {
                    tool_use_id: id.to_owned(),
                    tool: block["name"].as_str().unwrap_or_default().to_owned(),
                }));
            }
        }
        // A model in angle brackets means Claude Code itself.
        let model = message["model"].as_str().filter(|id| !id.starts_with('<'));
        let (Some(model), Some(tokens)) = (model, tokens(&message["usage"])) else {
            return;
        };
        let id = message["id"].as_str().unwrap_or_default();
        let usage = self.finding(TranscriptFact::Usage);
        if account.reply(id, model, tokens, &usage) {
            found.push(usage);
        }
    }

    fn system(&self, found: &mut Vec<TranscriptFinding>, account: &mut CostAccount) {
        match self.text("subtype") {
            "turn_duration" => found.push(self.finding(TranscriptFact::TurnEnded)),
            "compact_boundary" if self.agent().is_none() => {
                account.context = self.0["compactMetadata"]["postTokens"].as_u64();
            }
            _ => {}
        }
    }

    fn finding(&self, fact: TranscriptFact) -> TranscriptFinding {
        TranscriptFinding {
            at: self.at(),
            agent: self.agent(),
            fact,
        }
    }

    /// Returns the time of the line: milliseconds since 1970.
    fn at(&self) -> Option<i64> {
        let at = self.text("timestamp").parse::<jiff::Timestamp>();
        at.ok().map(jiff::Timestamp::as_millisecond)
    }

    /// Returns the subagent of the line. Older versions write a subagent's lines into its parent's file, marked
    /// but without its id, which is empty then.
    fn agent(&self) -> Option<String> {
        match self.0["agentId"].as_str() {
            Some(id) => Some(id.to_owned()),
            None => (self.0["isSidechain"] == true).then(String::new),
        }
    }

    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }
}

/// Reads the tokens of a reply; none if there are no counts. Tokens written to the cache count as kept for five
/// minutes if nothing else is said.
fn tokens(usage: &Value) -> Option<Tokens> {
    if !usage.is_object() {
        return None;
    }
    let count = |field: &str| usage[field].as_u64().unwrap_or(0);
    let written = count("cache_creation_input_tokens");
    let hour = &usage["cache_creation"]["ephemeral_1h_input_tokens"];
    let hour = hour.as_u64().unwrap_or(0).min(written);
    Some(Tokens {
        input: count("input_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_5m: written - hour,
        cache_1h: hour,
        output: count("output_tokens"),
    })
}

/// The number of replies whose further lines may still come: the lines of the main agent and of its subagents
/// are mixed.
const OPEN_REPLIES: usize = 64;

#[derive(Debug, Clone, Default)]
struct CostAccount {
    /// The newest replies: message id, tokens, cost.
    open: VecDeque<(String, Tokens, f64)>,
    cost: f64,
    /// True if a model without a price has replied.
    unknown_cost: bool,
    /// The model of the main agent, and the tokens in its window.
    model: Option<String>,
    context: Option<u64>,
    /// The lines and durations, which only Claude Code's own account has.
    state: Figures,
    turn: TurnTokens,
}

/// The tokens of the main agent's replies since the prompt of a turn. Those of subagents are in
/// transcripts of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnTokens {
    /// The time of the prompt: milliseconds since 1970.
    pub since: i64,
    /// The tokens that the model read, from the cache or not.
    pub input: u64,
    pub output: u64,
}

impl TurnTokens {
    /// Counts the tokens of a reply, of which `before` are counted already.
    fn add(&mut self, before: Tokens, now: Tokens, reply: &TranscriptFinding) {
        if reply.is_main() && reply.at.is_some_and(|at| at >= self.since) {
            self.input += now.context().saturating_sub(before.context());
            self.output += now.output.saturating_sub(before.output);
        }
    }
}

impl CostAccount {
    /// Takes one line of a reply. Returns true if it has new figures.
    fn reply(&mut self, id: &str, model: &str, tokens: Tokens, reply: &TranscriptFinding) -> bool {
        if reply.is_main() {
            self.model = Some(model.to_owned());
            // A reply that was cut off at once has no figures of the window.
            self.context = Some(tokens.context())
                .filter(|tokens| *tokens > 0)
                .or(self.context);
        }
        let cost = price::cost(model, &tokens);
        self.unknown_cost |= cost.is_none();
        let cost = cost.unwrap_or(0.0);
        let known = self.open.iter_mut().find(|(open, ..)| open == id);
        if let Some((_, before, counted)) = known {
            if *before == tokens {
                return false;
            }
            self.cost += cost - *counted;
            let before = std::mem::replace(before, tokens);
            *counted = cost;
            self.turn.add(before, tokens, reply);
            return true;
        }
        self.cost += cost;
        self.turn.add(Tokens::default(), tokens, reply);
        if self.open.len() == OPEN_REPLIES {
            self.open.pop_front();
        }
        self.open.push_back((id.to_owned(), tokens, cost));
        true
    }

    /// Takes over Claude Code's own account, which it writes at its end and continues on resume. It includes
    /// subagents and side requests.
    fn take_state(&mut self, line: &Value) {
        if let Some(total) = line["totalCostUSD"].as_f64() {
            self.cost = total;
            self.unknown_cost = line["hasUnknownModelCost"] == true;
            self.open.clear();
        }
        let count = |field: &str| line[field].as_u64();
        self.state = Figures {
            lines_added: count("totalLinesAdded"),
            lines_removed: count("totalLinesRemoved"),
            duration_ms: count("totalDuration"),
            api_duration_ms: count("totalAPIDuration"),
            ..Figures::default()
        };
    }

    fn figures(&self) -> Figures {
        let size = self.model.as_deref().map(price::window);
        let used = self.context.zip(size);
        Figures {
            context_pct: used.map(|(tokens, size)| tokens as f64 * 100.0 / size as f64),
            context_tokens: self.context,
            context_size: size,
            cost_usd: (!self.unknown_cost).then_some(self.cost),
            model_id: self.model.clone(),
            from_transcript: true,
            ..self.state.clone()
        }
    }
}
