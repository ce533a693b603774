//! One small file per running hook, in becket's home under `run/running`. `recent` and `why` list running hooks
//! by these files, and the next daemon ends the hooks that a killed process left behind.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use becket_wire::hook_run::{RunOutcome, RunRow};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, getpid, kill_process_group};
use serde::{Deserialize, Serialize};

use super::clock::ClockAction;
use super::proc::{self, GroupState, look_at};
use crate::replace::make_folder;

/// A file that cannot be read and is older than this is removed.
const UNREADABLE: Duration = Duration::from_secs(60);

/// The folder and the row that list a hook while it runs.
#[derive(Debug, Clone)]
pub struct Listing {
    pub folder: PathBuf,
    pub run: RunRow,
}

/// A hook that runs, or ran when the process that started it was killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunFile {
    /// The hook's process, which leads its group.
    pid: i32,
    /// Its start in clock ticks since boot: a pid alone is used again.
    start: u64,
    /// When its time is over: milliseconds since 1970.
    pub until: i64,
    pub run: RunRow,
}

/// The file of a hook that this process runs.
#[derive(Debug)]
pub(super) struct Listed {
    path: PathBuf,
    file: RunFile,
}

impl Listed {
    /// A hook runs without its file, too: then it is not listed.
    pub(super) fn begin(listing: Listing, pid: Pid, at: i64, left: Duration) -> Option<Self> {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let (ours, nth) = (own_prefix()?, NTH.fetch_add(1, Ordering::Relaxed));
        let listed = Self {
            path: listing.folder.join(format!("{ours}{nth}.json")),
            file: RunFile {
                pid: pid.as_raw_nonzero().get(),
                start: proc::started(pid)?,
                until: after(left),
                run: RunRow {
                    at,
                    outcome: RunOutcome::Running,
                    ..listing.run
                },
            },
        };
        listed.write().ok().map(|()| listed)
    }

    /// Records that the hook goes on in the background for the time `left`.
    pub(super) fn went_async(&mut self, left: Duration) {
        self.file.until = after(left);
        self.file.run.outcome = RunOutcome::Async;
        drop(self.write());
    }

    pub(super) fn remove(self) {
        drop(fs::remove_file(self.path));
    }

    fn write(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.file)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&self.path).or_else(|_| {
            make_folder(self.path.parent().unwrap_or(&self.path), 0o700)?;
            options.open(&self.path)
        })?;
        file.write_all(&bytes)
    }
}

/// Returns the hooks that run now.
pub fn running(folder: &Path) -> Vec<RunFile> {
    let now = now();
    let files = files(folder).filter_map(|path| read(&path));
    files
        .filter(|file| look_at(file.pid, file.start) == GroupState::Runs)
        .map(|mut file| {
            file.run.outcome = RunOutcome::Running;
            file.run.took_us = (now - file.run.at).max(0).saturating_mul(1000);
            file
        })
        .collect()
}

/// The hooks that killed processes left behind.
#[derive(Debug, Default)]
pub struct Orphans {
    /// The files of hooks whose time was over and which were asked to end.
    asked: HashSet<PathBuf>,
}

impl Orphans {
    /// Asks hooks to end whose time is over, and kills those that were asked the time before. Returns the ended
    /// ones: the row to record, and the file to remove after that.
    pub fn look(&mut self, folder: &Path) -> Vec<(RunRow, PathBuf)> {
        let ours = own_prefix();
        let mut over = Vec::new();
        for path in files(folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if ours.as_ref().is_some_and(|ours| name.starts_with(ours)) || runner_lives(&name) {
                continue;
            }
            let Some(file) = read(&path) else {
                remove_if_old(&path);
                continue;
            };
            let Some(leader) = (file.pid > 1).then(|| Pid::from_raw(file.pid)).flatten() else {
                drop(fs::remove_file(&path));
                continue;
            };
            let asked = self.asked.contains(&path);
            match look_at(file.pid, file.start) {
                GroupState::Runs if now() < file.until => continue,
                GroupState::Runs if !asked => {
                    proc::apply(ClockAction::Terminate, leader);
                    self.asked.insert(path);
                    continue;
                }
                GroupState::Runs => proc::apply(ClockAction::Kill, leader),
                GroupState::Leaderless if asked => drop(kill_process_group(leader, Signal::KILL)),
                // Processes that a hook started before it ended by itself go on.
                GroupState::Leaderless | GroupState::Gone => {}
            }
            self.asked.remove(&path);
            over.push((file.orphaned(asked), path));
        }
        over
    }
}

impl RunFile {
    fn orphaned(self, timed_out: bool) -> RunRow {
        let outcome = if !self.run.is_under_way() {
            RunOutcome::Orphaned
        } else if timed_out {
            RunOutcome::TimedOut
        } else {
            RunOutcome::Async
        };
        let note = match outcome {
            RunOutcome::TimedOut => "it went on after the answer; its time was up",
            RunOutcome::Async => "it went on after the answer; its end was not seen",
            _ if timed_out => "becket was killed; the hook's time was up",
            _ => "becket was killed; the hook ended by itself",
        };
        let took = now().saturating_sub(self.run.at).max(0);
        RunRow {
            took_us: took.saturating_mul(1000),
            outcome,
            note: Some(note.to_owned()),
            ..self.run
        }
    }
}

/// Returns the time in milliseconds since 1970.
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

fn after(left: Duration) -> i64 {
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    now().saturating_add_unsigned(left)
}

/// Returns the start of this process's file names: its pid and its start time.
fn own_prefix() -> Option<String> {
    let pid = getpid();
    Some(format!("{}-{}-", pid.as_raw_nonzero(), proc::started(pid)?))
}

fn runner_lives(name: &str) -> bool {
    let mut numbers = name.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    i32::try_from(pid).is_ok_and(|pid| look_at(pid, start) == GroupState::Runs)
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn read(path: &Path) -> Option<RunFile> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn remove_if_old(path: &Path) {
    let written = fs::metadata(path).and_then(|meta| meta.modified());
    if written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNREADABLE)) {
        drop(fs::remove_file(path));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use becket_wire::EventId;

    use super::*;

    fn hook(line: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).process_group(0).spawn().unwrap()
    }

    /// A file whose runner is gone.
    fn left_behind(folder: &Path, child: &Child, until: i64) -> PathBuf {
        let pid = Pid::from_child(child);
        let file = RunFile {
            pid: pid.as_raw_nonzero().get(),
            start: proc::started(pid).unwrap(),
            until,
            run: RunRow {
                hook: "long".to_owned(),
                event_id: EventId::from_bytes([7; 16]),
                event: "Stop".to_owned(),
                session_id: None,
                agent_id: None,
                at: now() - 1000,
                took_us: 0,
                exit: None,
                outcome: RunOutcome::Running,
                decision: None,
                said: 0,
                note: None,
            },
        };
        let path = folder.join("1-1-0.json");
        fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        path
    }

    #[test]
    fn what_was_left_behind_is_ended_when_its_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut child = hook("trap '' TERM; while :; do sleep 1000; done");
        left_behind(folder, &child, now() + 60_000);
        let mut orphans = Orphans::default();
        assert!(orphans.look(folder).is_empty());
        assert_eq!(running(folder)[0].run.hook, "long");
        let path = left_behind(folder, &child, now());
        assert!(orphans.look(folder).is_empty(), "it is asked first");
        let over = orphans.look(folder);
        child.wait().unwrap();
        assert_eq!(over.len(), 1);
        assert_eq!(
            (&over[0].0.outcome, &over[0].1),
            (&RunOutcome::Orphaned, &path)
        );
        assert!(over[0].0.took_us >= 1_000_000);
        assert!(running(folder).is_empty());
    }

    #[test]
    fn what_ended_meanwhile_is_recorded_and_what_has_a_runner_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut child = hook("exec sleep 1000");
        let path = left_behind(folder, &child, 0);
        let ours = folder.join(format!("{}0.json", own_prefix().unwrap()));
        fs::rename(&path, &ours).unwrap();
        assert!(Orphans::default().look(folder).is_empty());
        fs::rename(&ours, &path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let over = Orphans::default().look(folder);
        let note = over[0].0.note.as_deref();
        assert_eq!(note, Some("becket was killed; the hook ended by itself"));
    }
}
