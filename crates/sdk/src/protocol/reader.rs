//! The only reader of Claude Code's stdout: routes each line to whom it is for.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::AsyncRead;

use super::frames::{Frame, Reply, Response};
use super::link::{Death, Link};
use crate::process::{Line, Lines, Outline};
use crate::{Error, Message};

impl Link {
    /// Starts reading. `death` is asked once the output has ended.
    pub(crate) fn read_from(
        self: &Arc<Self>,
        output: impl AsyncRead + Send + Unpin + 'static,
        bound: usize,
        death: impl Future<Output = Death> + Send + 'static,
    ) {
        let link = Arc::clone(self);
        let mut lines = Lines::new(output, bound);
        tokio::spawn(async move {
            while let Some(line) = lines.next().await {
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
        let frame: Frame<'_> = parse(bytes, bytes)?;
        match &*frame.kind {
            "control_request" => {
                let id = frame.request_id.unwrap_or_default().into_owned();
                let body = frame.request.map_or("null", |body| body.get()).to_owned();
                self.serve(id, body);
            }
            "control_response" => {
                let body = frame.response.map_or("null", |body| body.get());
                let response: Response = parse(body.as_bytes(), bytes)?;
                let id = response.request_id.clone();
                self.requests.answer(&id, response.outcome());
            }
            "control_cancel_request" => {
                self.service
                    .in_flight
                    .cancel(&frame.request_id.unwrap_or_default());
            }
            _ => self.take_message(parse(bytes, bytes)?),
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

fn parse<'a, T: serde::Deserialize<'a>>(json: &'a [u8], line: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|why| Error::NotJson {
        why: why.to_string(),
        start: String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned(),
    })
}
