//! Finds programs on PATH.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Returns the folders of PATH.
pub fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}

/// Finds the program of this name. Relative folders are ignored: they would lead into the current folder.
pub fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let mut places = folders.iter().map(|folder| folder.join(name));
    places.find(|program| program.is_absolute() && is_executable(program))
}

/// Returns true if a path is a file that this process may run.
pub fn is_executable(program: &Path) -> bool {
    program.is_file() && access(program, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_what_can_be_run_and_stands_in_a_whole_path() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["text", "folder", "program", "later"].map(|name| root.path().join(name));
        for (folder, mode) in folders.iter().zip([0o644, 0, 0o755, 0o755]) {
            fs::create_dir(folder).unwrap();
            let file = folder.join("git");
            if mode == 0 {
                fs::create_dir(file).unwrap();
                continue;
            }
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(find("git", &folders), Some(folders[2].join("git")));
        assert_eq!(find("git", &folders[..2]), None);
        // The tests run in the folder of this crate.
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(folders[2].strip_prefix("/").unwrap());
        assert!(is_executable(&relative.join("git")), "{relative:?}");
        assert_eq!(find("git", &[relative]), None);
    }
}
