//! Runs a tool in the process group of the hook, so that it ends with the hook.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::process::{Bounds, run_command};

/// The number of bytes of each stream that are kept.
const MOST: usize = 8 << 20;

/// The output of a tool, and its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: String,
    pub stderr: String,
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// True if there was more output than is kept.
    pub cut: bool,
}

/// Runs a program to its end.
pub fn capture(program: &Path, args: &[OsString], folder: &Path) -> io::Result<Captured> {
    let mut tool = Command::new(program);
    tool.args(args)
        .current_dir(folder)
        .env("CI", "true")
        .env("NO_COLOR", "1")
        .env("FORCE_COLOR", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("RUST_BACKTRACE", "0")
        .env("GIT_OPTIONAL_LOCKS", "0");
    let bounds = Bounds {
        bytes: MOST,
        ..Bounds::default()
    };
    let done = run_command(&mut tool, b"", &bounds)?;
    Ok(Captured {
        stdout: plain(&String::from_utf8_lossy(&done.stdout)),
        stderr: plain(&String::from_utf8_lossy(&done.stderr)),
        code: done.status.and_then(|status| status.code()),
        cut: done.dropped > 0,
    })
}

/// Removes terminal colours, which some tools print in any case.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = match after.strip_prefix('[') {
            Some(sequence) => sequence
                .find(|c: char| ('@'..='~').contains(&c))
                .map_or("", |end| &sequence[end + 1..]),
            None => after,
        };
    }
    plain.push_str(rest);
    plain.replace('\r', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str) -> Captured {
        let args = ["-c", line].map(OsString::from);
        capture(Path::new("/bin/sh"), &args, Path::new("/")).unwrap()
    }

    #[test]
    fn both_streams_and_the_exit_code_are_kept() {
        let captured = sh("echo out; echo err >&2; exit 3");
        assert_eq!(captured.stdout, "out\n");
        assert_eq!(captured.stderr, "err\n");
        assert_eq!(captured.code, Some(3));
        assert_eq!(sh("kill -9 $$").code, None);
    }

    #[test]
    fn a_tool_has_no_stdin_and_gets_ci_and_no_color() {
        assert_eq!(sh("cat; echo $CI $NO_COLOR").stdout, "true 1\n");
    }

    #[test]
    fn a_flood_is_cut_and_does_not_stop_the_tool() {
        let captured = sh("head -c 9000000 /dev/zero | tr '\\0' x; exit 7");
        assert_eq!(captured.stdout.len(), MOST);
        assert!(captured.cut);
        assert_eq!(captured.code, Some(7));
    }

    #[test]
    fn colours_go() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\r\n"), "red\n");
        assert_eq!(plain("a\u{1b}[3"), "a");
    }
}
