//! The only reader of Claude Code's stdout: routes each line to whom it is for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::parse_json;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::time::timeout;

use super::frames::{Frame, Reply, Response};
use super::link::{Death, Link};
use crate::process::{Line, Lines, Outline};
use crate::{Error, Message};

/// How long the rest of the output may take when the process has ended.
const DRAIN: Duration = Duration::from_secs(1);

impl Link {
    /// Starts reading, until the output ends, the client is dropped, or the process has ended: what it
    /// started may hold its output open. Then `death` says how.
    pub(crate) fn read_from(
        self: &Arc<Self>,
        output: impl AsyncRead + Send + Unpin + 'static,
        bound: usize,
        ended: impl Future<Output = ()> + Send + 'static,
        death: impl Future<Output = Death> + Send + 'static,
    ) {
        let link = Arc::clone(self);
        let mut lines = Lines::new(output, bound);
        tokio::spawn(async move {
            tokio::pin!(ended);
            let mut left = Duration::MAX;
            loop {
                let line = tokio::select! {
                    biased;
                    line = timeout(left, lines.next()) => line.ok().flatten(),
                    () = link.client.cancelled() => None,
                    () = &mut ended, if left == Duration::MAX => {
                        left = DRAIN;
                        continue;
                    }
                };
                let Some(line) = line else { break };
                link.take_line(line, bound);
            }
            link.end(death.await);
        });
    }

    fn take_line(self: &Arc<Self>, line: Line<'_>, bound: usize) {
        match line {
            Line::Whole(bytes) => {
                if let Err(error) = self.take_frame(bytes) {
                    self.deliver(Err(error));
                }
            }
            Line::TooLong(outline) => self.take_too_long(outline, bound),
            Line::Cut { bytes } => self.deliver(Err(Error::Cut { bytes })),
        }
    }

    fn take_frame(self: &Arc<Self>, bytes: &[u8]) -> Result<(), Error> {
        let frame: Frame<'_> = serde_json::from_slice(bytes).map_err(|why| Error::NotJson {
            why: why.to_string(),
            kind: String::new(),
            start: start(bytes),
        })?;
        match &*frame.kind {
            "control_request" => {
                let id = frame.request_id.unwrap_or_default().into_owned();
                let body = frame.request.map_or("null", |body| body.get()).to_owned();
                self.serve(id, body);
            }
            "control_response" => {
                let body = frame.response.map_or("null", |body| body.get());
                let response: Response = parse(body.as_bytes(), &frame.kind)?;
                let id = response.request_id.clone();
                self.requests.answer(&id, response.outcome());
            }
            "control_cancel_request" => {
                self.service
                    .in_flight
                    .cancel(&frame.request_id.unwrap_or_default());
            }
            kind => self.take_message(parse(bytes, kind)?),
        }
        Ok(())
    }

    fn take_message(&self, json: Value) {
        if json["type"] == "system" && json["subtype"] == "init" {
            self.service.learn_session(&json);
        }
        self.deliver(Ok(Message::read(json)));
    }

    /// Claude Code waits for the answer to a request, also to one that is too long to be read.
    fn take_too_long(&self, outline: Outline, bound: usize) {
        if outline.kind == "control_request" {
            let text = format!("request_too_long: it is longer than {bound} bytes");
            let frame = Reply::Error(text).into_frame(&outline.request_id);
            self.writer.send(&frame);
        }
        let kind = outline.kind;
        self.deliver(Err(Error::TooLong { bound, kind }));
    }
}

/// Reads what Claude Code wrote. A text that it cut inside a character is no reason to lose the rest.
fn parse<T: DeserializeOwned>(json: &[u8], kind: &str) -> Result<T, Error> {
    let failed = |why: String| Error::NotJson {
        why,
        kind: kind.to_owned(),
        start: start(json),
    };
    let value = parse_json(json).map_err(|why| failed(why.to_string()))?;
    serde_json::from_value(value).map_err(|why| failed(why.to_string()))
}

/// How a line begins.
fn start(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}
