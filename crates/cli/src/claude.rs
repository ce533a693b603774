//! The Claude Code of this machine: which version it is.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use becket_engine::run::{Bounds, command};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// The three numbers of a version.
pub type Numbers = [u32; 3];

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
    let done = command(Command::new(program).arg("--version"), b"", &bounds).ok()?;
    let said = done
        .success()
        .then(|| String::from_utf8_lossy(&done.stdout).into_owned())?;
    said.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_before_anything_else() {
        assert_eq!(numbers("2.1.325 (Claude Code)"), Some([2, 1, 325]));
        assert_eq!(numbers("2.1"), None);
        assert_eq!(numbers("claude 2.1.325"), None);
        assert_eq!(numbers(""), None);
        assert!(numbers("2.1.98 (Claude Code)") < numbers("2.1.101"));
    }
}
