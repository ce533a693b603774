//! The handlers of Claude Code's requests, by subtype.

use std::sync::Arc;

use becket_wire::event::parse_json;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::frames::Reply;
use super::link::Link;
use crate::hooks::Boxed;
use crate::hooks::scope::Scope;
use crate::hooks::service::Service;

/// Answers a request, given its body.
type Handler = fn(Arc<Service>, String, Scope) -> Boxed<Reply>;

/// The subtypes that are understood. A new one is a line here.
const HANDLERS: [(&str, Handler); 2] = [
    ("hook_callback", |service, body, scope| {
        Box::pin(async move {
            match read(&body) {
                Ok(call) => service.hook_callback(call, scope).await,
                Err(reply) => reply,
            }
        })
    }),
    ("can_use_tool", |service, body, scope| {
        Box::pin(async move {
            match read(&body) {
                Ok(request) => service.can_use_tool(request, scope).await,
                Err(reply) => reply,
            }
        })
    }),
];

#[derive(Deserialize)]
struct Subtype {
    subtype: String,
}

impl Link {
    /// Answers a request in a task of its own, unless it is cancelled first.
    pub(super) fn serve(self: &Arc<Self>, id: String, body: String) {
        let subtype = match read::<Subtype>(&body) {
            Ok(body) => body.subtype,
            Err(reply) => return self.writer.send(&reply.into_frame(&id)),
        };
        let Some((_, handler)) = HANDLERS.iter().find(|(name, _)| *name == subtype) else {
            let text = format!("unknown_subtype: this client does not know {subtype}");
            return self.writer.send(&Reply::Error(text).into_frame(&id));
        };
        let scope = self.service.scope().child();
        self.service.in_flight.begin(&id, scope.token.clone());
        let reply = handler(Arc::clone(&self.service), body, scope);
        let link = Arc::clone(self);
        tokio::spawn(async move {
            let reply = reply.await;
            let frame = reply.into_frame(&id);
            link.service
                .in_flight
                .finish(&id, || link.writer.send(&frame));
        });
    }
}

fn read<T: DeserializeOwned>(body: &str) -> Result<T, Reply> {
    let invalid = |why: String| Reply::Error(format!("invalid_request: {why}"));
    // Claude Code may cut a string inside a character: `parse_json` repairs that.
    serde_json::from_str(body).or_else(|first| {
        let repaired = parse_json(body.as_bytes()).map_err(|why| invalid(why.to_string()))?;
        serde_json::from_value(repaired).map_err(|_| invalid(first.to_string()))
    })
}
