//! The task that reads Claude Code's stdout: it answers requests, matches answers to the SDK's own
//! requests, and delivers messages. Nothing else reads there.

use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::parse_json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep_until};

use super::writer::Reply;
use super::{Connection, Exit, RequestResult};
use crate::hooks::service::{CallLimits, Service};
use crate::process::{Line, Lines, MessageOutline};
use crate::{Error, Message};

/// The longest time that the rest of the output is read after the process has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The fields of a frame that decide its handling. A frame is one line with a JSON object.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request_id: Option<Cow<'a, str>>,
    /// The body of a control request.
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
    /// The body of a control response.
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

/// The subtype of a control request's body.
#[derive(Deserialize)]
struct RequestSubtype {
    subtype: String,
}

/// The body of a control response.
#[derive(Deserialize)]
struct Response {
    subtype: String,
    request_id: String,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    error: String,
}

impl Response {
    fn into_result(self) -> RequestResult {
        match self.subtype.as_str() {
            "error" => Err(self.error),
            _ => Ok(self.response),
        }
    }
}

impl Connection {
    /// Starts reading. Reads until the output ends, the client is dropped, or the process has ended (a
    /// grandchild may hold its output open). Then waits for `exit` and ends the conversation.
    pub(crate) fn read_from(
        self: &Arc<Self>,
        output: impl AsyncRead + Send + Unpin + 'static,
        max_message: usize,
        ended: impl Future<Output = ()> + Send + 'static,
        exit: impl Future<Output = Exit> + Send + 'static,
    ) {
        let connection = Arc::clone(self);
        let lines = Lines::new(output, max_message);
        tokio::spawn(async move {
            connection.read_lines(lines, max_message, ended).await;
            connection.end(exit.await);
        });
    }

    async fn read_lines(
        self: &Arc<Self>,
        mut lines: Lines<impl AsyncRead + Unpin>,
        max_message: usize,
        ended: impl Future<Output = ()>,
    ) {
        tokio::pin!(ended);
        let mut drained: Option<Instant> = None;
        loop {
            tokio::select! {
                line = lines.next() => match line {
                    Some(line) => self.take_line(line, max_message),
                    None => return,
                },
                () = self.client.cancelled() => return,
                () = &mut ended, if drained.is_none() => drained = Some(Instant::now() + DRAIN),
                () = sleep_until(drained.unwrap_or_else(Instant::now)), if drained.is_some() => return,
            }
        }
    }

    fn take_line(self: &Arc<Self>, line: Line<'_>, max_message: usize) {
        match line {
            Line::Whole(bytes) => {
                if let Err(error) = self.take_frame(bytes) {
                    self.deliver(Err(error), bytes.len());
                }
            }
            Line::TooLong(outline) => self.take_too_long(outline, max_message),
            Line::Cut { bytes } => self.deliver(Err(Error::Cut { bytes }), 0),
        }
    }

    fn take_frame(self: &Arc<Self>, bytes: &[u8]) -> Result<(), Error> {
        let Ok(frame) = serde_json::from_slice::<Frame<'_>>(bytes) else {
            self.skip_line(&start_of_line(bytes));
            return Ok(());
        };
        let id = frame.request_id.unwrap_or_default();
        match &*frame.kind {
            "control_request" => {
                let body = frame.request.map_or("null", |body| body.get());
                self.answer_request(id.into_owned(), body.to_owned());
            }
            "control_response" => {
                let body = frame.response.map_or("null", |body| body.get());
                let response: Response = parse(body.as_bytes(), &frame.kind)?;
                let id = response.request_id.clone();
                self.requests.answer(&id, response.into_result());
            }
            "control_cancel_request" => self.service.in_flight.cancel(&id),
            kind => self.take_message(parse(bytes, kind)?, bytes.len()),
        }
        Ok(())
    }

    /// Answers a request in a task of its own, unless it is cancelled first.
    fn answer_request(self: &Arc<Self>, id: String, body: String) {
        let limits = self.service.call_limits();
        self.service.in_flight.begin(&id, limits.token.clone());
        let connection = Arc::clone(self);
        tokio::spawn(async move {
            let service = &connection.service;
            let reply = answer(service, &body, limits).await;
            let frame = reply.unwrap_or_else(|invalid| invalid).into_frame(&id);
            (service.in_flight).finish(&id, || connection.writer.send(&frame));
        });
    }

    fn take_message(&self, json: Value, size: usize) {
        let message = Message::read(json);
        if let Message::System(init) = &message
            && init.subtype() == "init"
        {
            self.service.set_session(init.json());
            if self.inbox.lock().has_started() && self.early_interrupt.take() {
                self.send_interrupt();
            }
        }
        self.deliver(Ok(message), size);
    }

    /// Reports a message that is too long to be read. A request is answered with an error, because Claude
    /// Code waits for an answer.
    fn take_too_long(&self, outline: MessageOutline, max_message: usize) {
        let kind = outline.kind;
        if kind.is_empty() {
            return self.skip_line("it is longer than a message may be");
        }
        if kind == "control_request" {
            let text = format!("request_too_long: it is longer than {max_message} bytes");
            let frame = Reply::Error(text).into_frame(&outline.request_id);
            self.writer.send(&frame);
        }
        let bound = max_message;
        self.deliver(Err(Error::TooLong { bound, kind }), 0);
    }
}

/// Answers a request of Claude Code, given its body. A new subtype is a new arm here. The error is the reply to
/// a body that cannot be read.
async fn answer(service: &Service, body: &str, limits: CallLimits) -> Result<Reply, Reply> {
    let RequestSubtype { subtype } = read_body(body)?;
    Ok(match &*subtype {
        "hook_callback" => service.hook_callback(read_body(body)?, limits).await,
        "can_use_tool" => service.can_use_tool(read_body(body)?, limits).await,
        _ => Reply::Error(format!(
            "unknown_subtype: this client does not know {subtype}"
        )),
    })
}

/// Reads the body of a request. Claude Code may cut a string inside a character: `parse_json` repairs
/// that.
fn read_body<T: DeserializeOwned>(body: &str) -> Result<T, Reply> {
    serde_json::from_str(body).or_else(|first| {
        let repaired = parse_json(body.as_bytes()).map_err(invalid_request)?;
        serde_json::from_value(repaired).map_err(|_| invalid_request(first))
    })
}

fn invalid_request(error: impl Display) -> Reply {
    Reply::Error(format!("invalid_request: {error}"))
}

/// Parses JSON. Repairs a string that Claude Code cut inside a character.
fn parse<T: DeserializeOwned>(json: &[u8], kind: &str) -> Result<T, Error> {
    let value = parse_json(json).map_err(|error| not_json(error, json, kind))?;
    serde_json::from_value(value).map_err(|error| not_json(error, json, kind))
}

fn not_json(error: impl Display, json: &[u8], kind: &str) -> Error {
    Error::NotJson {
        why: error.to_string(),
        kind: kind.to_owned(),
        start: start_of_line(json),
    }
}

fn start_of_line(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}
