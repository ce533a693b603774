//! The script, and how the turn for one request is chosen. It depends on nothing but the
//! conversation in the request, so it survives resume, compaction, stop hooks that add
//! messages, and subagents, whose prompt opens a conversation of their own.

use serde_json::Value;

use super::Model;
use super::serve::{Kind, text_of};
use super::turn::{Reply, Turn, Usage, say};

/// What the model does for which prompt.
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
    /// For a conversation whose newest known user text contains `prompt`.
    pub fn on(prompt: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            system: String::new(),
            model: String::new(),
            side: false,
            turns: Vec::new(),
        }
    }

    /// Only when the system prompt contains this.
    #[must_use]
    pub fn system(mut self, part: &str) -> Self {
        part.clone_into(&mut self.system);
        self
    }

    /// Only when the model's id contains this.
    #[must_use]
    pub fn model(mut self, part: &str) -> Self {
        part.clone_into(&mut self.model);
        self
    }

    /// For requests without tools (titles, summaries, prompt hooks), which rules else leave alone.
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

    /// Where the prompt stands in `text`, if this rule is for such a request at all.
    fn at(&self, text: &str, about: &About) -> Option<usize> {
        let for_it = self.side != about.tools
            && about.system.contains(&self.system)
            && about.model.contains(&self.model);
        for_it.then(|| text.rfind(&self.prompt)).flatten()
    }

    /// The turn after so many replies. A failure is no reply: it is passed over once it has
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

/// What a rule looks at besides the prompt.
struct About {
    system: String,
    model: String,
    tools: bool,
}

impl About {
    fn of(body: &Value) -> Self {
        Self {
            system: text_of(&body["system"]),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            tools: body["tools"].as_array().is_some_and(|t| !t.is_empty()),
        }
    }
}

impl Script {
    /// The model's turns for a prompt that contains `prompt`.
    #[must_use]
    pub fn on(self, prompt: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.rule(Rule::on(prompt).turns(turns))
    }

    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.push(rule);
        self
    }

    /// What every turn says it has used, unless it says so itself.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input, output };
        self
    }

    /// The text for side requests that no rule is for.
    #[must_use]
    pub fn side(mut self, text: &str) -> Self {
        self.side = Some(text.to_owned());
        self
    }

    /// The summary that compaction gets.
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

    /// What this request is, and the turn it gets.
    pub(super) fn choose(&mut self, body: &Value) -> (Kind, Turn) {
        if asks_for_summary(body) {
            return (Kind::Compaction, say(self.summary_text()));
        }
        let about = About::of(body);
        let Some((rule, replies)) = self.find(body, &about) else {
            return (Kind::Side, say(self.side_text(&about)));
        };
        let rule = &mut self.rules[rule];
        match rule.turn(replies) {
            Some(turn) => {
                let prompt = rule.prompt.clone();
                (Kind::Turn { prompt, replies }, turn)
            }
            None => (Kind::PastTheEnd, say("done")),
        }
    }

    /// The rule whose prompt is the newest in the conversation, and the replies since then.
    fn find(&self, body: &Value, about: &About) -> Option<(usize, usize)> {
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

    /// Claude Code may put several user texts into one message: the last one counts.
    fn newest(&self, text: &str, about: &About) -> Option<usize> {
        let found = self.rules.iter().enumerate();
        let found = found.filter_map(|(index, rule)| Some((rule.at(text, about)?, index)));
        // Of two rules for the same place the first one wins, as in a reading person's eyes.
        found
            .max_by_key(|(at, index)| (*at, usize::MAX - index))
            .map(|(_, index)| index)
    }

    fn summary_text(&self) -> String {
        let summary = self.summary.as_deref();
        let summary = summary.unwrap_or("A summary by the scripted model.");
        format!("<analysis>short</analysis>\n<summary>{summary}</summary>")
    }

    fn side_text(&self, about: &About) -> String {
        match &self.side {
            Some(text) => text.clone(),
            None if about.system.to_lowercase().contains("title") => {
                r#"{"title": "A scripted title"}"#.to_owned()
            }
            None => "ok".to_owned(),
        }
    }
}

/// Compaction is an ordinary request whose last user text asks for a summary.
fn asks_for_summary(body: &Value) -> bool {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let last = messages.iter().rev().find(|m| m["role"] == "user");
    let text = last.map(|m| text_of(&m["content"])).unwrap_or_default();
    text.contains("<summary>") && text.contains("<analysis>")
}
