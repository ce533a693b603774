//! The three hooks that check files after a write: typecheck-changed, lint-changed and test-changed.

use std::fs;
use std::path::{Path, PathBuf};

use becket_wire::Output;
use becket_wire::event::Event;
use serde_json::Value;

use super::BuiltinCall;
use super::check::{self, Check, CheckFeedback, failed};
use super::language::CheckKind;
use super::memory::KnownProblems;
use super::report::{self, Problem, shown};

/// The tools of Claude Code that write files.
pub const EDITS: &str = "Write|Edit|MultiEdit|NotebookEdit";
/// Folders of files that the user did not write.
const INSTALLED: &[&str] = &["node_modules", ".git", ".venv"];

pub fn run(call: &BuiltinCall<'_>, kind: CheckKind) -> Output {
    let event = match Event::parse(call.payload) {
        Ok(event) => event,
        Err(error) => return failed(&[error.to_string()]),
    };
    let files = edited(&event, call);
    if files.is_empty() {
        return Output::silence();
    }
    let (checks, missing) = match check::own_command(call.options) {
        Err(why) => return failed(&[why]),
        Ok(Some(program)) => (check::by_command(&program, &files, call, kind), Vec::new()),
        Ok(None) => check::of_files(&files, call, kind),
    };
    let mut feedback = CheckFeedback::new(call, &event, missing);
    for check in &checks {
        if let Some(problems) = feedback.run(check) {
            let report = report_new(&mut feedback, check, problems);
            feedback.text.push_str(&report);
        }
    }
    feedback.output()
}

/// Formats the problems that are new since the last check, and counts those that were reported before and are
/// still there.
fn report_new(feedback: &mut CheckFeedback<'_>, check: &Check, problems: Vec<Problem>) -> String {
    let (call, event) = (feedback.call, feedback.event);
    let agent = event.common().agent_id.as_deref();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (about, problems) in check.by_file(problems) {
        let (still_there, fresh) = KnownProblems::read(call.memory, agent, &about).split(&problems);
        old.extend(still_there);
        new.extend(fresh);
    }
    // One compiler error fails the tests of every file, so it is known from the last run.
    let last_run = (check.kind == CheckKind::Test).then(|| check.folder.to_string_lossy());
    if let Some(about) = &last_run {
        let (still_there, fresh) = KnownProblems::read(call.memory, agent, about).split(&new);
        old.extend(still_there);
        new = fresh;
    }
    // Problems that do not fit into the list are reported next time.
    let more = report::cut_off(&mut new, call.cwd);
    let reported = [&*old, &*new].concat();
    let last_run = last_run.map(|about| (about.into_owned(), reported.clone()));
    for (about, reported) in check.by_file(reported).into_iter().chain(last_run) {
        if let Err(error) = KnownProblems::write(call.memory, agent, &about, &reported) {
            let trouble = format!("could not remember what was told: {error}");
            feedback.troubles.push(trouble);
        }
    }
    let [old, new] = feedback.unreported([old, new]);
    let files: Vec<_> = check
        .files
        .iter()
        .map(|file| shown(file, call.cwd))
        .collect();
    let (noun, place) = match check.kind {
        CheckKind::Test => ("failure", format!("in the tests of {}", files.join(", "))),
        _ => ("problem", format!("in {}", files.join(", "))),
    };
    let by = &check.by;
    match (&*new, &*old) {
        ([], []) => String::new(),
        ([], old) => {
            let still_there = still_there(old, noun, &format!(" {place} ({by})"));
            let places = report::places(old, call.cwd);
            match &*places {
                "" => format!("{still_there}\n"),
                places => format!("{still_there}: {places}\n"),
            }
        }
        (new, old) => {
            let count = counted(new.len() + more, &format!("new {noun}"));
            let list = report::list(new, more, call.cwd);
            let before = match old {
                [] => String::new(),
                old => still_there(old, noun, "") + "\n",
            };
            format!("{count} {place} ({by})\n{list}{before}")
        }
    }
}

/// Formats "2 problems told before are still there".
pub fn still_there(old: &[Problem], noun: &str, place: &str) -> String {
    let (count, are) = (
        counted(old.len(), noun),
        if old.len() == 1 { "is" } else { "are" },
    );
    format!("{count} told before {are} still there{place}")
}

pub fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Returns the files of the project that the event has written, links resolved.
fn edited(event: &Event, call: &BuiltinCall<'_>) -> Vec<PathBuf> {
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
    let mut files: Vec<PathBuf> = Vec::new();
    for (tool, input) in calls {
        if !writes_files(tool) {
            continue;
        }
        let named = ["file_path", "notebook_path"]
            .iter()
            .find_map(|key| input[key].as_str());
        let path = named.and_then(|path| fs::canonicalize(call.cwd.join(path)).ok());
        if let Some(file) = path
            && file.is_file()
            && is_of_user(&file, &project)
            && !files.contains(&file)
        {
            files.push(file);
        }
    }
    files
}

fn writes_files(tool: &str) -> bool {
    EDITS.split('|').any(|edit| edit == tool) || tool.starts_with("mcp__")
}

/// Returns true for a file in the project that is not in a folder of installed or generated files.
fn is_of_user(file: &Path, project: &Path) -> bool {
    let Ok(near) = file.strip_prefix(project) else {
        return false;
    };
    !near
        .iter()
        .any(|part| INSTALLED.iter().any(|name| part == *name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::hooks::builtin::BuiltIn;

    /// A project, a memory, and a checker that finds every line with WRONG in it.
    struct World {
        folder: tempfile::TempDir,
        options: toml::Table,
        hook: &'static BuiltIn,
    }

    impl World {
        fn new(hook: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("p")).unwrap();
            let checker = folder.path().join("checker");
            fs::write(
                &checker,
                "#!/bin/sh\ngrep -nH WRONG \"$@\" | sed 's/:WRONG/: /'; ! grep -q WRONG \"$@\"\n",
            )
            .unwrap();
            fs::set_permissions(&checker, fs::Permissions::from_mode(0o755)).unwrap();
            let command = format!("command = ['{}', '{{files}}']", checker.display());
            Self {
                folder,
                options: toml::from_str(&command).unwrap(),
                hook: BuiltIn::find(hook).unwrap(),
            }
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.folder.path().join("p").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn call(&self, payload: &Value) -> Output {
            self.call_hook(self.hook, payload)
        }

        fn call_hook(&self, hook: &'static BuiltIn, payload: &Value) -> Output {
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

        fn edit(&self, tool: &str, file: &str) -> Output {
            self.call(&json!({"hook_event_name": "PostToolUse", "tool_name": tool, "tool_input": {"file_path": file}}))
        }

        /// Returns the feedback on an edit.
        fn reported(&self, file: &str) -> String {
            reason(&self.edit("Edit", file))
        }
    }

    fn reason(output: &Output) -> String {
        assert_eq!((output.exit, &*output.stderr), (0, &b""[..]), "{output:?}");
        if output.stdout.is_empty() {
            return String::new();
        }
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["decision"], "block");
        value["reason"].as_str().unwrap().to_owned()
    }

    #[test]
    fn only_what_is_new_is_told() {
        let world = World::new("lint-changed");
        world.write("a.txt", "fine\n");
        assert_eq!(world.reported("a.txt"), "");
        world.write("a.txt", "fine\nWRONG one\n");
        assert_eq!(
            world.reported("a.txt"),
            "1 new problem in a.txt (its command)\na.txt:2: one"
        );
        // It moved.
        world.write("a.txt", "fine\nfine\nWRONG one\n");
        assert_eq!(
            world.reported("a.txt"),
            "1 problem told before is still there in a.txt (its command): a.txt:3"
        );
        world.write("a.txt", "WRONG one\nWRONG two\nWRONG three\n");
        assert_eq!(
            world.reported("a.txt"),
            "2 new problems in a.txt (its command)\na.txt:2: two\na.txt:3: three\n1 problem told before is still there"
        );
        // Fixed, then broken again.
        world.write("a.txt", "fine\n");
        assert_eq!(world.reported("a.txt"), "");
        world.write("a.txt", "WRONG one\n");
        assert_eq!(
            world.reported("a.txt"),
            "1 new problem in a.txt (its command)\na.txt:1: one"
        );
    }

    #[test]
    fn what_the_list_has_no_room_for_is_told_next_time() {
        let world = World::new("lint-changed");
        let wrong: String = (1..=13).map(|n| format!("WRONG {n}\n")).collect();
        world.write("a.txt", &wrong);
        let reported = world.reported("a.txt");
        assert!(
            reported.starts_with("13 new problems in a.txt (its command)\na.txt:1: 1\n"),
            "{reported}"
        );
        assert!(reported.ends_with("a.txt:10: 10\nand 3 more"), "{reported}");
        assert_eq!(
            world.reported("a.txt"),
            "3 new problems in a.txt (its command)\na.txt:11: 11\na.txt:12: 12\na.txt:13: 13\n10 problems told before are still there"
        );
        let reported = world.reported("a.txt");
        assert!(
            reported.starts_with("13 problems told before are still there"),
            "{reported}"
        );
    }

    #[test]
    fn what_one_hook_tells_of_an_event_no_other_repeats() {
        let mut world = World::new("typecheck-changed");
        let edit = |world: &World, hook: &str, id: &str| {
            let hook = BuiltIn::find(hook).unwrap();
            let input = json!({"file_path": "a.txt"});
            let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": input, "tool_use_id": id});
            reason(&world.call_hook(hook, &payload))
        };
        world.write("a.txt", "WRONG one\n");
        let reported = edit(&world, "typecheck-changed", "1");
        assert_eq!(
            reported,
            "1 new problem in a.txt (its command)\na.txt:1: one"
        );
        assert_eq!(edit(&world, "lint-changed", "1"), "");
        assert_eq!(edit(&world, "test-changed", "1"), "");
        // The hook itself is not kept from it when the event is tried again.
        let again = edit(&world, "typecheck-changed", "1");
        assert!(again.contains("still there"), "{again}");
        // At the next edit it is there still, which one of them says.
        let still_there = "1 problem told before is still there in a.txt (its command): a.txt:1";
        assert_eq!(edit(&world, "lint-changed", "2"), still_there);
        assert_eq!(edit(&world, "typecheck-changed", "2"), "");
        // A problem that only the other check finds is reported by that check.
        world.options = toml::from_str("command = 'echo a.txt:7: other; exit 1'").unwrap();
        assert_eq!(
            edit(&world, "test-changed", "2"),
            "1 new failure in the tests of a.txt (its command)\na.txt:7: other"
        );
    }

    #[test]
    fn a_batch_and_an_edit_know_of_each_other() {
        let world = World::new("lint-changed");
        world.write("a.txt", "WRONG a\n");
        world.write("b.txt", "WRONG b\n");
        assert!(
            world
                .reported("a.txt")
                .starts_with("1 new problem in a.txt")
        );
        let call = |file: &str| json!({"tool_name": "Edit", "tool_input": {"file_path": file}});
        let calls = [call("a.txt"), call("b.txt")];
        let output = world.call(&json!({"hook_event_name": "PostToolBatch", "tool_calls": calls}));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            value["hookSpecificOutput"]["additionalContext"],
            "1 new problem in a.txt, b.txt (its command)\nb.txt:1: b\n1 problem told before is still there"
        );
    }

    #[test]
    fn problems_of_other_files_are_not_told() {
        let mut world = World::new("typecheck-changed");
        world.options =
            toml::from_str("command = 'grep -nH WRONG a.txt b.txt | sed s/:WRONG/:/; exit 1'")
                .unwrap();
        world.write("a.txt", "WRONG a\n");
        world.write("b.txt", "WRONG b\n");
        assert_eq!(
            world.reported("a.txt"),
            "1 new problem in a.txt (its command)\na.txt:1: a"
        );
        assert_eq!(
            world.reported("b.txt"),
            "1 new problem in b.txt (its command)\nb.txt:1: b"
        );
    }

    #[test]
    fn a_batch_is_checked_as_one_and_told_as_context() {
        let world = World::new("lint-changed");
        world.write("a.txt", "WRONG a\n");
        world.write("b.txt", "WRONG b\n");
        let call =
            |tool: &str, file: &str| json!({"tool_name": tool, "tool_input": {"file_path": file}});
        let calls = [
            call("Write", "a.txt"),
            call("Read", "c.txt"),
            call("Edit", "b.txt"),
            call("Edit", "b.txt"),
        ];
        let output = world.call(&json!({"hook_event_name": "PostToolBatch", "tool_calls": calls}));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["decision"], Value::Null);
        assert_eq!(
            value["hookSpecificOutput"]["additionalContext"],
            "2 new problems in a.txt, b.txt (its command)\na.txt:1: a\nb.txt:1: b"
        );
    }

    /// A compiler that runs for each file, and finds the errors of both.
    fn compiler() -> World {
        let mut world = World::new("test-changed");
        world.options =
            toml::from_str("command = 'grep -nH WRONG a.txt b.txt | sed s/:WRONG/:/ # {file}'")
                .unwrap();
        world.write("b.txt", "fine\n");
        world
    }

    #[test]
    fn one_error_that_two_checks_find_is_told_once() {
        let world = compiler();
        world.write("a.txt", "WRONG one\n");
        let call = |file: &str| json!({"tool_name": "Edit", "tool_input": {"file_path": file}});
        let calls = [call("a.txt"), call("b.txt")];
        let batch = json!({"hook_event_name": "PostToolBatch", "tool_calls": calls});
        let reported = |output: &Output| {
            let value: Value = serde_json::from_slice(&output.stdout).unwrap();
            let reported = &value["hookSpecificOutput"]["additionalContext"];
            reported.as_str().unwrap().to_owned()
        };
        assert_eq!(
            reported(&world.call(&batch)),
            "1 new failure in the tests of a.txt (its command)\na.txt:1: one"
        );
        assert_eq!(
            reported(&world.call(&batch)),
            "1 failure told before is still there in the tests of a.txt (its command): a.txt:1"
        );
        // The second check tells what only it finds.
        world.write("b.txt", "WRONG two\n");
        let text = reported(&world.call(&batch));
        assert_eq!(text.matches("b.txt:1: two").count(), 1, "{text}");
    }

    #[test]
    fn an_old_error_is_not_new_to_the_tests_of_another_file() {
        let world = compiler();
        world.write("a.txt", "WRONG one\n");
        assert!(world.reported("a.txt").starts_with("1 new failure"));
        let still_there =
            "1 failure told before is still there in the tests of b.txt (its command): a.txt:1";
        assert_eq!(world.reported("b.txt"), still_there);
        assert_eq!(world.reported("b.txt"), still_there);
        // Fixed, then broken again, seen from the other file.
        world.write("a.txt", "fine\n");
        assert_eq!(world.reported("b.txt"), "");
        world.write("a.txt", "WRONG one\n");
        assert_eq!(
            world.reported("b.txt"),
            "1 new failure in the tests of b.txt (its command)\na.txt:1: one"
        );
    }

    #[test]
    fn what_does_not_concern_it_is_silence() {
        let world = World::new("lint-changed");
        world.write("a.txt", "WRONG\n");
        world.write("node_modules/a.txt", "WRONG\n");
        fs::write(world.folder.path().join("outside.txt"), "WRONG\n").unwrap();
        std::os::unix::fs::symlink("../outside.txt", world.folder.path().join("p/link.txt"))
            .unwrap();
        for (tool, file) in [
            ("Read", "a.txt"),
            ("Bash", "a.txt"),
            ("Edit", "missing.txt"),
            ("Edit", "node_modules/a.txt"),
            ("Edit", "../outside.txt"),
            ("Edit", "link.txt"),
            ("Edit", "."),
        ] {
            assert!(world.edit(tool, file).is_silent(), "{tool} {file}");
        }
        assert!(world.call(&json!({"hook_event_name": "Stop"})).is_silent());
        assert!(!world.edit("mcp__files__write", "a.txt").is_silent());
    }

    #[test]
    fn a_tool_that_fails_is_reported_in_the_log_only() {
        let mut world = World::new("test-changed");
        world.write("a.txt", "\n");
        for (command, why) in [
            (
                "command = ['/nowhere/tool']",
                "/nowhere/tool did not start: ",
            ),
            ("command = 'exit 127'", "its command ended with 127: "),
            ("command = 'kill -9 $$'", "its command was killed: "),
            (
                "command = 7",
                "`command` is neither a text nor a list of texts",
            ),
        ] {
            world.options = toml::from_str(command).unwrap();
            let output = world.edit("Edit", "a.txt");
            assert_eq!((output.exit, &*output.stdout), (1, &b""[..]), "{command}");
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(stderr.starts_with(why), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
        let output = world.call(&json!([]));
        assert_eq!(output.exit, 1);
    }

    #[test]
    fn a_command_with_file_runs_once_for_each() {
        let mut world = World::new("test-changed");
        world.options = toml::from_str("command = 'echo failed for {file}; exit 1'").unwrap();
        world.write("a.txt", "");
        world.write("b.txt", "");
        let call = |file: &str| json!({"tool_name": "Write", "tool_input": {"file_path": file}});
        let output = world.call(
        &json!({"hook_event_name": "PostToolBatch", "tool_calls": [call("a.txt"), call("b.txt")]}),
    );
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let reported = value["hookSpecificOutput"]["additionalContext"]
            .as_str()
            .unwrap();
        for file in ["a.txt", "b.txt"] {
            assert!(
                reported.contains(&format!("\nfailed for {file}")),
                "{reported}"
            );
        }
        assert_eq!(
            reported.matches("1 new failure in the tests of ").count(),
            2,
            "{reported}"
        );
    }
}
