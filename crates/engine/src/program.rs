//! Finds programs on PATH, and checks that they can be run.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The `PATH` of an environment that has none.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

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

/// Returns the `PATH` of an environment.
pub fn path_in(environment: &[(OsString, OsString)]) -> &OsStr {
    let path = environment.iter().rfind(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(USUAL_PATH), |(_, value)| value)
}

/// Finds the program that a word means in this `PATH`, or says why there is none. Relative folders are below `cwd`.
pub(crate) fn look_up(word: &str, path: &OsStr, cwd: &Path) -> Result<PathBuf, String> {
    let mut not_executable = None;
    for folder in std::env::split_paths(path) {
        let program = cwd.join(folder).join(word);
        match check(&program) {
            Ok(()) => return Ok(program),
            Err(why) if program.is_file() => not_executable = not_executable.or(Some(why)),
            Err(_) => {}
        }
    }
    Err(not_executable.unwrap_or_else(|| format!("no program \"{word}\" is in the PATH")))
}

/// Says why a program cannot be run, if it cannot.
pub(crate) fn check(program: &Path) -> Result<(), String> {
    let shown = program.display();
    match program.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("{shown} does not exist")),
        Err(error) => Err(format!("{shown} cannot be looked at: {error}")),
        Ok(what) if what.is_dir() => Err(format!("{shown} is a folder")),
        Ok(_) if !is_executable(program) => Err(format!(
            "{shown} is not executable (try `chmod +x {shown}`)"
        )),
        Ok(_) => Ok(()),
    }
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
