//! Stands between an SDK and Claude Code, and takes the time of each callback: from the moment that the
//! request goes to the SDK until its answer is there. That is what Claude Code waits for. The difference
//! of whole calls, with a callback and without, does not tell the SDKs apart: four runs gave 0.52, 1.61,
//! 1.35 and 0.47.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::samples::Samples;

/// The times of the callbacks, by the request's id.
#[derive(Default)]
struct Times {
    asked: HashMap<String, Instant>,
    took: Vec<Duration>,
}

/// A program that an SDK can start in Claude Code's place.
pub fn program(folder: &Path, claude: &Path) -> Result<PathBuf> {
    let bench = std::env::current_exe()?;
    let (file, log) = (folder.join("claude"), log(folder));
    let quoted = |path: &Path| format!("'{}'", path.display());
    let (bench, log, claude) = (quoted(&bench), quoted(&log), quoted(claude));
    fs::write(
        &file,
        format!("#!/bin/sh\nexec {bench} spy {log} {claude} \"$@\"\n"),
    )?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

fn log(folder: &Path) -> PathBuf {
    folder.join("callbacks")
}

/// What it saw, without the first `skipped`.
pub fn read(folder: &Path, skipped: usize, samples: &mut Samples) -> Result<()> {
    let text = fs::read_to_string(log(folder)).context("the spy left no times")?;
    for line in text.lines().skip(skipped) {
        samples.push(Duration::from_nanos(line.parse()?));
    }
    Ok(())
}

/// Runs the program between: a log, the program, its arguments.
pub fn run(args: &[String]) -> Result<ExitCode> {
    let [log, program, args @ ..] = args else {
        anyhow::bail!("spy needs a log and a program");
    };
    let mut command = Command::new(program);
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (to_child, from_child) = child
        .stdin
        .take()
        .zip(child.stdout.take())
        .context("pipes")?;
    let times = &Mutex::new(Times::default());
    std::thread::scope(|scope| {
        // Ends with the SDK's input, or with this process.
        scope.spawn(move || forward(std::io::stdin(), to_child, |line| answered(times, line)));
        forward(from_child, std::io::stdout(), |line| asked(times, line));
        write(Path::new(log), times)
    })?;
    let status = child.wait()?;
    Ok(ExitCode::from(
        u8::try_from(status.code().unwrap_or(1)).unwrap_or(1),
    ))
}

fn write(log: &Path, times: &Mutex<Times>) -> Result<()> {
    let times = times.lock().expect("no thread panics");
    let lines = times
        .took
        .iter()
        .map(|took| format!("{}\n", took.as_nanos()));
    fs::write(log, lines.collect::<String>()).context("could not write the times")
}

fn forward(from: impl Read, mut to: impl Write, see: impl Fn(&[u8])) {
    let mut from = BufReader::with_capacity(1 << 16, from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        see(&line);
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

fn asked(times: &Mutex<Times>, line: &[u8]) {
    let Some(frame) = frame(line, "\"hook_callback\"") else {
        return;
    };
    let id = frame["request_id"].as_str().unwrap_or_default().to_owned();
    times
        .lock()
        .expect("no thread panics")
        .asked
        .insert(id, Instant::now());
}

fn answered(times: &Mutex<Times>, line: &[u8]) {
    let now = Instant::now();
    let Some(frame) = frame(line, "\"control_response\"") else {
        return;
    };
    let id = frame["response"]["request_id"].as_str().unwrap_or_default();
    let mut times = times.lock().expect("no thread panics");
    if let Some(asked) = times.asked.remove(id) {
        times.took.push(now - asked);
    }
}

fn frame(line: &[u8], with: &str) -> Option<Value> {
    let text = std::str::from_utf8(line).ok()?;
    text.contains(with)
        .then(|| serde_json::from_str(text).ok())?
}
