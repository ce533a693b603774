//! The control protocol: one conversation with a Claude Code, with requests and answers in both
//! directions.

pub(crate) mod inbox;
mod reader;
pub(crate) mod writer;

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::inbox::{Inbox, MessageResult, Prompt, TurnChange};
use self::writer::Writer;
use crate::Error;
use crate::hooks::service::{CallLimits, Service};
use crate::process::StderrTail;

/// The oldest version with stream-json in both directions and hook callbacks by id.
const OLDEST: [u32; 3] = [2, 0, 0];
const OLDEST_TEXT: &str = "2.0.0";

/// The end of a Claude Code: its exit status and the last text of its stderr.
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

/// The conversation with one Claude Code. The client, the reader task and the calls of callbacks share
/// it.
pub(crate) struct Connection {
    pub(crate) writer: Writer,
    requests: PendingRequests,
    pub(crate) service: Arc<Service>,
    stderr: StderrTail,
    /// Cancelled when the client is dropped, or Claude Code has ended.
    pub(crate) client: CancellationToken,
    pub(crate) early_interrupt: EarlyInterrupt,
    pub(crate) inbox: Inbox,
    /// The number of lines that were no messages.
    skipped_lines: AtomicU64,
    exit: OnceLock<Exit>,
}

impl Connection {
    pub(crate) fn new(
        writer: Writer,
        service: Service,
        stderr: StderrTail,
        client: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            writer,
            requests: PendingRequests::default(),
            service: Arc::new(service),
            stderr,
            client,
            early_interrupt: EarlyInterrupt::default(),
            inbox: Inbox::default(),
            skipped_lines: AtomicU64::new(0),
            exit: OnceLock::new(),
        })
    }

    /// Registers the hooks, and returns Claude Code's answer.
    pub(crate) async fn initialize(&self, limit: Duration) -> Result<Value, Error> {
        let registry = &self.service.registry;
        let mut body = json!({"subtype": "initialize"});
        if !registry.is_empty() {
            body["hooks"] = registry.to_json();
        }
        let info = self.request(body, limit).await?;
        if let Some(version) = info["claude_code_version"].as_str() {
            check_version(version)?;
        }
        // A version that does not confirm the hooks may have dropped them, which must not go unnoticed.
        if !registry.is_empty() && info["hooks_applied"] != true {
            return Err(Error::HooksNotApplied);
        }
        Ok(info)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(&self, body: Value, limit: Duration) -> Result<Value, Error> {
        let request = body["subtype"].as_str().unwrap_or_default().to_owned();
        let (id, answer) = self.requests.begin();
        self.writer.send(&writer::control_request(&id, &body));
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
    fn send_interrupt(&self) {
        self.early_interrupt.interrupted();
        let id = self.requests.next_id();
        let frame = writer::control_request(&id, &json!({"subtype": "interrupt"}));
        self.writer.send(&frame);
    }

    /// Sends a prompt, and begins its turn.
    pub(crate) fn begin_turn(&self, text: &str, prompt: Prompt) {
        self.early_interrupt.prompted();
        let frame = writer::user_message(text, &prompt.uuid);
        let limits = prompt.limits.clone();
        let mut inbox = self.inbox.lock();
        // Until Claude Code starts with the prompt, calls belong to a turn that it began by itself.
        if inbox.begin(prompt) {
            self.service.set_limits(limits);
        }
        drop(inbox);
        self.writer.send(&frame);
    }

    /// Hands a message to its reader. `size` is the length of its line.
    fn deliver(&self, message: MessageResult, size: usize) {
        let mut inbox = self.inbox.lock();
        // Under the lock: the limits of calls change before a reader can see the message.
        match inbox.receive(message, size) {
            Some(TurnChange::Started(limits)) => self.service.set_limits(limits),
            Some(TurnChange::Queued) => self.leave_turn(),
            Some(TurnChange::Ended) => {
                self.early_interrupt.take();
                self.leave_turn();
            }
            None => {}
        }
        drop(inbox);
        self.inbox.wake_readers();
    }

    /// Throws away the rest of a turn, that of the given prompt or the current one: cancels its calls
    /// and interrupts it, if it runs.
    pub(crate) fn abandon_turn(&self, uuid: Option<&str>) {
        let prompt = self.inbox.lock().abandon(uuid);
        if let Some(prompt) = prompt {
            self.leave_turn();
            self.service.in_flight.cancel_turn(&prompt.limits.token);
            self.send_interrupt();
        }
    }

    fn leave_turn(&self) {
        self.service
            .set_limits(CallLimits::between_turns(&self.client));
    }

    /// Counts a line that is no message: another program has written to Claude Code's stdout.
    fn skip_line(&self, start: &str) {
        self.skipped_lines.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("skipped a line of Claude Code's output that is no message: {start}");
    }

    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped_lines.load(Ordering::Relaxed)
    }

    /// Ends the conversation when Claude Code has ended: requests fail, callbacks are cancelled, and the
    /// streams of messages end.
    fn end(&self, exit: Exit) {
        let exit = self.exit.get_or_init(|| exit);
        self.requests.close();
        self.client.cancel();
        self.inbox.end(exit.error());
    }

    /// Returns the error of every request to a Claude Code that has ended.
    pub(crate) fn exit_error(&self) -> Option<Error> {
        self.exit.get().map(Exit::error)
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit.get().cloned().unwrap_or_default()
    }
}

/// Returns an error for a version that is too old. A text that is not a version passes: it is newer than
/// this crate.
fn check_version(version: &str) -> Result<(), Error> {
    let parts = version.split(['.', '-', ' ']).map(str::parse::<u32>);
    let numbers: Vec<u32> = parts.map_while(Result::ok).collect();
    if numbers.len() < OLDEST.len() || numbers.as_slice() >= OLDEST.as_slice() {
        return Ok(());
    }
    Err(Error::TooOld {
        found: version.to_owned(),
        needed: OLDEST_TEXT,
    })
}

/// The answer to a request, or the text of an error.
type RequestResult = Result<Value, String>;

/// The SDK's own requests that wait for Claude Code's answer.
#[derive(Debug, Default)]
struct PendingRequests(Mutex<PendingById>);

#[derive(Debug, Default)]
struct PendingById {
    last_id: u64,
    senders: HashMap<String, oneshot::Sender<RequestResult>>,
    closed: bool,
}

impl PendingById {
    fn next_id(&mut self) -> String {
        self.last_id += 1;
        format!("req_{}", self.last_id)
    }
}

impl PendingRequests {
    /// Makes an id and a receiver for the answer. The receiver fails at once if Claude Code has ended.
    fn begin(&self) -> (String, oneshot::Receiver<RequestResult>) {
        let (sender, receiver) = oneshot::channel();
        let id = self.with(|pending| {
            let id = pending.next_id();
            if !pending.closed {
                pending.senders.insert(id.clone(), sender);
            }
            id
        });
        (id, receiver)
    }

    /// Makes an id for a request whose answer is ignored.
    fn next_id(&self) -> String {
        self.with(PendingById::next_id)
    }

    fn answer(&self, id: &str, result: RequestResult) {
        if let Some(sender) = self.with(|pending| pending.senders.remove(id)) {
            let _ = sender.send(result);
        }
    }

    fn forget(&self, id: &str) {
        self.with(|pending| pending.senders.remove(id));
    }

    /// Lets every receiver fail, because Claude Code has ended.
    fn close(&self) {
        self.with(|pending| {
            pending.closed = true;
            pending.senders.clear();
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut PendingById) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notices an interrupt that comes before its turn has begun, so that it can be sent again.
///
/// Measured with 2.1.325: of 20 interrupts right after a prompt, before the turn's `init` message, 6 were
/// lost; of 8 right after `init`, none. Such an early interrupt is sent again when `init` comes.
#[derive(Debug, Default)]
pub(crate) struct EarlyInterrupt(Mutex<TurnPhase>);

#[derive(Debug, Default, PartialEq, Eq)]
enum TurnPhase {
    /// The turn of the last prompt has begun, or there was no prompt yet.
    #[default]
    Begun,
    /// A prompt was sent, and its turn has not begun.
    Prompted,
    /// The turn has not begun, and must be interrupted as soon as it begins.
    Interrupted,
}

impl EarlyInterrupt {
    fn prompted(&self) {
        self.replace(TurnPhase::Prompted);
    }

    /// Notes an interrupt. A turn that has begun needs no second one.
    pub(crate) fn interrupted(&self) {
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase == TurnPhase::Prompted {
            *phase = TurnPhase::Interrupted;
        }
    }

    /// Notes that a turn has begun or ended. Returns true if it was interrupted before it began.
    fn take(&self) -> bool {
        self.replace(TurnPhase::Begun) == TurnPhase::Interrupted
    }

    fn replace(&self, phase: TurnPhase) -> TurnPhase {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_refused() {
        for fine in ["2.0.0", "2.1.325", "3.0.0-beta", "10.0.0", "soon"] {
            assert!(check_version(fine).is_ok(), "{fine}");
        }
        for old in ["1.0.128", "1.9.9 (Claude Code)"] {
            assert!(
                matches!(check_version(old), Err(Error::TooOld { .. })),
                "{old}"
            );
        }
    }
}
