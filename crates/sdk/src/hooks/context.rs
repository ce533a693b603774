//! What a callback knows besides its event.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use becket_wire::event::PermissionMode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why a call ended before its callback did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Its time was up.
    TimedOut,
    /// The turn was cancelled, Claude Code took the request back, or the client was dropped.
    Cancelled,
}

/// What a callback knows besides its event: where it happens, until when it may take, and whether it
/// is still needed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// The session. Absent only if Claude Code does not say it, as in a `can_use_tool` request before
    /// the first message of the session.
    pub session_id: Option<String>,
    /// The session's working folder. Absent in `can_use_tool` requests before the first message.
    pub cwd: Option<PathBuf>,
    /// The session's transcript. Absent in `can_use_tool` requests. The file itself may not exist yet
    /// at the first events of a session.
    pub transcript_path: Option<PathBuf>,
    /// How much Claude Code may do without asking. Absent in `can_use_tool` requests and in events
    /// that are not about a tool, a prompt or a stop.
    pub permission_mode: Option<PermissionMode>,
    /// The subagent that acts. Absent for the main agent.
    pub agent_id: Option<String>,
    /// The tool call. For events without one Claude Code sends an id of its own making. Absent only if
    /// Claude Code leaves it out.
    pub tool_use_id: Option<String>,
    /// The callback's id: `hook_1`, `hook_2` in order of registration, or `can_use_tool`.
    pub callback_id: String,
    /// When the call times out.
    pub deadline: Instant,
    /// Cancelled when the call is over: answered, timed out, cancelled, or the client was dropped. The
    /// callback's future is dropped then too, so only tasks that it started itself need this.
    pub cancellation: CancellationToken,
    pub(crate) ended: Arc<OnceLock<Ended>>,
}

impl Context {
    /// A context of which only the id and the deadline are known, for tests of a callback.
    pub fn new(callback_id: &str, deadline: Instant) -> Self {
        Self {
            session_id: None,
            cwd: None,
            transcript_path: None,
            permission_mode: None,
            agent_id: None,
            tool_use_id: None,
            callback_id: callback_id.to_owned(),
            deadline,
            cancellation: CancellationToken::new(),
            ended: Arc::default(),
        }
    }

    /// Why the call ended before the callback did; `None` while it runs. For tasks that the
    /// callback started, and for `Drop` implementations of the values that it holds.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get().copied()
    }

    /// Sets the reason before it cancels: a task that the cancellation wakes can read it.
    pub(crate) fn end(&self, why: Ended) {
        // The first reason stays.
        let _ = self.ended.set(why);
        self.cancellation.cancel();
    }
}
