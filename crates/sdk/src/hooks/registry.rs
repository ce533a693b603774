//! The registered callbacks: their ids, and how they are registered with Claude Code.

use std::time::Duration;

use becket_wire::event::EventName;
use serde_json::{Map, Value, json};

use super::types::Callback;
use super::{CallbackFailure, Hook, Matcher, OnFailure};
use crate::Error;
use crate::protocol::frames::Reply;

/// How much longer Claude Code waits for a callback than we do, so that we answer first.
const MARGIN: Duration = Duration::from_secs(5);

/// A longer timeout means none. JavaScript's timers end at 24.8 days.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// How the ids of becket's own callbacks begin.
pub(crate) const BECKET_ID: &str = "becket_";

/// A callback in force.
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) event: EventName,
    matcher: Matcher,
    pub(crate) callback: Callback,
    /// The time that one call may take, if that was set.
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    /// One of becket's own.
    pub(crate) is_becket: bool,
    /// How long becket may take before the callback is called; zero without becket.
    pub(crate) becket_wait: Duration,
}

/// The callbacks of one client. It does not change once the client has started.
#[derive(Default)]
pub(crate) struct Registry(Vec<Registered>);

impl Registry {
    /// Gives `hook_1`, `hook_2`, … in order of registration.
    pub(crate) fn new(hooks: Vec<Hook>, timeout: Option<Duration>) -> Result<Self, Error> {
        let mut registry = Self::default();
        for (at, hook) in hooks.into_iter().enumerate() {
            hook.check()?;
            registry.add(format!("hook_{}", at + 1), hook, timeout);
        }
        Ok(registry)
    }

    pub(crate) fn add(&mut self, id: String, hook: Hook, timeout: Option<Duration>) {
        let on_failure = OnFailure::default_of(&hook.event);
        self.0.push(Registered {
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

    /// The callbacks registered so far wait for becket.
    pub(crate) fn set_becket_wait(&mut self, wait: impl Fn(&EventName) -> Duration) {
        for registered in &mut self.0 {
            registered.becket_wait = wait(&registered.event);
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Registered> {
        self.0.iter().find(|registered| registered.id == id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The `hooks` of an initialize request.
    pub(crate) fn to_json(&self) -> Value {
        let mut events: Map<String, Value> = Map::new();
        for registered in &self.0 {
            let groups = events.entry(registered.event.as_str()).or_insert(json!([]));
            groups
                .as_array_mut()
                .into_iter()
                .for_each(|groups| groups.push(registered.to_json()));
        }
        events.into()
    }
}

impl Registered {
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

    /// What Claude Code gets when the callback has failed. A refusal of our own tells the model why,
    /// and counts with versions that do not know `onFailure`.
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
        let event: EventName = self.event.clone();
        let answer = becket_wire::Answer::refusal(event, reason)?;
        serde_json::from_slice(&answer.render().stdout).ok()
    }
}
