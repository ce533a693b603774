//! Which project an event belongs to.

use std::path::Path;

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
