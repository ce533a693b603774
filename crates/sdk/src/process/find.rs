//! Where programs are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where Claude Code's installers put it, below the home folder.
const USUAL: [&str; 3] = [
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
];

/// `claude` on this PATH, else where it is usually installed.
pub(crate) fn find_claude(path: Option<&OsStr>, home: Option<&Path>) -> Result<PathBuf, Error> {
    let usual = || {
        let places = home
            .into_iter()
            .flat_map(|home| USUAL.map(|place| home.join(place)));
        places.into_iter().find(|file| file.is_file())
    };
    find_on_path("claude", path)
        .or_else(usual)
        .ok_or(Error::NotFound)
}

pub(crate) fn find_on_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path?).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}
