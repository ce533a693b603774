//! Reads git's own files: the branch, the linked worktree and the repository of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::stamp::read_text;

/// The most bytes that are read of a pointer file of git's: it holds one path or one ref.
const LONGEST: u64 = 8 << 10;

/// The branch and the linked worktree of a folder, as far as there are any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkout {
    /// None outside a repository, and where no branch is checked out.
    pub branch: Option<String>,
    /// The name of the linked worktree; none in the main one.
    pub worktree: Option<String>,
}

impl Checkout {
    /// Returns the branch and the worktree of the nearest work tree that a folder is in.
    pub fn of(folder: &Path) -> Self {
        folder.ancestors().find_map(Self::read).unwrap_or_default()
    }

    /// Returns none if this folder is not the top of a work tree.
    fn read(top: &Path) -> Option<Self> {
        let git = top.join(".git");
        let linked = first_line(&git).and_then(|line| {
            let admin = line.strip_prefix("gitdir:")?.trim();
            Some(top.join(admin))
        });
        // A submodule has such a pointer too, to another place.
        let worktree = linked
            .as_deref()
            .filter(|admin| admin.parent().is_some_and(|it| it.ends_with("worktrees")));
        let worktree = worktree.and_then(|admin| Some(admin.file_name()?.to_str()?.to_owned()));
        let head = first_line(&linked.unwrap_or(git).join("HEAD"))?;
        // A reftable repository keeps its HEAD elsewhere, and this ref in the file.
        let branch = head.strip_prefix("ref: refs/heads/");
        let branch = branch.filter(|branch| *branch != ".invalid");
        Some(Self {
            branch: branch.map(str::to_owned),
            worktree,
        })
    }
}

/// Returns the git common folder. A `.git` can point to any repository, so a link does not count, and a worktree
/// only if its repository knows it.
pub(crate) fn common_folder(project: &Path) -> Option<PathBuf> {
    let git = project.join(".git");
    let kind = fs::symlink_metadata(&git).ok()?.file_type();
    if kind.is_dir() {
        return git.canonicalize().ok();
    }
    if !kind.is_file() {
        return None;
    }
    let line = first_line(&git)?;
    let worktree = project.join(line.strip_prefix("gitdir:")?.trim());
    let worktree = worktree.canonicalize().ok()?;
    let common = worktree.join(first_line(&worktree.join("commondir"))?);
    let common = common.canonicalize().ok()?;
    let back = worktree.join(first_line(&worktree.join("gitdir"))?);
    let known = worktree.parent() == Some(&common.join("worktrees"))
        && back.canonicalize().ok()? == git.canonicalize().ok()?;
    known.then_some(common)
}

fn first_line(file: &Path) -> Option<String> {
    let text = read_text(file, LONGEST).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_on_the_branch_of_its_nearest_work_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("app/.git/HEAD", "ref: refs/heads/fix/login\n");
        write("app/.git/worktrees/tide/HEAD", "ref: refs/heads/tide\n");
        write(
            "app/.claude/worktrees/tide/.git",
            "gitdir: ../../../.git/worktrees/tide\n",
        );
        write("app/.git/modules/lib/HEAD", "4e296f3a9d\n");
        write("app/lib/.git", "gitdir: ../.git/modules/lib\n");
        write("app/src/main.rs", "");
        write("tables/.git/HEAD", "ref: refs/heads/.invalid\n");
        write("plain/file", "");
        let git = |path: &str| {
            let found = Checkout::of(&folder.path().join(path));
            format!("{:?} {:?}", found.branch, found.worktree)
        };
        assert_eq!(git("app/src"), r#"Some("fix/login") None"#);
        assert_eq!(
            git("app/.claude/worktrees/tide"),
            r#"Some("tide") Some("tide")"#
        );
        assert_eq!(git("app/lib"), "None None", "no branch is checked out");
        assert_eq!(git("tables"), "None None", "its HEAD is not in a file");
        assert_eq!(git("plain"), "None None");
    }
}
