//! The data that a built-in stores about a session, in a folder of its own. A hook goes on if a write fails: it
//! repeats itself rather than fail.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use becket_wire::event::Event;
use becket_wire::place::fnv1a;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::BuiltinCall;
use super::report::Problem;
use crate::{replace, stamp};

/// The most bytes of a stored text. A larger file is not becket's.
const MOST: u64 = 16 << 20;

/// Reads a text file of a folder. Returns none if it cannot be read.
pub fn read_text(folder: &Path, name: &str) -> Option<String> {
    stamp::read_text(&folder.join(name), MOST).ok()
}

/// Stores a text in place of the one before.
pub fn write_text(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    replace::store(&folder.join(name), text.as_bytes(), MOST)
}

/// Reads a stored value. Returns none if it cannot be read.
pub fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    serde_json::from_str(&read_text(folder, name)?).ok()
}

/// Stores a value in place of the one before.
pub fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    write_text(folder, name, &serde_json::to_string(value)?)
}

/// The problems that were reported to an agent at the last check, each with the number of times.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownProblems {
    problems: BTreeMap<String, usize>,
}

impl KnownProblems {
    /// Reads the problems of a file, or of any other subject, that were reported to an agent. An unreadable list
    /// counts as empty.
    pub fn read(memory: &Path, agent: Option<&str>, about: &str) -> Self {
        read_json(memory, &name_of(agent, about)).unwrap_or_default()
    }

    /// Counts problems.
    pub fn of(now: &[Problem]) -> Self {
        let mut problems = BTreeMap::new();
        for problem in now {
            *problems.entry(problem.text.clone()).or_insert(0) += 1;
        }
        Self { problems }
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

    /// Stores these problems as the known ones.
    pub fn write(
        memory: &Path,
        agent: Option<&str>,
        about: &str,
        now: &[Problem],
    ) -> io::Result<()> {
        write_json(memory, &name_of(agent, about), &Self::of(now))
    }
}

/// The file that lists which hook reported which problem at which event. It lies beside the folders of a session's
/// hooks.
const REPORTED: &str = "told";
/// The number of rows that are kept.
const MOST_REPORTED: usize = 500;
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Keeps those problems that no other hook reports at this event. A mistake that several tools find is so reported
/// once, by the first hook that is done. If the event has no id, or the list cannot be written, all problems are
/// kept.
pub fn claim(call: &BuiltinCall<'_>, event: &Event, problems: Vec<Problem>) -> Vec<Problem> {
    if problems.is_empty() {
        return problems;
    }
    let Some(event) = id_of(event) else {
        return problems;
    };
    claimed(call, fnv1a(event.as_bytes()), &problems).unwrap_or(problems)
}

fn claimed(call: &BuiltinCall<'_>, event: u64, problems: &[Problem]) -> Option<Vec<Problem>> {
    let file = call.memory.parent()?.join(REPORTED);
    let mut lock = replace::lock(&file, LOCK_WAIT).ok()?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut kept = Vec::new();
    for problem in problems {
        let row_start = format!("{event:016x} {:016x} ", problem.hash());
        let by_another = rows
            .iter()
            .filter_map(|row| row.strip_prefix(&row_start))
            .any(|hook| hook != call.hook.name);
        if !by_another {
            rows.push(row_start + call.hook.name);
            kept.push(problem.clone());
        }
    }
    let newest = rows.split_off(rows.len().saturating_sub(MOST_REPORTED));
    lock.set_len(0).ok()?;
    lock.write_all((newest.join("\n") + "\n").as_bytes()).ok()?;
    Some(kept)
}

/// Returns the id that all hooks of one event see: that of its tool calls, or else of its prompt.
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

/// Returns the name of the file of an agent's problems.
fn name_of(agent: Option<&str>, about: &str) -> String {
    let hash = fnv1a(format!("{}\0{about}", agent.unwrap_or_default()).as_bytes());
    format!("known-{hash:016x}.json")
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
        let known = || KnownProblems::read(&memory, None, "/p/a.ts");
        let all = [a.clone(), b.clone()];
        assert_eq!(known().split(&all).1, all);

        KnownProblems::write(&memory, None, "/p/a.ts", std::slice::from_ref(&a)).unwrap();
        let moved = [problem(7, "a"), b.clone()];
        let (old, new) = known().split(&moved);
        assert_eq!((texts(&old), texts(&new)), (vec![(7, "a")], vec![(2, "b")]));
        // The same once more is one more.
        let twice = [a.clone(), problem(9, "a")];
        assert_eq!(texts(&known().split(&twice).1), [(9, "a")]);

        // Fixed, and broken again.
        KnownProblems::write(&memory, None, "/p/a.ts", &[]).unwrap();
        let one = [a];
        assert_eq!(known().split(&one).1, one);
    }
}
