//! The three hooks that look at what was just written: typecheck-, lint- and test-changed.

use std::fs;
use std::path::{Path, PathBuf};

use becket_wire::event::{Event, EventName};
use becket_wire::{Answer, Output};
use serde_json::Value;

use super::Call;
use super::check::{self, Check};
use super::known::Known;
use super::language::Kind;
use super::report::{self, Problem, shown};
use super::tool::Search;
use crate::program;

/// The tools of Claude Code that write files.
pub const EDITS: &str = "Write|Edit|MultiEdit|NotebookEdit";
/// What nobody wrote by hand.
const NOT_THEIRS: &[&str] = &["node_modules", ".git", ".venv"];

pub fn run(call: &Call<'_>, kind: Kind) -> Output {
    let event = match Event::parse(call.payload) {
        Ok(event) => event,
        Err(error) => return failed(&[error.to_string()]),
    };
    let files = edited(&event, call);
    if files.is_empty() {
        return Output::silence();
    }
    let path = program::folders();
    let search = Search {
        project: call.project,
        path: &path,
    };
    let (checks, mut troubles) = match check::own_command(call.options) {
        Err(why) => return failed(&[why]),
        Ok(Some(program)) => (check::by_command(&program, &files, call, kind), Vec::new()),
        Ok(None) => check::of_files(&files, call, kind, &search),
    };
    let agent = event.common().agent_id.as_deref();
    let mut told = String::new();
    for check in &checks {
        match check.run(call) {
            Ok(problems) => told.push_str(&news(call, check, agent, problems, &mut troubles)),
            Err(why) => troubles.push(why),
        }
    }
    match told.is_empty() {
        false => Output {
            stderr: lines(&troubles),
            ..say(event.name(), &told)
        },
        true if troubles.is_empty() => Output::silence(),
        true => failed(&troubles),
    }
}

/// What a check found that was not there when the file was last looked at.
fn news(
    call: &Call<'_>,
    check: &Check,
    agent: Option<&str>,
    problems: Vec<Problem>,
    troubles: &mut Vec<String>,
) -> String {
    let problems = check.of_its_files(problems);
    let names: Vec<_> = check
        .files
        .iter()
        .map(|file| file.to_string_lossy())
        .collect();
    let about = names.join("\n");
    let news = Known::read(call.memory, agent, &about).news(&problems);
    if let Err(error) = Known::write(call.memory, agent, &about, &problems) {
        troubles.push(format!("could not remember what was told: {error}"));
    }
    if news.is_empty() {
        return String::new();
    }
    let files: Vec<_> = check
        .files
        .iter()
        .map(|file| shown(file, call.cwd))
        .collect();
    let files = files.join(", ");
    let what = match check.kind {
        Kind::Test => format!(
            "{} in the tests of {files}",
            counted(news.len(), "new failure")
        ),
        _ => format!("{} in {files}", counted(news.len(), "new problem")),
    };
    let before = match problems.len() - news.len() {
        0 => "",
        1 => "1 problem told before is still there\n",
        before => &format!("{before} problems told before are still there\n"),
    };
    let (by, list) = (&check.by, report::list(&news, call.cwd));
    format!("{what} ({by})\n{list}{before}")
}

pub fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// On PostToolUse a block is only feedback; a batch takes it as context, because a block there would
/// end the turn.
fn say(event: EventName, text: &str) -> Output {
    let text = text.trim_end();
    let is_batch = event == EventName::PostToolBatch;
    let refusal = (!is_batch).then(|| Answer::refusal(event.clone(), text));
    let answer = refusal.flatten().unwrap_or_else(|| {
        let mut answer = Answer::silent(event);
        let _ = answer.add_context(text);
        answer
    });
    answer.render()
}

/// Not the model's fault: it hears nothing of it, and the run is recorded as failed.
pub fn failed(why: &[String]) -> Output {
    Output {
        stderr: lines(why),
        exit: 1,
        ..Output::silence()
    }
}

/// For the log alone: Claude Code shows nobody the stderr of a hook that exits 0.
pub fn lines(troubles: &[String]) -> Vec<u8> {
    let line = |why: &String| format!("{why}\n");
    troubles.iter().map(line).collect::<String>().into_bytes()
}

/// The files of the project that the event says were written, links resolved.
fn edited(event: &Event, call: &Call<'_>) -> Vec<PathBuf> {
    let calls: Vec<(&str, &Value)> = match event {
        Event::PostToolUse(event) => vec![(&event.tool_name, &event.tool_input)],
        Event::PostToolBatch(event) => {
            let calls = event.tool_calls.iter().flatten();
            calls
                .filter_map(|call| Some((call.tool_name.as_deref()?, call.tool_input.as_ref()?)))
                .collect()
        }
        _ => Vec::new(),
    };
    let project = fs::canonicalize(call.project).unwrap_or_else(|_| call.project.to_path_buf());
    let writes =
        |tool: &str| EDITS.split('|').any(|edit| edit == tool) || tool.starts_with("mcp__");
    let mut files: Vec<PathBuf> = Vec::new();
    for (_, input) in calls.into_iter().filter(|(tool, _)| writes(tool)) {
        let named = ["file_path", "notebook_path"]
            .iter()
            .find_map(|key| input[key].as_str());
        let path = named.and_then(|path| fs::canonicalize(call.cwd.join(path)).ok());
        let is_ours =
            |file: &PathBuf| file.is_file() && is_theirs(file, &project) && !files.contains(file);
        if let Some(file) = path.filter(is_ours) {
            files.push(file);
        }
    }
    files
}

/// In the project, and of the person's own.
fn is_theirs(file: &Path, project: &Path) -> bool {
    let Ok(near) = file.strip_prefix(project) else {
        return false;
    };
    !near
        .iter()
        .any(|part| NOT_THEIRS.iter().any(|name| part == *name))
}

#[cfg(test)]
mod tests;
