//! The server's threads: one that accepts, one for each connection.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::turn::{Pause, Reply, Turn, Usage};
use super::{Shared, turn};

pub(super) fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.state().over {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // A broken connection is normal for the client (an interrupt), not an error of the test.
        std::thread::spawn(move || drop(converse(&stream, &shared)));
    }
}

fn converse(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(incoming) = Incoming::read(&mut reader)? {
        let with_body = incoming.method != "HEAD";
        match answer(incoming, shared) {
            (Some(outgoing), None) => outgoing.write(&mut &*stream, with_body, 0)?,
            (Some(outgoing), Some(gate)) => halfway(&outgoing, &gate, stream, shared)?,
            (None, _) => return stream.shutdown(std::net::Shutdown::Both),
        }
    }
    Ok(())
}

/// Sends all words of a reply, and its end once the gate is open.
fn halfway(
    outgoing: &Outgoing,
    gate: &str,
    mut stream: &TcpStream,
    shared: &Shared,
) -> io::Result<()> {
    let body = &outgoing.body;
    let end = String::from_utf8_lossy(body).rfind("event: content_block_stop");
    let rest = end.map_or(0, |end| body.len() - end);
    outgoing.write(&mut stream, true, rest)?;
    shared.wait_gate(gate);
    stream.write_all(&body[body.len() - rest..])?;
    stream.flush()
}

/// Returns the reply and the gate that stops it halfway.
fn answer(incoming: Incoming, shared: &Shared) -> (Option<Outgoing>, Option<String>) {
    let size = incoming.body.len();
    let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    let path = incoming
        .path
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    if path.ends_with("/count_tokens") {
        keep(incoming, body, RequestKind::CountTokens, shared);
        let counted = json!({"input_tokens": (size / 4).max(1)});
        return (Some(json_reply(200, &counted)), None);
    }
    if incoming.method != "POST" || !path.ends_with("/v1/messages") {
        keep(incoming, body, RequestKind::Other, shared);
        let nothing = json!({"data": [], "has_more": false});
        return (Some(json_reply(200, &nothing)), None);
    }
    let (kind, turn, usage) = {
        let script = &mut shared.state().script;
        let (kind, turn) = script.choose(&body);
        let usage = script.usage_of(&turn);
        (kind, turn, usage)
    };
    let model = body["model"].as_str().unwrap_or("scripted").to_owned();
    let streams = body["stream"] == true;
    keep(incoming, body, kind, shared);
    wait(&turn, shared);
    (reply(&turn, &model, usage, streams), turn.halfway)
}

fn keep(incoming: Incoming, body: Value, kind: RequestKind, shared: &Shared) {
    let mut headers = incoming.headers;
    headers.retain(|(name, _)| name != "x-api-key" && name != "authorization");
    shared.state().requests.push(Request {
        method: incoming.method,
        path: incoming.path,
        headers,
        body,
        kind,
    });
    shared.changed.notify_all();
}

fn wait(turn: &Turn, shared: &Shared) {
    for pause in &turn.pauses {
        match pause {
            Pause::Gate(name) => shared.wait_gate(name),
            Pause::Millis(millis) => shared.pause(Duration::from_millis(*millis)),
        }
    }
}

fn reply(turn: &Turn, model: &str, usage: Usage, streams: bool) -> Option<Outgoing> {
    let blocks = match &turn.reply {
        Reply::HangUp => return None,
        Reply::Error(failure) => {
            let mut reply = json_reply(failure.status, &turn::failure(failure));
            reply.headers.clone_from(&failure.headers);
            return Some(reply);
        }
        Reply::Blocks(blocks) => blocks,
    };
    let message = turn::message(model, blocks, usage);
    if !streams {
        return Some(json_reply(200, &message));
    }
    Some(Outgoing {
        status: 200,
        content_type: "text/event-stream",
        request_id: turn::id("req"),
        headers: Vec::new(),
        body: turn::stream(&message).into_bytes(),
    })
}

fn json_reply(status: u16, body: &Value) -> Outgoing {
    Outgoing {
        status,
        content_type: "application/json",
        request_id: turn::id("req"),
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
    }
}

/// The largest accepted request: larger than any conversation of a test.
const MOST: usize = 256 << 20;

/// A request as received.
#[derive(Debug)]
pub(super) struct Incoming {
    pub method: String,
    pub path: String,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Incoming {
    /// Reads the next request of this connection; `None` at its end.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let first = line(from)?;
        let mut words = first.split_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut incoming = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers(from)?,
            body: Vec::new(),
        };
        incoming.body = incoming.read_body(from)?;
        Ok(Some(incoming))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn read_body(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        if self
            .header("transfer-encoding")
            .is_some_and(|how| how.contains("chunked"))
        {
            return chunks(from);
        }
        let length = self.header("content-length").unwrap_or("0");
        exactly(from, length.parse().map_err(io::Error::other)?)
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(1 << 20).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn headers(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = line(from)?;
        if line.is_empty() {
            return Ok(headers);
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
}

fn exactly(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > MOST {
        return Err(io::Error::other("request body above the bound"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        if body.len() + size > MOST {
            return Err(io::Error::other("request body above the bound"));
        }
        body.extend(exactly(from, size)?);
        line(from)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// A response to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub status: u16,
    pub content_type: &'static str,
    pub request_id: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Outgoing {
    /// Writes the response without the last `rest` bytes of the body.
    pub fn write(&self, to: &mut impl Write, with_body: bool, rest: usize) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} Scripted\r\ncontent-type: {}\r\ncontent-length: {}\r\nrequest-id: {}\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            self.request_id,
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if with_body {
            bytes.extend_from_slice(&self.body[..self.body.len() - rest]);
        }
        to.write_all(&bytes)?;
        to.flush()
    }
}

/// One request as received (without the key).
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub kind: RequestKind,
}

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// A turn of the script: its prompt and the number of replies before.
    Turn {
        prompt: String,
        replies: usize,
    },
    /// The script had no more turns for this conversation; the answer was "done".
    PastTheEnd,
    Compaction,
    /// A title, a summary, a probe: anything without a rule.
    Side,
    CountTokens,
    Other,
}

/// The result of a tool call, as sent to the model.
#[derive(Debug, Clone)]
pub struct ToolResult {
    pub id: String,
    pub text: String,
    pub is_error: bool,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn system(&self) -> String {
        text_of(&self.body["system"])
    }

    /// Returns the names of the tools in the request.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }

    /// Returns true if a message, a tool result or the system prompt contains `text`.
    pub fn contains(&self, text: &str) -> bool {
        any_string(&self.body, &|string| string.contains(text))
    }

    /// Returns the tool results for the last reply, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let messages = self.messages();
        let last_reply = messages.iter().rposition(|m| m["role"] == "assistant");
        let newer = &messages[last_reply.map_or(0, |at| at + 1)..];
        let blocks = newer
            .iter()
            .filter_map(|m| m["content"].as_array())
            .flatten();
        blocks.filter_map(ToolResult::of).collect()
    }

    /// Formats one line for a failure message.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} {} {:?}", self.method, self.path, self.kind);
        if !self.model().is_empty() {
            let _ = write!(line, " model {}", self.model());
            let _ = write!(line, " messages {}", self.messages().len());
        }
        for result in self.tool_results() {
            let text: String = result.text.chars().take(200).collect();
            let _ = write!(line, "\n      result {text:?} error {}", result.is_error);
        }
        line
    }
}

impl ToolResult {
    fn of(block: &Value) -> Option<Self> {
        (block["type"] == "tool_result").then(|| Self {
            id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
            text: text_of(&block["content"]),
            is_error: block["is_error"] == true,
        })
    }
}

/// Returns the text of a message or system prompt, which may be a string or a list of blocks.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn any_string(value: &Value, fits: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(string) => fits(string),
        Value::Array(items) => items.iter().any(|item| any_string(item, fits)),
        Value::Object(fields) => fields.values().any(|field| any_string(field, fits)),
        _ => false,
    }
}
