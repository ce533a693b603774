//! Which hooks an event concerns: Claude Code's matcher language, paths and agents.

/// A matcher as Claude Code reads it: a list of plain words, else a regular expression; empty or
/// `*` is everything.
#[derive(Debug, Clone, Default)]
pub struct Matcher;

/// Globs over the files that an event is about; `!` takes away again. None means any event.
#[derive(Debug, Clone, Default)]
pub struct Paths;

impl Matcher {
    pub fn parse(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Paths {
    pub fn parse(_: &[String]) -> Result<Self, String> {
        Ok(Self)
    }
}
