//! What the first of several deliveries leaves in becket's home, so that the others know.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use becket_wire::rpc::Envelope;
use becket_wire::{EventId, Place};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{Delivery, WITHIN, is_double};

/// No mark of ours is longer.
const MAX_MARK: u64 = 4 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    id: EventId,
    from: Option<String>,
}

/// The event that this one repeats; if none, it leaves its own mark. Where that fails it is no
/// double: a hook that runs twice is better than a guard that does not run.
pub fn first_of(place: &Place, envelope: &Envelope, delivery: &Delivery<'_>) -> Option<EventId> {
    let folder = place.doubles();
    let first = find(&folder, envelope, delivery).ok().flatten();
    sweep(&folder);
    first
}

fn find(
    folder: &Path,
    envelope: &Envelope,
    delivery: &Delivery<'_>,
) -> io::Result<Option<EventId>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let (id, from) = (envelope.id, envelope.from.clone());
    let mut mark = NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut mark, &Mark { id, from })?;
    let path = folder.join(delivery.name());
    // It is there with all that it says, or not at all: of two that come at once one is the first.
    let Err(taken) = mark.persist_noclobber(&path) else {
        return Ok(None);
    };
    if taken.error.kind() != io::ErrorKind::AlreadyExists {
        return Err(taken.error);
    }
    if let Some((first, age)) = read(&path)
        && is_double(first.from.as_deref(), envelope.from.as_deref(), age)
    {
        return Ok(Some(first.id));
    }
    taken.file.persist(&path)?;
    Ok(None)
}

/// A mark, and how old it is. One from the future is none.
fn read(path: &Path) -> Option<(Mark, Duration)> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > MAX_MARK {
        return None;
    }
    let age = meta.modified().ok()?.elapsed().ok()?;
    let mark = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some((mark, age))
}

/// Removes what means nothing any more.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        if modified.is_ok_and(|at| at.elapsed().map_or(true, |age| age >= WITHIN)) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Barrier;
    use std::time::SystemTime;

    use becket_wire::{Head, Version};

    use super::*;

    const PAYLOAD: &str =
        r#"{"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t1"}"#;

    struct Yard {
        place: Place,
        _folder: tempfile::TempDir,
    }

    impl Yard {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self {
                place: Place::new(folder.path().join("home")),
                _folder: folder,
            }
        }

        /// Event so and so comes from there.
        fn comes(&self, number: u8, from: Option<&str>) -> Option<EventId> {
            self.comes_with(PAYLOAD, number, from)
        }

        fn comes_with(&self, payload: &str, number: u8, from: Option<&str>) -> Option<EventId> {
            let head = Head::read(payload.as_bytes()).unwrap();
            let envelope: Envelope = serde_json::from_value(serde_json::json!({
                "id": id(number), "at": 5, "version": Version::current(), "home": "/h",
                "pid": 4, "from": from,
            }))
            .unwrap();
            let delivery = Delivery::new(&head, payload.as_bytes());
            first_of(&self.place, &envelope, &delivery)
        }

        fn marks(&self) -> Vec<fs::DirEntry> {
            let entries = fs::read_dir(self.place.doubles()).unwrap();
            entries.map(Result::unwrap).collect()
        }

        /// All marks become as old as that.
        fn age(&self, age: Duration) {
            for mark in self.marks() {
                let file = File::open(mark.path()).unwrap();
                file.set_modified(SystemTime::now() - age).unwrap();
            }
        }
    }

    fn id(number: u8) -> EventId {
        EventId::from_bytes([number; 16])
    }

    #[test]
    fn the_same_event_from_another_registration_is_a_double() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        assert_eq!(yard.comes(2, Some("plugin")), Some(id(1)));
        assert_eq!(yard.comes(3, None), Some(id(1)));
        assert_eq!(yard.marks().len(), 1);
    }

    #[test]
    fn two_deliveries_from_one_source_are_none() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        assert_eq!(yard.comes(2, Some("settings")), None);
        assert_eq!(yard.comes(3, Some("plugin")), Some(id(2)), "of the newest");
    }

    #[test]
    fn another_event_is_none() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        for (other, number) in [("t2", 2), ("t1\", \"x\": \"", 3)] {
            let payload = PAYLOAD.replace("t1", other);
            assert_eq!(yard.comes_with(&payload, number, Some("plugin")), None);
        }
        assert_eq!(yard.marks().len(), 3);
    }

    #[test]
    fn after_five_seconds_it_is_none_and_old_marks_are_swept() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        let other = PAYLOAD.replace("t1", "t2");
        assert_eq!(yard.comes_with(&other, 2, Some("settings")), None);
        yard.age(WITHIN);
        assert_eq!(yard.comes(3, Some("plugin")), None);
        assert_eq!(yard.marks().len(), 1, "the other one is gone");
        assert_eq!(yard.comes(4, Some("settings")), Some(id(3)));
    }

    #[test]
    fn whoever_can_leave_no_mark_is_none() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        fs::write(yard.marks()[0].path(), "garbage").unwrap();
        assert_eq!(yard.comes(2, Some("plugin")), None);
        assert_eq!(yard.comes(3, Some("settings")), Some(id(2)), "mended");
        fs::remove_dir_all(yard.place.doubles()).unwrap();
        fs::write(yard.place.doubles(), "no folder").unwrap();
        assert_eq!(yard.comes(4, Some("settings")), None);
        assert_eq!(yard.comes(5, Some("plugin")), None);
    }

    #[test]
    fn of_two_that_come_at_once_one_is_the_first() {
        let yard = Yard::new();
        for round in 0..100 {
            let payload = PAYLOAD.replace("t1", &format!("t{round}"));
            let barrier = Barrier::new(2);
            let come = |number, from| {
                barrier.wait();
                yard.comes_with(&payload, number, Some(from))
            };
            let both = std::thread::scope(|scope| {
                let one = scope.spawn(|| come(1, "settings"));
                let other = scope.spawn(|| come(2, "plugin"));
                (one.join().unwrap(), other.join().unwrap())
            });
            assert!(
                both == (None, Some(id(1))) || both == (Some(id(2)), None),
                "{both:?}"
            );
        }
    }
}
