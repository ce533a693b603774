//! Sorts Claude Code's messages: to the turn of the current prompt, or to the events between turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use crate::hooks::service::CallLimits;
use crate::{Error, Message, TurnResult};

/// The number of bytes of events that are kept until they are read.
const MAX_EVENTS: usize = 4 << 20;

/// The number of bytes that a message takes besides its text.
const OVERHEAD: usize = 256;

pub(crate) type MessageResult = Result<Message, Error>;

/// The messages that wait for their reader, and the state of the turn and of background tasks.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    changed: Notify,
}

#[derive(Default)]
pub(super) struct InboxState {
    /// The prompt whose result has not come yet.
    prompt: Option<Prompt>,
    turn: VecDeque<MessageResult>,
    /// Messages that belong to no turn, with their sizes.
    events: VecDeque<(MessageResult, usize)>,
    events_size: usize,
    dropped_events: u64,
    background: BackgroundTasks,
    /// The newest result, of a prompt or not.
    last_result: Option<TurnResult>,
    /// True if this version of Claude Code reports when it starts with a prompt.
    reports_start: bool,
    ended: bool,
}

/// A prompt that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    /// The id that the result of the prompt names.
    pub(crate) uuid: String,
    /// The limits of the calls of its turn.
    pub(crate) limits: CallLimits,
    /// True once Claude Code works on the prompt. Until then, its messages belong to a turn that it
    /// began by itself.
    started: bool,
    /// True if the turn was dropped: the rest of its messages is thrown away.
    abandoned: bool,
}

/// A change of the current turn that changes the limits of calls.
pub(super) enum TurnChange {
    /// Claude Code started with the prompt that has these limits.
    Started(CallLimits),
    /// Claude Code queued the prompt.
    Queued,
    /// The turn ended.
    Ended,
}

impl Prompt {
    pub(crate) fn new(uuid: String, limits: CallLimits) -> Self {
        Self {
            uuid,
            limits,
            started: true,
            abandoned: false,
        }
    }

    /// Returns true if this message ends the prompt's turn: its result, or a result that cannot be
    /// read. A result that names no prompt ends the turn if Claude Code works on the prompt and did not
    /// begin the turn by itself. Versions before 2.1.260 name none.
    fn is_ended_by(&self, message: &MessageResult) -> bool {
        match message {
            Ok(Message::Result(result)) => match result.prompts() {
                [] => self.started && !result.is_autonomous(),
                prompts => prompts.iter().any(|uuid| *uuid == self.uuid),
            },
            Err(Error::TooLong { kind, .. } | Error::NotJson { kind, .. }) => {
                kind == "result" && self.started
            }
            _ => false,
        }
    }
}

impl InboxState {
    /// Takes a message in, and returns how it changes the turn.
    pub(super) fn receive(&mut self, message: MessageResult, size: usize) -> Option<TurnChange> {
        let change = self.read_lifecycle(&message);
        if let Ok(message) = &message {
            self.background.update(message);
        }
        if let Ok(Message::Result(result)) = &message {
            self.last_result = Some(result.clone());
        }
        let prompt = self.prompt.as_ref();
        let ends = prompt.is_some_and(|prompt| prompt.is_ended_by(&message));
        self.sort(message, size, ends);
        if ends {
            self.prompt = None;
            return Some(TurnChange::Ended);
        }
        change
    }

    /// Begins the turn of a prompt, and throws away the unread messages of the turn before. Returns true
    /// if the turn counts as started, because Claude Code does not report when it starts with a prompt.
    pub(super) fn begin(&mut self, prompt: Prompt) -> bool {
        self.turn.clear();
        let started = !self.reports_start;
        self.prompt = (!self.ended).then_some(Prompt { started, ..prompt });
        started
    }

    /// Throws away the rest of a turn: that of the given prompt, or the current one. Returns its prompt
    /// if its result has not come yet and it was not abandoned before.
    pub(super) fn abandon(&mut self, uuid: Option<&str>) -> Option<Prompt> {
        let prompt = self.prompt.as_mut()?;
        if uuid.is_some_and(|uuid| uuid != prompt.uuid) || prompt.abandoned {
            return None;
        }
        prompt.abandoned = true;
        self.turn.clear();
        Some(prompt.clone())
    }

    /// Returns true if Claude Code works on the current prompt.
    pub(super) fn has_started(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.started)
    }

    fn sort(&mut self, message: MessageResult, size: usize, ends_turn: bool) {
        let is_of_turn = |prompt: &&Prompt| ends_turn || prompt.started && !is_result(&message);
        match self.prompt.as_ref().filter(is_of_turn) {
            Some(prompt) if prompt.abandoned => {}
            Some(_) => self.turn.push_back(message),
            None => self.add_event(message, size + OVERHEAD),
        }
    }

    /// Adds an event. Above the limit the oldest events are dropped.
    fn add_event(&mut self, event: MessageResult, size: usize) {
        self.events.push_back((event, size));
        self.events_size += size;
        while self.events_size > MAX_EVENTS && self.events.len() > 1 {
            self.take_event();
            self.dropped_events += 1;
        }
    }

    fn take_event(&mut self) -> Option<MessageResult> {
        let (event, size) = self.events.pop_front()?;
        self.events_size -= size;
        Some(event)
    }

    /// Reads a message that reports when Claude Code queues the prompt or starts with it.
    fn read_lifecycle(&mut self, message: &MessageResult) -> Option<TurnChange> {
        let Ok(Message::Other(json)) = message else {
            return None;
        };
        if json["type"] != "command_lifecycle" {
            return None;
        }
        self.reports_start = true;
        let prompt = self.prompt.as_mut()?;
        let started = json["state"] != "queued";
        if json["command_uuid"] != prompt.uuid || started == prompt.started {
            return None;
        }
        prompt.started = started;
        if prompt.abandoned {
            return None;
        }
        Some(if started {
            TurnChange::Started(prompt.limits.clone())
        } else {
            TurnChange::Queued
        })
    }
}

impl Inbox {
    /// Wakes the readers after a change of the state.
    pub(super) fn wake_readers(&self) {
        self.changed.notify_waiters();
    }

    /// Ends the turn with this error, or the events if no turn runs, because Claude Code has ended.
    pub(super) fn end(&self, error: Error) {
        let mut state = self.lock();
        let ends_turn = state.prompt.is_some();
        state.sort(Err(error), 0, ends_turn);
        state.prompt = None;
        state.ended = true;
        drop(state);
        self.wake_readers();
    }

    /// Returns true if no prompt waits for its result.
    pub(crate) fn is_between_turns(&self) -> bool {
        self.lock().prompt.is_none()
    }

    /// Waits for the turn's next message; `None` at its end.
    pub(crate) async fn next_of_turn(&self) -> Option<MessageResult> {
        self.wait_for(|state| match state.turn.pop_front() {
            Some(message) => Some(Some(message)),
            None => state.prompt.is_none().then_some(None),
        })
        .await
    }

    /// Waits for the next event; `None` if Claude Code has ended.
    pub(crate) async fn next_event(&self) -> Option<MessageResult> {
        self.wait_for(|state| match state.take_event() {
            Some(event) => Some(Some(event)),
            None => state.ended.then_some(None),
        })
        .await
    }

    /// Waits until the current turn has ended.
    pub(crate) async fn turn_ended(&self) {
        self.wait_for(|state| state.prompt.is_none().then_some(()))
            .await;
    }

    /// Waits until no background task runs, and Claude Code has reacted to the end of each. Also
    /// returns if Claude Code has ended.
    pub(crate) async fn background_done(&self) {
        self.wait_for(|state| (state.ended || state.background.is_done()).then_some(()))
            .await;
    }

    /// Returns the descriptions of the background tasks that are not done.
    pub(crate) fn background_tasks(&self) -> Vec<String> {
        let BackgroundTasks { running, ended, .. } = &self.lock().background;
        running.values().chain(ended).cloned().collect()
    }

    /// Returns the newest result, of a prompt or not.
    pub(crate) fn last_result(&self) -> Option<TurnResult> {
        self.lock().last_result.clone()
    }

    pub(crate) fn dropped_events(&self) -> u64 {
        self.lock().dropped_events
    }

    async fn wait_for<T>(&self, mut probe: impl FnMut(&mut InboxState) -> Option<T>) -> T {
        loop {
            // Made before the probe, so that no change is missed.
            let changed = self.changed.notified();
            if let Some(value) = probe(&mut self.lock()) {
                return value;
            }
            changed.await;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_result(message: &MessageResult) -> bool {
    matches!(message, Ok(Message::Result(_)))
}

/// The background tasks that Claude Code has announced: agents, shell commands, monitors. Contains those
/// that run, and those that have ended but may not be reported to the model yet.
///
/// Measured with 2.1.325: a task that ends while a turn runs is reported to the model within that turn, or
/// in a turn of its own that follows at once. The only sign which of the two happened is the message that
/// Claude Code is idle. Claude Code sends that message since 2.1.101, if the environment variable
/// [`STATE_EVENTS`](crate::options::STATE_EVENTS) is set.
#[derive(Debug, Default)]
struct BackgroundTasks {
    /// Descriptions by id.
    running: BTreeMap<String, String>,
    /// The descriptions of tasks that have ended since Claude Code was idle.
    ended: Vec<String>,
    /// True if Claude Code reports when it is idle.
    reports_idle: bool,
}

impl BackgroundTasks {
    fn update(&mut self, message: &Message) {
        let system = match message {
            Message::System(system) => system,
            // A version that does not report idleness: the result is assumed to cover the ended tasks.
            Message::Result(_) if !self.reports_idle => return self.ended.clear(),
            _ => return,
        };
        let json = system.json();
        match system.subtype() {
            "task_started" if is_activity(json) => self.start(json),
            "task_notification" => self.retain(|id| json["task_id"] != *id),
            "background_tasks_changed" => {
                let listed = json["tasks"].as_array().map_or(&[][..], Vec::as_slice);
                self.retain(|id| listed.iter().any(|task| task["task_id"] == *id));
                for task in listed.iter().filter(|task| is_activity(task)) {
                    self.start(task);
                }
            }
            "session_state_changed" => {
                self.reports_idle = true;
                if json["state"] == "idle" {
                    self.ended.clear();
                }
            }
            _ => {}
        }
    }

    /// Returns true if no task runs, and the end of each was reported to the model.
    fn is_done(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }

    fn start(&mut self, task: &Value) {
        let [id, description] =
            ["task_id", "description"].map(|key| task[key].as_str().unwrap_or_default().to_owned());
        self.running.insert(id, description);
    }

    /// Keeps the tasks for which `runs` returns true. The others have ended.
    fn retain(&mut self, runs: impl Fn(&String) -> bool) {
        let ended = self.running.extract_if(.., |id, _| !runs(id));
        self.ended.extend(ended.map(|(_, description)| description));
    }
}

/// Returns false for a task of Claude Code's own, such as a watcher: its end is not reported.
fn is_activity(task: &Value) -> bool {
    task["ambient"] != true && task["skip_transcript"] != true
}
