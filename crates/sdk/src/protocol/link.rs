//! One conversation with a Claude Code: both directions, and what they share.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::early_interrupt::EarlyInterrupt;
use super::frames;
use super::requests::Requests;
use super::writer::Writer;
use crate::hooks::service::Service;
use crate::process::Stderr;
use crate::turn::ends_turn;
use crate::{Error, Message};

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
    exit: OnceLock<Exit>,
    messages: Mutex<Option<mpsc::UnboundedSender<Result<Message, Error>>>>,
}

pub(crate) type Messages = mpsc::UnboundedReceiver<Result<Message, Error>>;

impl Link {
    pub(crate) fn new(
        writer: Writer,
        service: Service,
        stderr: Stderr,
        client: CancellationToken,
    ) -> (Arc<Self>, Messages) {
        let (sender, messages) = mpsc::unbounded_channel();
        let link = Self {
            writer,
            requests: Requests::default(),
            service: Arc::new(service),
            stderr,
            client,
            early_interrupt: EarlyInterrupt::default(),
            exit: OnceLock::new(),
            messages: Mutex::new(Some(sender)),
        };
        (Arc::new(link), messages)
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

    pub(crate) fn deliver(&self, message: Result<Message, Error>) {
        if ends_turn(&message) {
            self.early_interrupt.take();
        }
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*messages {
            let _ = sender.send(message);
        }
    }

    /// Claude Code has ended: requests fail, callbacks are cancelled, the stream of messages ends.
    pub(crate) fn end(&self, exit: Exit) {
        let exit = self.exit.get_or_init(|| exit);
        self.requests.close();
        self.client.cancel();
        self.deliver(Err(exit.error()));
        self.messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    /// The error of every request to a Claude Code that has ended.
    pub(crate) fn exit_error(&self) -> Option<Error> {
        self.exit.get().map(Exit::error)
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit.get().cloned().unwrap_or_default()
    }
}
