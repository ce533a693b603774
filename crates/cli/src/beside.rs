//! Runs the status line that the person had before ours, within bounds: it may hang, flood us, print
//! binary, or leave something behind that holds its pipe, and ours is shown all the same.

mod clean;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::leave;

/// How long it may take, and how many bytes of it are shown.
const TIME: Duration = Duration::from_millis(1500);
const MOST: usize = 16 << 10;
/// Set for it: a becket that finds itself beside a becket runs nothing beside it.
const BESIDE: &str = "BECKET_BESIDE";
/// What there is still to read of a command that has ended, in buffers: more than is shown.
const BUFFER: usize = 4096;
const LAST_READS: usize = MOST / BUFFER + 1;
/// How long whoever it left behind with the pipe may go on writing, once the command has ended.
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
    run_within(TIME, command, payload)
}

fn run_within(time: Duration, command: &str, payload: &[u8]) -> Ran {
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
            listen(&heard, group, time)
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
    let printed = child.stdout.take().map(|stdout| {
        Arc::new(Printed {
            stdout,
            sender: Mutex::new(sender.clone()),
        })
    });
    if let Some(printed) = printed.clone() {
        thread::spawn(move || printed.read_all());
    }
    thread::spawn(move || wait(child, printed.as_deref(), &sender));
}

fn wait(mut child: Child, printed: Option<&Printed>, sender: &Sender<Heard>) {
    let code = child.wait().ok().and_then(|status| status.code());
    // Before its end is told: on a busy machine the reader may be late.
    if let Some(printed) = printed {
        printed.read_rest();
    }
    drop(sender.send(Heard::Ended(code)));
}

/// What the command prints. Two threads read it; what the one has read is told before the other reads.
struct Printed {
    stdout: ChildStdout,
    sender: Mutex<Sender<Heard>>,
}

impl Printed {
    fn read_all(&self) {
        if ioctl_fionbio(&self.stdout, true).is_err() {
            return;
        }
        loop {
            let mut polled = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) if self.read() == Some(false) => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn read_rest(&self) {
        if ioctl_fionbio(&self.stdout, true).is_ok() {
            let _ = (0..LAST_READS).find(|_| self.read() != Some(true));
        }
    }

    /// Reads once, and tells it. None if there is nothing now, false if nothing comes any more.
    fn read(&self) -> Option<bool> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; BUFFER];
        let heard = match read(&self.stdout, &mut buffer) {
            Ok(len @ 1..) => Heard::Bytes(buffer[..len].to_vec()),
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => return Some(true),
            Ok(_) | Err(_) => Heard::Closed,
        };
        let more = matches!(heard, Heard::Bytes(_));
        Some(sender.send(heard).is_ok() && more)
    }
}

fn listen(heard: &Receiver<Heard>, group: Pid, time: Duration) -> Ran {
    let mut until = Instant::now() + time;
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
