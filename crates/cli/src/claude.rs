//! Finds the Claude Code of this machine and its version.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use becket_engine::process::{Bounds, run_command};

use crate::failure::{Code, Failure};

/// The time limit for `--version`.
const PATIENCE: Duration = Duration::from_secs(5);

/// The three numbers of a version.
pub type Numbers = [u32; 3];

/// The versions that becket needs: a version, true if becket is of no use with older ones, and the reason.
const NEEDS: [(Numbers, bool, &str); 2] = [
    (
        [2, 1, 101],
        true,
        "it drops every hook of a settings file that names an event it does not know, yours too",
    ),
    (
        [2, 1, 139],
        false,
        "it gives hooks no arguments, so only the home ~/.becket works",
    ),
];
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
    let strict = strict.then_some((
        STRICT,
        false,
        "it does not know `onFailure`, so --strict changes nothing",
    ));
    let mut needs = NEEDS.into_iter().chain(strict);
    let (needed, is_useless, why) = needs.find(|(needed, ..)| version < *needed)?;
    let needed = needed.map(|number| number.to_string()).join(".");
    let why = format!("Claude Code {printed} is too old: {why}; take {needed} or newer");
    Some(TooOld { why, is_useless })
}

/// Returns the output of `claude --version`, none if no `claude` is on PATH. Asks once: an answer takes a tenth of
/// a second.
pub fn printed_version() -> Option<String> {
    static PRINTED: OnceLock<Option<String>> = OnceLock::new();
    PRINTED
        .get_or_init(|| version_of(Path::new("claude")))
        .clone()
}

/// Returns the version of the `claude` on PATH.
pub fn version() -> Option<Numbers> {
    numbers(&printed_version()?)
}

/// Parses the three numbers that a version begins with.
pub fn numbers(version: &str) -> Option<Numbers> {
    let mut parts = version
        .split_whitespace()
        .next()?
        .split('.')
        .map(|part| part.parse().ok());
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
