//! The pipes of a program, and the meaning of its output: the answer of a hook, and the row of its run.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use becket_wire::answer::AnswerError;
use becket_wire::event::EventName;
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::{Answer, EventId};
use rustix::event::{PollFd, PollFlags};
use serde_json::{Map, Value};

use super::{JobResult, Outcome};

/// The number of bytes to keep of each of a hook's stdout and stderr.
pub(super) const KEPT: usize = 1 << 20;

/// The number of reads that empty the pipes of a program that has ended.
const LAST_READS: usize = 32;

/// The pipes of a program.
#[derive(Debug)]
pub(super) struct Pipes {
    stdin: Feed,
    pub(super) stdout: Capture<ChildStdout>,
    pub(super) stderr: Capture<ChildStderr>,
}

impl Pipes {
    /// Takes the pipes of a program that was just started. Of each of stdout and stderr `bound` bytes are kept.
    pub(super) fn of(child: &mut Child, stdin: Arc<[u8]>, bound: usize) -> Self {
        Self {
            stdin: Feed::begin(child.stdin.take(), stdin),
            stdout: Capture::of(child.stdout.take(), bound),
            stderr: Capture::of(child.stderr.take(), bound),
        }
    }

    /// Returns the descriptors to poll.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let fed = self.stdin.pipe.as_ref().map(AsFd::as_fd);
        let read = [self.stdout.pipe(), self.stderr.pipe()];
        let read = read.into_iter().flatten().map(|pipe| (pipe, PollFlags::IN));
        fed.map(|pipe| (pipe, PollFlags::OUT))
            .into_iter()
            .chain(read)
            .map(|(pipe, flags)| PollFd::from_borrowed_fd(pipe, flags))
    }

    /// Writes what the program takes and reads once what it says, without waiting.
    pub(super) fn transfer(&mut self, buffer: &mut [u8]) {
        self.stdin.write();
        self.stdout.read(buffer);
        self.stderr.read(buffer);
    }

    /// Closes stdin: the program has ended.
    pub(super) fn end_input(&mut self) {
        self.stdin.pipe = None;
    }

    /// Reads what an ended program has left.
    pub(super) fn empty(&mut self, buffer: &mut [u8]) {
        for _ in 0..LAST_READS {
            if !self.stdout.read(buffer) & !self.stderr.read(buffer) {
                break;
            }
        }
    }

    /// Returns true if no more output can come.
    pub(super) fn are_closed(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Returns the number of bytes beyond the bound.
    pub(super) fn dropped(&self) -> u64 {
        self.stdout.dropped + self.stderr.dropped
    }
}

/// The output of a program on one pipe. Bytes beyond the bound are read and counted, so that the program can
/// go on.
#[derive(Debug)]
pub(super) struct Capture<R> {
    pipe: Option<R>,
    bound: usize,
    pub(super) kept: Vec<u8>,
    dropped: u64,
}

impl<R: Read + AsFd> Capture<R> {
    fn of(pipe: Option<R>, bound: usize) -> Self {
        Self {
            pipe: pipe.and_then(without_blocking),
            bound,
            kept: Vec::new(),
            dropped: 0,
        }
    }

    /// Returns the descriptor to poll; none once it is closed.
    fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once. Returns true if there may be more right now.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        match pipe.read(buffer) {
            Ok(len) if len > 0 => {
                let room = (self.bound - self.kept.len()).min(len);
                self.kept.extend_from_slice(&buffer[..room]);
                self.dropped += (len - room) as u64;
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Ok(_) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}

/// The input of a program. The program need not read it.
#[derive(Debug)]
struct Feed {
    /// None once everything is written or the program reads no more.
    pipe: Option<ChildStdin>,
    bytes: Arc<[u8]>,
    sent: usize,
}

impl Feed {
    /// Writes as much as the pipe takes at once, nearly always everything.
    fn begin(pipe: Option<ChildStdin>, bytes: Arc<[u8]>) -> Self {
        let mut feed = Self {
            pipe: pipe.and_then(without_blocking),
            bytes,
            sent: 0,
        };
        feed.write();
        feed
    }

    fn write(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            let rest = &self.bytes[self.sent..];
            match pipe.write(rest) {
                Ok(len) if len < rest.len() => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has everything, or it does not read. Neither is a failure.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }
}

/// Makes a pipe non-blocking. Returns none if that fails: a pipe that blocks would stop this thread.
fn without_blocking<P: AsFd>(pipe: P) -> Option<P> {
    rustix::io::ioctl_fionbio(&pipe, true).ok().map(|()| pipe)
}

/// The number of characters of a failure's text.
const TOLD: usize = 500;
/// The longest first line that may say `{"async": true}`, and the longest time that it may ask for.
const FIRST_LINE: usize = 4096;
const LONGEST_ASYNC: Duration = Duration::from_secs(24 * 3600);

/// The event that a hook ran on.
#[derive(Debug, Clone, Copy)]
pub struct Occasion<'a> {
    pub event_id: EventId,
    pub event: &'a EventName,
    pub session_id: Option<&'a str>,
    pub agent_id: Option<&'a str>,
}

impl JobResult {
    /// Reads its answer to the event. Returns the failure as text. A hook that went on in the background or was
    /// cancelled gives no opinion.
    pub fn answer(&self, event: &EventName) -> Result<Answer, String> {
        match &self.outcome {
            Outcome::Exited(code) => self.read(event, *code).map_err(|why| brief(&why)),
            Outcome::Cancelled | Outcome::WentAsync => Ok(Answer::silent(event.clone())),
            Outcome::TimedOut => Err(format!(
                "the hook was ended after its {:?}: its time was up",
                Duration::from_millis(self.limit.as_millis() as u64)
            )),
            Outcome::CutOff => Err("becket ended before the hook did".to_owned()),
            Outcome::Signalled(signal) => {
                Err(format!("the hook was killed by {}", signal_words(*signal)))
            }
            Outcome::NotStarted(why) => Err(brief(&format!("the hook did not start: {why}"))),
        }
    }

    fn read(&self, event: &EventName, code: i32) -> Result<Answer, String> {
        // The line that says it goes on in the background is no part of the answer.
        let beginning = went_async(&self.stdout).map_or(0, |(len, _)| len);
        // As JavaScript reads it: bytes that are not UTF-8 are replaced, and a byte order mark is white space.
        let stdout = String::from_utf8_lossy(&self.stdout[beginning..]);
        let stdout = stdout.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if code == 0 && stdout.starts_with('{') {
            if self.stdout.len() >= KEPT && self.dropped > 0 {
                return Err("the hook's answer is longer than 1 MiB".to_owned());
            }
            // Claude Code would take broken JSON as plain text, which no hook intends.
            let json = serde_json::from_str::<Value>(stdout);
            json.map_err(|error| format!("the hook's answer is not complete JSON: {error}"))?;
        }
        let answer = Answer::read(event.clone(), code, stdout.as_bytes(), &self.stderr);
        answer.map_err(|error| match error {
            AnswerError::Failed { exit, .. } if (129..=192).contains(&exit) => format!(
                "{error} (a shell's exit code for {})",
                signal_words(exit - 128)
            ),
            error => error.to_string(),
        })
    }

    /// Makes the row of this run from the result of [`answer`](Self::answer).
    pub fn row(&self, on: Occasion<'_>, read: &Result<Answer, String>) -> RunRow {
        let exit = match self.outcome {
            Outcome::Exited(code) => Some(code),
            _ => None,
        };
        let decision = read.as_ref().ok().and_then(Answer::decision);
        RunRow {
            hook: self.hook.clone(),
            event_id: on.event_id,
            event: on.event.to_string(),
            session_id: on.session_id.map(str::to_owned),
            agent_id: on.agent_id.map(str::to_owned),
            at: self.at,
            took_us: i64::try_from(self.took.as_micros()).unwrap_or(i64::MAX),
            exit,
            outcome: self.run_outcome(read.is_ok()),
            decision: decision.map(|(word, _)| word.to_owned()),
            said: (self.stdout.len() + self.stderr.len()) as u64 + self.dropped,
            note: read.as_ref().err().cloned(),
        }
    }

    fn run_outcome(&self, was_read: bool) -> RunOutcome {
        match self.outcome {
            Outcome::Exited(_) if was_read => RunOutcome::Ok,
            Outcome::Exited(0) => RunOutcome::Invalid,
            Outcome::Exited(_) => RunOutcome::Failed,
            Outcome::Signalled(_) => RunOutcome::Killed,
            Outcome::TimedOut => RunOutcome::TimedOut,
            Outcome::Cancelled => RunOutcome::Cancelled,
            Outcome::CutOff => RunOutcome::CutOff,
            Outcome::WentAsync => RunOutcome::Async,
            Outcome::NotStarted(_) => RunOutcome::NotStarted,
        }
    }
}

/// Looks for `{"async": true}` in the first line of the output so far. Returns the length of that line and the
/// time that it asks for (`asyncTimeout`, in milliseconds). Like Claude Code it does not wait for the line's end.
pub(super) fn went_async(stdout: &[u8]) -> Option<(usize, Option<Duration>)> {
    let newline = memchr::memchr(b'\n', &stdout[..stdout.len().min(FIRST_LINE)]);
    let len = newline.map_or(stdout.len(), |at| at + 1);
    let line = stdout[..len].trim_ascii();
    if len > FIRST_LINE || !line.starts_with(b"{") || !line.ends_with(b"}") {
        return None;
    }
    let said: Map<String, Value> = serde_json::from_slice(line).ok()?;
    if said.get("async") != Some(&Value::Bool(true)) {
        return None;
    }
    let timeout = said.get("asyncTimeout").and_then(Value::as_f64);
    let timeout = timeout.filter(|timeout| *timeout > 0.0).map(|timeout| {
        Duration::try_from_secs_f64(timeout / 1000.0)
            .unwrap_or(LONGEST_ASYNC)
            .min(LONGEST_ASYNC)
    });
    Some((len, timeout))
}

fn brief(text: &str) -> String {
    match text.char_indices().nth(TOLD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
    }
}

/// Names a signal: `signal 9 (KILL)`. The standard library says `signal: 9 (SIGKILL)`.
fn signal_words(signal: i32) -> String {
    let words = ExitStatus::from_raw(signal).to_string();
    words.replace("signal: ", "signal ").replace("(SIG", "(")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(outcome: Outcome, stdout: &str, stderr: &str) -> JobResult {
        JobResult {
            hook: "h".into(),
            at: 7,
            took: Duration::from_micros(1_234_567),
            limit: Duration::from_secs(1),
            outcome,
            stdout: stdout.into(),
            stderr: stderr.into(),
            dropped: 0,
        }
    }

    fn row(ran: &JobResult, event: &EventName) -> RunRow {
        let on = Occasion {
            event_id: EventId::new(5, [7; 2]),
            event,
            session_id: Some("s"),
            agent_id: None,
        };
        ran.row(on, &ran.answer(event))
    }

    #[test]
    fn each_end_has_its_word_and_its_reason() {
        let deny = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}"#;
        let mut flood = ran(
            Outcome::Exited(0),
            &format!("{{{}", " ".repeat(1 << 20)),
            "",
        );
        flood.stdout.truncate(1 << 20);
        flood.dropped = 1;
        let runs = [
            ran(Outcome::Exited(0), "", "chatter"),
            ran(Outcome::Exited(0), "plain", ""),
            ran(Outcome::Exited(0), deny, ""),
            ran(Outcome::Exited(2), "", "not so"),
            ran(Outcome::Exited(1), "", "broken"),
            ran(Outcome::Exited(137), "", ""),
            ran(Outcome::Exited(0), &deny[..40], ""),
            ran(Outcome::Exited(0), "{} and more", ""),
            ran(Outcome::Exited(0), r#"{"continue": 7}"#, ""),
            flood,
            ran(Outcome::Signalled(11), "", ""),
            ran(Outcome::Signalled(40), "", ""),
            ran(Outcome::TimedOut, deny, ""),
            ran(Outcome::Cancelled, deny, ""),
            ran(Outcome::CutOff, deny, ""),
            ran(Outcome::WentAsync, "{\"async\": true}\n", ""),
            ran(Outcome::NotStarted("x does not exist".into()), "", ""),
        ];
        let told: Vec<String> = (runs.iter().map(|ran| row(ran, &EventName::PreToolUse)))
            .map(|row| {
                let decision = row.decision.unwrap_or_default();
                let (exit, said, outcome) = (row.exit, row.said, row.outcome);
                let note = row.note.unwrap_or_default();
                format!(
                    "{outcome}|{exit:?}|{decision}|{said}|{}",
                    note.replace('\n', "⏎")
                )
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
    ok|Some(0)||7|
    ok|Some(0)||5|
    ok|Some(0)|deny|85|
    ok|Some(2)|deny|6|
    failed|Some(1)||6|the hook exited with 1: broken
    failed|Some(137)||0|the hook exited with 137 (a shell's exit code for signal 9 (KILL))
    invalid|Some(0)||40|the hook's answer is not complete JSON: EOF while parsing a value at line 1 column 40
    invalid|Some(0)||11|the hook's answer is not complete JSON: trailing characters at line 1 column 4
    invalid|Some(0)||15|the hook's continue must be true or false
    invalid|Some(0)||1048577|the hook's answer is longer than 1 MiB
    killed|None||0|the hook was killed by signal 11 (SEGV)
    killed|None||0|the hook was killed by signal 40
    timed out|None||85|the hook was ended after its 1s: its time was up
    cancelled|None||85|
    cut off|None||85|becket ended before the hook did
    async|None||16|
    not started|None||0|the hook did not start: x does not exist
    ");
    }

    #[test]
    fn a_denial_is_read_as_javascript_would_read_it() {
        let deny = br#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"na\xefve"}}"#;
        for before in ["", "\u{feff}", "\u{a0}", "\u{b}\u{c} \n"] {
            let mut ran = ran(Outcome::Exited(0), "", "");
            ran.stdout = [before.as_bytes(), deny].concat();
            // A byte that is no text, as from a file's name in another encoding.
            let at = ran.stdout.windows(5).position(|bytes| bytes == b"\\xefv");
            ran.stdout.splice(at.unwrap()..at.unwrap() + 4, [0xef]);
            let answer = ran.answer(&EventName::PreToolUse).unwrap();
            let (word, reason) = answer.decision().unwrap();
            assert_eq!((word, reason), ("deny", Some("na\u{fffd}ve")), "{before:?}");
        }
        let odd = ran(
            Outcome::Exited(0),
            r#"{"n": 1e999, "decision": "block"}"#,
            "",
        );
        assert!(
            odd.answer(&EventName::PreToolUse).is_err(),
            "never passed over"
        );
    }

    #[test]
    fn a_failure_is_told_in_a_line_or_two() {
        let long = "long ".repeat(300_000);
        let told = ran(Outcome::Exited(1), "", &long).answer(&EventName::Stop);
        let told = told.unwrap_err();
        assert!(told.starts_with("the hook exited with 1: long long"));
        assert!(
            told.ends_with(" …") && told.chars().count() <= 502,
            "{told}"
        );
    }

    #[test]
    fn what_is_said_in_the_background_is_read_without_its_beginning() {
        let answer = |stdout: &str| ran(Outcome::Exited(0), stdout, "").answer(&EventName::Stop);
        let silent = Ok(Answer::silent(EventName::Stop));
        assert_eq!(answer("{\"async\": true}\n"), silent);
        assert_eq!(answer("{\"async\": true}\nplain"), silent);
        let told = answer("{\"async\": true}\n{\"systemMessage\": \"done\"}\n").unwrap();
        assert_eq!(told.messages(), ["done"]);
    }

    #[test]
    fn only_a_whole_line_that_says_so_goes_to_the_background() {
        let went = |stdout: &str| went_async(stdout.as_bytes());
        assert_eq!(went("{\"async\": true}\nrest"), Some((16, None)));
        assert_eq!(went(" {\"async\": true, \"x\": 1}"), Some((24, None)));
        let seconds = Some(Duration::from_millis(1500));
        assert_eq!(
            went("{\"async\":true,\"asyncTimeout\":1500}\n"),
            Some((35, seconds))
        );
        let day = Some(Duration::from_secs(24 * 3600));
        assert_eq!(
            went("{\"async\":true,\"asyncTimeout\":1e300}"),
            Some((35, day))
        );
        for stdout in [
            "",
            "\n{\"async\": true}",
            "{\"async\": true",
            "{\"async\": false}\n",
            "{\"async\": \"true\"}\n",
            "{\"x\": {\"async\": true}}\n",
            "text {\"async\": true}\n",
            "[{\"async\": true}]\n",
        ] {
            assert_eq!(went(stdout), None, "{stdout}");
        }
        let long = format!("{{\"async\": true, \"x\": \"{}\"}}\n", "x".repeat(5000));
        assert_eq!(went(&long), None);
    }
}
