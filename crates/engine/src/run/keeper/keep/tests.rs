//! Real little programs whose runner is gone.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use becket_wire::EventId;
use rustix::process::{getpid, kill_process, test_kill_process};
use tempfile::TempDir;

use super::super::{Line, Start};
use super::*;

const WATCHDOG: Duration = Duration::from_secs(60);
const LONG: u64 = 600_000;

/// A program in a group of its own, and a folder for what it says.
struct Left {
    folder: TempDir,
    child: Child,
}

impl Left {
    /// Starts it, and waits until it has written `begun`.
    fn behind(line: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", line])
            .current_dir(folder.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let left = Self { folder, child };
        left.read("begun");
        left
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        read(&self.path(name))
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).trim().parse().unwrap()).unwrap()
    }

    fn ward(&self, left_ms: u64) -> Ward {
        let pid = Pid::from_child(&self.child);
        Ward {
            nth: 1,
            pid: pid.as_raw_nonzero().get(),
            start: group::started(pid).unwrap(),
            left_ms,
            run: Some(row()),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn read(path: &Path) -> String {
    let until = Instant::now() + WATCHDOG;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(Instant::now() < until, "no {}", path.display()),
        }
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn row() -> RunRow {
    RunRow {
        hook: "house-style".to_owned(),
        event_id: EventId::new(5, [7; 2]),
        event: "PreToolUse".to_owned(),
        session_id: None,
        agent_id: None,
        at: milliseconds() - 3000,
        took_us: 0,
        exit: None,
        outcome: "async".to_owned(),
        decision: None,
        said: 0,
        note: None,
    }
}

/// What it recorded, having heard that. Each run began three seconds ago.
fn kept(told: &[Line]) -> Vec<(String, String)> {
    let lines = told.iter().map(|line| serde_json::to_string(line).unwrap());
    kept_of(&lines.collect::<Vec<_>>().join("\n"))
}

fn kept_of(told: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    keep(told.as_bytes(), None, |run| {
        assert!((3_000_000..60_000_000).contains(&run.took_us), "{run:?}");
        assert_eq!(run.hook, "house-style");
        all.push((run.outcome, run.note.unwrap()));
    });
    all
}

fn so(outcome: &str, note: &str) -> Vec<(String, String)> {
    vec![(outcome.to_owned(), note.to_owned())]
}

#[test]
fn whoever_ignores_its_time_is_killed_with_its_children() {
    let mut left = Left::behind(
        "trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 1000; done' & echo > begun; while :; do sleep 1000; done",
    );
    let child = left.pid("child");
    let recorded = kept(&[Line::Begun(left.ward(0))]);
    assert_eq!(
        recorded,
        so("orphaned", "becket was killed; the hook's time was up")
    );
    assert!(left.child.wait().is_ok());
    assert!(left.has_ended());
    let until = Instant::now() + WATCHDOG;
    while test_kill_process(child).is_ok() {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()));
        if stat.is_ok_and(|stat| stat.contains(") Z ")) {
            break;
        }
        assert!(Instant::now() < until, "the child still runs");
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_run_took_as_long_as_its_leader_ran() {
    let left = Left::behind(
        "sh -c 'trap \"\" TERM; echo > begun; while :; do sleep 1000; done' & trap exit TERM; wait",
    );
    let ward = left.ward(0);
    let mut took = Vec::new();
    let line = serde_json::to_string(&Line::Begun(ward)).unwrap();
    let at = row().at;
    keep(line.as_bytes(), None, |run| took.push(run.took_us));
    let all = (milliseconds() - at) * 1000;
    // Its child was killed two seconds after it.
    assert!(
        matches!(took[..], [took] if took < all - 1_000_000),
        "{took:?} of {all}"
    );
}

#[test]
fn whoever_can_end_is_asked_first() {
    let left =
        Left::behind("trap 'echo > asked; exit' TERM; echo > begun; while :; do sleep 0.01; done");
    let recorded = kept(&[Line::Begun(left.ward(0))]);
    assert_eq!(
        recorded,
        so("orphaned", "becket was killed; the hook's time was up")
    );
    assert!(left.path("asked").exists());
}

#[test]
fn whoever_ends_by_itself_is_left_alone_and_so_are_those_it_leaves_behind() {
    let left = Left::behind(
        "sh -c 'echo $$ > child; exec sleep 1000' & echo > begun; while [ ! -e go ]; do sleep 0.01; done",
    );
    let child = left.pid("child");
    let ward = left.ward(LONG);
    let go = left.path("go");
    let keeping = thread::spawn(move || kept(&[Line::Begun(ward)]));
    fs::write(go, "").unwrap();
    assert_eq!(
        keeping.join().unwrap(),
        so("orphaned", "becket was killed; the hook ended by itself")
    );
    assert_eq!(test_kill_process(child), Ok(()));
    kill_process(child, Signal::KILL).unwrap();
}

#[test]
fn what_is_over_is_not_kept() {
    let mut left = Left::behind("echo > begun; exec sleep 1000");
    let ward = left.ward(0);
    let over = Line::Over(ward.pid, None);
    assert_eq!(kept(&[Line::Begun(ward), over]), []);
    assert!(!left.has_ended());
}

#[test]
fn what_ended_is_recorded_unless_somebody_else_has() {
    let ended = || {
        let run = RunRow {
            took_us: 5_000_000,
            outcome: "failed".to_owned(),
            note: Some("as it was".to_owned()),
            ..row()
        };
        Line::Over(7, Some(run))
    };
    let other = Line::Recorded(EventId::new(6, [7; 2]));
    assert_eq!(kept(&[ended(), other]), so("failed", "as it was"));
    let this = Line::Recorded(row().event_id);
    assert_eq!(kept(&[ended(), this]), []);
    assert_eq!(kept(&[ended(), Line::Leaving]), []);
}

#[test]
fn a_number_that_was_used_again_is_not_signalled() {
    let mut left = Left::behind("echo > begun; exec sleep 1000");
    let mut ward = left.ward(0);
    ward.start -= 1;
    assert_eq!(
        kept(&[Line::Begun(ward)]),
        so("orphaned", "becket was killed; the hook ended by itself")
    );
    assert!(!left.has_ended());
}

fn start_of(nth: u64, token: &str) -> Start {
    Start {
        nth,
        token: token.to_owned(),
        own_session: false,
        left_ms: LONG,
        run: Some(row()),
    }
}

/// What is open, having looked for those.
fn found(starts: &[Start]) -> Heard {
    let mut heard = Heard::default();
    for start in starts {
        let start = (start.clone(), Instant::now());
        heard.starting.insert(start.0.nth, start);
    }
    heard.find(Some(getpid()), group::now());
    heard
}

#[test]
fn what_was_about_to_start_is_looked_for_unless_more_was_told() {
    let start = Line::Starting(start_of(1, "keep-1"));
    let told = |lines: &[&Line]| {
        let lines = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap());
        listen(lines.collect::<Vec<_>>().join("\n").as_bytes())
            .starting
            .len()
    };
    let left = Left::behind("echo > begun; exec sleep 1000");
    assert_eq!(told(&[&start]), 1);
    assert_eq!(told(&[&start, &Line::NotStarted(2)]), 1);
    assert_eq!(told(&[&start, &Line::NotStarted(1)]), 0);
    assert_eq!(told(&[&start, &Line::Begun(left.ward(LONG))]), 0);
}

#[test]
fn each_start_has_its_own_program_and_none_is_lost() {
    let line = |token| format!("exec env BECKET_RUN={token} sh -c 'echo > begun; exec sleep 1000'");
    let tokens = ["keep-2", "keep-3"];
    let left = tokens.map(|token| Left::behind(&line(token)));
    let starts = [
        start_of(2, "keep-2"),
        start_of(3, "keep-3"),
        start_of(4, "keep-nowhere"),
    ];
    let heard = found(&starts);
    for (nth, left) in [2, 3].into_iter().zip(&left) {
        let Ward { pid, start, .. } = left.ward(LONG);
        let (ward, _) = &heard.open[&pid];
        assert_eq!((ward.nth, ward.start, ward.left_ms), (nth, start, LONG));
    }
    assert_eq!(heard.open.len(), 2);
    let [lost] = &heard.ended[..] else {
        panic!("{heard:?}");
    };
    assert_eq!((&*lost.outcome, lost.note.is_some()), ("orphaned", true));
}

#[test]
fn whom_a_program_has_started_is_not_taken_for_it() {
    let older = Left::behind("exec env BECKET_RUN=keep-5 sh -c 'echo > begun; exec sleep 1000'");
    let older_start = older.ward(LONG).start;
    let until = Instant::now() + WATCHDOG;
    while group::now() <= Some(older_start) {
        assert!(Instant::now() < until, "the clock stands");
    }
    let younger = Left::behind("exec env BECKET_RUN=keep-5 sh -c 'echo > begun; exec sleep 1000'");
    let heard = found(&[start_of(5, "keep-5")]);
    let taken: Vec<i32> = heard.open.into_keys().collect();
    assert_eq!(taken, [older.ward(LONG).pid]);
    drop(younger);
}

#[test]
fn what_a_program_that_ended_has_left_in_a_session_of_its_own_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Command::new("/usr/bin/setsid")
        .args(["sh", "-c", "echo $$ > begun; exec sleep 1000"])
        .env("BECKET_RUN", "keep-6")
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    read(&folder.path().join("begun"));
    let heard = found(&[start_of(6, "keep-6")]);
    let goes_on = service.try_wait().unwrap().is_none();
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(goes_on && heard.open.is_empty(), "{heard:?}");
    assert_eq!(heard.ended.len(), 1);
}

#[test]
fn a_new_time_takes_the_place_of_the_old() {
    let left = Left::behind("echo > begun; exec sleep 1000");
    let times = [left.ward(LONG), left.ward(0)];
    assert_eq!(
        kept(&times.map(Line::Begun)),
        so("orphaned", "becket was killed; the hook's time was up")
    );
}

#[test]
fn what_was_left_behind_in_order_is_no_orphan() {
    let left = Left::behind("echo > begun; exec sleep 1000");
    assert_eq!(
        kept(&[Line::Begun(left.ward(0)), Line::Leaving]),
        so("timed out", "it went on after the answer; its time was up")
    );
    assert_eq!(
        kept(&[Line::Begun(left.ward(LONG)), Line::Leaving]),
        so(
            "async",
            "it went on after the answer; nobody saw how it ended"
        )
    );
}

#[test]
fn what_is_no_line_says_nothing_and_no_strange_number_is_signalled() {
    let mut left = Left::behind("echo > begun; exec sleep 1000");
    let strange = [0, 1, -1].map(|pid| {
        let ward = Ward {
            pid,
            ..left.ward(0)
        };
        serde_json::to_string(&Line::Begun(ward)).unwrap()
    });
    let half = serde_json::to_string(&Line::Begun(left.ward(0))).unwrap();
    let told = format!("hello\n{}\n{}", strange.join("\n"), &half[..half.len() / 2]);
    assert_eq!(kept_of(&told), []);
    assert!(!left.has_ended());
}
