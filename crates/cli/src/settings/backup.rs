//! Copies of settings files from before a change, beside them: for people. Nothing of becket reads
//! one: what `uninit` and `adopt --undo` need stands in their records. So the oldest may go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use becket_engine::replace::Snapshot;

/// So many of the newest stay, and the first one: it is the file as it was before we came.
const NEWEST: usize = 10;

const MARK: &str = ".becket-backup-";

/// A copy of what was read.
#[derive(Debug)]
#[must_use = "it is kept or taken back"]
pub struct Backup {
    file: PathBuf,
    path: PathBuf,
}

impl Backup {
    /// Keeps what was read beside the file; none if there was none.
    pub fn make(snapshot: &Snapshot) -> io::Result<Option<Self>> {
        let now = jiff::Zoned::now();
        let suffix = format!("{MARK}{}", now.strftime("%Y%m%d-%H%M%S"));
        let path = snapshot.copy_beside(&suffix)?;
        let file = snapshot.path().to_path_buf();
        Ok(path.map(|path| Self { file, path }))
    }

    /// The change is made: others that are old go. If the one before is the same, it stays in its
    /// place, or whoever changes nothing in between would push out those that differ.
    pub fn keep(self) -> PathBuf {
        let others = of(&self.file).into_iter();
        let mut others: Vec<PathBuf> = others.filter(|path| *path != self.path).collect();
        if let Some(before) = others.pop_if(|path| is_same(path, &self.path)) {
            drop(fs::remove_file(self.path));
            return before;
        }
        let most = others.len().saturating_sub(NEWEST - 1);
        for old in others.iter().take(most).skip(1) {
            // Whoever cannot remove it can still change the settings.
            drop(fs::remove_file(old));
        }
        self.path
    }

    /// The change was not made.
    pub fn take_back(self) {
        drop(fs::remove_file(self.path));
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// All that were made of this file, the oldest first. What a person has named differs, and is theirs.
fn of(file: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Vec::new();
    };
    let prefix = format!("{}{MARK}", name.to_string_lossy());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| {
            let name = entry.file_name();
            let second = second(name.to_str()?.strip_prefix(&prefix)?)?;
            // The number of one more in that second may have been another's before.
            let written = entry.metadata().ok()?.modified().ok()?;
            Some(((second, written), entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// When it was made: `20261115-081500`, maybe with the number of one more in that second.
fn second(text: &str) -> Option<u64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let mut parts = text.split('-');
    let (day, time) = (parts.next()?, parts.next()?);
    let is_moment = is_number(day) && is_number(time) && (day.len(), time.len()) == (8, 6);
    let is_whole = parts.next().is_none_or(is_number) && parts.next().is_none();
    let moment = format!("{day}{time}").parse().ok();
    moment.filter(|_| is_moment && is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_first_and_the_newest_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        fs::write(&file, "{}").unwrap();
        let made = |n: usize| format!("settings.json{MARK}20260101-0000{n:02}");
        (0..30).for_each(|n| fs::write(folder.path().join(made(n)), "old").unwrap());
        let theirs = [
            "settings.json.becket-backup-20260101-000003.mine",
            "settings.json.becket-backup-20260101",
            "settings.json.becket-backup-20260101-000003-x",
            "settings.json.becket-backup-mine",
            "settings.local.json.becket-backup-20260101-000003",
        ];
        let write = |name: &str| fs::write(folder.path().join(name), "theirs").unwrap();
        theirs.iter().copied().for_each(write);
        fs::create_dir(folder.path().join(made(30))).unwrap();

        let snapshot = Snapshot::read(&file, 100).unwrap();
        let kept = Backup::make(&snapshot).unwrap().unwrap().keep();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "{}");
        let mut expected: Vec<String> = theirs.map(str::to_owned).to_vec();
        expected.extend([0, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30].map(made));
        expected.push(kept.file_name().unwrap().to_str().unwrap().to_owned());
        expected.push("settings.json".to_owned());
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn one_that_was_made_for_nothing_takes_no_other_along() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        fs::write(&file, "{}").unwrap();
        let mut made = Vec::new();
        for n in 0..NEWEST + 5 {
            fs::write(&file, n.to_string()).unwrap();
            let snapshot = Snapshot::read(&file, 100).unwrap();
            made.push(Backup::make(&snapshot).unwrap().unwrap().keep());
        }
        // Those of one second go in their order, too.
        let newest = made.iter().rev().take(NEWEST);
        for (path, n) in newest.zip((0..NEWEST + 5).rev()) {
            assert_eq!(fs::read_to_string(path).unwrap(), n.to_string());
        }
        let before = names(folder.path());
        assert_eq!(before.len(), 1 + 1 + NEWEST);
        let snapshot = Snapshot::read(&file, 100).unwrap();
        Backup::make(&snapshot).unwrap().unwrap().take_back();
        assert_eq!(names(folder.path()), before);
    }

    #[test]
    fn whoever_changes_nothing_in_between_pushes_out_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        let backup = |content: &str| {
            fs::write(&file, content).unwrap();
            let snapshot = Snapshot::read(&file, 100).unwrap();
            Backup::make(&snapshot).unwrap().unwrap().keep()
        };
        let [first, second] = ["1", "2"].map(backup);
        assert_eq!(backup("2"), second);
        let third = backup("1");
        assert_ne!(third, first, "only the one before counts");
        assert_eq!(fs::read_to_string(third).unwrap(), "1");
        assert_eq!(names(folder.path()).len(), 1 + 3);
    }

    #[test]
    fn a_clock_that_was_set_back_costs_nobody_their_last_backup() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        fs::write(&file, "{}").unwrap();
        let later = |n: usize| format!("settings.json{MARK}29990101-0000{n:02}");
        (0..20).for_each(|n| fs::write(folder.path().join(later(n)), "later").unwrap());
        let snapshot = Snapshot::read(&file, 100).unwrap();
        let kept = Backup::make(&snapshot).unwrap().unwrap().keep();
        assert!(kept.exists());
    }

    #[test]
    fn what_is_named_otherwise_is_none() {
        assert_eq!(second("20261115-081500"), Some(20_261_115_081_500));
        assert_eq!(second("20261115-081500-12"), second("20261115-081500"));
        let odd = [
            "",
            "20261115",
            "2026111-0815000",
            "20261115-081500-",
            "20261115-081500-2-3",
            "20261115-+81500",
        ];
        for odd in odd {
            assert_eq!(second(odd), None, "{odd}");
        }
    }
}
