//! Globs over files, read as `.gitignore` reads them.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// Globs over the files that an event is about; `!` takes away again. None means any event.
///
/// They are relative to the project. One without a `/` but at its end matches at any depth; a folder
/// stands for all that is in it; the last that matches wins. Where all begin with `!`, everything
/// else is taken. A file outside of the project is none of theirs.
#[derive(Debug, Clone, Default)]
pub struct Paths(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    itself: GlobMatcher,
    below: GlobMatcher,
    /// `dir/` means what is in it, not a file of that name.
    only_below: bool,
    takes: bool,
}

impl Paths {
    pub fn parse(globs: &[String]) -> Result<Self, String> {
        globs
            .iter()
            .map(|glob| rule(glob))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the file is one of them. Symlinks are not followed; `..` is taken as it reads.
    pub fn matches(&self, file: &Path, project: &Path) -> bool {
        let (file, project) = (plain(file), plain(project));
        let Ok(file) = file.strip_prefix(&project) else {
            return false;
        };
        match self.0.iter().rev().find(|rule| rule.matches(file)) {
            Some(rule) => rule.takes,
            None => self.0.iter().all(|rule| !rule.takes),
        }
    }
}

impl Rule {
    fn matches(&self, file: &Path) -> bool {
        !self.only_below && self.itself.is_match(file) || self.below.is_match(file)
    }
}

fn rule(glob: &str) -> Result<Rule, String> {
    let (takes, pattern) = match glob.strip_prefix('!') {
        Some(rest) => (false, rest),
        None => (true, glob),
    };
    let only_below = pattern.ends_with('/');
    let pattern = pattern.trim_end_matches('/');
    let rooted = pattern.strip_prefix("./").or(pattern.strip_prefix('/'));
    let pattern = match rooted {
        Some(rest) => rest.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    if pattern.is_empty() || pattern == "**/" {
        return Err(format!("the path \"{glob}\" names nothing"));
    }
    let build = |pattern: &str| {
        let built = GlobBuilder::new(pattern).literal_separator(true).build();
        let built = built.map_err(|error| format!("the path \"{glob}\": {}", error.kind()));
        built.map(|glob| glob.compile_matcher())
    };
    Ok(Rule {
        itself: build(&pattern)?,
        below: build(&format!("{pattern}/**"))?,
        only_below,
        takes,
    })
}

/// Without `.` and `..`.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}
