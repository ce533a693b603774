//! The three hooks that check the whole project before a turn ends: typecheck-project, lint-project and
//! test-project.

use std::path::{Path, PathBuf};

use becket_wire::Output;
use becket_wire::event::Event;

use super::BuiltinCall;
use super::changed::{self, Baseline, ProjectState};
use super::check::{self, Check, CheckFeedback, failed};
use super::language::{CheckKind, LANGUAGES, Language};
use super::on_edit::counted;
use super::report::{self, Problem, Severity};
use super::tool::ToolSearch;
use super::turn::EndedTurn;

/// The number of folders of one language that are checked, if the session works above all of them.
const MOST_FOLDERS: usize = 4;

pub fn run(call: &BuiltinCall<'_>, kind: CheckKind) -> Output {
    let event = match Event::parse(call.payload) {
        Ok(event) => event,
        Err(error) => return failed(&[error.to_string()]),
    };
    // An agent that waits for an answer or for background work, or was kept going already, may stop.
    let turn = EndedTurn::read(call.payload);
    if turn.as_ref().is_some_and(|turn| !turn.is_final()) {
        return Output::silence();
    }
    let agent = event.common().agent_id.as_deref();
    let transcript = turn.as_ref().and_then(|turn| turn.transcript.as_deref());
    let before = Baseline::read(call.memory, agent, transcript);
    let (now, changed) = ProjectState::look(call.project, &before);
    let (checks, missing) = match check::own_command(call.options) {
        Err(why) => return failed(&[why]),
        Ok(_) if changed.is_empty() => (Vec::new(), Vec::new()),
        Ok(Some(program)) => (check::by_command(&program, &[], call, kind), Vec::new()),
        Ok(None) => checks(&changed, call, kind),
    };
    let mut feedback = CheckFeedback::new(call, &event, missing);
    for check in &checks {
        if let Some(problems) = feedback.run(check) {
            let report = report_errors(&mut feedback, check, problems);
            feedback.text.push_str(&report);
        }
    }
    // The state is from before the tools ran: a file that changed meanwhile is checked next time.
    if let Err(error) = changed::remember(call.memory, agent, &now) {
        let trouble = format!("could not remember this stop: {error}");
        feedback.troubles.push(trouble);
    }
    feedback.output()
}

/// Formats the errors of a check, if there are any. A warning fails nothing.
fn report_errors(
    feedback: &mut CheckFeedback<'_>,
    check: &Check,
    mut problems: Vec<Problem>,
) -> String {
    problems.retain(|problem| problem.severity == Severity::Error);
    let [mut problems] = feedback.unreported([problems]);
    if problems.is_empty() {
        return String::new();
    }
    let cwd = feedback.call.cwd;
    let count = counted(problems.len(), "problem");
    let more = report::cut_off(&mut problems, cwd);
    let list = report::list(&problems, more, cwd);
    format!("{count} ({})\n{list}", check.by)
}

/// Makes one check for each language with a changed file, in the folder where the session works, or else in the
/// folders of the changed files.
fn checks(
    changed: &[PathBuf],
    call: &BuiltinCall<'_>,
    kind: CheckKind,
) -> (Vec<Check>, Vec<String>) {
    let search = ToolSearch::new(call.project);
    let (mut checks, mut missing) = (Vec::new(), Vec::new());
    for language in LANGUAGES.iter() {
        let files: Vec<_> = changed
            .iter()
            .filter(|file| language.concerns(file))
            .collect();
        let mut folders: Vec<&Path> = Vec::new();
        for file in &files {
            let folder = search
                .nearest(call.cwd, &language.markers)
                .or_else(|| search.nearest(file.parent()?, &language.markers));
            folders.extend(folder.filter(|folder| !folders.contains(folder)));
        }
        for folder in folders.into_iter().take(MOST_FOLDERS) {
            let found = search.find(language, kind, folder, |tool| {
                let mut files = files.iter();
                files.any(|file| tool.takes(file) || Language::of(file).is_none())
            });
            match found {
                None => {}
                Some(Err(why)) => missing.push(why),
                Some(Ok(found)) => checks.extend(check::by_tool(found, Vec::new(), call, kind)),
            }
        }
    }
    (checks, missing)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::*;
    use crate::hooks::builtin::BuiltIn;

    /// A project without git, and a command that fails as long as a file contains WRONG. Each run adds a line to
    /// `../runs`.
    struct World {
        folder: tempfile::TempDir,
        options: toml::Table,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("p")).unwrap();
            let command = "command = 'echo x >> ../runs; ! grep -rn WRONG .'";
            Self {
                folder,
                options: toml::from_str(command).unwrap(),
            }
        }

        /// Writes a file that is newer than everything remembered.
        fn write(&self, text: &str) {
            self.write_to("a.rs", text);
        }

        fn write_to(&self, name: &str, text: &str) {
            let file = self.folder.path().join("p").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
            fs::File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_modified(later)
                .unwrap();
        }

        /// It is older than everything now.
        fn rest(&self) {
            let file = fs::File::options()
                .write(true)
                .open(self.folder.path().join("p/a.rs"))
                .unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }

        fn stop(&self, fields: &Value) -> Output {
            self.stop_for("test-project", fields)
        }

        fn stop_for(&self, hook: &str, fields: &Value) -> Output {
            let mut payload = json!({"hook_event_name": "Stop", "last_assistant_message": "Done."});
            payload
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            let hook = BuiltIn::find(hook).unwrap();
            let root = fs::canonicalize(self.folder.path()).unwrap();
            let project = root.join("p");
            (hook.run)(&BuiltinCall {
                hook,
                payload: payload.to_string().as_bytes(),
                cwd: &project,
                project: &project,
                options: &self.options,
                memory: &root.join("memory").join(hook.name),
            })
        }

        fn runs(&self) -> usize {
            let runs = fs::read_to_string(self.folder.path().join("runs"));
            runs.unwrap_or_default().lines().count()
        }
    }

    fn blocked(output: &Output) -> String {
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match &value["decision"] {
            Value::String(decision) if decision == "block" => {
                value["reason"].as_str().unwrap().to_owned()
            }
            _ => panic!("{output:?}"),
        }
    }

    #[test]
    fn what_fails_blocks_once_and_only_when_something_changed() {
        let world = World::new();
        world.write("WRONG\n");
        assert_eq!(
            blocked(&world.stop(&json!({}))),
            "1 problem (its command)\n./a.rs:1:WRONG"
        );
        assert_eq!(world.runs(), 1);
        // It failed, but nothing changed: nothing more is to be said.
        world.rest();
        assert!(world.stop(&json!({})).is_silent());
        assert_eq!(world.runs(), 1);
        world.write("WRONG again\n");
        assert!(blocked(&world.stop(&json!({}))).contains("WRONG again"));
        world.write("right\n");
        assert!(world.stop(&json!({})).is_silent());
        assert_eq!(world.runs(), 3);
    }

    #[test]
    fn what_one_hook_tells_of_a_stop_no_other_repeats() {
        let world = World::new();
        world.write("WRONG\n");
        let stop = json!({"prompt_id": "1"});
        let reported = "1 problem (its command)\n./a.rs:1:WRONG";
        assert_eq!(
            blocked(&world.stop_for("typecheck-project", &stop)),
            reported
        );
        assert!(world.stop(&stop).is_silent());
        assert_eq!(world.runs(), 2);
        // A stop of another prompt.
        world.write("WRONG\n");
        assert_eq!(blocked(&world.stop(&json!({"prompt_id": "2"}))), reported);
    }

    #[test]
    fn one_error_that_two_folders_have_is_told_once() {
        let mut world = World::new();
        world.options = toml::Table::new();
        world.write_to("shared.ts", "");
        let prints = "echo '../shared.ts(1,2): error TS1: no'; exit 2";
        for name in ["one", "two"] {
            for file in ["package.json", "tsconfig.json", "a.ts"] {
                world.write_to(&format!("{name}/{file}"), "{}");
            }
            let tsc = format!("{name}/node_modules/.bin/tsc");
            world.write_to(&tsc, &format!("#!/bin/sh\n{prints}\n"));
            let tsc = world.folder.path().join("p").join(tsc);
            fs::set_permissions(tsc, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let reported = blocked(&world.stop_for("typecheck-project", &json!({})));
        assert_eq!(reported.matches("error TS1: no").count(), 1, "{reported}");
        assert_eq!(reported.matches("1 problem").count(), 1, "{reported}");
    }

    #[test]
    fn an_agent_that_waits_may_stop() {
        let world = World::new();
        world.write("WRONG\n");
        let running = json!([{"id": "a", "type": "subagent", "status": "running"}]);
        for fields in [
            json!({"stop_hook_active": true}),
            json!({"last_assistant_message": "Which table do you mean?"}),
            json!({"background_tasks": running}),
            json!({"hook_event_name": "SubagentStop", "agent_id": "a", "agent_type": "x", "stop_hook_active": true}),
        ] {
            assert!(world.stop(&fields).is_silent(), "{fields}");
        }
        assert_eq!(world.runs(), 0);
        // None of these counts as a stop: what changed is looked at by the next one.
        let done = json!([{"id": "a", "status": "completed"}]);
        blocked(&world.stop(&json!({"background_tasks": done, "stop_hook_active": false})));
        assert_eq!(world.runs(), 1);
    }

    #[test]
    fn a_subagent_has_stops_of_its_own() {
        let world = World::new();
        world.write("WRONG\n");
        blocked(&world.stop(&json!({})));
        let subagent =
            json!({"hook_event_name": "SubagentStop", "agent_id": "a", "agent_type": "x"});
        blocked(&world.stop(&subagent));
        world.rest();
        assert!(world.stop(&subagent).is_silent());
    }
}
