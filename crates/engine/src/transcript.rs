//! The tail of Claude Code's transcript: what no event says (an interrupt, an answered permission,
//! a turn that died) and what it cost. Takes bytes as they are appended, and knows no file.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use becket_wire::session::Figures;
use serde::Deserialize;
use serde_json::Value;

use crate::price::{self, Tokens};

/// A longer line is passed over: it would be held in memory until its end comes.
pub const LONGEST_LINE: usize = 4 << 20;

/// What one line of the transcript tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Milliseconds since 1970, as the line says.
    pub at: Option<i64>,
    /// The subagent that it is about; none for the main agent.
    pub agent: Option<String>,
    pub what: What,
}

impl Finding {
    /// What a subagent did says nothing about the main agent.
    pub fn is_main(&self) -> bool {
        self.agent.is_none()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The person interrupted the turn: with Esc, or by refusing a permission.
    Interrupted { for_tool: bool },
    /// The model asked for a tool.
    ToolCall { tool_use_id: String, tool: String },
    /// A tool call is over, so whatever it was waiting for is too.
    ToolResult {
        tool_use_id: String,
        is_error: bool,
        /// Claude Code refused the call before any hook: no such tool, wrong input.
        refused: bool,
        /// Why it did not run, in Claude Code's word: `user-rejected`.
        denied: Option<String>,
    },
    /// A turn of the interactive program is over. Not every interrupted turn has it, and in
    /// print mode there is none.
    TurnEnded,
    /// The turn died.
    ApiError {
        /// Claude Code's word for it: `rate_limit`, `unknown`.
        error: Option<String>,
        text: Option<String>,
    },
    /// The model has replied. Once a message, though a message has a line for each of its blocks.
    Usage(Usage),
    /// The window was compacted, and holds so many tokens now.
    Compacted { tokens: Option<u64> },
}

/// The tokens of one reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub model: String,
    pub input: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub output: u64,
}

/// What could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// Lines over [`LONGEST_LINE`].
    pub too_long: u64,
    /// Lines that are no JSON, or no UTF-8.
    pub broken: u64,
}

/// A transcript as it grows. Whoever wants its cost feeds it from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// A line whose end has not come yet.
    part: Vec<u8>,
    /// The rest of a line that is too long is on its way.
    skipping: bool,
    unread: Unread,
    reckoning: Reckoning,
}

impl Tail {
    /// Takes what was appended; gives what the lines tell that it completes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Finding> {
        let mut found = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.part.len() + line.len() > LONGEST_LINE {
                self.part = Vec::new();
                self.unread.too_long += 1;
            } else if self.part.is_empty() {
                self.read(line, &mut found);
            } else {
                let mut whole = std::mem::take(&mut self.part);
                whole.extend_from_slice(line);
                self.read(&whole, &mut found);
            }
        }
        self.keep(bytes);
        found
    }

    /// Context and cost so far, as a status line would say them.
    pub fn figures(&self) -> Figures {
        self.reckoning.figures()
    }

    /// Counts the tokens of replies since the prompt that was sent then; see [`Tail::turn`].
    pub fn count_since(&mut self, prompted_at: i64) {
        self.reckoning.count_since(prompted_at);
    }

    /// The tokens of the replies since the prompt of [`Tail::count_since`].
    pub fn turn(&self) -> TurnTokens {
        self.reckoning.turn()
    }

    pub fn unread(&self) -> Unread {
        self.unread
    }

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

    fn read(&mut self, line: &[u8], found: &mut Vec<Finding>) {
        match read(line) {
            Ok(None) => {}
            Ok(Some(line)) => {
                let reckoning = &mut self.reckoning;
                line.tell(&mut |finding| found.push(finding), reckoning);
            }
            Err(Broken) => self.unread.broken += 1,
        }
    }
}

struct Broken;

/// A line that may tell something.
struct Line(Value);

/// Most of a transcript's bytes are in lines of other kinds, which are not looked into.
const TELLING: [&str; 4] = ["user", "assistant", "system", "cost-state"];

const INTERRUPTED: &str = "[Request interrupted by user";

/// How the result of a call begins that Claude Code did not start.
const REFUSED: &str = "<tool_use_error>";

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

fn read(line: &[u8]) -> Result<Option<Line>, Broken> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Kind { kind } = serde_json::from_slice(line).map_err(|_| Broken)?;
    if !kind.is_some_and(|kind| TELLING.contains(&&*kind)) {
        return Ok(None);
    }
    let line = serde_json::from_slice(line).map_err(|_| Broken)?;
    Ok(Some(Line(line)))
}

impl Line {
    fn tell(&self, found: &mut impl FnMut(Finding), reckoning: &mut Reckoning) {
        match self.text("type") {
            "user" => self.user(found),
            "assistant" => self.assistant(found, reckoning),
            "system" => self.system(found, reckoning),
            _ => reckoning.take_state(&self.0),
        }
    }

    /// What the person typed has plain text as its content; interrupts and results are blocks.
    fn user(&self, found: &mut impl FnMut(Finding)) {
        let blocks = self.0["message"]["content"].as_array();
        for block in blocks.map_or(&[][..], Vec::as_slice) {
            let what = match block["type"].as_str() {
                Some("text") => interrupt(block),
                Some("tool_result") => self.result(block),
                _ => None,
            };
            if let Some(what) = what {
                found(self.finding(what));
            }
        }
    }

    fn result(&self, block: &Value) -> Option<What> {
        Some(What::ToolResult {
            tool_use_id: block["tool_use_id"].as_str()?.to_owned(),
            is_error: block["is_error"] == true,
            refused: (block["content"].as_str()).is_some_and(|text| text.starts_with(REFUSED)),
            denied: self.0["toolDenialKind"].as_str().map(str::to_owned),
        })
    }

    fn assistant(&self, found: &mut impl FnMut(Finding), reckoning: &mut Reckoning) {
        let message = &self.0["message"];
        if self.0["isApiErrorMessage"] == true {
            let text = message["content"][0]["text"].as_str();
            found(self.finding(What::ApiError {
                error: self.0["error"].as_str().map(str::to_owned),
                text: text.map(str::to_owned),
            }));
            return;
        }
        let blocks = message["content"].as_array();
        for block in blocks.map_or(&[][..], Vec::as_slice) {
            if let (Some("tool_use"), Some(id)) = (block["type"].as_str(), block["id"].as_str()) {
                found(self.finding(What::ToolCall {
                    tool_use_id: id.to_owned(),
                    tool: block["name"].as_str().unwrap_or_default().to_owned(),
                }));
            }
        }
        // A model in angle brackets is the program itself.
        let model = message["model"].as_str().filter(|id| !id.starts_with('<'));
        let (Some(model), Some(tokens)) = (model, tokens(&message["usage"])) else {
            return;
        };
        let id = message["id"].as_str().unwrap_or_default();
        let by = Replied {
            main: self.agent().is_none(),
            at: self.at(),
        };
        if reckoning.reply(id, model, tokens, &by) {
            found(self.finding(What::Usage(Usage {
                model: model.to_owned(),
                input: tokens.input,
                cache_read: tokens.cache_read,
                cache_creation: tokens.cache_5m.saturating_add(tokens.cache_1h),
                output: tokens.output,
            })));
        }
    }

    fn system(&self, found: &mut impl FnMut(Finding), reckoning: &mut Reckoning) {
        match self.text("subtype") {
            "turn_duration" => found(self.finding(What::TurnEnded)),
            "compact_boundary" => {
                let tokens = self.0["compactMetadata"]["postTokens"].as_u64();
                if self.agent().is_none() {
                    reckoning.compacted(tokens);
                }
                found(self.finding(What::Compacted { tokens }));
            }
            _ => {}
        }
    }

    fn finding(&self, what: What) -> Finding {
        Finding {
            at: self.at(),
            agent: self.agent(),
            what,
        }
    }

    /// When it was written: milliseconds since 1970.
    fn at(&self) -> Option<i64> {
        let at = self.text("timestamp").parse::<jiff::Timestamp>();
        at.ok().map(jiff::Timestamp::as_millisecond)
    }

    /// Older versions have a subagent's lines in its parent's file, marked but without its id.
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

fn interrupt(block: &Value) -> Option<What> {
    let rest = block["text"].as_str()?.strip_prefix(INTERRUPTED)?;
    let for_tool = rest.strip_suffix(']')?.contains("tool");
    Some(What::Interrupted { for_tool })
}

/// None where there is no usage at all. What was written to the cache counts as kept for five
/// minutes where nothing says otherwise.
fn tokens(usage: &Value) -> Option<Tokens> {
    let count = |field: &str| usage[field].as_u64().unwrap_or(0);
    let written = count("cache_creation_input_tokens");
    let hour = &usage["cache_creation"]["ephemeral_1h_input_tokens"];
    let hour = hour.as_u64().unwrap_or(0).min(written);
    usage.is_object().then(|| Tokens {
        input: count("input_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_5m: written - hour,
        cache_1h: hour,
        output: count("output_tokens"),
    })
}

/// Replies whose further lines may still come: those of the main agent and of its subagents
/// stand among each other.
const OPEN_REPLIES: usize = 64;

#[derive(Debug, Clone, Default)]
struct Reckoning {
    /// The newest replies: message, tokens, cost.
    open: VecDeque<(String, Tokens, f64)>,
    cost: f64,
    /// A model without a price has replied.
    unknown_cost: bool,
    /// The main agent's model, and what its window holds.
    model: Option<String>,
    context: Option<u64>,
    /// What only Claude Code's own account says.
    state: State,
    turn: TurnTokens,
}

/// The tokens of the main agent's replies since the prompt of a turn. Those of subagents are in
/// transcripts of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnTokens {
    /// When the prompt was sent: milliseconds since 1970.
    pub since: i64,
    /// What the model read, from the cache or not.
    pub input: u64,
    pub output: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    lines_added: Option<u64>,
    lines_removed: Option<u64>,
    duration_ms: Option<u64>,
    api_duration_ms: Option<u64>,
}

/// Who replied, and when.
#[derive(Debug, Clone, Copy)]
struct Replied {
    main: bool,
    at: Option<i64>,
}

impl TurnTokens {
    /// Counts what a reply has used, of which `before` is counted.
    fn add(&mut self, before: Tokens, now: Tokens, by: &Replied) {
        if by.main && by.at.is_some_and(|at| at >= self.since) {
            self.input += now.context().saturating_sub(before.context());
            self.output += now.output.saturating_sub(before.output);
        }
    }
}

impl Reckoning {
    /// Takes one line of a reply; whether it says something new.
    fn reply(&mut self, id: &str, model: &str, tokens: Tokens, by: &Replied) -> bool {
        if by.main {
            self.model = Some(model.to_owned());
            // A reply that broke off at once says nothing of the window.
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
            self.turn.add(before, tokens, by);
            return true;
        }
        self.cost += cost;
        self.turn.add(Tokens::default(), tokens, by);
        if self.open.len() == OPEN_REPLIES {
            self.open.pop_front();
        }
        self.open.push_back((id.to_owned(), tokens, cost));
        true
    }

    /// From here on the tokens of replies since then are counted, anew if that is another turn.
    fn count_since(&mut self, since: i64) {
        if self.turn.since != since {
            self.turn = TurnTokens {
                since,
                ..TurnTokens::default()
            };
        }
    }

    fn turn(&self) -> TurnTokens {
        self.turn
    }

    fn compacted(&mut self, tokens: Option<u64>) {
        self.context = tokens;
    }

    /// Claude Code's own account, which it leaves at its end and takes up again on resume. It
    /// holds subagents and side requests too.
    fn take_state(&mut self, line: &Value) {
        if let Some(total) = line["totalCostUSD"].as_f64() {
            self.cost = total;
            self.unknown_cost = line["hasUnknownModelCost"] == true;
            self.open.clear();
        }
        let count = |field: &str| line[field].as_u64();
        self.state = State {
            lines_added: count("totalLinesAdded"),
            lines_removed: count("totalLinesRemoved"),
            duration_ms: count("totalDuration"),
            api_duration_ms: count("totalAPIDuration"),
        };
    }

    fn figures(&self) -> Figures {
        let size = self.model.as_deref().map(price::window);
        let share = |(tokens, size): (u64, u64)| tokens as f64 * 100.0 / size as f64;
        Figures {
            context_pct: self.context.zip(size).map(share),
            context_tokens: self.context,
            context_size: size,
            cost_usd: (!self.unknown_cost).then_some(self.cost),
            lines_added: self.state.lines_added,
            lines_removed: self.state.lines_removed,
            duration_ms: self.state.duration_ms,
            api_duration_ms: self.state.api_duration_ms,
            model_id: self.model.clone(),
            model_name: None,
            from_transcript: true,
        }
    }
}
