//! What a Bash command would do, read from its syntax tree: the only reader of shell syntax in the program.
//!
//! `shell` walks statements and keeps what the shell would know (variables, folder, functions, files that
//! the script wrote), `word` expands words, `start` and `launcher` decide what a simple command starts,
//! `program` what it prints, `touch` which paths it touches; `code` reads `python -c` and its like.

use std::path::Path;

use super::act::{Act, Content, Touch};

mod code;
mod launcher;
mod program;
mod redirect;
mod shell;
mod start;
mod syntax;
mod touch;
mod word;
mod wrapper;

pub(super) use wrapper::one_of;

#[cfg(test)]
mod tests;

/// What a command would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    pub acts: Vec<Act>,
    /// By their words: symlinks are not followed.
    pub touches: Vec<Touch>,
    /// Why parts of it could not be read.
    pub unread: Vec<String>,
    /// See [`Call::written`](super::act::Call::written).
    pub written: Vec<(String, Content)>,
    /// It has a syntax error.
    pub is_broken: bool,
}

/// What a Bash command would do. Reads no file.
pub fn read(command: &str, cwd: &Path, home: &Path) -> Read {
    shell::Shell::new(cwd, home).read(command)
}
