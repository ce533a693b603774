//! Which program is Claude Code here.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::{Code, Failure};

/// The program that was named, or `claude` on PATH, as an absolute path.
pub fn find(named: Option<&Path>, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf> {
    let name = named.unwrap_or(Path::new("claude"));
    let found = if name.components().count() > 1 {
        Some(cwd.join(name)).filter(|file| file.exists())
    } else {
        let folders = path.map(std::env::split_paths).into_iter().flatten();
        let files: Vec<PathBuf> = folders
            .map(|folder| cwd.join(folder).join(name))
            .filter(|file| file.is_file())
            .collect();
        let runs = files.iter().find(|file| is_executable(file));
        runs.or(files.first()).cloned()
    };
    let Some(found) = found else {
        let what = format!("could not find {}", name.display());
        let hint = "install Claude Code, or name it: becket run -- /path/to/claude";
        return Err(Failure::new(Code::Missing, what).hint(hint).into());
    };
    if !is_executable(&found) {
        let what = format!("{} is not a program that can be run", found.display());
        let hint = format!(
            "chmod +x {}, or name another: becket run -- /path/to/claude",
            found.display()
        );
        return Err(Failure::new(Code::Failed, what).hint(hint).into());
    }
    Ok(found)
}

fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn finds_what_runs_and_says_what_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        for folder in [&first, &second] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("claude"), "").unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        let find = |named: Option<&str>| find(named.map(Path::new), Some(&path), folder.path());
        assert!(format!("{:#}", find(None).unwrap_err()).contains("a/claude is not a program"));
        fs::set_permissions(second.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(None).unwrap(), second.join("claude"));
        assert_eq!(
            find(Some("./b/claude")).unwrap(),
            folder.path().join("./b/claude")
        );
        assert!(find(Some("./c/claude")).is_err());
        assert!(super::find(None, None, folder.path()).is_err());
    }
}
