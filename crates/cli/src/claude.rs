//! The Claude Code of this machine: which program it is, and which version.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use becket_engine::process::{Bounds, run_command};

use crate::failure::{Code, Failure};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// The three numbers of a version.
pub type Numbers = [u32; 3];

/// A version, what the ones before it lack, and true if becket is of no use with those.
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
/// The first version that knows `onFailure`, which `--strict` needs.
const STRICT: Numbers = [2, 1, 325];

/// Why a version is too old for becket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooOld {
    pub why: String,
    /// becket can do nothing with it.
    pub is_useless: bool,
}

/// Says what a version lacks, in the words of `claude --version`. None if it has all that is needed.
pub fn too_old(said: &str, strict: bool) -> Option<TooOld> {
    let version = numbers(said)?;
    let strict = strict.then_some((
        STRICT,
        false,
        "it does not know `onFailure`, so --strict changes nothing",
    ));
    let mut needs = NEEDS.into_iter().chain(strict);
    let (needed, is_useless, why) = needs.find(|(needed, ..)| version < *needed)?;
    let needed = needed.map(|number| number.to_string()).join(".");
    let why = format!("Claude Code {said} is too old: {why}; take {needed} or newer");
    Some(TooOld { why, is_useless })
}

/// What `claude --version` says; none if there is none on PATH. It is asked once: it takes a tenth
/// of a second to answer.
pub fn says() -> Option<String> {
    static SAID: OnceLock<Option<String>> = OnceLock::new();
    SAID.get_or_init(|| version_of(Path::new("claude"))).clone()
}

/// The version of the `claude` on PATH.
pub fn version() -> Option<Numbers> {
    numbers(&says()?)
}

/// The three numbers that a version begins with.
pub fn numbers(version: &str) -> Option<Numbers> {
    let mut parts = version
        .split_whitespace()
        .next()?
        .split('.')
        .map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// The first line that a program prints for `--version`.
pub fn version_of(program: &Path) -> Option<String> {
    let bounds = Bounds {
        time: Some(PATIENCE),
        bytes: 4096,
        ..Bounds::default()
    };
    let done = run_command(Command::new(program).arg("--version"), b"", &bounds).ok()?;
    let said = done
        .success()
        .then(|| String::from_utf8_lossy(&done.stdout).into_owned())?;
    said.lines().next().map(|line| line.trim().to_owned())
}

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
