//! The keeper's own side: it listens as long as somebody tells it something, and keeps the clocks of
//! whatever is open then.

use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use becket_wire::run::{ORPHANED, RunRow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process_group};

use super::super::child::milliseconds;
use super::super::clock::Act;
use super::super::group::{self, Seen};
use super::Ward;
use super::found::{Found, orphans};
use super::heard::Heard;
use super::orphan::Orphan;

/// How often we look where nothing would wake us.
const LOOK: Duration = Duration::from_millis(20);
/// How long whoever told us something may take to die.
const DYING: Duration = Duration::from_secs(2);
/// How long a program may take to become one: as long as it is its runner's copy, it has no token.
const COPY: Duration = Duration::from_millis(500);

/// Listens, then sees everything to its end that still runs. `record` gets each run as it ends, and
/// first those that ended before and were not recorded. `runner` is who tells.
pub fn keep(told: impl BufRead, runner: Option<i32>, mut record: impl FnMut(RunRow)) {
    let mut heard = listen(told);
    let hung_up = group::now();
    if !heard.starting.is_empty() {
        wait_for_end(runner);
        heard.find(getppid(), hung_up);
    }
    let Heard {
        open,
        ended,
        in_order,
        ..
    } = heard;
    if !in_order {
        ended.into_iter().for_each(&mut record);
    }
    let open = open.into_values();
    let watched = open.filter_map(|(ward, heard)| Watched::new(ward, heard));
    let mut watched: Vec<Watched> = watched.collect();
    while !watched.is_empty() {
        for one in &mut watched {
            one.look();
        }
        for over in watched.extract_if(.., |one| one.orphan.is_over()) {
            if let Some(run) = over.into_run(in_order) {
                record(run);
            }
        }
        wait(&watched);
    }
}

/// Its programs fall to another parent only then.
fn wait_for_end(runner: Option<i32>) {
    let until = Instant::now() + DYING;
    let parent = || getppid().map(|parent| parent.as_raw_nonzero().get());
    while parent() == runner && Instant::now() < until {
        pause();
    }
}

fn pause() {
    let _ = poll(&mut [], Timespec::try_from(LOOK).ok().as_ref());
}

/// What was told until nobody told anything any more.
fn listen(mut told: impl BufRead) -> Heard {
    let (mut heard, mut line) = (Heard::default(), Vec::new());
    while told.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        // What is no line of ours, or half a one, says nothing.
        if let Ok(line) = serde_json::from_slice(&line) {
            heard.hear(line);
        }
        line.clear();
    }
    heard
}

impl Heard {
    /// Looks for what was started, of which nobody could say more. Whoever takes in orphans is its
    /// parent now; who told of it had gone by then.
    fn find(&mut self, parent: Option<Pid>, gone: Option<u64>) {
        let Some(parent) = parent else {
            return;
        };
        let until = Instant::now() + COPY;
        loop {
            self.take_in(&orphans(parent, gone));
            if self.starting.is_empty() || Instant::now() >= until {
                break;
            }
            pause();
        }
        let missing = self.starting.drain().map(|(_, (start, _))| start);
        self.ended
            .extend(missing.filter_map(|start| start.run).map(lost));
    }

    /// Each start has at most one program.
    fn take_in(&mut self, orphans: &[Found]) {
        for (nth, (start, heard)) in std::mem::take(&mut self.starting) {
            let its = orphans.iter().filter(|one| one.is_of(&start));
            let free = its.filter(|one| !self.open.contains_key(&one.pid));
            // Whom it has started itself has its token too, and is younger.
            let Some(found) = free.min_by_key(|one| (one.start, one.pid)) else {
                self.starting.insert(nth, (start, heard));
                continue;
            };
            let ward = Ward {
                nth,
                pid: found.pid,
                start: found.start,
                left_ms: start.left_ms,
                run: start.run,
            };
            self.open.insert(found.pid, (ward, heard));
        }
    }
}

/// Of one that was about to be started, and is not there.
fn lost(run: RunRow) -> RunRow {
    let note = "becket was killed; the hook ended by itself, or did not begin";
    RunRow {
        outcome: ORPHANED.to_owned(),
        note: Some(note.to_owned()),
        ..run
    }
}

/// A program that nobody else watches.
#[derive(Debug)]
struct Watched {
    group: Pid,
    start: u64,
    run: Option<RunRow>,
    orphan: Orphan,
    /// Readable when its leader has ended. None where the system has no such thing.
    end: Option<OwnedFd>,
    /// When that was seen, in milliseconds since 1970.
    ended_at: Option<i64>,
}

impl Watched {
    fn new(ward: Ward, heard: Instant) -> Option<Self> {
        // What is below is no group that could be meant: to signal it is to signal others.
        let group = (ward.pid > 1).then(|| Pid::from_raw(ward.pid))??;
        Some(Self {
            group,
            start: ward.start,
            run: ward.run,
            orphan: Orphan::new(heard, Duration::from_millis(ward.left_ms)),
            // It may be another's end by now; the look tells.
            end: group::notice_of_end(group),
            ended_at: None,
        })
    }

    fn look(&mut self) {
        let Some(seen) = group::look_at(self.group, self.start) else {
            // Who tells of an end that cannot be seen would keep us awake.
            self.end = None;
            return;
        };
        let act = self.orphan.see(seen, Instant::now());
        if self.orphan.has_ended() {
            self.ended_at.get_or_insert_with(milliseconds);
        }
        match act {
            Some(act) if seen == Seen::Runs => group::obey(act, self.group),
            // The number is the group's alone, and may be another process' in a moment.
            Some(Act::Kill) => drop(kill_process_group(self.group, Signal::KILL)),
            Some(Act::Terminate | Act::Leave) | None => {}
        }
    }

    /// What is recorded of it.
    fn into_run(self, in_order: bool) -> Option<RunRow> {
        let timed_out = self.orphan.was_asked();
        let (outcome, note) = match (in_order, timed_out) {
            (false, false) => (ORPHANED, "becket was killed; the hook ended by itself"),
            (false, true) => (ORPHANED, "becket was killed; the hook's time was up"),
            (true, false) => (
                "async",
                "it went on after the answer; nobody saw how it ended",
            ),
            (true, true) => ("timed out", "it went on after the answer; its time was up"),
        };
        let run = self.run?;
        // Others of its group may have stayed longer.
        let ended_at = self.ended_at.unwrap_or_else(milliseconds);
        let took_us = ended_at.saturating_sub(run.at).max(0).saturating_mul(1000);
        Some(RunRow {
            took_us,
            outcome: outcome.to_owned(),
            note: Some(note.to_owned()),
            ..run
        })
    }
}

/// Until one has ended, or has to.
fn wait(watched: &[Watched]) {
    let running = watched.iter().filter(|one| !one.orphan.has_ended());
    let mut ends: Vec<_> = running
        .filter_map(|one| one.end.as_ref())
        .map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN))
        .collect();
    // Of whomever a leader has left behind nobody tells the end.
    let unwatched = ends.len() < watched.len();
    let now = Instant::now();
    let next = watched.iter().map(|one| one.orphan.next());
    let next = next.chain(unwatched.then(|| now + LOOK)).min();
    let Some(left) = next.map(|next| next.saturating_duration_since(now)) else {
        return;
    };
    let _ = poll(&mut ends, Timespec::try_from(left).ok().as_ref());
}

#[cfg(test)]
mod tests;
