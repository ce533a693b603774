//! The check before every start of a hook: its environment, and the reasons for which it must not start.

use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Approved;
use super::named_files::{NamedPath, files, names_file_in, starts_at_root};
use crate::guard::path::follow;
use crate::hooks::{Action, Hook};
use crate::program::{is_executable, path_in};

pub type Environment = Arc<[(OsString, OsString)]>;

const UNTRUSTED_FILE: &str =
    "its command names a file of this project, which is not trusted: see `becket trust`";
const UNPINNED_FILE: &str =
    "in this folder its command names another file than the one that was approved";
const CHANGED: &str =
    "the files that it starts have changed since they were approved: see `becket trust`";

/// The variable in which Claude Code tells its hooks the project.
const PROJECT: &str = "CLAUDE_PROJECT_DIR";
/// Variables that make a shell read a file first, or enter another folder than its command line says. A
/// repository's settings can set them.
const LEADING: [&str; 6] = [
    "CDPATH",
    "OLDPWD",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
];
/// The prefix of functions that bash hands on.
const FUNCTION: &[u8] = b"BASH_FUNC_";

/// Returns the environment of a hook that is about to start in `cwd`, or the reason for which it must not start.
///
/// In a project that is not trusted, the entries of `PATH` inside it are dropped, and no relative
/// path in the user's own hook may name a file of it. A hook that an approved project names starts
/// only while the approved files are unchanged, and `CLAUDE_PROJECT_DIR` is that project.
pub fn admit(
    hook: &Hook,
    environment: &Environment,
    project: &Path,
    cwd: &Path,
) -> Result<Environment, &'static str> {
    if hook.changed {
        return Err(CHANGED);
    }
    let untrusted = hook.untrusted_project.as_deref().map(resolved);
    let path = match &untrusted {
        Some(untrusted) => path_outside(untrusted, path_in(environment)),
        None => path_in(environment).to_owned(),
    };
    if let Action::Run(program) = &hook.action {
        let cwd = resolved(cwd);
        if let Some(untrusted) = &untrusted
            && (names_file_in(program, untrusted, untrusted)
                || names_file_in(program, &cwd, untrusted))
        {
            return Err(UNTRUSTED_FILE);
        }
        if let Some(approved) = &hook.approved {
            let root = resolved(approved.project());
            let mut files = files(program, &cwd, &root);
            if cwd != root
                && !starts_at_root(program)
                && !files
                    .all(|it| is_on_path(&it.word, &path, &cwd) || is_pinned(&it, approved, &root))
            {
                return Err(UNPINNED_FILE);
            }
        }
    }
    if hook.approved.as_ref().is_some_and(|it| !it.still_holds()) {
        return Err(CHANGED);
    }
    let approved = match &hook.action {
        Action::BuiltIn(..) => Some(project),
        Action::Run(_) => hook.approved.as_ref().map(|it| it.project()),
    };
    let is_replaced = |name: &OsStr| name == "PATH" || (approved.is_some() && name == PROJECT);
    let others = environment
        .iter()
        .filter(|(name, _)| !misleads_shell(name) && !is_replaced(name));
    let approved = approved.map(|approved| (PROJECT.into(), approved.into()));
    let own = [("PATH".into(), path)].into_iter().chain(approved);
    Ok(others.cloned().chain(own).collect())
}

/// Returns true if a word is the name of a program in one of the folders of `path`.
fn is_on_path(word: &str, path: &OsStr, cwd: &Path) -> bool {
    !word.contains('/')
        && split_paths(path).any(|folder| is_executable(&cwd.join(folder).join(word)))
}

fn is_pinned(file: &NamedPath, approved: &Approved, root: &Path) -> bool {
    let name = file.path.strip_prefix(root).ok().and_then(Path::to_str);
    name.is_some_and(|name| approved.pins().names(name))
}

fn misleads_shell(name: &OsStr) -> bool {
    LEADING.iter().any(|it| name == *it) || name.as_bytes().starts_with(FUNCTION)
}

fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The time limit for resolving an entry of `PATH`.
const RESOLVING: Duration = Duration::from_secs(1);

/// Returns the `PATH` without the entries that lead into the project, or may do so for a process of the hook: a
/// relative one depends on its folder, and one through `/proc` on the process itself.
fn path_outside(project: &Path, path: &OsStr) -> OsString {
    let outside = split_paths(path).filter(|entry| stays_outside(project, entry));
    match join_paths(outside) {
        Ok(path) if !path.is_empty() => path,
        // An empty `PATH` would mean the current folder.
        _ => path_in(&[]).to_owned(),
    }
}

/// Returns true if an entry of `PATH` is the same folder for every process, and not in the project.
fn stays_outside(project: &Path, entry: &Path) -> bool {
    let mut outside = entry.is_absolute();
    let passes = |place: &Path| {
        outside &= !place.starts_with(project) && !place.starts_with("/proc");
    };
    let by = Instant::now() + RESOLVING;
    let followed = follow(PathBuf::from("/"), entry, by, passes);
    followed.is_some() && outside
}
