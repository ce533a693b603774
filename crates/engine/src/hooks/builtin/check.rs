//! One run of one tool, from the table of languages or from the user's own `command`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use becket_wire::event::{Event, EventName};
use becket_wire::place::fnv1a;
use becket_wire::{Answer, Output};

use super::capture::{Captured, capture};
use super::language::{CheckKind, Format, Language};
use super::memory::claim;
use super::report::{self, Problem, Severity};
use super::tool::{FoundTool, ToolSearch};
use super::{BuiltinCall, arguments};
use crate::process::Program;
use crate::replace::make_folder;

/// A tool to run, with its arguments.
#[derive(Debug)]
pub struct Check {
    /// The tool and its origin, for messages.
    pub by: String,
    program: PathBuf,
    args: Vec<OsString>,
    /// The folder in which it runs.
    pub folder: PathBuf,
    format: Format,
    pub kind: CheckKind,
    /// The changed files that it checks; empty for a whole project.
    pub files: Vec<PathBuf>,
}

/// Reads the `command` of a hook's config, which replaces the table.
pub fn own_command(options: &toml::Table) -> Result<Option<Program>, String> {
    let program = match options.get("command") {
        None => return Ok(None),
        Some(toml::Value::String(line)) => Some(Program::Shell(line.clone())),
        Some(words) => {
            let words = words.clone().try_into().ok();
            let words = words.filter(|words: &Vec<String>| !words.is_empty());
            words.map(Program::List)
        }
    };
    let wrong = "`command` is neither a text nor a list of texts";
    program.map(Some).ok_or_else(|| wrong.to_owned())
}

/// Makes the checks that the user's own command makes of these files: one for each if it contains `{file}`.
pub fn by_command(
    program: &Program,
    files: &[PathBuf],
    call: &BuiltinCall<'_>,
    kind: CheckKind,
) -> Vec<Check> {
    let is_for_each = match program {
        Program::Shell(line) => line.contains("{file}"),
        Program::List(words) => words.iter().any(|word| word == "{file}"),
    };
    let groups: Vec<&[PathBuf]> = if is_for_each {
        files.chunks(1).collect()
    } else {
        vec![files]
    };
    let checks = groups.into_iter().map(|files| {
        let (program, args) = filled(program, files);
        Check {
            by: "its command".to_owned(),
            program,
            args,
            folder: call.project.to_path_buf(),
            format: Format::Any,
            kind,
            files: files.to_vec(),
        }
    });
    checks.collect()
}

/// Fills in the files. A shell gets them as arguments, never in its line: the name of a file must not be run.
fn filled(program: &Program, files: &[PathBuf]) -> (PathBuf, Vec<OsString>) {
    let paths = files.iter().map(OsString::from);
    match program {
        Program::Shell(line) => {
            let mut line = line.clone();
            for (word, value) in [("{files}", "\"$@\""), ("{file}", "\"$1\"")] {
                for quote in ["\"", "'", ""] {
                    line = line.replace(&format!("{quote}{word}{quote}"), value);
                }
            }
            let args = ["-c", &line, "sh"].map(OsString::from);
            ("/bin/sh".into(), args.into_iter().chain(paths).collect())
        }
        Program::List(words) => {
            let mut args = Vec::new();
            for word in words {
                match &**word {
                    "{files}" | "{file}" => args.extend(paths.clone()),
                    word => args.push(word.into()),
                }
            }
            (args.remove(0).into(), args)
        }
    }
}

/// Returns the checks of the table for changed files, and the reasons why tools are missing.
pub fn of_files(
    files: &[PathBuf],
    call: &BuiltinCall<'_>,
    kind: CheckKind,
) -> (Vec<Check>, Vec<String>) {
    let search = ToolSearch::new(call.project);
    let mut groups: Vec<(FoundTool, Vec<PathBuf>)> = Vec::new();
    let mut missing = Vec::new();
    for file in files {
        let (Some(language), Some(folder)) = (Language::of(file), file.parent()) else {
            continue;
        };
        let found = search.find(language, kind, folder, |tool| {
            tool.changed.is_some() && tool.takes(file)
        });
        let found = match found {
            None => continue,
            Some(Err(why)) => {
                missing.push(why);
                continue;
            }
            Some(Ok(found)) => found,
        };
        let is_for_each = found.tool.changed.as_deref();
        let is_for_each = is_for_each.is_some_and(arguments::is_for_each);
        let same = groups
            .iter_mut()
            .find(|(other, _)| other.program == found.program && other.folder == found.folder);
        match same {
            Some((_, files)) if !is_for_each => files.push(file.clone()),
            _ => groups.push((found, vec![file.clone()])),
        }
    }
    let checks = groups
        .into_iter()
        .filter_map(|(found, files)| by_tool(found, files, call, kind));
    (checks.collect(), missing)
}

/// Returns the check of the table for changed files, or without files for a whole project. Returns none if there is
/// nothing for the tool to do.
pub fn by_tool(
    found: FoundTool,
    files: Vec<PathBuf>,
    call: &BuiltinCall<'_>,
    kind: CheckKind,
) -> Option<Check> {
    let args = if files.is_empty() {
        &found.tool.project
    } else {
        found.tool.changed.as_ref()?
    };
    let name = fnv1a(found.folder.as_os_str().as_bytes());
    let scratch = call.memory.join(format!("scratch-{name:016x}"));
    let args = arguments::fill(args, &files, &found.folder, &scratch)?;
    let before = found.before.iter().map(OsString::from);
    Some(Check {
        by: found.by,
        program: found.program,
        args: before.chain(args).collect(),
        folder: found.folder,
        format: found.tool.format,
        kind,
        files,
    })
}

impl Check {
    /// Runs the check. An error means that the tool could not do its work.
    pub fn run(&self, call: &BuiltinCall<'_>) -> Result<Vec<Problem>, String> {
        make_folder(call.memory, 0o700)
            .map_err(|error| format!("could not make {}: {error}", call.memory.display()))?;
        let output = capture(&self.program, &self.args, &self.folder)
            .map_err(|error| format!("{} did not start: {error}", self.program.display()))?;
        self.judge(&output, call.project)
    }

    fn judge(&self, output: &Captured, project: &Path) -> Result<Vec<Problem>, String> {
        let base = match self.format {
            Format::Cargo | Format::CargoTest => workspace(&self.folder, project),
            _ => &self.folder,
        };
        let mut problems = report::read(self.format, output, base);
        let read = problems.len();
        // A type checker fails for wrong types only; other remarks of a compiler are the linter's work.
        let worst = if self.kind == CheckKind::Lint {
            Severity::Warning
        } else {
            Severity::Error
        };
        problems.retain(|problem| problem.severity <= worst);
        match output.code {
            Some(0) => Ok(problems),
            // pytest exits with 5 if it finds no tests.
            Some(5) if self.format == Format::Pytest => Ok(Vec::new()),
            // The shell found no such program, or could not run it.
            Some(126 | 127) | None => Err(self.failed(output)),
            Some(_) if read > 0 => Ok(problems),
            Some(_) if self.format == Format::Any => {
                Ok(report::last_words(output).into_iter().collect())
            }
            Some(_) => Err(self.failed(output)),
        }
    }

    fn failed(&self, output: &Captured) -> String {
        let mut lines = output.stderr.lines().chain(output.stdout.lines());
        let first = lines
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let first: String = first.trim().chars().take(300).collect();
        match output.code {
            Some(code) => format!("{} ended with {code}: {first}", self.by),
            None => format!("{} was killed: {first}", self.by),
        }
    }

    /// Groups the problems by the changed file under which they are remembered. A problem without a file belongs to
    /// the first file. A failed test is reported for any file, and belongs to all changed files.
    pub fn by_file(&self, problems: Vec<Problem>) -> Vec<(String, Vec<Problem>)> {
        let names: Vec<_> = self
            .files
            .iter()
            .map(|file| file.to_string_lossy())
            .collect();
        if self.kind == CheckKind::Test {
            return vec![(names.join("\n"), problems)];
        }
        let mut by_file: Vec<(String, Vec<Problem>)> = names
            .iter()
            .map(|name| (name.to_string(), Vec::new()))
            .collect();
        for problem in problems {
            let nth = match &problem.file {
                Some(file) => {
                    let file = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
                    self.files.iter().position(|own| *own == file)
                }
                None => Some(0),
            };
            if let Some((_, own)) = nth.and_then(|nth| by_file.get_mut(nth)) {
                own.push(problem);
            }
        }
        by_file
    }
}

/// The feedback of all checks at one event.
#[derive(Debug)]
pub struct CheckFeedback<'a> {
    pub call: &'a BuiltinCall<'a>,
    pub event: &'a Event,
    pub text: String,
    /// The reasons why checks could not be made. Claude is not told.
    pub troubles: Vec<String>,
    /// The hashes of the problems that earlier checks reported.
    hashes: BTreeSet<u64>,
}

impl<'a> CheckFeedback<'a> {
    pub fn new(call: &'a BuiltinCall<'a>, event: &'a Event, troubles: Vec<String>) -> Self {
        Self {
            call,
            event,
            text: String::new(),
            troubles,
            hashes: BTreeSet::new(),
        }
    }

    /// Runs a check. Returns none if the tool could not do its work.
    pub fn run(&mut self, check: &Check) -> Option<Vec<Problem>> {
        let result = check.run(self.call);
        result.map_err(|why| self.troubles.push(why)).ok()
    }

    /// Keeps the problems that neither an earlier check nor another hook reports at this event: crates of one
    /// workspace report the same.
    pub fn unreported<const N: usize>(&mut self, lists: [Vec<Problem>; N]) -> [Vec<Problem>; N] {
        let lists = lists.map(|mut list| {
            list.retain(|problem| !self.hashes.contains(&problem.hash()));
            list
        });
        self.hashes
            .extend(lists.iter().flatten().map(Problem::hash));
        lists.map(|list| claim(self.call, self.event, list))
    }

    /// Makes the output. A block after PostToolUse is only feedback; a batch gets it as context, because a block
    /// there would end the turn.
    pub fn output(self) -> Output {
        if self.text.is_empty() {
            return failed(&self.troubles);
        }
        let (event, text) = (self.event.name(), self.text.trim_end());
        let is_batch = event == EventName::PostToolBatch;
        let refusal = (!is_batch).then(|| Answer::refusal(event.clone(), text));
        let answer = refusal.flatten().unwrap_or_else(|| {
            let mut answer = Answer::silent(event);
            let _ = answer.add_context(text);
            answer
        });
        Output {
            stderr: lines(&self.troubles),
            ..answer.render()
        }
    }
}

/// Makes the output of a hook that could not check, if there were troubles. The model is not told, and the run is
/// recorded as failed.
pub fn failed(troubles: &[String]) -> Output {
    Output {
        stderr: lines(troubles),
        exit: u8::from(!troubles.is_empty()),
        ..Output::silence()
    }
}

/// Formats lines for the log. Claude Code does not show the stderr of a hook that exits with 0.
fn lines(troubles: &[String]) -> Vec<u8> {
    let lines: String = troubles.iter().map(|why| format!("{why}\n")).collect();
    lines.into_bytes()
}

/// Returns the root of the cargo workspace of a crate: rustc prints paths relative to it.
fn workspace<'a>(krate: &'a Path, project: &Path) -> &'a Path {
    let above = krate
        .ancestors()
        .take_while(|folder| folder.starts_with(project));
    let mut roots = above.filter(|folder| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest
            .lines()
            .any(|line| line.trim_start().starts_with("[workspace"))
    });
    roots.next().unwrap_or(krate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> toml::Table {
        toml::from_str(text).unwrap()
    }

    fn check(format: Format, kind: CheckKind) -> Check {
        Check {
            by: "tool".to_owned(),
            program: "/bin/sh".into(),
            args: Vec::new(),
            folder: "/p".into(),
            format,
            kind,
            files: Vec::new(),
        }
    }

    fn output(code: i32, stdout: &str) -> Captured {
        Captured {
            stdout: stdout.to_owned(),
            code: Some(code),
            ..Captured::default()
        }
    }

    #[test]
    fn a_command_is_a_text_or_a_list() {
        assert_eq!(own_command(&options("")), Ok(None));
        let shell = Program::Shell("make check".to_owned());
        assert_eq!(
            own_command(&options("command = 'make check'")),
            Ok(Some(shell))
        );
        let list = Program::List(vec!["make".to_owned(), "check".to_owned()]);
        assert_eq!(
            own_command(&options("command = ['make', 'check']")),
            Ok(Some(list))
        );
        for wrong in ["command = 1", "command = []", "command = ['a', 1]"] {
            assert!(own_command(&options(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_files_name_is_never_run() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("$(touch p);  touch q");
        fs::write(&name, "").unwrap();
        for line in [
            "echo {file}",
            "echo \"{file}\"",
            "echo '{files}'",
            "echo {files}",
        ] {
            let (program, args) = filled(
                &Program::Shell(line.to_owned()),
                std::slice::from_ref(&name),
            );
            let output = capture(&program, &args, folder.path()).unwrap();
            assert_eq!(output.stdout, format!("{}\n", name.display()), "{line}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let words = ["echo", "{files}", "{file}x"].map(str::to_owned);
        let (program, args) = filled(&Program::List(words.into()), &["/a b".into()]);
        assert_eq!(program, Path::new("echo"));
        assert_eq!(args, ["/a b", "{file}x"].map(OsString::from));
    }

    #[test]
    fn what_a_tool_does_when_it_cannot_work_is_no_problem_of_the_code() {
        let judge =
            |format, kind, output: &Captured| check(format, kind).judge(output, Path::new("/p"));
        let crash = output(2, "Oops! no configuration\n");
        let why = judge(Format::EslintJson, CheckKind::Lint, &crash).unwrap_err();
        assert_eq!(why, "tool ended with 2: Oops! no configuration");
        let killed = Captured {
            code: None,
            ..output(0, "")
        };
        assert_eq!(
            judge(Format::Lines, CheckKind::Lint, &killed).unwrap_err(),
            "tool was killed: "
        );
        // pytest without tests.
        assert_eq!(
            judge(
                Format::Pytest,
                CheckKind::Test,
                &output(5, "no tests ran\n")
            ),
            Ok(Vec::new())
        );
        assert!(judge(Format::Pytest, CheckKind::Test, &output(4, "usage\n")).is_err());
        // The shell's words for a program that is not there.
        assert!(
            judge(
                Format::Any,
                CheckKind::Lint,
                &output(127, "sh: x: not found\n")
            )
            .is_err()
        );
    }

    #[test]
    fn unreadable_output_of_a_command_is_reported_by_its_end() {
        let check = check(Format::Any, CheckKind::Test);
        let problems = check
            .judge(&output(1, "it is wrong\n"), Path::new("/p"))
            .unwrap();
        assert_eq!(problems.len(), 1);
        assert_eq!(&problems[0].file, &None);
        assert_eq!(&*problems[0].text, "it is wrong");
        assert_eq!(
            check.judge(&output(0, "it is right\n"), Path::new("/p")),
            Ok(Vec::new())
        );
    }

    #[test]
    fn a_compilers_warnings_are_the_linters() {
        let text = "a.rs:1:1: warning: w\na.rs:2:1: error: e\na.rs:2:1: note: n\n";
        let count = |kind| {
            check(Format::Lines, kind)
                .judge(&output(1, text), Path::new("/p"))
                .unwrap()
                .len()
        };
        assert_eq!(
            [CheckKind::Typecheck, CheckKind::Lint, CheckKind::Test].map(count),
            [1, 2, 1]
        );
        // It fails for what is not told: that is no crash.
        let notes = output(1, "a.rs:1:1: warning: w\n");
        assert_eq!(
            check(Format::Lines, CheckKind::Typecheck).judge(&notes, Path::new("/p")),
            Ok(Vec::new())
        );
    }

    #[test]
    fn rustc_names_files_as_seen_from_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let krate = folder.path().join("crates/a");
        fs::create_dir_all(&krate).unwrap();
        fs::write(krate.join("Cargo.toml"), "[package]\nworkspace = '../..'\n").unwrap();
        assert_eq!(workspace(&krate, folder.path()), krate);
        fs::write(
            folder.path().join("Cargo.toml"),
            "[workspace]\nmembers = ['crates/*']\n",
        )
        .unwrap();
        assert_eq!(workspace(&krate, folder.path()), folder.path());
        // Not beyond the project.
        assert_eq!(workspace(&krate, &krate), krate);
    }
}
