//! Hooks: callbacks for the events of Claude Code, with their matchers and limits.

mod answer;
pub(crate) mod execute;
pub(crate) mod registry;
pub(crate) mod service;
mod types;

use std::fmt;
use std::future::{Future, Ready, ready};
use std::time::Duration;

use becket_wire::event::EventName;
use becket_wire::tool::is_shell;
use serde_json::Value;

pub use self::answer::Answer;
pub use self::types::*;
use crate::Error;

/// The policy for a callback that fails: it times out, panics, returns an error, or returns an answer
/// that its event does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Claude Code goes on and shows a warning. The function of [`Builder::on_callback_failure`] is
    /// called.
    ///
    /// [`Builder::on_callback_failure`]: crate::Builder::on_callback_failure
    Open,
    /// The event is refused, with the failure as the reason, where the event can be refused.
    Closed,
}

impl OnFailure {
    /// Returns the default for an event: closed where a failure could let through what the callback
    /// was meant to stop.
    fn default_of(event: &EventName) -> Self {
        match event {
            EventName::PreToolUse | EventName::PermissionRequest => Self::Closed,
            _ => Self::Open,
        }
    }
}

/// A callback for one event, with limits of its own.
///
/// ```
/// use std::time::Duration;
/// use becket_sdk::{Answer, Claude, Hook, OnFailure, PreToolUse};
///
/// let hook = Hook::new(PreToolUse, "Bash", |_call, _ctx| async { Ok(Answer::none()) })
///     .timeout(Duration::from_secs(5))
///     .on_failure(OnFailure::Open);
/// let builder = Claude::builder().hook(hook);
/// ```
#[must_use = "a hook has no effect until it is given to the builder"]
pub struct Hook {
    event: EventName,
    matcher: Matcher,
    callback: Callback,
    timeout: Option<Duration>,
    on_failure: Option<OnFailure>,
}

impl Hook {
    /// Makes a hook for the calls of an event that the matcher selects.
    pub fn new<S, F, R>(selector: S, matcher: impl Into<Matcher>, function: F) -> Self
    where
        S: Selector,
        F: Fn(S::Input, Context) -> R + Send + Sync + 'static,
        R: Future<Output = CallbackResult> + Send + 'static,
    {
        let event = selector.event();
        let callback = erase_types(selector, function);
        Self::erased(event, matcher.into(), callback)
    }

    pub(crate) fn erased(event: EventName, matcher: Matcher, callback: Callback) -> Self {
        Self {
            event,
            matcher,
            callback,
            timeout: None,
            on_failure: None,
        }
    }

    /// Sets the time limit of one call, in place of the client's timeout. The
    /// [deadline](crate::Ask::deadline) of a turn can shorten it.
    ///
    /// If your program hangs, Claude Code itself refuses the call five seconds after this limit. With no
    /// timeout of the hook or the client it keeps waiting, because the deadline of a turn may be later
    /// than the default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the policy for failures. The default is closed on PreToolUse and PermissionRequest, and
    /// open elsewhere.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Returns an error for the events whose callbacks Claude Code never calls.
    fn check_event(&self) -> Result<(), Error> {
        let instead = match self.event {
            EventName::SessionStart => {
                "use a command hook in `Builder::settings`, or `Builder::append_system_prompt` for context"
            }
            EventName::SessionEnd => {
                "run your code after `Claude::close`, or use a command hook in `Builder::settings`"
            }
            EventName::Setup => "use a command hook in `Builder::settings`",
            _ => return Ok(()),
        };
        let event = self.event.clone();
        Err(Error::NeverCalled { event, instead })
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("event", &self.event)
            .field("matcher", &self.matcher)
            .finish_non_exhaustive()
    }
}

/// A filter for the calls of an event, in the matcher language of Claude Code, which does the matching.
///
/// Plain words are an exact list: `"Bash"`, `"Write|Edit"`. With other characters it is a regular
/// expression: `"mcp__.*"`. The text that is compared depends on the event: the tool's name for tool
/// events, the trigger for compactions. Events that have nothing to compare ignore the matcher.
///
/// A matcher that matches nothing is not an error, and its callback is never called. `"bash"` is an
/// example (case counts), and so are permission rules: for `"Bash(git *)"`, match `"Bash"` and look at
/// the command in the callback.
///
/// ```
/// use becket_sdk::Matcher;
///
/// assert_eq!(Matcher::from("Bash"), Matcher::Pattern("Bash".to_owned()));
/// assert_eq!(Matcher::from("*"), Matcher::Any);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matcher {
    /// Every call.
    Any,
    /// The calls that the pattern matches.
    Pattern(String),
}

impl Matcher {
    fn to_json(&self) -> Value {
        match self {
            Self::Any => Value::Null,
            Self::Pattern(pattern) => pattern.as_str().into(),
        }
    }
}

impl From<&str> for Matcher {
    fn from(pattern: &str) -> Self {
        match pattern {
            "" | "*" => Self::Any,
            pattern => Self::Pattern(pattern.to_owned()),
        }
    }
}

impl From<String> for Matcher {
    fn from(pattern: String) -> Self {
        Self::from(pattern.as_str())
    }
}

/// Makes a PreToolUse callback that denies shell commands which contain one of the patterns. Patterns
/// are plain text. Register it for every tool that runs shell commands: Bash, and also Monitor.
///
/// It reads the command as text, so it stops mistakes, not intent: `rm -r -f` is another text than
/// `rm -rf`.
///
/// ```no_run
/// use becket_sdk::{Claude, PreToolUse, block_patterns};
///
/// # async fn example() -> Result<(), becket_sdk::Error> {
/// let claude = Claude::builder()
///     .on(PreToolUse, "Bash|Monitor", block_patterns(["rm -rf", "git push --force"]))
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn block_patterns<P: Into<String>>(
    patterns: impl IntoIterator<Item = P>,
) -> impl Fn(PreToolUse, Context) -> Ready<CallbackResult> + Send + Sync + 'static {
    let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
    move |call, _| ready(Ok(deny_patterns(&patterns, &call)))
}

fn deny_patterns(patterns: &[String], call: &PreToolUse) -> Answer {
    if !is_shell(&call.tool_name) {
        return Answer::none();
    }
    let command = call.tool_input["command"].as_str().unwrap_or_default();
    match patterns.iter().find(|pattern| command.contains(*pattern)) {
        Some(pattern) => Answer::deny(format!("Command contains forbidden pattern: {pattern}")),
        None => Answer::none(),
    }
}

#[cfg(test)]
mod tests {
    use becket_wire::event::Event;

    use super::*;

    #[test]
    fn block_patterns_checks_every_tool_that_runs_shell() {
        for (tool, is_denied) in [("Bash", true), ("Monitor", true), ("Task", false)] {
            let event = format!(
                r#"{{"hook_event_name": "PreToolUse", "tool_name": "{tool}", "tool_use_id": "t",
                    "session_id": "s", "tool_input": {{"command": "rm -rf x"}}}}"#
            );
            let Ok(Event::PreToolUse(call)) = Event::parse(&event) else {
                panic!("{event}");
            };
            let answer = deny_patterns(&["rm -rf".to_owned()], &call);
            assert_eq!(answer != Answer::none(), is_denied, "{tool}");
        }
    }
}
