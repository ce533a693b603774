//! The turns of the model, in words for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// One reply of the model: an optional pause, then text, a tool call or a failure.
#[derive(Debug, Clone)]
pub struct Turn {
    pub(super) pauses: Vec<Pause>,
    pub(super) reply: Reply,
    pub(super) usage: Option<Usage>,
    /// The gate that holds back the end of the reply.
    pub(super) halfway: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) enum Reply {
    Blocks(Vec<Block>),
    Error(Failure),
    /// The connection ends without a reply.
    HangUp,
}

#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub status: u16,
    pub kind: String,
    pub message: String,
    /// The number of failures before the next turn; 0 fails always.
    pub times: usize,
    pub seen: usize,
    pub headers: Vec<(String, String)>,
}

/// A placeholder that is sent as one half of a surrogate pair, which no Rust text can hold.
pub const HALF_EMOJI: char = '\u{e000}';

/// One block of a reply.
#[derive(Debug, Clone)]
pub enum Block {
    Text(String),
    Tool { name: String, input: Value },
}

/// The event or time that a reply waits for.
#[derive(Debug, Clone)]
pub enum Pause {
    Gate(String),
    Millis(u64),
}

/// The token usage that a reply reports; auto compaction depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 1200,
            output: 30,
        }
    }
}

impl From<Block> for Turn {
    fn from(block: Block) -> Self {
        Self::of(Reply::Blocks(vec![block]))
    }
}

impl Turn {
    fn of(reply: Reply) -> Self {
        Self {
            pauses: Vec::new(),
            reply,
            usage: None,
            halfway: None,
        }
    }

    /// Holds back the end of the reply until the test opens this gate.
    #[must_use]
    pub fn halfway(mut self, gate: &str) -> Self {
        self.halfway = Some(gate.to_owned());
        self
    }

    /// Sets the usage that this turn reports.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Usage { input, output });
        self
    }

    /// Repeats an error so many times before the next turn.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        if let Reply::Error(failure) = &mut self.reply {
            failure.times = times;
        }
        self
    }

    /// Sends this header with an error.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Reply::Error(failure) = &mut self.reply {
            failure.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

impl Pause {
    /// Returns `turn` with this pause before it.
    #[must_use]
    pub fn then(self, turn: Turn) -> Turn {
        let mut turn = turn;
        turn.pauses.insert(0, self);
        turn
    }
}

/// Returns a turn in which the model says `text`.
pub fn say(text: impl Into<String>) -> Turn {
    Block::Text(text.into()).into()
}

/// Returns a turn in which the model calls a tool.
pub fn tool(name: &str, input: Value) -> Turn {
    Block::Tool {
        name: name.to_owned(),
        input,
    }
    .into()
}

/// Returns a turn in which the model runs a shell command.
pub fn bash(command: &str) -> Turn {
    tool(
        "Bash",
        json!({"command": command, "description": "run a command"}),
    )
}

/// Returns a turn in which the model writes a file.
pub fn write(path: impl AsRef<std::path::Path>, content: &str) -> Turn {
    tool(
        "Write",
        json!({"file_path": path.as_ref(), "content": content}),
    )
}

/// Returns a turn in which the model starts a subagent and waits for it.
pub fn agent(kind: &str, prompt: &str) -> Turn {
    tool("Agent", agent_input(kind, prompt, false))
}

/// Returns a turn in which the model starts a subagent in the background.
pub fn behind(kind: &str, prompt: &str) -> Turn {
    tool("Agent", agent_input(kind, prompt, true))
}

fn agent_input(kind: &str, prompt: &str, background: bool) -> Value {
    json!({
        "description": "a piece of work",
        "prompt": prompt,
        "subagent_type": kind,
        "run_in_background": background,
    })
}

/// Joins several turns into one reply: parallel tools, text before a tool.
pub fn tools(turns: impl IntoIterator<Item = Turn>) -> Turn {
    let mut all = Turn::of(Reply::Blocks(Vec::new()));
    for turn in turns {
        let (Reply::Blocks(blocks), Reply::Blocks(more)) = (&mut all.reply, turn.reply) else {
            panic!("only text and tools can be put into one reply");
        };
        blocks.extend(more);
        all.pauses.extend(turn.pauses);
        all.usage = turn.usage.or(all.usage);
        all.halfway = turn.halfway.or(all.halfway);
    }
    all
}

/// Returns a turn that fails with an HTTP status, an error type of the API and a message. It fails always,
/// unless `times` limits it.
pub fn error(status: u16, kind: &str, message: &str) -> Turn {
    Turn::of(Reply::Error(Failure {
        status,
        kind: kind.to_owned(),
        message: message.to_owned(),
        times: 0,
        seen: 0,
        headers: Vec::new(),
    }))
}

/// Returns a turn in which the connection breaks before the first byte.
pub fn hang_up() -> Turn {
    Turn::of(Reply::HangUp)
}

/// Returns a pause until the test opens this gate.
pub fn gate(name: &str) -> Pause {
    Pause::Gate(name.to_owned())
}

/// Returns a pause of so many milliseconds.
pub fn pause(millis: u64) -> Pause {
    Pause::Millis(millis)
}

/// The next id. Ids are unique over all models of the process, because a resumed session may use a second
/// model.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) fn id(prefix: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_scripted{:x}{number:06}", std::process::id())
}

pub(super) fn failure(failure: &Failure) -> Value {
    json!({
        "type": "error",
        "error": {"type": failure.kind, "message": failure.message},
    })
}

pub(super) fn message(model: &str, blocks: &[Block], usage: Usage) -> Value {
    let asks = blocks.iter().any(|b| matches!(b, Block::Tool { .. }));
    json!({
        "id": id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks.iter().map(content).collect::<Vec<Value>>(),
        "stop_reason": if asks { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    })
}

fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Tool { name, input } => {
            json!({"type": "tool_use", "id": id("toolu"), "name": name, "input": input})
        }
    }
}

/// Formats `message` as server-sent events.
pub(super) fn stream(message: &Value) -> String {
    let mut events = vec![json!({"type": "message_start", "message": opening(message)})];
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = begin(block);
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": null},
        "usage": {"output_tokens": message["usage"]["output_tokens"]},
    }));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(event).collect()
}

fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// Returns the message of the first event: without content, with almost no usage.
fn opening(message: &Value) -> Value {
    let mut opening = message.clone();
    opening["content"] = json!([]);
    opening["stop_reason"] = Value::Null;
    opening["usage"]["output_tokens"] = json!(1);
    opening
}

/// Returns the start of a block and the one delta that fills it.
fn begin(block: &Value) -> (Value, Value) {
    let mut start = block.clone();
    if block["type"] == "text" {
        start["text"] = json!("");
        let delta = json!({"type": "text_delta", "text": block["text"]});
        return (start, delta);
    }
    start["input"] = json!({});
    let input = block["input"].to_string().replace(HALF_EMOJI, r"\ud83d");
    let delta = json!({"type": "input_json_delta", "partial_json": input});
    (start, delta)
}
