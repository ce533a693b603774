//! The number of events that neither the database nor the spool took. It is kept in the name of an empty file,
//! `lost-17`: a rename needs no room on a full disk and no inode, and works under `ulimit -f 0`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use becket_engine::replace::make_folder;
use becket_wire::Place;

const PREFIX: &str = "lost-";

/// Adds to the number of lost events, in the home or else in the user's folder for temporary files.
pub fn add(place: &Place, events: u64) -> io::Result<()> {
    let [home, temporary] = folders(place);
    add_in(&home, events).or_else(|_| add_in(&temporary, events))
}

/// Makes the file in advance, so that counting needs no inode.
pub(crate) fn make_file(place: &Place) {
    drop(add_in(&place.run(), 0));
}

/// Returns the number of lost events.
pub fn total(place: &Place) -> u64 {
    let folders = folders(place);
    let numbers = folders.iter().flat_map(|folder| files(folder));
    numbers.map(|(number, _)| number).sum()
}

/// Returns the files that hold the number. Deleting them resets it.
pub fn files_to_delete(place: &Place) -> Vec<PathBuf> {
    let folders = folders(place);
    let files = folders.iter().flat_map(|folder| files(folder));
    let counted = files.filter(|(number, _)| *number > 0);
    counted.map(|(_, file)| file).collect()
}

fn folders(place: &Place) -> [PathBuf; 2] {
    let uid = rustix::process::getuid().as_raw();
    [place.run(), place.temporary(uid)]
}

fn add_in(folder: &Path, events: u64) -> io::Result<()> {
    make_folder(folder, 0o700)?;
    if !is_own(folder) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    // Until the end of this function, only one process counts.
    let held = File::open(folder)?;
    held.lock()?;
    let Some((number, file)) = files(folder).pop() else {
        let mut options = OpenOptions::new();
        let options = options.create_new(true).write(true).mode(0o600);
        return options
            .open(folder.join(format!("{PREFIX}{events}")))
            .map(drop);
    };
    fs::rename(file, folder.join(format!("{PREFIX}{}", number + events)))
}

/// Returns the files of a folder whose names hold a number, with the number.
fn files(folder: &Path) -> Vec<(u64, PathBuf)> {
    if !is_own(folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
        Some((number, entry.path()))
    });
    numbered.collect()
}

/// Returns true if this is a folder, not a link, and belongs to this user: any user may make one in `/tmp`.
fn is_own(folder: &Path) -> bool {
    let uid = rustix::process::getuid().as_raw();
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_lost_by_several_processes_all_count() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        assert_eq!(total(&place), 0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| add(&place, 1).unwrap()));
            }
        });
        add(&place, 3).unwrap();
        assert_eq!(total(&place), 403);
        for file in files_to_delete(&place) {
            fs::remove_file(file).unwrap();
        }
        assert_eq!(total(&place), 0);
    }

    #[test]
    fn without_a_home_the_temporary_folder_counts() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let place = Place::new(root.path().join("file/home"));
        add(&place, 1).unwrap();
        add(&place, 1).unwrap();
        assert_eq!(total(&place), 2);
        let temporary = place.temporary(rustix::process::getuid().as_raw());
        fs::remove_dir_all(temporary).unwrap();
    }
}
