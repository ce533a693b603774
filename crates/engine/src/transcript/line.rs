//! One line of a transcript: which of its many kinds tell something, and what.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::reckon::{Reckoning, Replied};
use super::{Finding, Usage, What};
use crate::price::Tokens;

pub(super) struct Broken;

/// A line that may tell something.
pub(super) struct Line(Value);

/// Most of a transcript's bytes are in lines of other kinds, which are not looked into.
const TELLING: [&str; 4] = ["user", "assistant", "system", "cost-state"];

const INTERRUPTED: &str = "[Request interrupted by user";

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

pub(super) fn read(line: &[u8]) -> Result<Option<Line>, Broken> {
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
    pub(super) fn tell(&self, found: &mut impl FnMut(Finding), reckoning: &mut Reckoning) {
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
