//! One conversation with a Claude Code: both directions, and what they share.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::early_interrupt::EarlyInterrupt;
use super::frames;
use super::inbox::{Inbox, Received};
use super::requests::Requests;
use super::writer::Writer;
use crate::Error;
use crate::hooks::scope::Scope;
use crate::hooks::service::Service;
use crate::process::Stderr;

/// How Claude Code ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exit {
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stderr: String,
}

impl Exit {
    pub(crate) fn error(&self) -> Error {
        Error::Ended {
            status: self.status,
            stderr: self.stderr.clone(),
        }
    }
}

/// What the client, its reader and the calls of its callbacks share.
pub(crate) struct Link {
    pub(crate) writer: Writer,
    pub(crate) requests: Requests,
    pub(crate) service: Arc<Service>,
    pub(crate) stderr: Stderr,
    /// Cancelled when the client is dropped, or Claude Code has ended.
    pub(crate) client: CancellationToken,
    pub(crate) early_interrupt: EarlyInterrupt,
    pub(crate) inbox: Inbox,
    /// The lines that were no messages.
    skipped_lines: AtomicU64,
    exit: OnceLock<Exit>,
}

impl Link {
    pub(crate) fn new(
        writer: Writer,
        service: Service,
        stderr: Stderr,
        client: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            writer,
            requests: Requests::default(),
            service: Arc::new(service),
            stderr,
            client,
            early_interrupt: EarlyInterrupt::default(),
            inbox: Inbox::default(),
            skipped_lines: AtomicU64::new(0),
            exit: OnceLock::new(),
        })
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(&self, body: Value, limit: Duration) -> Result<Value, Error> {
        let request = body["subtype"].as_str().unwrap_or_default().to_owned();
        let (id, answer) = self.requests.begin();
        self.writer.send(&frames::control_request(&id, &body));
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(message))) => Err(Error::Refused { request, message }),
            Ok(Err(_)) => Err(self.exit().error()),
            Err(_) => {
                self.requests.forget(&id);
                let stderr = self.stderr.text();
                Err(Error::NoAnswer {
                    request,
                    limit,
                    stderr,
                })
            }
        }
    }

    /// Sends an interrupt without waiting for the answer.
    pub(crate) fn send_interrupt(&self) {
        self.early_interrupt.interrupted();
        let id = self.requests.next_id();
        let frame = frames::control_request(&id, &json!({"subtype": "interrupt"}));
        self.writer.send(&frame);
    }

    /// Hands a message to its reader. `size` is its length as it came.
    pub(crate) fn deliver(&self, message: Received, size: usize) {
        let enter = |scope: Option<&Scope>| match scope {
            Some(scope) => self.service.set_scope(scope.clone()),
            None => self.leave_turn(),
        };
        self.inbox.deliver(message, size, enter, || {
            self.early_interrupt.take();
            self.leave_turn();
        });
    }

    /// Throws away the rest of a turn, this prompt's or the current one: cancels its calls and
    /// interrupts it, if it runs.
    pub(crate) fn abandon_turn(&self, uuid: Option<&str>) {
        if let Some(prompt) = self.inbox.abandon(uuid) {
            self.leave_turn();
            self.service.in_flight.cancel_turn(&prompt.scope.token);
            self.send_interrupt();
        }
    }

    /// Calls between turns belong to the client, and have no deadline.
    fn leave_turn(&self) {
        self.service.set_scope(Scope {
            token: self.client.child_token(),
            deadline: None,
        });
    }

    /// Counts a line that is no message: something else has written to Claude Code's stdout.
    pub(super) fn skip_line(&self, start: &str) {
        self.skipped_lines.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("skipped a line of Claude Code's output that is no message: {start}");
    }

    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped_lines.load(Ordering::Relaxed)
    }

    /// Claude Code has ended: requests fail, callbacks are cancelled, the streams of messages end.
    pub(crate) fn end(&self, exit: Exit) {
        let exit = self.exit.get_or_init(|| exit);
        self.requests.close();
        self.client.cancel();
        self.inbox.end(exit.error());
    }

    /// The error of every request to a Claude Code that has ended.
    pub(crate) fn exit_error(&self) -> Option<Error> {
        self.exit.get().map(Exit::error)
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit.get().cloned().unwrap_or_default()
    }
}
