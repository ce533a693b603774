//! Runs a tool in our own process group, so that whoever ends us ends it too; reads what it prints
//! within bounds, and does not wait for what it leaves behind.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What is kept of each stream.
const MOST: usize = 8 << 20;
/// How long what is still in the pipes may take, once the tool has ended.
const REST: Duration = Duration::from_millis(500);

/// What a tool printed, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: String,
    pub stderr: String,
    /// None: a signal ended it.
    pub code: Option<i32>,
    /// There was more than is kept.
    pub cut: bool,
}

enum Heard {
    Bytes(usize, Vec<u8>),
    Closed,
    Ended(io::Result<ExitStatus>),
}

/// Runs a program to its end.
pub fn capture(program: &Path, args: &[OsString], folder: &Path) -> io::Result<Captured> {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(folder)
        .env("CI", "true")
        .env("NO_COLOR", "1")
        .env("FORCE_COLOR", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("RUST_BACKTRACE", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (sender, heard) = channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut open = 0;
    if let Some(stdout) = stdout {
        let sender = sender.clone();
        thread::spawn(move || read(stdout, 0, &sender));
        open += 1;
    }
    if let Some(stderr) = stderr {
        let sender = sender.clone();
        thread::spawn(move || read(stderr, 1, &sender));
        open += 1;
    }
    thread::spawn(move || drop(sender.send(Heard::Ended(child.wait()))));

    let mut streams = [Vec::new(), Vec::new()];
    let (mut cut, mut ended, mut until) = (false, None, None::<Instant>);
    while open > 0 || ended.is_none() {
        let next = match until {
            None => heard.recv().ok(),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                heard.recv_timeout(left).ok()
            }
        };
        match next {
            Some(Heard::Bytes(stream, bytes)) => {
                let room = MOST - streams[stream].len();
                cut |= bytes.len() > room;
                streams[stream].extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Some(Heard::Closed) => open -= 1,
            Some(Heard::Ended(status)) => {
                ended = Some(status?);
                until = Some(Instant::now() + REST);
            }
            None => break,
        }
    }
    let [stdout, stderr] = streams.map(|bytes| plain(&String::from_utf8_lossy(&bytes)));
    Ok(Captured {
        stdout,
        stderr,
        code: ended.and_then(|status| status.code()),
        cut,
    })
}

fn read(mut stream: impl Read, number: usize, sender: &Sender<Heard>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let heard = match stream.read(&mut buffer) {
            Ok(0) => Heard::Closed,
            Ok(len) => Heard::Bytes(number, buffer[..len].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => Heard::Closed,
        };
        let over = matches!(heard, Heard::Closed);
        if sender.send(heard).is_err() || over {
            return;
        }
    }
}

/// Text without colours, which some tools print whatever they are told.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = match after.strip_prefix('[') {
            Some(sequence) => sequence
                .find(|c: char| ('@'..='~').contains(&c))
                .map_or("", |end| &sequence[end + 1..]),
            None => after,
        };
    }
    plain.push_str(rest);
    plain.replace('\r', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str) -> Captured {
        let args = ["-c", line].map(OsString::from);
        capture(Path::new("/bin/sh"), &args, Path::new("/")).unwrap()
    }

    #[test]
    fn both_streams_and_the_exit_code_are_kept() {
        let captured = sh("echo out; echo err >&2; exit 3");
        assert_eq!(captured.stdout, "out\n");
        assert_eq!(captured.stderr, "err\n");
        assert_eq!(captured.code, Some(3));
        assert_eq!(sh("kill -9 $$").code, None);
    }

    #[test]
    fn a_tool_has_no_stdin_and_knows_that_nobody_looks() {
        assert_eq!(sh("cat; echo $CI $NO_COLOR").stdout, "true 1\n");
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        let captured = sh("sleep 30 & echo done; echo $!");
        let mut lines = captured.stdout.lines();
        assert_eq!(lines.next(), Some("done"));
        let pid: i32 = lines.next().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_flood_is_cut_and_does_not_stop_the_tool() {
        let captured = sh("head -c 9000000 /dev/zero | tr '\\0' x; exit 7");
        assert_eq!(captured.stdout.len(), MOST);
        assert!(captured.cut);
        assert_eq!(captured.code, Some(7));
    }

    #[test]
    fn colours_go() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\r\n"), "red\n");
        assert_eq!(plain("a\u{1b}[3"), "a");
    }
}
