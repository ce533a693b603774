//! What the first of several deliveries leaves in becket's home, so that the others know.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use becket_wire::process::{parent_and_start, process_state};
use becket_wire::rpc::Envelope;
use becket_wire::{EventId, Place};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{Delivery, WITHIN, is_double};

/// No mark of ours is longer.
const MAX_MARK: u64 = 4 << 10;
/// No mark has so many heirs in a row: they name each other in a circle.
const MAX_HEIRS: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    id: EventId,
    from: Option<String>,
    /// Who left it: its pid, and when it was started. None where the system does not tell.
    #[serde(default)]
    by: Option<(u32, u64)>,
}

impl Mark {
    fn of(envelope: &Envelope) -> Self {
        let pid = std::process::id();
        let stat = stat(pid).ok();
        let start = stat.and_then(|stat| Some(parent_and_start(&stat)?.1));
        Self {
            id: envelope.id,
            from: envelope.from.clone(),
            by: start.map(|start| (pid, start)),
        }
    }

    /// Whoever left it was killed before it could keep its event: nobody runs the hooks.
    fn is_void(&self, is_kept: &dyn Fn(EventId) -> bool) -> bool {
        self.by.is_some_and(is_gone) && !is_kept(self.id)
    }
}

/// The event that this one repeats; if none, it leaves its own mark. Where that fails it is no
/// double: a hook that runs twice is better than a guard that does not run. `is_kept` tells whether
/// an event lies in the spool or in the database.
pub fn first_of(
    place: &Place,
    envelope: &Envelope,
    delivery: &Delivery<'_>,
    is_kept: &dyn Fn(EventId) -> bool,
) -> Option<EventId> {
    let folder = place.doubles();
    let first = find(&folder, envelope, delivery, is_kept).ok().flatten();
    sweep(&folder);
    first
}

fn find(
    folder: &Path,
    envelope: &Envelope,
    delivery: &Delivery<'_>,
    is_kept: &dyn Fn(EventId) -> bool,
) -> io::Result<Option<EventId>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let name = delivery.name();
    let path = folder.join(&name);
    let mut mark = written(folder, envelope)?;
    let mut at = path.clone();
    for _ in 0..MAX_HEIRS {
        // It is there with all that it says, or not at all: of two that come at once one is the first.
        let Err(taken) = mark.persist_noclobber(&at) else {
            if at != path {
                // A folder in its place stays: whoever meets that finds the heir.
                drop(written(folder, envelope)?.persist(&path));
            }
            return Ok(None);
        };
        if taken.error.kind() != io::ErrorKind::AlreadyExists {
            return Err(taken.error);
        }
        let found = read(&at);
        if let Some((first, Some(age))) = &found
            && is_double(first.from.as_deref(), envelope.from.as_deref(), *age)
            && !first.is_void(is_kept)
        {
            return Ok(Some(first.id));
        }
        // Of all that find this one stale or void, one becomes its heir, and the others find that.
        let heir = found.map_or("bad".to_owned(), |(old, _)| old.id.to_string());
        at = folder.join(format!("{name}.{heir}"));
        mark = taken.file;
    }
    Ok(None)
}

/// The mark of this event, not in its place yet.
fn written(folder: &Path, envelope: &Envelope) -> io::Result<NamedTempFile> {
    let mut mark = NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut mark, &Mark::of(envelope))?;
    Ok(mark)
}

/// A mark, and how old it is, unless it is from the future. Both from one opened file: another mark
/// may take its place in between.
fn read(path: &Path) -> Option<(Mark, Option<Duration>)> {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file = options.open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > MAX_MARK {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_MARK).read_to_end(&mut text).ok()?;
    Some((serde_json::from_slice(&text).ok()?, age(&meta)))
}

fn age(meta: &Metadata) -> Option<Duration> {
    meta.modified().ok()?.elapsed().ok()
}

/// Whether that very process has ended. What cannot be seen has not.
fn is_gone((pid, start): (u32, u64)) -> bool {
    match stat(pid) {
        Ok(stat) => {
            let is_other = parent_and_start(&stat).is_some_and(|found| found.1 != start);
            is_other || matches!(process_state(&stat), Some('Z' | 'X'))
        }
        Err(why) => why.kind() == io::ErrorKind::NotFound,
    }
}

fn stat(pid: u32) -> io::Result<String> {
    let line = fs::read(format!("/proc/{pid}/stat"))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Removes what means nothing any more.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if is_stale(&path) {
            drop(remove(folder, &path));
        }
    }
}

fn is_stale(path: &Path) -> bool {
    let meta = fs::symlink_metadata(path);
    meta.is_ok_and(|meta| age(&meta).is_none_or(|age| age >= WITHIN))
}

/// Removes a stale mark. Somebody may have renewed it since that was found out: it is set aside
/// first, and comes back if it is new.
fn remove(folder: &Path, path: &Path) -> io::Result<()> {
    let aside = NamedTempFile::new_in(folder)?.into_temp_path();
    fs::rename(path, &aside)?;
    if !is_stale(&aside) {
        aside.persist_noclobber(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Barrier;
    use std::time::SystemTime;

    use becket_wire::{Head, Version};

    use super::*;

    const PAYLOAD: &str =
        r#"{"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t1"}"#;

    struct Yard {
        place: Place,
        /// Whether events lie in the spool.
        kept: bool,
        _folder: tempfile::TempDir,
    }

    impl Yard {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self {
                place: Place::new(folder.path().join("home")),
                kept: false,
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
            first_of(&self.place, &envelope, &delivery, &|_| self.kept)
        }

        /// Two registrations tell of it at once.
        fn one_of_two_is_the_first(&self, payload: &str, number: u8, other: u8) {
            let barrier = Barrier::new(2);
            let come = |number, from| {
                barrier.wait();
                self.comes_with(payload, number, Some(from))
            };
            let both = std::thread::scope(|scope| {
                let one = scope.spawn(|| come(number, "settings"));
                let other = scope.spawn(|| come(other, "plugin"));
                (one.join().unwrap(), other.join().unwrap())
            });
            assert!(
                both == (None, Some(id(number))) || both == (Some(id(other)), None),
                "{both:?}"
            );
        }

        fn marks(&self) -> Vec<fs::DirEntry> {
            let entries = fs::read_dir(self.place.doubles()).unwrap();
            entries.map(Result::unwrap).collect()
        }

        /// The mark is that of another process.
        fn left_by(&self, by: (u32, u64)) {
            let path = self.marks()[0].path();
            let (mut mark, _) = read(&path).unwrap();
            mark.by = Some(by);
            fs::write(path, serde_json::to_vec(&mark).unwrap()).unwrap();
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
        assert_eq!(yard.marks().len(), 2, "the renewed one and its claim");
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
            yard.one_of_two_is_the_first(&payload, 1, 2);
        }
    }

    #[test]
    fn and_so_it_is_where_an_old_mark_lies() {
        let yard = Yard::new();
        for round in 0..100 {
            yard.one_of_two_is_the_first(PAYLOAD, 2 * round, 2 * round + 1);
            yard.age(WITHIN);
        }
    }

    #[test]
    fn and_where_what_lies_there_cannot_be_read_or_replaced() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        let mark = yard.marks()[0].path();
        fs::remove_file(&mark).unwrap();
        fs::create_dir(&mark).unwrap();
        yard.one_of_two_is_the_first(PAYLOAD, 2, 3);
    }

    #[test]
    fn whoever_finds_the_mark_of_a_process_that_kept_nothing_is_the_first() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let me = std::process::id();
        let my_start = parent_and_start(&stat(me).unwrap()).unwrap().1;
        // Another one may have its number by now.
        for by in [(child.id(), 1), (me, my_start + 1)] {
            let mut yard = Yard::new();
            assert_eq!(yard.comes(1, Some("settings")), None);
            yard.left_by(by);
            yard.kept = true;
            assert_eq!(yard.comes(2, Some("plugin")), Some(id(1)));
            yard.kept = false;
            yard.one_of_two_is_the_first(PAYLOAD, 3, 4);
        }
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        yard.left_by((me, my_start));
        assert_eq!(yard.comes(2, Some("plugin")), Some(id(1)));
    }

    #[test]
    fn a_mark_that_was_renewed_is_not_swept() {
        let yard = Yard::new();
        assert_eq!(yard.comes(1, Some("settings")), None);
        let mark = yard.marks()[0].path();
        remove(&yard.place.doubles(), &mark).unwrap();
        assert_eq!(yard.comes(2, Some("plugin")), Some(id(1)));
        yard.age(WITHIN);
        remove(&yard.place.doubles(), &mark).unwrap();
        assert_eq!(yard.marks().len(), 0);
    }

    #[test]
    fn an_event_that_comes_again_and_again_holds_nobody_up() {
        let yard = Yard::new();
        for number in [1, 2, 1, 2, 1, 3] {
            assert_eq!(yard.comes(number, Some("settings")), None);
        }
        assert!(yard.comes(4, Some("plugin")).is_some());
    }
}
