//! Which project an event comes from, for the config that holds there.

use std::path::PathBuf;

use becket_engine::session::project_of;
use becket_wire::Head;
use becket_wire::rpc::Envelope;

use super::{Registry, is_git_root};

impl Registry {
    /// The project that an event comes from. Where its session is known to be, costs no look at the
    /// disk.
    pub(crate) fn project_of(&self, head: &Head<'_>, envelope: &Envelope) -> Option<PathBuf> {
        let live = self.sessions.get(head.session_id.as_deref()?);
        let session = live.map(|live| &live.session);
        let cwd = head.cwd.as_deref();
        let cwd = cwd.or_else(|| session?.cwd.as_deref())?;
        let known = session.and_then(|session| session.project_at(cwd, envelope));
        Some(match known {
            Some(project) => PathBuf::from(project),
            None => project_of(cwd, envelope.variable("CLAUDE_PROJECT_DIR"), is_git_root).into(),
        })
    }

    /// The project of a session.
    pub(crate) fn project(&self, id: &str) -> Option<PathBuf> {
        let live = self.sessions.get(id)?;
        live.session.project.as_ref().map(PathBuf::from)
    }
}
