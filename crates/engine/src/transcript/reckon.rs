//! Context and cost, summed up over a transcript.

use std::collections::VecDeque;

use becket_wire::session::Figures;
use serde_json::Value;

use crate::price::{self, Tokens};

/// Replies whose further lines may still come: those of the main agent and of its subagents
/// stand among each other.
const OPEN_REPLIES: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Reckoning {
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
pub(super) struct Replied {
    pub(super) main: bool,
    pub(super) at: Option<i64>,
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
    pub(super) fn reply(&mut self, id: &str, model: &str, tokens: Tokens, by: &Replied) -> bool {
        if by.main {
            self.model = Some(model.to_owned());
            self.context = Some(tokens.context());
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
    pub(super) fn count_since(&mut self, since: i64) {
        if self.turn.since != since {
            self.turn = TurnTokens {
                since,
                ..TurnTokens::default()
            };
        }
    }

    pub(super) fn turn(&self) -> TurnTokens {
        self.turn
    }

    pub(super) fn compacted(&mut self, tokens: Option<u64>) {
        self.context = tokens;
    }

    /// Claude Code's own account, which it leaves at its end and takes up again on resume. It
    /// holds subagents and side requests too.
    pub(super) fn take_state(&mut self, line: &Value) {
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

    pub(super) fn figures(&self) -> Figures {
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
