//! Which project it is: the git common folder, so that worktrees are one; else the folder itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Nothing that git writes there is longer.
const LONGEST: u64 = 64 << 10;

/// The key of a project, resolved. None if the folder is gone, or its name is not UTF-8.
pub fn key_of(project: &Path) -> Option<String> {
    let project = project.canonicalize().ok()?;
    let key = common_folder(&project).unwrap_or(project);
    key.into_os_string().into_string().ok()
}

/// Anybody can put a `.git` into a folder that points to somebody else's repository. So a link does
/// not count, and a worktree only if its repository knows it.
fn common_folder(project: &Path) -> Option<PathBuf> {
    let git = project.join(".git");
    let kind = fs::symlink_metadata(&git).ok()?.file_type();
    if kind.is_dir() {
        return git.canonicalize().ok();
    }
    if !kind.is_file() {
        return None;
    }
    let line = line_of(&git)?;
    let worktree = project.join(line.strip_prefix("gitdir:")?.trim());
    let worktree = worktree.canonicalize().ok()?;
    let common = worktree.join(line_of(&worktree.join("commondir"))?);
    let common = common.canonicalize().ok()?;
    let back = worktree.join(line_of(&worktree.join("gitdir"))?);
    let known = worktree.parent() == Some(&common.join("worktrees"))
        && back.canonicalize().ok()? == git.canonicalize().ok()?;
    known.then_some(common)
}

fn line_of(file: &Path) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}
