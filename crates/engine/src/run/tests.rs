//! Real little programs that do what programs should not.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

use becket_wire::event::EventName;
use becket_wire::{Answer, EventId};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::*;

/// No program here takes that long unless something is broken.
const WATCHDOG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

/// A folder to work in, which outlives its programs.
struct Yard(TempDir);

impl Yard {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn job(&self, hook: &str, program: Program) -> Job {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Job {
            hook: hook.to_owned(),
            program,
            cwd: self.0.path().to_owned(),
            base: self.0.path().to_owned(),
            environment: Arc::new([(OsString::from("PATH"), path)]),
            stdin: Arc::from(&b"{}"[..]),
            timeout: WATCHDOG,
            is_async: false,
            listing: None,
        }
    }

    fn sh(&self, line: &str) -> Job {
        self.job("h", Program::Shell(line.to_owned()))
    }

    /// Waits for a file that a program writes in one go, and reads it.
    fn read(&self, name: &str) -> String {
        let until = Instant::now() + WATCHDOG;
        loop {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(Instant::now() < until, "no {name}"),
            }
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).parse().unwrap()).unwrap()
    }
}

fn with_timeout(job: Job, timeout: Duration) -> Job {
    Job { timeout, ..job }
}

/// Runs them; what was answered, and what came later.
fn run_all(jobs: Vec<Job>) -> (Vec<Ran>, Vec<Ran>) {
    run_until(jobs, &Cancel::new())
}

/// In a terminal and out of it these tests do the same.
fn run_until(jobs: Vec<Job>, cancel: &Cancel) -> (Vec<Ran>, Vec<Ran>) {
    run_in(&Apart::Group, jobs, cancel)
}

fn run_in(apart: &Apart, jobs: Vec<Job>, cancel: &Cancel) -> (Vec<Ran>, Vec<Ran>) {
    let (answer, rest) = (RefCell::new(None), RefCell::new(Vec::new()));
    let answered = |ran| {
        assert!(answer.replace(Some(ran)).is_none());
        assert!(
            rest.borrow().iter().all(|ran: &Ran| ran.hook != "awaited"),
            "answered too late"
        );
    };
    let later = |ran| rest.borrow_mut().push(ran);
    Batch::start(jobs, Behind::default(), apart, cancel, answered, later).run();
    (answer.into_inner().expect("an answer"), rest.into_inner())
}

fn run_one(job: Job) -> Ran {
    let began = Instant::now();
    let (mut ran, rest) = run_all(vec![job]);
    assert!(rest.is_empty());
    assert!(began.elapsed() < WATCHDOG / 2, "it hung");
    ran.pop().expect("one run")
}

/// Runs it until its time is up. How long it takes to write `begun` is the machine's business: until it
/// got so far it is run again, with more time.
fn times_out(yard: &Yard, line: &str) -> Ran {
    times_out_in(&Apart::Group, yard, line)
}

fn times_out_in(apart: &Apart, yard: &Yard, line: &str) -> Ran {
    let mut limit = SHORT;
    loop {
        let job = with_timeout(yard.sh(line), limit);
        let (mut ran, _) = run_in(apart, vec![job], &Cancel::new());
        let ran = ran.pop().expect("one run");
        assert_eq!((&ran.outcome, ran.limit), (&Outcome::TimedOut, limit));
        assert!((limit..WATCHDOG / 2).contains(&ran.took), "{:?}", ran.took);
        if yard.path("begun").exists() {
            return ran;
        }
        limit *= 4;
    }
}

/// Whether it is gone, or about to be buried by whoever took it over.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" Z"));
    zombie || test_kill_process(pid) == Err(Errno::SRCH)
}

fn wait_until_gone(pid: Pid) {
    let until = Instant::now() + WATCHDOG;
    while !is_gone(pid) {
        assert!(Instant::now() < until, "{pid:?} still runs");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

mod ends;
mod starts;
mod words;
