//! Starts the program of a job, or says in a person's words why that cannot be.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;

use super::{Job, Program};
use crate::program::is_executable;

/// Where programs are looked for if the environment has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How a program is kept apart from us.
#[derive(Debug, Clone)]
pub(super) enum Apart {
    /// In a process group of its own. There is no terminal to be kept from: the daemon has none,
    /// nor has what Claude Code starts.
    Group,
    /// In a session of its own, which this program makes: we run in a terminal (`becket try`), and
    /// the hook shall not get it as `/dev/tty`.
    Session(PathBuf),
}

impl Apart {
    /// What is needed here. std can make a session only by code between fork and exec, which is
    /// unsafe, and dearer than the spawn that it would replace.
    pub(super) fn fitting() -> Self {
        if File::open("/dev/tty").is_err() {
            return Self::Group;
        }
        let setsid = ["/usr/bin/setsid", "/bin/setsid"].map(PathBuf::from);
        let setsid = setsid.into_iter().find(|program| is_executable(program));
        setsid.map_or(Self::Group, Self::Session)
    }
}

/// Starts it, with pipes on stdin, stdout and stderr.
pub(super) fn spawn(job: &Job, apart: &Apart) -> Result<Child, String> {
    let program = program_of(job)?;
    let mut command = match apart {
        Apart::Group => {
            let mut command = Command::new(&program);
            command.process_group(0);
            command
        }
        // It would fork if it led a group, and makes one anyway.
        Apart::Session(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(&program);
            command
        }
    };
    match &job.program {
        Program::Shell(line) => command.args(["-c", line]),
        Program::List(words) => command.args(words.iter().skip(1)),
    };
    command
        .current_dir(&job.cwd)
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .env("BECKET_HOOK", &job.hook)
        .env("CI", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|error| why(&error, job, &program))
}

/// The program as a path: std spawns that without a fork, which a bare word would need.
fn program_of(job: &Job) -> Result<PathBuf, String> {
    let word = match &job.program {
        Program::Shell(_) => return Ok(PathBuf::from("/bin/sh")),
        Program::List(words) => words.first().map_or("", String::as_str),
    };
    if word.is_empty() {
        return Err("no program is named (run = [\"program\", …])".to_owned());
    }
    if !word.contains('/') {
        return look_up(word, job);
    }
    let program = job.base.join(word);
    check(&program).map(|()| program)
}

fn look_up(word: &str, job: &Job) -> Result<PathBuf, String> {
    let path = path_in(&job.environment);
    let mut not_executable = None;
    for folder in std::env::split_paths(path) {
        let program = job.cwd.join(folder).join(word);
        match check(&program) {
            Ok(()) => return Ok(program),
            Err(why) if program.is_file() => not_executable = not_executable.or(Some(why)),
            Err(_) => {}
        }
    }
    Err(not_executable.unwrap_or_else(|| format!("no program \"{word}\" is in the PATH")))
}

/// Where programs are looked for in that environment.
pub fn path_in(environment: &[(OsString, OsString)]) -> &OsStr {
    let path = environment.iter().rfind(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(USUAL_PATH), |(_, value)| value)
}

fn check(program: &Path) -> Result<(), String> {
    let shown = program.display();
    match program.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("{shown} does not exist")),
        Err(error) => Err(format!("{shown} cannot be looked at: {error}")),
        Ok(what) if what.is_dir() => Err(format!("{shown} is a folder")),
        Ok(_) if !is_executable(program) => Err(format!(
            "{shown} is not executable (try `chmod +x {shown}`)"
        )),
        Ok(_) => Ok(()),
    }
}

/// The system has one word for a missing folder, program and interpreter.
fn why(error: &io::Error, job: &Job, program: &Path) -> String {
    let (cwd, program) = (job.cwd.display(), program.display());
    let not_found = error.kind() == ErrorKind::NotFound;
    if !job.cwd.is_dir() {
        return format!("the session's folder {cwd} is gone");
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        _ if not_found => format!(
            "{program} needs an interpreter that does not exist (see its first line, `#!…`)"
        ),
        Some(Errno::NOEXEC) => {
            format!("{program} is no program (does it lack a first line like `#!/bin/sh`?)")
        }
        Some(Errno::TOOBIG) => "its arguments and environment are too long".to_owned(),
        _ => format!("{program} in {cwd}: {error}"),
    }
}
