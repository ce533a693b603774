//! What a built-in remembers of a session, in the folder that it has for that. What cannot be
//! written is forgotten: a hook says something twice rather than fail.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use becket_wire::event::Event;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use super::Call;
use super::report::Problem;
use crate::replace::{self, Snapshot, make_folder};

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

/// The problems that were there when it was last looked and that were told, each as often as it was.
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

    /// Counts the problems of a file, or of whatever else they are about.
    pub fn of(about: &str, now: &[Problem]) -> Self {
        let mut problems = BTreeMap::new();
        for problem in now {
            *problems.entry(problem.text.clone()).or_insert(0) += 1;
        }
        Self {
            about: about.to_owned(),
            problems,
        }
    }

    /// Splits problems into those that are known and those that are new. The line of a problem does
    /// not matter: lines move.
    pub fn split(&self, now: &[Problem]) -> (Vec<Problem>, Vec<Problem>) {
        let mut left = self.problems.clone();
        now.iter()
            .cloned()
            .partition(|problem| match left.get_mut(&problem.text) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            })
    }

    /// From now on, these are known.
    pub fn write(
        memory: &Path,
        agent: Option<&str>,
        about: &str,
        now: &[Problem],
    ) -> io::Result<()> {
        let known = serde_json::to_vec(&Self::of(about, now))?;
        replace::store(&place(memory, agent, about), &known, MOST)
    }
}

/// The file, beside the folders of a session's hooks, that lists which hook told which problem at
/// which event.
const TOLD: &str = "told";
/// Older rows are dropped.
const MOST_TOLD: usize = 500;
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Keeps those problems that no other hook tells at this event, so that one mistake which several
/// tools find is told once: the first hook that is done tells it. Where the event has no id, or the
/// list cannot be written, all problems are kept.
pub fn claim(call: &Call<'_>, event: &Event, problems: Vec<Problem>) -> Vec<Problem> {
    let (Some(event), false) = (id_of(event), problems.is_empty()) else {
        return problems;
    };
    claimed(call, fnv1a(event.as_bytes()), &problems).unwrap_or(problems)
}

fn claimed(call: &Call<'_>, event: u64, problems: &[Problem]) -> Option<Vec<Problem>> {
    let file = call.memory.parent()?.join(TOLD);
    let mut lock = replace::lock(&file, LOCK_WAIT).ok()?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut kept = Vec::new();
    for problem in problems {
        let told = format!("{event:016x} {:016x} ", problem.hash());
        let by_another = rows
            .iter()
            .filter_map(|row| row.strip_prefix(&told))
            .any(|hook| hook != call.hook.name);
        if !by_another {
            rows.push(told + call.hook.name);
            kept.push(problem.clone());
        }
    }
    let newest = rows.split_off(rows.len().saturating_sub(MOST_TOLD));
    lock.set_len(0).ok()?;
    lock.write_all((newest.join("\n") + "\n").as_bytes()).ok()?;
    Some(kept)
}

/// The id that all hooks of one event see: of its tool calls, else of its prompt.
fn id_of(event: &Event) -> Option<String> {
    match event {
        Event::PostToolUse(event) => event.tool_use_id.clone(),
        Event::PostToolBatch(event) => {
            let calls = event.tool_calls.iter().flatten();
            let ids: Option<Vec<&str>> = calls.map(|call| call.tool_use_id.as_deref()).collect();
            ids.map(|ids| ids.join(" "))
        }
        _ => {
            let common = event.common();
            let agent = common.agent_id.as_deref().unwrap_or_default();
            let prompt = common.prompt_id.as_deref()?;
            Some(format!("{prompt} {agent} {}", event.name()))
        }
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
        assert_eq!(known().split(&all).1, all);

        Known::write(&memory, None, "/p/a.ts", std::slice::from_ref(&a)).unwrap();
        let moved = [problem(7, "a"), b.clone()];
        let (old, new) = known().split(&moved);
        assert_eq!((texts(&old), texts(&new)), (vec![(7, "a")], vec![(2, "b")]));
        // The same once more is one more.
        let twice = [a.clone(), problem(9, "a")];
        assert_eq!(texts(&known().split(&twice).1), [(9, "a")]);

        // Mended, and broken again.
        Known::write(&memory, None, "/p/a.ts", &[]).unwrap();
        let one = [a];
        assert_eq!(known().split(&one).1, one);
    }
}
