//! Back to a checkpoint: what that would change, and doing it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git::{Git, GitError};
use super::keep::{Made, Wish, make};
use super::present::Present;
use super::read::{Checkpoint, Status, changes_in};

/// What a restore would do.
#[derive(Debug)]
pub struct Plan {
    /// Files that get another content, or come back.
    pub write: Vec<(Status, OsString)>,
    /// Files that came later.
    pub later: Vec<OsString>,
    /// Files that cannot be written, because something else stands in their place.
    pub blocked: Vec<OsString>,
    tree: String,
    present: Present,
}

/// Compares the present with a checkpoint. Paths are as typed in `folder`; none is all.
pub fn plan(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
    largest: u64,
) -> Result<Plan, GitError> {
    let mut present = Present::take(git, largest)?;
    let mut changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    // What is there and not in the present tree (ignored, or too large) would be lost.
    let unseen = changes.iter().filter(|(status, path)| {
        let file = git.root().join(path);
        *status == Status::Added && fs::symlink_metadata(file).is_ok_and(|file| !file.is_dir())
    });
    let unseen: Vec<OsString> = unseen.map(|(_, path)| path.clone()).collect();
    if !unseen.is_empty() {
        present.force(git, &unseen)?;
        changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    }
    let (gone, back): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .partition(|(status, _)| *status == Status::Deleted);
    let (blocked, write): (Vec<_>, Vec<_>) = back
        .into_iter()
        .partition(|(_, path)| is_blocked(git.root(), path));
    let names =
        |changes: Vec<(Status, OsString)>| changes.into_iter().map(|(_, path)| path).collect();
    Ok(Plan {
        write,
        later: names(gone),
        blocked: names(blocked),
        tree: checkpoint.tree.clone(),
        present,
    })
}

/// Whether a checkpoint has any of these paths, as typed in `folder`.
pub fn holds(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
) -> Result<bool, GitError> {
    let args = ["ls-tree", "-r", "-z", "--name-only", &checkpoint.tree, "--"];
    let paths: Vec<&OsStr> = paths.iter().map(OsString::as_os_str).collect();
    Ok(!git.run_in(folder, &args, &paths)?.is_empty())
}

/// git would remove a folder that stands where the file was, with all that is ignored in it; and
/// what lies behind a link is not ours.
fn is_blocked(root: &Path, path: &OsStr) -> bool {
    let kind = |path: &Path| fs::symlink_metadata(root.join(path)).map(|file| file.is_dir());
    let path = Path::new(path);
    let mut above = path
        .ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty());
    kind(path).is_ok_and(|is_folder| is_folder)
        || above.any(|above| kind(above).is_ok_and(|is_folder| !is_folder))
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.write.is_empty() && self.later.is_empty()
    }

    /// Keeps the present state first.
    pub fn keep_present(&self, git: &Git, wish: &Wish<'_>) -> Result<Made, GitError> {
        make(git, &self.present, wish)
    }

    /// Writes the files of the checkpoint.
    pub fn write(&self, git: &Git) -> Result<(), GitError> {
        if self.write.is_empty() {
            return Ok(());
        }
        let folder = tempfile::Builder::new().prefix("becket-").tempdir()?;
        let index = folder.path().join("index");
        git.with_index(&index, &["read-tree", &self.tree], b"")?;
        let mut names = Vec::new();
        for (_, path) in &self.write {
            names.extend_from_slice(path.as_bytes());
            names.push(0);
        }
        let args = ["checkout-index", "--force", "-z", "--stdin"];
        git.with_index(&index, &args, &names).map(drop)
    }

    /// Deletes what came later, and the folders that are empty then.
    pub fn delete_later(&self, git: &Git) -> Result<(), GitError> {
        for path in &self.later {
            let file = git.root().join(path);
            fs::remove_file(&file)?;
            let mut folder: PathBuf = file;
            while folder.pop() && folder != git.root() && fs::remove_dir(&folder).is_ok() {}
        }
        Ok(())
    }
}
