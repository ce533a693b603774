//! `init` and `uninit` on real files, in a throw-away home; the status line that was there before.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use becket_wire::Place;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::settings::inspection::inspect;
use crate::settings::install::{SettingsEdit, edit};
use crate::settings::tests::any::foreign;
use crate::settings::tests::registration;
use crate::settings::{
    SettingsOutcome, SettingsScope, StatusLine, StatusLineState, Strict, init,
    is_status_line_unwanted, status_line_before, uninit,
};
use crate::world::{ConfigOverrides, World};

pub struct Home {
    folder: TempDir,
    pub world: World,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir(path.join("bin")).unwrap();
        fs::write(path.join("bin/becket-hook"), "").unwrap();
        let world = World {
            place: Place::new(path.join("becket")),
            claude_home: Some(path.join("claude")),
            cwd: path.clone(),
            programs: path.join("bin"),
            no_daemon: true,
            overrides: ConfigOverrides::default(),
        };
        Self { folder, world }
    }

    pub fn with(text: impl AsRef<[u8]>) -> Self {
        let home = Self::new();
        fs::create_dir(home.claude()).unwrap();
        fs::write(home.file(), text).unwrap();
        home
    }

    fn claude(&self) -> PathBuf {
        self.world.claude_home.clone().unwrap()
    }

    pub fn file(&self) -> PathBuf {
        self.claude().join("settings.json")
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    pub fn init(&self) -> SettingsOutcome {
        self.init_with(Strict::Keep).unwrap()
    }

    fn init_with(&self, strict: Strict) -> anyhow::Result<SettingsOutcome> {
        init(
            &self.world,
            SettingsScope::User,
            strict,
            StatusLine::Keep,
            false,
        )
    }

    pub fn uninit(&self) -> SettingsOutcome {
        uninit(&self.world, SettingsScope::User, false).unwrap()
    }

    fn refused(&self) -> String {
        let error = self.init_with(Strict::Keep).unwrap_err();
        format!("{error:#}").replace(self.folder.path().to_str().unwrap(), "")
    }

    /// Every file and folder, by its path here.
    fn everything(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(
                    path.strip_prefix(self.folder.path())
                        .unwrap()
                        .display()
                        .to_string(),
                );
                if path.is_dir() {
                    open.push(path);
                }
            }
        }
        found.sort();
        found
    }

    fn backups(&self) -> Vec<String> {
        let is_backup = |name: &String| name.contains("settings.json.becket-backup-");
        self.everything().into_iter().filter(is_backup).collect()
    }
}

fn any_file() -> impl Strategy<Value = String> {
    let empty =
        proptest::sample::select(&["", "\n", "// nothing\n", "/* nothing */", "\u{feff}"][..]);
    prop_oneof![9 => foreign(), 1 => empty.prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn init_then_uninit_is_the_identity(text in any_file(), twice in any::<bool>()) {
        let home = Home::with(&text);
        home.init();
        if twice {
            home.init_with(Strict::On).unwrap();
        }
        prop_assert_ne!(home.text(), text.as_str());
        home.uninit();
        prop_assert_eq!(home.text(), text);
    }
}

#[test]
fn a_file_that_init_made_is_removed_with_its_folder() {
    let home = Home::new();
    let outcome = home.init();
    assert_eq!((outcome.change.before, outcome.change.backup), (None, None));
    assert_eq!(fs::metadata(home.claude()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(home.file()).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(home.uninit().change.after, None);
    assert!(!home.claude().exists());
    let left = [
        "becket",
        "becket/backup",
        "becket/environment",
        "becket/run",
        "becket/run/settings.lock",
    ];
    assert_eq!(
        home.everything(),
        [&left[..], &["bin", "bin/becket-hook"]].concat()
    );
}

#[test]
fn a_file_that_init_made_stays_if_something_else_is_in_it() {
    let home = Home::new();
    home.init();
    fs::write(home.file(), home.text().replacen('{', "{ // mine", 1)).unwrap();
    home.uninit();
    assert_eq!(home.text(), "{ // mine\n}\n");
}

#[test]
fn after_other_edits_only_becket_goes() {
    let home = Home::with("{\n  \"hooks\": {\"Stop\": []}\n}\n");
    home.init();
    let edited = home.text().replacen('{', "{\n  \"model\": \"opus\",", 1);
    fs::write(home.file(), &edited).unwrap();
    let outcome = home.uninit();
    assert_eq!(
        home.text(),
        "{\n  \"model\": \"opus\",\n  \"hooks\": {\"Stop\": []}\n}\n"
    );
    assert_eq!(
        fs::read_to_string(outcome.change.backup.unwrap()).unwrap(),
        edited
    );
}

#[test]
fn without_its_record_uninit_still_removes_becket() {
    let home = Home::with("{\n  \"model\": \"opus\"\n}\n");
    home.init();
    fs::remove_dir_all(home.world.place.home()).unwrap();
    home.uninit();
    assert_eq!(home.text(), "{\n  \"model\": \"opus\"\n}\n");
    assert!(!home.uninit().change.changed());
}

#[test]
fn the_backup_is_the_old_file() {
    let home = Home::with("{\"env\": {\"TOKEN\": \"x\"}}");
    fs::set_permissions(home.file(), Permissions::from_mode(0o640)).unwrap();
    let backup = home.init().change.backup.unwrap();
    assert_eq!(
        fs::read_to_string(&backup).unwrap(),
        "{\"env\": {\"TOKEN\": \"x\"}}"
    );
    assert_eq!(fs::metadata(&backup).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(home.file()).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(home.backups().len(), 1);
    for record in fs::read_dir(home.world.place.home().join("backup")).unwrap() {
        assert_eq!(record.unwrap().metadata().unwrap().mode() & 0o7777, 0o600);
    }
    home.init_with(Strict::On).unwrap();
    home.uninit();
    assert_eq!(
        home.backups().len(),
        1,
        "what only we wrote needs no backup"
    );
}

#[test]
fn a_link_stays_a_link() {
    let home = Home::new();
    let real = home.folder.path().join("dotfiles");
    fs::create_dir_all(home.claude()).unwrap();
    fs::create_dir(&real).unwrap();
    fs::write(real.join("claude.json"), "{}").unwrap();
    symlink("../dotfiles/claude.json", home.file()).unwrap();
    home.init();
    assert!(home.file().is_symlink());
    assert!(
        fs::read_to_string(real.join("claude.json"))
            .unwrap()
            .contains("becket-hook")
    );
    home.uninit();
    assert!(home.file().is_symlink());
    assert_eq!(home.text(), "{}");
}

#[test]
fn project_and_local_settings_are_at_the_git_root() {
    let mut home = Home::new();
    let root = home.world.cwd.join("project");
    home.world.cwd = root.join("src/deep");
    fs::create_dir_all(&home.world.cwd).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    for (scope, name) in [
        (SettingsScope::Project, "settings.json"),
        (SettingsScope::Local, "settings.local.json"),
    ] {
        let outcome = init(&home.world, scope, Strict::Keep, StatusLine::Keep, false).unwrap();
        assert_eq!(outcome.change.file, root.join(".claude").join(name));
        uninit(&home.world, scope, false).unwrap();
        assert!(!root.join(".claude").exists());
    }
}

#[test]
fn a_file_that_cannot_be_edited_is_not_touched() {
    let refused = |bytes: &[u8]| {
        let home = Home::with(bytes);
        let told = home.refused();
        assert_eq!(fs::read(home.file()).unwrap(), bytes);
        assert_eq!(
            (
                home.backups(),
                home.world.place.home().join("backup").exists()
            ),
            (vec![], false)
        );
        told
    };
    insta::assert_snapshot!(refused(b"{\n  \"model\": opus\n}"), @r#"/claude/settings.json:2:12: unexpected word; the file was not touched"#);
    insta::assert_snapshot!(refused(b"{\n  \"\xff\": 1\n}"), @r#"/claude/settings.json:2:4: not UTF-8; the file was not touched"#);
}

#[test]
fn concurrent_inits_lose_nothing() {
    let home = Home::with("{\"model\": \"opus\"}");
    let changed = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| home.init().change.changed()))
            .collect();
        let changed = runs.into_iter().map(|run| run.join().unwrap());
        changed.filter(|&changed| changed).count()
    });
    assert_eq!((changed, home.backups().len()), (1, 1));
    home.uninit();
    assert_eq!(home.text(), "{\"model\": \"opus\"}");
}

/// Runs an edit that adds a line, while another writer replaces the file `times` times, each time
/// after we read it and before we replace it.
fn outrun(home: &Home, times: usize) -> anyhow::Result<SettingsOutcome> {
    let left = Cell::new(times);
    edit(&home.world, SettingsScope::User, false, |now| {
        let lock = fs::File::open(home.world.place.run().join("settings.lock")).unwrap();
        assert!(lock.try_lock().is_err(), "the lock is held all the time");
        let text = now.text.as_deref().unwrap_or_default();
        if left.get() > 0 {
            left.set(left.get() - 1);
            fs::write(home.file(), format!("{text}// theirs {}\n", left.get())).unwrap();
        }
        Ok(SettingsEdit {
            after: Some(format!("{text}// ours\n")),
            record: None,
            inspection: inspect(text, &registration())?,
        })
    })
}

#[test]
fn a_write_by_another_program_is_not_lost() {
    let home = Home::with("{}\n");
    let outcome = outrun(&home, 2).unwrap();
    assert_eq!(home.text(), "{}\n// theirs 1\n// theirs 0\n// ours\n");
    assert_eq!(home.backups().len(), 1);
    let backup = fs::read_to_string(outcome.change.backup.unwrap()).unwrap();
    assert_eq!(backup, "{}\n// theirs 1\n// theirs 0\n");
}

#[test]
fn a_file_that_keeps_changing_is_an_error() {
    let home = Home::with("{}\n");
    let error = outrun(&home, 1000).unwrap_err();
    assert!(
        error.to_string().ends_with("settings.json keeps changing"),
        "{error}"
    );
    assert!(!home.text().contains("ours"));
    assert!(home.backups().is_empty());
}

const MINE: &str =
    "{ \"command\": \"~/bin/line 'a b'\", // mine\n  \"type\": \"command\", \"padding\": 2,}";

fn with_line() -> Home {
    Home::with(format!(
        "{{\"model\": \"opus\",\n  \"statusLine\" : {MINE}\n}}\n"
    ))
}

fn again(home: &Home, line: StatusLine) -> StatusLineState {
    let outcome = init(&home.world, SettingsScope::User, Strict::Keep, line, false).unwrap();
    outcome.inspection.status_line
}

/// The command in the file, with the throw-away home taken out.
fn command(home: &Home) -> String {
    let text = home.text();
    let at = text.rfind("\"statusLine\"").unwrap();
    let line = text[at..].lines().next().unwrap();
    let root = home.world.cwd.display().to_string();
    line.trim_end_matches(',').replace(&root, "")
}

#[test]
fn a_status_line_is_kept_and_runs_beside_beckets() {
    let home = with_line();
    let outcome = home.init();
    assert!(outcome.inspection.status_line.is_beside());
    insta::assert_snapshot!(command(&home), @r#""statusLine" : {"type": "command", "command": "/bin/becket-hook --statusline --beside --home /becket", "padding": 2, "refreshInterval": 2}"#);
    let before = status_line_before(&home.world);
    assert_eq!(before.as_deref(), Some("~/bin/line 'a b'"));
    let text = home.text();
    assert!(!home.init().change.changed(), "twice is once");
    assert_eq!(home.text(), text);
}

#[test]
fn a_status_line_comes_back_byte_for_byte_after_other_edits() {
    let home = with_line();
    home.init();
    let text = home.text().replace("opus", "sonnet");
    fs::write(home.file(), text).unwrap();
    home.init();
    assert_eq!(
        status_line_before(&home.world).as_deref(),
        Some("~/bin/line 'a b'")
    );
    home.uninit();
    let expected = format!("{{\"model\": \"sonnet\",\n  \"statusLine\" : {MINE}\n}}\n");
    assert_eq!(home.text(), expected);
}

#[test]
fn a_status_line_that_was_changed_since_is_left_alone() {
    let home = with_line();
    home.init();
    let text = home.text();
    let at = text
        .find("{\"type\": \"command\", \"command\": \"")
        .unwrap();
    let end = text[at..].find('}').unwrap() + at + 1;
    let other = r#"{"type": "command", "command": "new"}"#;
    let changed = format!("{}{other}{}", &text[..at], &text[end..]);
    fs::write(home.file(), &changed).unwrap();
    home.uninit();
    assert!(home.text().contains(other), "{}", home.text());
    assert!(!home.text().contains("becket"), "{}", home.text());

    fs::write(home.file(), &changed).unwrap();
    home.init();
    assert_eq!(status_line_before(&home.world).as_deref(), Some("new"));
}

#[test]
fn the_choice_of_no_status_line_is_remembered() {
    let home = with_line();
    let before = home.text();
    assert_eq!(again(&home, StatusLine::Off), StatusLineState::Foreign);
    assert!(home.text().contains(MINE));
    assert_eq!(again(&home, StatusLine::Keep), StatusLineState::Foreign);
    assert!(is_status_line_unwanted(&home.world, &home.file()));
    assert!(again(&home, StatusLine::On).is_beside());
    assert!(again(&home, StatusLine::Keep).is_beside());
    assert_eq!(again(&home, StatusLine::Off), StatusLineState::Foreign);
    assert!(home.text().contains(MINE));
    home.uninit();
    assert_eq!(home.text(), before);
}
