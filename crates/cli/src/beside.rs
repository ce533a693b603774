//! Runs the status line that the person had before ours, within bounds: it may hang, flood us, print
//! binary, or leave something behind that holds its pipe, and ours is shown all the same.

mod clean;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::leave;

/// How long it may take, and how many bytes of it are shown.
const TIME: Duration = Duration::from_millis(1500);
const MOST: usize = 16 << 10;
/// Set for it: a becket that finds itself beside a becket runs nothing beside it.
const BESIDE: &str = "BECKET_BESIDE";
/// How long what is still in the pipe may take, once the command has ended.
const REST: Duration = Duration::from_millis(50);

/// What there is to show of it, and what went wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ran {
    pub shown: String,
    pub wrong: Option<String>,
}

impl Ran {
    fn wrong(why: &str) -> Self {
        Self {
            shown: String::new(),
            wrong: Some(format!("status line: {why}")),
        }
    }
}

/// What is heard of a command that runs.
enum Heard {
    Bytes(Vec<u8>),
    /// Nobody holds the pipe any more.
    Closed,
    /// The command itself has ended, and how.
    Ended(Option<i32>),
    /// Claude Code wants to draw another line already, and ends us.
    Unwanted,
}

/// Whether this becket was started by `run` itself, by way of a command that is not known as ours.
pub fn is_nested() -> bool {
    std::env::var_os(BESIDE).is_some()
}

/// Runs a command as Claude Code does, with the same on stdin.
pub fn run(command: &str, payload: &[u8]) -> Ran {
    let (sender, heard) = channel();
    let unwanted = sender.clone();
    // Before it is started: whoever ends us a moment later leaves nothing behind.
    leave::when_asked(move || drop(unwanted.send(Heard::Unwanted)));
    let started = Command::new("/bin/sh")
        .args(["-c", command])
        .env(BESIDE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    match started {
        Ok(child) => {
            let group = Pid::from_child(&child);
            threads(child, payload.to_vec(), sender);
            listen(&heard, group)
        }
        Err(error) => Ran::wrong(&format!("did not start: {error}")),
    }
}

/// One thread feeds the command, one reads it, and one waits for its end. None of them has to end
/// before we do.
fn threads(mut child: Child, payload: Vec<u8>, sender: Sender<Heard>) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || drop(stdin.write_all(&payload)));
    }
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || read(stdout, &sender));
    }
    thread::spawn(move || {
        let code = child.wait().ok().and_then(|status| status.code());
        sender.send(Heard::Ended(code))
    });
}

fn read(mut stdout: impl Read, sender: &Sender<Heard>) {
    let mut buffer = [0; 4096];
    loop {
        let heard = match stdout.read(&mut buffer) {
            Ok(0) => Heard::Closed,
            Ok(len) => Heard::Bytes(buffer[..len].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => Heard::Closed,
        };
        let over = matches!(heard, Heard::Closed);
        if sender.send(heard).is_err() || over {
            return;
        }
    }
}

fn listen(heard: &Receiver<Heard>, group: Pid) -> Ran {
    let mut until = Instant::now() + TIME;
    let mut printed = Vec::new();
    let (mut closed, mut ended) = (false, None);
    while !closed || ended.is_none() {
        let left = until.saturating_duration_since(Instant::now());
        match heard.recv_timeout(left) {
            Ok(Heard::Bytes(bytes)) => printed.extend(bytes),
            Ok(Heard::Closed) => closed = true,
            Ok(Heard::Ended(code)) => {
                ended = Some(code);
                until = until.min(Instant::now() + REST);
            }
            Ok(Heard::Unwanted) | Err(_) => break,
        }
        if printed.len() > MOST || printed.contains(&0) {
            break;
        }
    }
    let binary = printed.contains(&0);
    let flood = printed.len() > MOST;
    // What it left behind in the background is its own business, unless it misbehaved.
    if ended.is_none() || binary || flood {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if binary {
        return Ran::wrong("prints binary");
    }
    let why = match ended {
        _ if flood => Some("prints too much".to_owned()),
        None => Some("timed out".to_owned()),
        Some(Some(0)) => None,
        // Claude Code shows nothing of one that fails, so neither do we.
        Some(Some(code)) => return Ran::wrong(&format!("ended with {code}")),
        Some(None) => return Ran::wrong("was killed"),
    };
    printed.truncate(MOST);
    let shown = clean::clean(&String::from_utf8_lossy(&printed));
    Ran {
        shown,
        wrong: why.map(|why| format!("status line: {why}")),
    }
}

#[cfg(test)]
mod tests;
