//! The registered callbacks, their ids, and the JSON that registers them with Claude Code.

use std::time::Duration;

use becket_wire::event::EventName;
use serde_json::{Map, Value, json};

use super::types::Callback;
use super::{CallbackFailure, Hook, Matcher, OnFailure};
use crate::Error;
use crate::protocol::writer::Reply;

/// The time that Claude Code waits longer for a callback than the SDK does, so that the SDK answers first.
const MARGIN: Duration = Duration::from_secs(5);

/// The longest timeout; a longer one is cut to it. JavaScript's timers end at 24.8 days.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// The prefix of the ids of becket's own callbacks.
pub(crate) const BECKET_ID: &str = "becket_";

/// A registered callback.
pub(crate) struct RegisteredHook {
    pub(crate) id: String,
    pub(crate) event: EventName,
    matcher: Matcher,
    pub(crate) callback: Callback,
    /// The time limit of one call, if it was set.
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    /// True if the callback is becket's own.
    pub(crate) is_becket: bool,
    /// The time that becket may take before the callback is called; zero without becket.
    pub(crate) becket_wait: Duration,
}

/// The callbacks of one client. They do not change once the client has started.
#[derive(Default)]
pub(crate) struct Registry(Vec<RegisteredHook>);

impl Registry {
    /// Makes a registry with the ids `hook_1`, `hook_2`, … in order of registration.
    pub(crate) fn new(hooks: Vec<Hook>, timeout: Option<Duration>) -> Result<Self, Error> {
        let mut registry = Self::default();
        for (at, hook) in hooks.into_iter().enumerate() {
            hook.check_event()?;
            registry.add(format!("hook_{}", at + 1), hook, timeout);
        }
        Ok(registry)
    }

    pub(crate) fn add(&mut self, id: String, hook: Hook, timeout: Option<Duration>) {
        let on_failure = OnFailure::default_of(&hook.event);
        self.0.push(RegisteredHook {
            matcher: hook.matcher,
            callback: hook.callback,
            timeout: hook.timeout.or(timeout).map(|time| time.min(MAX_TIMEOUT)),
            on_failure: hook.on_failure.unwrap_or(on_failure),
            is_becket: id.starts_with(BECKET_ID),
            event: hook.event,
            becket_wait: Duration::ZERO,
            id,
        });
    }

    /// Lets the callbacks that are registered so far wait for becket.
    pub(crate) fn set_becket_wait(&mut self, wait: impl Fn(&EventName) -> Duration) {
        for hook in &mut self.0 {
            hook.becket_wait = wait(&hook.event);
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&RegisteredHook> {
        self.0.iter().find(|hook| hook.id == id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the `hooks` field of an initialize request.
    pub(crate) fn to_json(&self) -> Value {
        let mut events: Map<String, Value> = Map::new();
        for hook in &self.0 {
            let groups = events.entry(hook.event.as_str()).or_insert(json!([]));
            if let Some(groups) = groups.as_array_mut() {
                groups.push(hook.to_json());
            }
        }
        events.into()
    }
}

impl RegisteredHook {
    fn to_json(&self) -> Value {
        // A turn's deadline may be longer than the default timeout.
        let timeout = self.timeout.unwrap_or(MAX_TIMEOUT);
        let seconds = (self.becket_wait + timeout + MARGIN).as_secs_f64().ceil();
        let mut group = json!({
            "matcher": self.matcher.to_json(),
            "hookCallbackIds": [self.id],
            "timeout": seconds as u64,
        });
        if self.on_failure == OnFailure::Closed {
            group["onFailure"] = "block".into();
        }
        group
    }

    /// Returns the reply for a failed call. An explicit refusal tells the model the reason, and also
    /// works with versions that do not know `onFailure`.
    pub(super) fn failed(&self, failure: &CallbackFailure) -> Reply {
        let text = failure.to_string();
        match self.refusal(&text) {
            Some(refusal) => Reply::Success(refusal),
            None => Reply::Error(text),
        }
    }

    fn refusal(&self, reason: &str) -> Option<Value> {
        if self.on_failure == OnFailure::Open {
            return None;
        }
        let answer = becket_wire::Answer::refusal(self.event.clone(), reason)?;
        serde_json::from_slice(&answer.render().stdout).ok()
    }
}
