//! What a kill leaves half written.

use std::fs::File;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn it_is_removed_after_a_minute() {
    let home = Home::new();
    let spool = home.place.spool();
    // As the shim, an event and an amendment name it.
    let ours = ["", ".17", ".17-0.17"].map(|by| spool.join(format!("{}{by}.tmp", id(1))));
    let other = spool.join("notes.tmp");
    for path in ours.iter().chain([&other]) {
        fs::write(path, "half").unwrap();
    }
    let mut daemon = Daemon::start(&home);
    daemon.take_in(&home, usize::MAX);
    assert_eq!(home.files(), 4, "somebody may be at it");
    let long_ago = SystemTime::now() - Duration::from_secs(61);
    for path in ours.iter().chain([&other]) {
        File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    daemon.take_in(&home, usize::MAX);
    assert_eq!(home.files(), 1);
    assert!(other.exists(), "not ours");
}

#[test]
fn it_takes_no_room() {
    let home = Home::new();
    for nth in 0..3 {
        fs::write(
            home.place.spool().join(format!("{}.{nth}.tmp", id(1))),
            "half",
        )
        .unwrap();
    }
    let spool = home.place.spool();
    assert_eq!((count(&spool), usage(&spool)), (0, (0, 0)));
    home.leave(1, &left(1, None));
    assert_eq!((count(&spool), usage(&spool).0), (1, 1));
}
