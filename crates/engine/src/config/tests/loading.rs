//! The loader on real files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::SystemTime;

use becket_wire::Place;

use super::*;

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> ConfigFiles {
        ConfigFiles {
            system: self.path("system.toml"),
            user: self.path("home/config.toml"),
            project: Some(self.path("project")),
            managed: self.path("managed.toml"),
        }
    }

    fn loader(&self, may_write: bool) -> Loader {
        Loader::with_files(&self.files(), &Place::new(self.path("home")), may_write)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Gives a file a time long past.
    fn age(&self, name: &str) {
        let long_ago = SystemTime::now() - Duration::from_secs(100);
        let file = fs::File::options()
            .append(true)
            .open(self.path(name))
            .unwrap();
        file.set_modified(long_ago).unwrap();
    }

    fn copies(&self) -> Vec<fs::DirEntry> {
        fs::read_dir(self.path("home/run/last-good"))
            .map(|entries| entries.map(Result::unwrap).collect())
            .unwrap_or_default()
    }
}

fn days(loader: &mut Loader) -> u32 {
    loader.current().config.store.keep_days
}

fn standing(snapshot: &Snapshot, level: Level) -> FileStatus {
    let mut files = snapshot.files.iter();
    files
        .find(|file| file.source.level == level)
        .unwrap()
        .status
}

fn errors(snapshot: &Snapshot) -> Vec<String> {
    snapshot.errors().map(ToString::to_string).collect()
}

#[test]
fn a_change_holds_from_the_next_call_on() {
    let world = World::new();
    let mut loader = world.loader(true);
    let first = loader.current();
    assert_eq!(first.config.store.keep_days, 90);
    assert!(Arc::ptr_eq(&first, &loader.current()), "nothing changed");
    world.write("home/config.toml", "store.keep_days = 10");
    assert_eq!(days(&mut loader), 10);
    world.write("home/config.toml", "store.keep_days = 11");
    assert_eq!(
        days(&mut loader),
        11,
        "same size, and perhaps the same time"
    );
    let before = loader.current();
    world.age("home/config.toml");
    assert!(
        Arc::ptr_eq(&before, &loader.current()),
        "a new time alone is no change"
    );
    fs::remove_file(world.path("home/config.toml")).unwrap();
    let after = loader.current();
    assert_eq!(after.config.store.keep_days, 90);
    assert!(first.generation < before.generation && before.generation < after.generation);
}

#[test]
fn a_broken_file_leaves_its_last_good_copy_in_force() {
    let world = World::new();
    world.write("home/config.toml", "store.keep_days = 10");
    let mut loader = world.loader(true);
    assert_eq!(days(&mut loader), 10);
    world.write("home/config.toml", "store.keep_days = \"ten\"");
    let snapshot = loader.current();
    assert_eq!(snapshot.config.store.keep_days, 10);
    assert_eq!(standing(&snapshot, Level::User), FileStatus::LastGood);
    let told = errors(&snapshot);
    assert!(
        told[0].contains("config.toml:1:19: store.keep_days: expected"),
        "{told:?}"
    );
    assert!(
        told[0].ends_with("(the last version of this file without errors stays in force)"),
        "{told:?}"
    );
    let origin = snapshot.settings["store.keep_days"].origin.to_string();
    assert!(
        origin.ends_with("config.toml:1 (last good copy)"),
        "{origin}"
    );
    // Another process, which may not write, finds the copy on disk.
    let other = world.loader(false).current();
    assert_eq!(other.config.store.keep_days, 10);
    world.write("home/config.toml", "store.keep_days = 12");
    let fixed = loader.current();
    assert_eq!(fixed.config.store.keep_days, 12);
    assert_eq!(errors(&fixed), [""; 0]);
    assert_eq!(standing(&fixed, Level::User), FileStatus::InForce);
}

#[test]
fn a_broken_file_without_a_copy_breaks_nothing_else() {
    let world = World::new();
    world.write("home/config.toml", "store.keep_days = ");
    world.write("system.toml", "store.keep_bytes = 5");
    let snapshot = world.loader(true).current();
    assert_eq!(snapshot.config.store.keep_days, 90);
    assert_eq!(snapshot.config.store.keep_bytes, 5);
    assert_eq!(standing(&snapshot, Level::User), FileStatus::Broken);
    assert_eq!(snapshot.errors().count(), 1);
}

#[test]
fn copies_are_the_owners_and_only_the_daemon_makes_them() {
    let world = World::new();
    world.write("home/config.toml", "store.keep_days = 10");
    world.write("managed.toml", "daemon.idle = \"1h\"");
    world.write("project/.becket/config.toml", "[hooks.x]");
    world.loader(false).current();
    assert_eq!(world.copies().len(), 0);
    world.loader(true).current();
    let copies = world.copies();
    assert_eq!(
        copies.len(),
        2,
        "not the project's, no temporary file: {copies:?}"
    );
    for copy in copies {
        assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let folder = fs::metadata(world.path("home/run/last-good")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_home_that_cannot_be_written_does_not_matter() {
    let world = World::new();
    world.write("home/config.toml", "store.keep_days = 10");
    // A file where the folder should be fails for root too.
    world.write("home/run", "");
    let mut loader = world.loader(true);
    let snapshot = loader.current();
    assert_eq!(snapshot.config.store.keep_days, 10);
    assert_eq!(snapshot.problems, []);
    world.write("home/config.toml", "store.keep_days = ");
    assert_eq!(days(&mut loader), 10, "the copy in memory holds");
}

#[test]
fn an_unreadable_file_is_reported_and_never_blocks() {
    let world = World::new();
    fs::create_dir(world.path("home/config.toml")).unwrap();
    fs::write(world.path("system.toml"), b"\xff").unwrap();
    world.write("managed.toml", &"#".repeat((1 << 20) + 1));
    let mut loader = world.loader(true);
    let snapshot = loader.current();
    let told = errors(&snapshot).join("\n");
    for why in ["not a regular file", "not UTF-8", "longer than 1024 KiB"] {
        assert!(told.contains(why), "{told}");
    }
    assert!(
        Arc::ptr_eq(&snapshot, &loader.current()),
        "the same trouble is no news"
    );
}

#[test]
fn a_project_is_read_checked_and_not_in_force() {
    let world = World::new();
    let text = "store.keep_days = 1\n[guards.x]\nanswer = \"deny\"\n[unknown]\n";
    world.write("project/.becket/config.toml", text);
    world.write("project/.becket/local.toml", "broken");
    let snapshot = world.loader(true).current();
    assert_eq!(snapshot.config, merge([]).config);
    assert_eq!(standing(&snapshot, Level::Project), FileStatus::NotTrusted);
    assert_eq!(standing(&snapshot, Level::Local), FileStatus::NotTrusted);
    assert_eq!(snapshot.problems.len(), 3, "{:?}", snapshot.problems);
}

#[test]
fn in_the_users_home_there_is_no_project() {
    let world = World::new();
    let becket = world.path("project/.becket");
    fs::create_dir_all(&becket).unwrap();
    let files = ConfigFiles {
        user: becket.join("config.toml"),
        ..world.files()
    };
    let snapshot = Loader::with_files(&files, &Place::new(&becket), false).current();
    let levels: Vec<_> = snapshot
        .files
        .iter()
        .map(|file| file.source.level)
        .collect();
    assert_eq!(levels, [Level::System, Level::User, Level::Managed]);
}

#[test]
fn the_real_places_are_the_documented_ones() {
    let place = Place::new("/home/user/.becket");
    let mut loader = Loader::for_project(&place, Path::new("/home/you/project"));
    let files: Vec<_> = loader
        .current()
        .files
        .iter()
        .map(|file| file.source.file.display().to_string())
        .collect();
    assert_eq!(
        files,
        [
            "/etc/becket/config.toml",
            "/home/user/.becket/config.toml",
            "/home/you/project/.becket/config.toml",
            "/home/you/project/.becket/local.toml",
            "/etc/becket/managed.toml",
        ]
    );
}
