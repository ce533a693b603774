//! Finds the Claude Code of this machine and its version.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use becket_engine::process::{Bounds, run_command};

use crate::failure::{Code, Failure};

/// The time limit for `--version`.
const PATIENCE: Duration = Duration::from_secs(5);

/// The three numbers of a version.
pub type Numbers = [u32; 3];

/// The versions that becket needs, and what older ones lack.
const NEEDS: [(Numbers, &str); 3] = [
    (
        WORKS,
        "it drops every hook of a settings file that names an event it does not know, yours too",
    ),
    (
        [2, 1, 139],
        "it gives hooks no arguments, so only the home ~/.becket works",
    ),
    (
        STRICT,
        "it does not know `onFailure`, so --strict changes nothing",
    ),
];
/// The first version with which becket is of any use.
const WORKS: Numbers = [2, 1, 101];
/// The first version with `onFailure`, which `--strict` needs.
const STRICT: Numbers = [2, 1, 325];

/// The reason why a version is too old for becket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooOld {
    pub why: String,
    /// True if becket does not work with this version at all.
    pub is_useless: bool,
}

/// Returns the reason why a version, as `claude --version` prints it, is too old. Returns none if it is not.
pub fn too_old(printed: &str, strict: bool) -> Option<TooOld> {
    let version = numbers(printed)?;
    let mut needs = NEEDS.into_iter().filter(|need| strict || need.0 != STRICT);
    let ([a, b, c], why) = needs.find(|need| version < need.0)?;
    Some(TooOld {
        why: format!("Claude Code {printed} is too old: {why}; take {a}.{b}.{c} or newer"),
        is_useless: version < WORKS,
    })
}

/// Returns the output of `claude --version`, none if no `claude` is on PATH. Asks once: an answer takes a tenth of
/// a second.
pub fn printed_version() -> Option<String> {
    static PRINTED: LazyLock<Option<String>> = LazyLock::new(|| version_of(Path::new("claude")));
    PRINTED.clone()
}

/// Returns the version of the `claude` on PATH.
pub fn version() -> Option<Numbers> {
    numbers(&printed_version()?)
}

/// Parses the three numbers that a version begins with.
pub fn numbers(version: &str) -> Option<Numbers> {
    let version = version.split_whitespace().next()?;
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Returns the first line that a program prints for `--version`.
pub fn version_of(program: &Path) -> Option<String> {
    let bounds = Bounds {
        time: Some(PATIENCE),
        bytes: 4096,
        ..Bounds::default()
    };
    let done = run_command(Command::new(program).arg("--version"), b"", &bounds).ok()?;
    if !done.success() {
        return None;
    }
    let printed = String::from_utf8_lossy(&done.stdout);
    printed.lines().next().map(|line| line.trim().to_owned())
}

/// Returns the absolute path of the named program, or of `claude` on PATH.
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
        let executable = files.iter().find(|file| is_executable(file));
        executable.or(files.first()).cloned()
    };
    let Some(found) = found else {
        let what = format!("could not find {}", name.display());
        let hint = "install Claude Code, or name it: becket run -- /path/to/claude";
        return Err(Failure::new(Code::Missing, what).hint(hint).into());
    };
    if !is_executable(&found) {
        let what = format!("{} is not a program that can be run", found.display());
        let found = found.display();
        let hint = format!("chmod +x {found}, or name another: becket run -- /path/to/claude");
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
    fn a_version_is_three_numbers_before_anything_else() {
        assert_eq!(numbers("2.1.325 (Claude Code)"), Some([2, 1, 325]));
        assert_eq!(numbers("2.1"), None);
        assert_eq!(numbers("claude 2.1.325"), None);
        assert_eq!(numbers(""), None);
        assert!(numbers("2.1.98 (Claude Code)") < numbers("2.1.101"));
    }

    #[test]
    fn an_old_version_is_told_what_it_lacks() {
        let why = |said: &str, strict| too_old(said, strict).map(|old| (old.is_useless, old.why));
        let (is_useless, why_useless) = why("2.0.10 (Claude Code)", false).unwrap();
        assert!(
            is_useless && why_useless.starts_with("Claude Code 2.0.10 (Claude Code) is too old")
        );
        assert!(!why("2.1.138", false).unwrap().0);
        assert_eq!(why("2.1.260", false), None);
        assert!(why("2.1.260", true).unwrap().1.contains("--strict"));
        assert_eq!(why("2.1.325 (Claude Code)", true), None);
        assert_eq!(why("unknown", true), None);
    }

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
        assert!(crate::claude::find(None, None, folder.path()).is_err());
    }
}
