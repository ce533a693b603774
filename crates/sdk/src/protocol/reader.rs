//! The only reader of Claude Code's stdout: routes each line to its handler.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::parse_json;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep_until};

use super::frames::{Frame, Reply, Response};
use super::link::{Exit, Link};
use crate::process::{Line, Lines, Outline};
use crate::{Error, Message};

/// How long the rest of the output may take when the process has ended.
const DRAIN: Duration = Duration::from_secs(1);

impl Link {
    /// Starts reading, until the output ends, the client is dropped, or the process has ended (a
    /// grandchild may hold its output open). Then `exit` says how it ended.
    pub(crate) fn read_from(
        self: &Arc<Self>,
        output: impl AsyncRead + Send + Unpin + 'static,
        bound: usize,
        ended: impl Future<Output = ()> + Send + 'static,
        exit: impl Future<Output = Exit> + Send + 'static,
    ) {
        let link = Arc::clone(self);
        let lines = Lines::new(output, bound);
        tokio::spawn(async move {
            link.read_lines(lines, bound, ended).await;
            link.end(exit.await);
        });
    }

    async fn read_lines(
        self: &Arc<Self>,
        mut lines: Lines<impl AsyncRead + Unpin>,
        bound: usize,
        ended: impl Future<Output = ()>,
    ) {
        tokio::pin!(ended);
        let mut last: Option<Instant> = None;
        loop {
            tokio::select! {
                line = lines.next() => match line {
                    Some(line) => self.take_line(line, bound),
                    None => return,
                },
                () = self.client.cancelled() => return,
                () = &mut ended, if last.is_none() => last = Some(Instant::now() + DRAIN),
                () = sleep_until(last.unwrap_or_else(Instant::now)), if last.is_some() => return,
            }
        }
    }

    fn take_line(self: &Arc<Self>, line: Line<'_>, bound: usize) {
        match line {
            Line::Whole(bytes) => {
                if let Err(error) = self.take_frame(bytes) {
                    self.deliver(Err(error), bytes.len());
                }
            }
            Line::TooLong(outline) => self.take_too_long(outline, bound),
            Line::Cut { bytes } => self.deliver(Err(Error::Cut { bytes }), 0),
        }
    }

    fn take_frame(self: &Arc<Self>, bytes: &[u8]) -> Result<(), Error> {
        let Ok(frame) = serde_json::from_slice::<Frame<'_>>(bytes) else {
            self.skip_line(&start(bytes));
            return Ok(());
        };
        let id = frame.request_id.unwrap_or_default();
        match &*frame.kind {
            "control_request" => {
                let body = frame.request.map_or("null", |body| body.get());
                self.serve(id.into_owned(), body.to_owned());
            }
            "control_response" => {
                let body = frame.response.map_or("null", |body| body.get());
                self.take_response(parse(body.as_bytes(), &frame.kind)?);
            }
            "control_cancel_request" => self.service.in_flight.cancel(&id),
            kind => self.take_message(parse(bytes, kind)?, bytes.len()),
        }
        Ok(())
    }

    fn take_response(&self, response: Response) {
        let id = response.request_id.clone();
        self.requests.answer(&id, response.outcome());
    }

    fn take_message(&self, json: Value, size: usize) {
        let message = Message::read(json);
        if let Message::System(init) = &message
            && init.subtype() == "init"
        {
            self.service.set_session(init.json());
            if self.inbox.has_started() && self.early_interrupt.take() {
                self.send_interrupt();
            }
        }
        self.deliver(Ok(message), size);
    }

    /// Claude Code waits for the answer to a request, also to one that is too long to be read.
    fn take_too_long(&self, outline: Outline, bound: usize) {
        let kind = outline.kind;
        if kind.is_empty() {
            return self.skip_line("it is longer than a message may be");
        }
        if kind == "control_request" {
            let text = format!("request_too_long: it is longer than {bound} bytes");
            let frame = Reply::Error(text).into_frame(&outline.request_id);
            self.writer.send(&frame);
        }
        self.deliver(Err(Error::TooLong { bound, kind }), 0);
    }
}

/// Parses JSON. A string that Claude Code cut inside a character is repaired.
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
