//! The three hooks that look at the whole project before a turn ends: typecheck-, lint- and
//! test-project.

use std::path::{Path, PathBuf};

use becket_wire::event::Event;
use becket_wire::{Answer, Output};

use super::Call;
use super::changed::{self, Before, State};
use super::check::{self, Check};
use super::language::{Kind, LANGUAGES, Language};
use super::on_edit::{counted, failed, lines};
use super::report::{self, Severity};
use super::tool::Search;
use super::turn::Turn;
use crate::program;

/// How many folders of one language are checked, where the session stands above all of them.
const MOST_FOLDERS: usize = 4;

pub fn run(call: &Call<'_>, kind: Kind) -> Output {
    let event = match Event::parse(call.payload) {
        Ok(event) => event,
        Err(error) => return failed(&[error.to_string()]),
    };
    // Nobody is pushed on who waits for an answer or for work in the background, or was already.
    let turn = Turn::read(call.payload);
    if turn.as_ref().is_some_and(|turn| !turn.is_final()) {
        return Output::silence();
    }
    let agent = event.common().agent_id.as_deref();
    let transcript = turn.as_ref().and_then(|turn| turn.transcript.as_deref());
    let before = Before::read(call.memory, agent, transcript);
    let (now, changed) = State::look(call.project, &before);
    let path = program::folders();
    let search = Search {
        project: call.project,
        path: &path,
    };
    let (checks, mut troubles) = match check::own_command(call.options) {
        Err(why) => return failed(&[why]),
        Ok(_) if changed.is_empty() => (Vec::new(), Vec::new()),
        Ok(Some(program)) => (check::by_command(&program, &[], call, kind), Vec::new()),
        Ok(None) => checks(&changed, call, kind, &search),
    };
    let mut told = String::new();
    for check in &checks {
        match check.run(call) {
            Ok(problems) => told.push_str(&fails(call, check, problems)),
            Err(why) => troubles.push(why),
        }
    }
    // As it was before the tools ran: what changes meanwhile is looked at next time.
    if let Err(error) = changed::remember(call.memory, agent, &now) {
        troubles.push(format!("could not remember this stop: {error}"));
    }
    let refusal = (!told.is_empty()).then(|| Answer::refusal(event.name(), told.trim_end()));
    match refusal.flatten() {
        Some(answer) => Output {
            stderr: lines(&troubles),
            ..answer.render()
        },
        None if troubles.is_empty() => Output::silence(),
        None => failed(&troubles),
    }
}

/// What fails, if anything does. A warning fails nothing.
fn fails(call: &Call<'_>, check: &Check, mut problems: Vec<report::Problem>) -> String {
    problems.retain(|problem| problem.severity == Severity::Error);
    if problems.is_empty() {
        return String::new();
    }
    let count = counted(problems.len(), "problem");
    let (by, list) = (&check.by, report::list(&problems, call.cwd));
    format!("{count} ({by})\n{list}")
}

/// One check for each language that something changed in, in the folder where the session works, or
/// else in those of the changed files.
fn checks(
    changed: &[PathBuf],
    call: &Call<'_>,
    kind: Kind,
    search: &Search<'_>,
) -> (Vec<Check>, Vec<String>) {
    let (mut checks, mut missing) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        let is_its =
            |file: &&PathBuf| Language::concerned(file).any(|other| other.name == language.name);
        let files: Vec<_> = changed.iter().filter(is_its).collect();
        let mut folders: Vec<&Path> = Vec::new();
        for file in &files {
            let folder = search
                .nearest(call.cwd, language.markers)
                .or_else(|| search.nearest(file.parent()?, language.markers));
            folders.extend(folder.filter(|folder| !folders.contains(folder)));
        }
        for folder in folders.into_iter().take(MOST_FOLDERS) {
            let suits = |tool: &super::language::Tool| {
                files
                    .iter()
                    .any(|file| tool.takes(file) || Language::of(file).is_none())
            };
            match search.find(language, kind, folder, suits) {
                None => {}
                Some(Err(gone)) => missing.push(gone.why),
                Some(Ok(found)) => checks.extend(check::of_project(found, call, kind)),
            }
        }
    }
    (checks, missing)
}

#[cfg(test)]
mod tests;
