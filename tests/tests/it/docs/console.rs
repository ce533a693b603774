//! Runs the ```console blocks of the documentation. A line that begins with `$ ` is a command; the lines
//! after it are its whole output, on both streams. `…` stands for any text within a line, and on a line of
//! its own for any lines. `# exit N` is an expected exit code. A `cd` or an `export` alone on its line
//! applies to all later commands. A block with a file name after its language (```toml
//! ~/.becket/config.toml) is that file; with `#!` it is a program. Output shows `/home/you` for the home.
//! Commands are run unchanged, so they cannot contain it. Of commands that open Claude Code only the
//! command line is tried: without a terminal they fail with a message.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::wait::PATIENCE;
use becket_tests::world::{World, finish, start, write_program};

use super::page::{Page, pages, root};

const ANYTHING: &str = "…";
/// The home in shown output.
const HOME: &str = "/home/you";

/// A command or file of a page.
#[derive(Debug, Default)]
struct Step {
    /// Its line in the page.
    line: usize,
    /// A command, or the path of a file.
    command: String,
    code: i32,
    /// The output of the command, or the content of the file.
    shown: Vec<String>,
    writes: bool,
}

fn opens_claude_code(command: &str) -> bool {
    ["becket run", "becket prd init", "becket prd continue"]
        .iter()
        .any(|opens| command.starts_with(opens))
}

/// The kind of a code block.
#[derive(Debug, PartialEq, Eq)]
enum BlockKind {
    Console,
    File,
    /// Shown only.
    Other,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for (line, text) in (1..).zip(text.lines()) {
        let command = text.strip_prefix("$ ");
        match (text.strip_prefix("```"), &block) {
            (Some(_), Some(_)) => block = None,
            (Some(info), None) => {
                block = Some(match info.split_once(' ') {
                    Some((_, file)) => {
                        steps.push(Step {
                            line,
                            command: file.to_owned(),
                            writes: true,
                            ..Step::default()
                        });
                        BlockKind::File
                    }
                    None if info == "console" => BlockKind::Console,
                    None => BlockKind::Other,
                });
            }
            (None, Some(BlockKind::Console)) if command.is_some() => {
                let command = command.unwrap_or_default();
                let (command, code) = command.split_once(" # exit ").unwrap_or((command, "0"));
                steps.push(Step {
                    line,
                    command: command.to_owned(),
                    code: code.parse().expect("an exit code"),
                    ..Step::default()
                });
            }
            (None, Some(BlockKind::Console | BlockKind::File)) => {
                let step = steps.last_mut().expect("output without a command");
                step.shown.push(text.trim_end().to_owned());
            }
            (None, _) => {}
        }
    }
    steps
}

impl Step {
    /// Returns true for a lone `cd` or `export`.
    fn lasts(&self) -> bool {
        let lasts = ["cd ", "export "]
            .iter()
            .any(|it| self.command.starts_with(it));
        lasts && !self.command.contains([';', '&', '|'])
    }
}

/// Returns true if the output matches the page. On a busy machine an event may go standalone where the page
/// shows the daemon; that is not an error of the page.
fn agrees(shown: &[String], said: &[String]) -> bool {
    let by_the_daemon = |line: &String| {
        let line = line.replace("\"source\":\"alone\"", "\"source\":\"daemon\"");
        let line = line.replace("judged without a daemon", "by the daemon");
        line.replace(" standalone ", " ").trim_end().to_owned()
    };
    fits(shown, said) || fits(shown, &said.iter().map(by_the_daemon).collect::<Vec<_>>())
}

fn fits(shown: &[String], said: &[String]) -> bool {
    match (shown, said) {
        ([], []) => true,
        ([any, rest @ ..], _) if any == ANYTHING => {
            (0..=said.len()).any(|skip| fits(rest, &said[skip..]))
        }
        ([one, rest @ ..], [line, more @ ..]) => line_fits(one, line) && fits(rest, more),
        _ => false,
    }
}

fn line_fits(shown: &str, line: &str) -> bool {
    let Some((before, after)) = shown.split_once(ANYTHING) else {
        return shown == line;
    };
    let Some(rest) = line.strip_prefix(before) else {
        return false;
    };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| line_fits(after, &rest[at..]))
}

/// The home of a reader who has Claude Code, and becket where `./install` puts it.
struct Reader {
    world: World,
    /// The `cd` and `export` commands so far.
    before: RefCell<Vec<String>>,
}

impl Reader {
    fn new() -> Self {
        let world = World::new();
        let claude = world.programs.join("claude");
        write_program(&claude, "echo '2.1.325 (Claude Code)'");
        fs::create_dir(world.home.join(".local")).expect("a folder");
        symlink(&world.programs, world.home.join(".local/bin")).expect("a link");
        let before = RefCell::default();
        Self { world, before }
    }

    /// Returns a shell that runs `line` after the `cd` and `export` commands so far.
    fn shell(&self, line: &str) -> Command {
        let before = self.before.borrow().join("\n");
        let mut shell = self.world.command("/bin/sh");
        shell.arg("-c").arg(format!("exec 2>&1\n{before}\n{line}"));
        shell
    }

    /// Returns the interpreter that a program of the page needs, if this machine lacks it.
    fn misses<'a>(&self, step: &'a Step) -> Option<&'a str> {
        let first = step.shown.first().filter(|_| step.writes)?;
        let program = first.strip_prefix("#!/usr/bin/env ")?;
        let found = self.shell(&format!("command -v {program}")).output();
        let is_there = found.is_ok_and(|found| found.status.success());
        (!is_there).then_some(program)
    }

    fn writes(&self, step: &Step) {
        let home = self.world.home.to_string_lossy();
        let path = step.command.replacen('~', &home, 1);
        let path = Path::new(&path);
        let mode = match step.shown.first() {
            Some(line) if line.starts_with("#!") => 0o755,
            _ => 0o600,
        };
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let text = step.shown.join("\n") + "\n";
        fs::write(path, text).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// Returns output lines as the page would show them.
    fn shown(&self, output: &str) -> Vec<String> {
        let text = output
            .replace(
                &*self.world.programs.to_string_lossy(),
                &format!("{HOME}/.local/bin"),
            )
            .replace(&*self.world.home.to_string_lossy(), HOME);
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// Runs a step and returns the difference to the page.
    fn does(&self, step: &Step) -> Result<(), String> {
        let pasted = step.shown.iter().filter(|_| step.writes);
        if pasted
            .chain([&step.command])
            .any(|text| text.contains(HOME))
        {
            return Err(format!(
                "has {HOME}, which does not exist: use $PWD, $HOME or ~"
            ));
        }
        let first = step.command.split(' ').next().unwrap_or_default();
        match first {
            _ if step.writes => {
                self.writes(step);
                Ok(())
            }
            "git" | "cargo" | "claude" => Ok(()),
            _ if first.starts_with("./") || first.starts_with("scripts/") => offers(step, first),
            _ if step.command.contains("--follow") => self.follows(step),
            _ if opens_claude_code(&step.command) => self.wants_a_terminal(step),
            _ => self.runs(step),
        }
    }

    fn runs(&self, step: &Step) -> Result<(), String> {
        let child = start(self.shell(&step.command));
        let called = finish(child, Instant::now(), PATIENCE);
        let said = self.shown(&called.stdout);
        if called.code != Some(step.code) {
            return Err(format!("exits {:?}:\n{}", called.code, said.join("\n")));
        }
        if !agrees(&step.shown, &said) {
            return Err(format!("prints:\n{}", said.join("\n")));
        }
        if step.lasts() {
            self.before.borrow_mut().push(step.command.clone());
        }
        Ok(())
    }

    fn wants_a_terminal(&self, step: &Step) -> Result<(), String> {
        let called = finish(start(self.shell(&step.command)), Instant::now(), PATIENCE);
        if called.stdout.contains("this is not one") && called.code == Some(2) {
            Ok(())
        } else {
            Err(format!("exits {:?}: {}", called.code, called.stdout))
        }
    }

    /// Runs a command that does not end by itself, and ends it when it has printed everything.
    fn follows(&self, step: &Step) -> Result<(), String> {
        let mut shell = self.shell(&format!("exec {}", step.command));
        let mut child = shell.stdout(Stdio::piped()).spawn().expect("a shell");
        let out = BufReader::new(child.stdout.take().expect("a stdout"));
        let (sender, lines) = channel();
        let reading = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        let until = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        while !agrees(&step.shown, &said) {
            let left = until.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => said.extend(self.shown(&line)),
                Err(_) => break,
            }
        }
        child.kill().expect("it can be ended");
        child.wait().expect("it ends");
        reading.join().expect("a reader");
        if agrees(&step.shown, &said) {
            Ok(())
        } else {
            Err(format!("prints:\n{}", said.join("\n")))
        }
    }
}

/// Checks a program of the source tree without running it: it exists and has the options.
fn offers(step: &Step, program: &str) -> Result<(), String> {
    let path = root().join(program);
    if !path.is_file() {
        return Err("is not there".to_owned());
    }
    let options = step
        .command
        .split(' ')
        .filter(|word| word.starts_with("--"));
    let options: Vec<&str> = options.collect();
    if options.is_empty() {
        return Ok(());
    }
    let help = Command::new(&path).arg("--help").output();
    let help = help.expect("it has help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let missing = options.iter().find(|option| !help.contains(**option));
    missing.map_or(Ok(()), |option| Err(format!("knows no {option}")))
}

fn read_along(page: &Page) -> Vec<String> {
    let steps = steps(&page.text);
    if steps.is_empty() {
        return Vec::new();
    }
    let reader = Reader::new();
    let missing = steps.iter().find_map(|step| reader.misses(step));
    if let Some(program) = missing {
        let why = Unavailable::new(format!("there is no {program} on this machine"));
        skip(&format!("docs::console of {}", page.name), &why);
        return Vec::new();
    }
    let wrong = steps.iter().filter_map(|step| {
        let why = reader.does(step).err()?;
        let Step { line, command, .. } = step;
        Some(format!("{}:{line}: `{command}` {why}", page.name))
    });
    wrong.collect()
}

#[test]
fn every_command_line_does_what_the_page_shows() {
    let pages = pages();
    let count: usize = pages.iter().map(|page| steps(&page.text).len()).sum();
    assert!(count > 60, "only {count} command lines were found");
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let readers: Vec<_> = pages
            .iter()
            .map(|page| scope.spawn(|| read_along(page)))
            .collect();
        let wrong = readers.into_iter().map(ScopedJoinHandle::join);
        wrong.flat_map(|page| page.expect("a reader")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn rust_that_a_reader_pastes_names_no_home() {
    for page in pages() {
        let mut is_rust = false;
        for (number, line) in (1..).zip(page.text.lines()) {
            if let Some(info) = line.strip_prefix("```") {
                is_rust = info.starts_with("rust");
            }
            let place = format!("{}:{number}", page.name);
            assert!(
                !is_rust || !line.contains(HOME),
                "{place}: {HOME} does not exist"
            );
        }
    }
}

#[test]
fn shown_output_must_match() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let fit = |shown: &str, said: &str| fits(&lines(shown), &lines(said));
    assert!(fit("a…c\n…\nz", "abc\nx\ny\nz"));
    assert!(fit("a…c\n…\nz", "ac\nz"));
    assert!(fit("", ""));
    assert!(!fit("", "a"), "what is not shown must not be printed");
    assert!(!fit("a", ""), "what is shown must be printed");
    assert!(!fit("a…c\nz", "abc\nx\nz"));
    assert!(!fit("a…c", "a\nc"), "inside a line it stays there");
    assert!(agrees(
        &lines("x  Bash  1 masked"),
        &lines("x  Bash  standalone 1 masked")
    ));
    let [step] = &steps("```console\n$ false # exit 1\nno\n\n```\n$ not this")[..] else {
        panic!("one step");
    };
    assert_eq!((step.line, step.code, &*step.command), (2, 1, "false"));
    assert_eq!(step.shown, ["no", ""]);
    assert!(!step.writes && !step.lasts());
    let [file, command] = &steps("```sh ~/x\n#!/bin/sh\n$ 1\n```\n```console\n$ cd x\n```")[..]
    else {
        panic!("two steps");
    };
    assert_eq!((&*file.command, file.writes), ("~/x", true));
    assert_eq!(file.shown, ["#!/bin/sh", "$ 1"]);
    assert!(command.lasts(), "{command:?}");
}
