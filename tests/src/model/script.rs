//! The script of the model and the choice of the turn for one request. The choice depends only on the
//! conversation in the request, so it survives resume, compaction, stop hooks that add messages, and
//! subagents, whose prompt opens a conversation of their own.

use serde_json::Value;

use super::Model;
use super::serve::{RequestKind, text_of};
use super::turn::{Reply, Turn, Usage, say};

/// The turns of the model by prompt.
#[derive(Debug, Clone, Default)]
pub struct Script {
    rules: Vec<Rule>,
    usage: Usage,
    side: Option<String>,
    summary: Option<String>,
}

/// The turns for one prompt.
#[derive(Debug, Clone)]
pub struct Rule {
    prompt: String,
    system: String,
    model: String,
    side: bool,
    turns: Vec<Turn>,
}

impl Rule {
    /// Creates a rule for conversations whose newest known user text contains `prompt`.
    pub fn on(prompt: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            system: String::new(),
            model: String::new(),
            side: false,
            turns: Vec::new(),
        }
    }

    /// Restricts the rule to requests whose system prompt contains `part`.
    #[must_use]
    pub fn system(mut self, part: &str) -> Self {
        part.clone_into(&mut self.system);
        self
    }

    /// Restricts the rule to models whose id contains `part`.
    #[must_use]
    pub fn model(mut self, part: &str) -> Self {
        part.clone_into(&mut self.model);
        self
    }

    /// Makes the rule answer requests without tools (titles, summaries, prompt hooks), which rules
    /// otherwise ignore.
    #[must_use]
    pub fn side(mut self) -> Self {
        self.side = true;
        self
    }

    #[must_use]
    pub fn turns(mut self, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.turns.extend(turns);
        self
    }

    /// Returns the position of the prompt in `text` if this rule applies to the request.
    fn at(&self, text: &str, about: &RequestTraits) -> Option<usize> {
        let for_it = self.side != about.tools
            && about.system.contains(&self.system)
            && about.model.contains(&self.model);
        for_it.then(|| text.rfind(&self.prompt)).flatten()
    }

    /// Returns the turn after `replies` replies. A failure is not a reply: it is skipped once it has
    /// happened as often as it should.
    fn turn(&mut self, mut replies: usize) -> Option<Turn> {
        for turn in &mut self.turns {
            if let Reply::Error(failure) = &mut turn.reply {
                let spent = failure.times > 0 && failure.seen >= failure.times;
                if replies > 0 || spent {
                    continue;
                }
                failure.seen += 1;
                return Some(turn.clone());
            }
            if replies == 0 {
                return Some(turn.clone());
            }
            replies -= 1;
        }
        None
    }
}

/// The properties of a request that a rule checks besides the prompt.
struct RequestTraits {
    system: String,
    model: String,
    tools: bool,
}

impl RequestTraits {
    fn of(body: &Value) -> Self {
        Self {
            system: text_of(&body["system"]),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            tools: body["tools"].as_array().is_some_and(|t| !t.is_empty()),
        }
    }
}

impl Script {
    /// Adds the turns for a prompt that contains `prompt`.
    #[must_use]
    pub fn on(self, prompt: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.rule(Rule::on(prompt).turns(turns))
    }

    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.push(rule);
        self
    }

    /// Sets the usage of turns that set none.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input, output };
        self
    }

    /// Sets the text for side requests without a rule.
    #[must_use]
    pub fn side(mut self, text: &str) -> Self {
        self.side = Some(text.to_owned());
        self
    }

    /// Sets the summary of a compaction.
    #[must_use]
    pub fn summary(mut self, text: &str) -> Self {
        self.summary = Some(text.to_owned());
        self
    }

    /// Starts a model with this script.
    pub fn start(self) -> Model {
        Model::start(self)
    }

    pub(super) fn push(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(super) fn usage_of(&self, turn: &Turn) -> Usage {
        turn.usage.unwrap_or(self.usage)
    }

    /// Classifies a request and chooses its turn.
    pub(super) fn choose(&mut self, body: &Value) -> (RequestKind, Turn) {
        if asks_for_summary(body) {
            return (RequestKind::Compaction, say(self.summary_text()));
        }
        let about = RequestTraits::of(body);
        let Some((rule, replies)) = self.find(body, &about) else {
            return (RequestKind::Side, say(self.side_text(&about)));
        };
        let rule = &mut self.rules[rule];
        match rule.turn(replies) {
            Some(turn) => {
                let prompt = rule.prompt.clone();
                (RequestKind::Turn { prompt, replies }, turn)
            }
            None => (RequestKind::PastTheEnd, say("done")),
        }
    }

    /// Finds the rule whose prompt is the newest in the conversation, and counts the replies since.
    fn find(&self, body: &Value, about: &RequestTraits) -> Option<(usize, usize)> {
        let mut replies = 0;
        for message in body["messages"].as_array()?.iter().rev() {
            match message["role"].as_str() {
                Some("assistant") => replies += 1,
                Some("user") => {
                    let text = text_of(&message["content"]);
                    if let Some(rule) = self.newest(&text, about) {
                        return Some((rule, replies));
                    }
                }
                // Newer models get hook context as messages of the role `system`.
                _ => {}
            }
        }
        None
    }

    /// Finds the last known user text, since Claude Code may put several into one message.
    fn newest(&self, text: &str, about: &RequestTraits) -> Option<usize> {
        let found = self.rules.iter().enumerate();
        let found = found.filter_map(|(index, rule)| Some((rule.at(text, about)?, index)));
        // Of two rules for the same position the first one wins.
        found
            .max_by_key(|(at, index)| (*at, usize::MAX - index))
            .map(|(_, index)| index)
    }

    fn summary_text(&self) -> String {
        let summary = self.summary.as_deref();
        let summary = summary.unwrap_or("A summary by the scripted model.");
        format!("<analysis>short</analysis>\n<summary>{summary}</summary>")
    }

    fn side_text(&self, about: &RequestTraits) -> String {
        match &self.side {
            Some(text) => text.clone(),
            None if about.system.to_lowercase().contains("title") => {
                r#"{"title": "A scripted title"}"#.to_owned()
            }
            None => "ok".to_owned(),
        }
    }
}

/// Returns true for a compaction: an ordinary request whose last user text asks for a summary.
fn asks_for_summary(body: &Value) -> bool {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let last = messages.iter().rev().find(|m| m["role"] == "user");
    let text = last.map(|m| text_of(&m["content"])).unwrap_or_default();
    text.contains("<summary>") && text.contains("<analysis>")
}
