//! What an ending daemon still runs, though another one serves. A file in its home tells it to
//! whoever asks, and counts for as long as that daemon holds its lock.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use becket_wire::run::{CurrentRun, RUNNING};
use becket_wire::{EventId, Place};
use tracing::warn;

use crate::life::now_ms;

/// What is longer is none of ours.
const MOST: u64 = 16 << 20;

/// Our own file: a line for each time that something began or ended, of which the last one counts.
#[derive(Debug)]
pub(crate) struct Outlasting {
    path: PathBuf,
    file: Option<File>,
    told: Vec<(EventId, String, String)>,
}

impl Outlasting {
    pub(crate) fn of(place: &Place) -> Self {
        Self {
            path: place.ending(std::process::id()),
            file: None,
            told: Vec::new(),
        }
    }

    /// Tells what runs, if that is news. Where it cannot be told, the hooks go on all the same.
    pub(crate) fn tell(&mut self, runs: &[CurrentRun]) {
        let key = |one: &CurrentRun| {
            let run = &one.run;
            (run.event_id, run.hook.clone(), run.outcome.clone())
        };
        let mut told: Vec<_> = runs.iter().map(key).collect();
        told.sort();
        if told == self.told {
            return;
        }
        self.told = told;
        if let Err(why) = self.write(runs) {
            warn!(%why, "could not tell which hooks go on");
        }
    }

    fn write(&mut self, runs: &[CurrentRun]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(begin(&self.path)?),
        };
        let mut line = serde_json::to_vec(runs)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

impl Drop for Outlasting {
    fn drop(&mut self) {
        if self.file.is_some() {
            drop(fs::remove_file(&self.path));
        }
    }
}

fn begin(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(path);
    // Only the folder itself: a home that was thrown away does not come back by it.
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => return Err(why),
        _ => {}
    }
    let mut file = OpenOptions::new();
    let file = file.create(true).truncate(true).write(true).mode(0o600);
    let file = file.open(path)?;
    file.try_lock()?;
    Ok(file)
}

/// What daemons of this home that are ending still run.
pub fn outlasting(place: &Place) -> Vec<CurrentRun> {
    let held = files(place).filter_map(|(_, file)| is_held(&file).then_some(file));
    held.filter_map(last_line).flatten().collect()
}

/// Removes what daemons have left that were killed. Only whoever holds the lock for life does so:
/// a file is made under that lock too.
pub(crate) fn tidy(place: &Place) {
    for (path, file) in files(place) {
        if !is_held(&file) {
            drop(fs::remove_file(path));
        }
    }
}

fn files(place: &Place) -> impl Iterator<Item = (PathBuf, File)> {
    let entries = fs::read_dir(place.endings()).into_iter().flatten();
    let files = entries.flatten().filter(|entry| {
        let kind = entry.file_type();
        kind.is_ok_and(|kind| kind.is_file())
    });
    files.filter_map(|entry| {
        let path = entry.path();
        File::open(&path).ok().map(|file| (path, file))
    })
}

fn is_held(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The last line that is whole, with the times of now.
fn last_line(file: File) -> Option<Vec<CurrentRun>> {
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    let whole = &bytes[..bytes.iter().rposition(|byte| *byte == b'\n')?];
    let last = whole.rsplit(|byte| *byte == b'\n').next()?;
    let mut runs: Vec<CurrentRun> = serde_json::from_slice(last).ok()?;
    let now = now_ms();
    for CurrentRun { run, .. } in &mut runs {
        if run.outcome == RUNNING {
            run.took_us = (now - run.at).max(0).saturating_mul(1000);
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sample::run;

    fn current(number: u32, hook: &str, until: Option<i64>) -> CurrentRun {
        let mut run = run(number, hook);
        if until.is_some() {
            run.outcome = RUNNING.to_owned();
        }
        CurrentRun { run, until }
    }

    fn hooks(place: &Place) -> Vec<String> {
        let runs = outlasting(place).into_iter();
        runs.map(|one| format!("{} {}", one.run.hook, one.run.outcome))
            .collect()
    }

    #[test]
    fn the_last_that_was_told_counts_until_its_teller_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        fs::create_dir(place.run()).unwrap();
        let mut still = Outlasting::of(&place);
        still.tell(&[]);
        assert!(!place.endings().exists(), "there is nothing to tell");
        still.tell(&[current(1, "a", Some(9)), current(1, "b", Some(9))]);
        assert_eq!(hooks(&place), ["a running", "b running"]);
        assert!(outlasting(&place)[0].run.took_us > 1_000_000, "since when");
        still.tell(&[current(1, "a", None), current(1, "b", Some(9))]);
        assert_eq!(hooks(&place), ["a ok", "b running"]);
        // Half a line is none.
        let file = place.ending(std::process::id());
        let mut half = OpenOptions::new().append(true).open(&file).unwrap();
        half.write_all(b"[{").unwrap();
        assert_eq!(hooks(&place), ["a ok", "b running"]);
        tidy(&place);
        assert!(file.exists(), "its teller lives");
        drop(still);
        assert!(!file.exists() && hooks(&place).is_empty());
    }

    #[test]
    fn what_a_kill_left_counts_for_nothing_and_goes() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        fs::create_dir_all(place.endings()).unwrap();
        let left = serde_json::to_string(&[current(1, "a", Some(9))]).unwrap();
        fs::write(place.ending(7), left + "\n").unwrap();
        assert_eq!(hooks(&place), [""; 0]);
        tidy(&place);
        assert!(!place.ending(7).exists());
    }

    #[test]
    fn a_home_that_was_thrown_away_does_not_come_back() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path().join("gone"));
        let mut still = Outlasting::of(&place);
        still.tell(&[current(1, "a", Some(9))]);
        assert!(!place.home().exists());
    }
}
