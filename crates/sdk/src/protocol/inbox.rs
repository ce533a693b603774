//! Sorts Claude Code's messages: to the turn of the current prompt, or to the events between turns.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::background::Background;
use crate::hooks::scope::Scope;
use crate::{Error, Message, TurnResult};

/// Events are kept until they are read, up to this many bytes.
const MAX_EVENTS: usize = 4 << 20;

/// Bytes that a message takes besides its text.
const OVERHEAD: usize = 256;

pub(crate) type Received = Result<Message, Error>;

/// The messages that wait for their reader, and what they tell about turns and background tasks.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The prompt whose result is still to come.
    prompt: Option<Prompt>,
    turn: VecDeque<Received>,
    /// Messages that belong to no turn, with their sizes.
    events: VecDeque<(Received, usize)>,
    events_size: usize,
    dropped_events: u64,
    background: Background,
    /// The newest result, of a prompt or not.
    last_result: Option<TurnResult>,
    /// Claude Code says when it starts with a prompt.
    says_started: bool,
    ended: bool,
}

/// A prompt that was given.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    /// Comes back in the result that answers it.
    pub(crate) uuid: String,
    /// Bounds the calls of its turn.
    pub(crate) scope: Scope,
    /// Claude Code works on it. Until then, what it sends belongs to a turn that it began by itself.
    started: bool,
    /// The turn was dropped: what is left of it is thrown away.
    abandoned: bool,
}

impl Prompt {
    pub(crate) fn new(uuid: String, scope: Scope) -> Self {
        Self {
            uuid,
            scope,
            started: true,
            abandoned: false,
        }
    }

    /// Returns true if this message ends the prompt's turn: its result, or a result that cannot be
    /// read. A result that names no prompt ends the turn if Claude Code works on the prompt and did not
    /// begin the turn by itself. Versions before 2.1.260 name none.
    fn is_ended_by(&self, message: &Received) -> bool {
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

impl State {
    fn sort(&mut self, message: Received, size: usize, ends: bool) {
        let prompt = self.prompt.as_ref();
        match prompt.filter(|prompt| ends || prompt.started && !is_result(&message)) {
            Some(prompt) if prompt.abandoned => {}
            Some(_) => self.turn.push_back(message),
            None => self.add_event(message, size + OVERHEAD),
        }
    }

    /// Adds an event. Past the bound the oldest ones are dropped.
    fn add_event(&mut self, event: Received, size: usize) {
        self.events.push_back((event, size));
        self.events_size += size;
        while self.events_size > MAX_EVENTS && self.events.len() > 1 {
            self.take_event();
            self.dropped_events += 1;
        }
    }

    fn take_event(&mut self) -> Option<Received> {
        let (event, size) = self.events.pop_front()?;
        self.events_size -= size;
        Some(event)
    }

    /// Reads when the prompt is queued, and when Claude Code starts with it. Returns the prompt if it
    /// has changed so.
    fn see_lifecycle(&mut self, message: &Received) -> Option<&Prompt> {
        let Ok(Message::Other(json)) = message else {
            return None;
        };
        if json["type"] != "command_lifecycle" {
            return None;
        }
        self.says_started = true;
        let prompt = self.prompt.as_mut()?;
        let started = json["state"] != "queued";
        if json["command_uuid"] != prompt.uuid || started == prompt.started {
            return None;
        }
        prompt.started = started;
        (!prompt.abandoned).then_some(prompt)
    }
}

impl Inbox {
    /// Takes a message in. Before a reader can see it, calls `enter` with the scope of the calls from
    /// now on if it starts the prompt's turn or holds it back (`None`), and `on_end` if it ends the turn.
    pub(super) fn deliver(
        &self,
        message: Received,
        size: usize,
        enter: impl FnOnce(Option<&Scope>),
        on_end: impl FnOnce(),
    ) {
        let mut state = self.lock();
        if let Some(prompt) = state.see_lifecycle(&message) {
            enter(prompt.started.then_some(&prompt.scope));
        }
        if let Ok(message) = &message {
            state.background.see(message);
        }
        if let Ok(Message::Result(result)) = &message {
            state.last_result = Some(result.clone());
        }
        let prompt = state.prompt.as_ref();
        let ends = prompt.is_some_and(|prompt| prompt.is_ended_by(&message));
        state.sort(message, size, ends);
        if ends {
            state.prompt = None;
            on_end();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Claude Code has ended: the turn ends with this error, or the events do.
    pub(super) fn end(&self, error: Error) {
        let mut state = self.lock();
        let ends_turn = state.prompt.is_some();
        state.sort(Err(error), 0, ends_turn);
        state.prompt = None;
        state.ended = true;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Begins the turn of a prompt. What was not read of the turn before is thrown away. Calls `enter`
    /// with its scope at once if Claude Code does not say when it starts.
    pub(crate) fn begin(&self, prompt: Prompt, enter: impl FnOnce(&Scope)) {
        let mut state = self.lock();
        state.turn.clear();
        let started = !state.says_started;
        if started {
            enter(&prompt.scope);
        }
        state.prompt = (!state.ended).then_some(Prompt { started, ..prompt });
    }

    /// Throws away the rest of a turn: of this prompt's, or of the current one. Returns its prompt if
    /// its result is still to come and it was not abandoned before.
    pub(super) fn abandon(&self, uuid: Option<&str>) -> Option<Prompt> {
        let mut state = self.lock();
        let state = &mut *state;
        let prompt = state.prompt.as_mut()?;
        if uuid.is_some_and(|uuid| uuid != prompt.uuid) || prompt.abandoned {
            return None;
        }
        prompt.abandoned = true;
        state.turn.clear();
        Some(prompt.clone())
    }

    /// Returns true if Claude Code works on the current prompt.
    pub(super) fn has_started(&self) -> bool {
        self.lock()
            .prompt
            .as_ref()
            .is_some_and(|prompt| prompt.started)
    }

    /// Returns true if no result of a prompt is to come.
    pub(crate) fn is_between_turns(&self) -> bool {
        self.lock().prompt.is_none()
    }

    /// The turn's next message; `None` at its end.
    pub(crate) async fn next_of_turn(&self) -> Option<Received> {
        self.wait_for(|state| match state.turn.pop_front() {
            Some(message) => Some(Some(message)),
            None => state.prompt.is_none().then_some(None),
        })
        .await
    }

    /// The next event; `None` if Claude Code has ended.
    pub(crate) async fn next_event(&self) -> Option<Received> {
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

    /// The background tasks that are not done.
    pub(crate) fn background_tasks(&self) -> Vec<String> {
        self.lock().background.tasks()
    }

    /// The newest result, of a prompt or not.
    pub(crate) fn last_result(&self) -> Option<TurnResult> {
        self.lock().last_result.clone()
    }

    pub(crate) fn dropped_events(&self) -> u64 {
        self.lock().dropped_events
    }

    async fn wait_for<T>(&self, mut probe: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            // Made before the look, so that no change is missed.
            let changed = self.changed.notified();
            if let Some(found) = probe(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_result(message: &Received) -> bool {
    matches!(message, Ok(Message::Result(_)))
}
