//! Reports tests that could not run, so that they count as skipped and never as passed.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// An error for a missing part of the environment: Claude Code, tmux, the network.
#[derive(Debug, Clone)]
pub struct Unavailable(String);

impl Unavailable {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Reports a skipped test on the real stderr (the test runner captures `eprintln!`) and in the file
/// `$BECKET_SKIPPED`, where `./test` counts it.
pub fn skip(name: &str, why: &Unavailable) {
    let line = format!("SKIPPED {name}: {why}\n");
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
    let Some(path) = std::env::var_os("BECKET_SKIPPED") else {
        return;
    };
    let counted = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = counted {
        panic!(
            "count the skipped test {name} in {}: {error}",
            path.display()
        );
    }
}
