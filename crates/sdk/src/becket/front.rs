//! What becket's verdict means for the callbacks behind it.

use std::sync::Arc;

use becket_wire::answer::{Change, Opinion};
use becket_wire::event::EventName;
use becket_wire::{Answer, Head};
use serde_json::Value;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::Road;
use crate::hooks::Context;

/// Whether a callback gets an event that becket has judged.
pub(crate) enum Front {
    /// becket has refused it.
    Refused,
    /// It gets this input: as it came, or as becket has rewritten it.
    Passed(Arc<str>),
    /// Nobody waits any more.
    Cancelled,
}

impl Road {
    /// Waits for becket's verdict, until the context's deadline. A becket that fails or is late is
    /// answered for by its own callback.
    pub(crate) async fn front(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        cancelled: &CancellationToken,
    ) -> Front {
        let verdict = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Front::Cancelled,
            verdict = self.verdict(event, Arc::clone(&input), context, false) => verdict,
            () = sleep_until(context.deadline) => return Front::Passed(input),
        };
        match verdict {
            Ok(answer) if refuses(&answer) => Front::Refused,
            Ok(answer) => Front::Passed(rewritten(&answer, &input).unwrap_or(input)),
            Err(_) => Front::Passed(input),
        }
    }
}

/// A block after the fact is feedback for the model: what happened has happened.
fn refuses(answer: &Answer) -> bool {
    match answer.opinion() {
        Some(Opinion::Deny { .. } | Opinion::Decline { .. } | Opinion::Cancel) => true,
        Some(Opinion::Block { .. }) => !answer.event().as_str().starts_with("Post"),
        _ => answer.stopped().is_some(),
    }
}

/// The input with becket's `tool_input` in place of the model's.
fn rewritten(answer: &Answer, input: &str) -> Option<Arc<str>> {
    let change = answer.changes().iter().find_map(|change| match change {
        Change::Input(input) => Some(input.clone()),
        _ => None,
    });
    let change = change?;
    Head::read(input.as_bytes()).ok()?.tool_input?;
    let mut input: Value = serde_json::from_str(input).ok()?;
    input["tool_input"] = change.into();
    Some(input.to_string().into())
}
