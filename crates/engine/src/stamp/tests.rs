//! Stamps of real files, and helpers that wait until a stamp can be relied on.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Instant, SystemTime};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a file or a folder is old enough.
#[expect(
    clippy::disallowed_methods,
    reason = "between two looks at the condition"
)]
pub(crate) fn settle(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !is_settled(&fs::metadata(path).unwrap()) {
        assert!(Instant::now() < deadline, "it never settles");
        thread::sleep(SETTLED / 10);
    }
}

/// Does it until it was so quick that what it wrote is young at its end.
pub(crate) fn quickly<T>(mut act: impl FnMut() -> T) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        let done = act();
        if began.elapsed() < SETTLED / 2 {
            return done;
        }
        assert!(Instant::now() < deadline, "it is never quick");
    }
}

#[test]
fn a_file_that_never_ends_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    std::os::unix::fs::symlink("/proc/self/pagemap", &path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "it claims none");
    read_text(&path, 100).unwrap_err();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "{}").unwrap();
    assert_eq!(read_text(&path, 2).unwrap(), "{}");
    read_text(&path, 1).unwrap_err();
}

#[test]
fn what_changed_long_ago_is_settled_whatever_time_it_claims() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (day, now) = (Duration::from_secs(86_400), SystemTime::now());
    for claim in [now + day, now - day] {
        let settled = quickly(|| {
            fs::write(&path, "x").unwrap();
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(claim).unwrap();
            is_settled(&fs::metadata(&path).unwrap())
        });
        assert!(!settled, "it is young");
        settle(&path);
    }
}
