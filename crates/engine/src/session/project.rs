//! Which project an event belongs to.

use std::path::Path;

use becket_wire::rpc::Envelope;

use super::{LONGEST, Session};

/// The git root above `cwd`, else `CLAUDE_PROJECT_DIR`, else `cwd` itself.
pub fn project_of(
    cwd: &str,
    claude_project_dir: Option<&str>,
    is_git_root: impl Fn(&Path) -> bool,
) -> String {
    let mut above = Path::new(cwd).ancestors();
    let root = above.find(|folder| folder.is_absolute() && is_git_root(folder));
    match (root.and_then(Path::to_str), claude_project_dir) {
        (Some(root), _) => root.to_owned(),
        (None, Some(project)) if !project.is_empty() => project.to_owned(),
        (None, _) => cwd.to_owned(),
    }
}

impl Session {
    /// The project, if it was looked for from there last.
    pub fn project_at(&self, cwd: &str, envelope: &Envelope) -> Option<&str> {
        let (from, claude) = self.project_from.as_ref()?;
        let same = (&**from, claude.as_deref()) == (cwd, claude_project(envelope));
        self.project.as_deref().filter(|_| same)
    }

    /// Finds the project, if what it depends on has changed since it was last looked for: most
    /// events cost no look at the disk. True if it is another one now.
    pub fn find_project(
        &mut self,
        envelope: &Envelope,
        is_git_root: impl Fn(&Path) -> bool,
    ) -> bool {
        let Some(cwd) = self.cwd.as_deref() else {
            return false;
        };
        let claude = claude_project(envelope);
        if let Some((from, project)) = &self.project_from
            && (&**from, project.as_deref()) == (cwd, claude)
        {
            return false;
        }
        let project = Some(project_of(cwd, claude, is_git_root));
        self.project_from = Some((cwd.to_owned(), claude.map(str::to_owned)));
        let changed = self.project != project;
        self.project = project;
        changed
    }
}

fn claude_project(envelope: &Envelope) -> Option<&str> {
    let folder = envelope.variable("CLAUDE_PROJECT_DIR");
    folder.map(|folder| &folder[..folder.floor_char_boundary(LONGEST)])
}
