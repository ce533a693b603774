//! What a hook's program finds around it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::{Action, Hook, Kit};

/// How Claude Code tells its hooks the project.
pub(super) const PROJECT: &str = "CLAUDE_PROJECT_DIR";
/// Variables by which a shell reads a file first, or goes into another folder than the line says. A
/// repository's settings can set them.
const LEADING: [&str; 6] = [
    "CDPATH",
    "OLDPWD",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
];
/// How bash hands on functions, which it then takes for programs.
const FUNCTION: &[u8] = b"BASH_FUNC_";

fn is_leading(name: &OsStr) -> bool {
    LEADING.iter().any(|it| name == *it) || name.as_bytes().starts_with(FUNCTION)
}

/// What a hook's program finds around it: what whoever asked has, except what leads a shell
/// elsewhere. Where the person approved a project, that project is `CLAUDE_PROJECT_DIR`, whatever
/// whoever asked calls so: its files are those that were looked at.
pub fn environment(hook: &Hook, kit: &Kit, project: &Path) -> Arc<[(OsString, OsString)]> {
    let approved = match &hook.action {
        Action::BuiltIn(..) => Some(project),
        Action::Run(_) => hook.root.as_deref(),
    };
    let all = kit.environment.iter();
    if approved.is_none() && !all.clone().any(|(name, _)| is_leading(name)) {
        return Arc::clone(&kit.environment);
    }
    let is_replaced = |name: &OsStr| approved.is_some() && name == PROJECT;
    let others = all.filter(|(name, _)| !is_leading(name) && !is_replaced(name));
    let approved = approved.map(|approved| (PROJECT.into(), approved.into()));
    others.cloned().chain(approved).collect()
}
