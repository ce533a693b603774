//! What a built-in remembers of a session, in the folder that it has for that. What cannot be
//! written is forgotten: a hook says something twice rather than fail.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use super::report::Problem;
use crate::replace::{Snapshot, make_folder};

/// No memory is larger.
const LARGEST: u64 = 1 << 20;

/// The text of this name.
pub fn recall(folder: &Path, name: &str) -> Option<String> {
    let file = folder.join(name);
    let small = fs::metadata(&file)
        .ok()
        .filter(|file| file.is_file() && file.len() <= LARGEST);
    small.and_then(|_| fs::read_to_string(file).ok())
}

pub fn is_known(folder: &Path, name: &str, text: &str) -> bool {
    recall(folder, name).is_some_and(|known| known == text)
}

/// Keeps a text under this name, in place of the one before.
pub fn keep(folder: &Path, name: &str, text: &str) {
    let kept = || {
        make_folder(folder, 0o700).ok()?;
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        file.persist(folder.join(name)).ok()
    };
    let _ = kept();
}

/// More than any list of problems; a larger file is not ours.
const MOST: u64 = 4 << 20;

/// The problems that were there when it was last looked, each as often as it was.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    about: String,
    problems: BTreeMap<String, usize>,
}

impl Known {
    /// What an agent knows about something. Whatever cannot be read is nothing.
    pub fn read(memory: &Path, agent: Option<&str>, about: &str) -> Self {
        let bytes = Snapshot::read(&place(memory, agent, about), MOST);
        let bytes = bytes.ok().and_then(|file| file.bytes().map(<[u8]>::to_vec));
        let known = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        known
            .filter(|known: &Self| known.about == about)
            .unwrap_or_default()
    }

    /// Of these problems, those that are new. Where a problem stands does not matter: lines move.
    pub fn news(&self, now: &[Problem]) -> Vec<Problem> {
        let mut left = self.problems.clone();
        let is_new = |problem: &&Problem| match left.get_mut(&problem.text) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        };
        now.iter().filter(is_new).cloned().collect()
    }

    /// From now on, these are known.
    pub fn write(
        memory: &Path,
        agent: Option<&str>,
        about: &str,
        now: &[Problem],
    ) -> io::Result<()> {
        let mut problems = BTreeMap::new();
        for problem in now {
            *problems.entry(problem.text.clone()).or_insert(0) += 1;
        }
        let known = Self {
            about: about.to_owned(),
            problems,
        };
        make_folder(memory, 0o700)?;
        let file = Snapshot::read(&place(memory, agent, about), MOST)?;
        file.replace(&serde_json::to_vec(&known)?, 0o600).map(drop)
    }
}

fn place(memory: &Path, agent: Option<&str>, about: &str) -> PathBuf {
    let name = fnv1a(format!("{}\0{about}", agent.unwrap_or_default()).as_bytes());
    memory.join(format!("known-{name:016x}.json"))
}

#[cfg(test)]
mod tests {
    use super::super::report::Severity;
    use super::*;

    fn problem(line: u32, text: &str) -> Problem {
        Problem {
            file: Some("/p/a.ts".into()),
            line,
            column: 1,
            severity: Severity::Error,
            text: text.to_owned(),
        }
    }

    fn texts(problems: &[Problem]) -> Vec<(u32, &str)> {
        problems
            .iter()
            .map(|problem| (problem.line, &*problem.text))
            .collect()
    }

    #[test]
    fn what_moved_is_not_new_and_what_came_again_is() {
        let memory = tempfile::tempdir().unwrap();
        let memory = memory.path().join("deep");
        let (a, b) = (problem(1, "a"), problem(2, "b"));
        let known = || Known::read(&memory, None, "/p/a.ts");
        let all = [a.clone(), b.clone()];
        assert_eq!(known().news(&all), all);

        Known::write(&memory, None, "/p/a.ts", std::slice::from_ref(&a)).unwrap();
        let moved = [problem(7, "a"), b.clone()];
        assert_eq!(texts(&known().news(&moved)), [(2, "b")]);
        // The same once more is one more.
        let twice = [a.clone(), problem(9, "a")];
        assert_eq!(texts(&known().news(&twice)), [(9, "a")]);

        // Mended, and broken again.
        Known::write(&memory, None, "/p/a.ts", &[]).unwrap();
        let one = [a];
        assert_eq!(known().news(&one), one);
    }
}
