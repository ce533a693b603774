//! What becket's verdict means for the callbacks after it.

use std::sync::Arc;

use becket_wire::answer::{Change, Opinion};
use becket_wire::event::EventName;
use becket_wire::{Answer, Head};
use serde_json::Value;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::BecketHook;
use crate::hooks::Context;

/// Whether a callback gets an event that becket has judged.
pub(crate) enum Gate {
    /// becket has refused it.
    Refused,
    /// It gets this input: as it came, or as becket has rewritten it.
    Passed(Arc<str>),
    /// The call was cancelled.
    Cancelled,
}

impl BecketHook {
    /// Waits for becket's verdict, until the context's deadline. If becket fails or is late, the event
    /// passes: becket's own callback reports it.
    pub(crate) async fn gate(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        cancelled: &CancellationToken,
    ) -> Gate {
        let verdict = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Gate::Cancelled,
            verdict = self.verdict(event, Arc::clone(&input), context, false) => verdict,
            () = sleep_until(context.deadline) => return Gate::Passed(input),
        };
        match verdict {
            Ok(answer) if refuses(&answer) => Gate::Refused,
            Ok(answer) => Gate::Passed(rewritten(&answer, &input).unwrap_or(input)),
            Err(_) => Gate::Passed(input),
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
