//! Trust on real files.

mod book;
mod own;
mod pins;
mod riddles;
mod starts;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use becket_wire::event::EventName;
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Place};
use serde_json::json;

use super::*;
use crate::config::{Files, Loader, Snapshot, Standing};
use crate::hooks::carry::{Asked, Kit, Plan};
use crate::judge::Verdict;
use crate::run::Cancel;
use crate::stamp::tests::settle;

const CONFIG: &str =
    "[hooks.style]\non = \"Stop\"\nrun = [\"sh\", \"scripts/style.sh\"]\n[guards.more]\n";

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { folder };
        world.write("project/.git/HEAD", "ref: refs/heads/main");
        world.write("project/.becket/config.toml", CONFIG);
        world.write("project/scripts/style.sh", "exit 0");
        fs::create_dir(world.path("home")).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("project")
    }

    fn place(&self) -> Place {
        Place::new(self.path("home"))
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }

    /// Waits until nothing of the project has changed for a while.
    fn settle(&self) {
        for name in [
            "project/.becket",
            "project/.becket/config.toml",
            "project/scripts/style.sh",
        ] {
            settle(&self.path(name));
        }
        settle(&self.place().trust());
    }

    fn loader(&self, project: &str) -> Loader {
        let files = Files {
            system: self.path("system.toml"),
            user: self.path("home/config.toml"),
            project: Some(self.path(project)),
            managed: self.path("managed.toml"),
        };
        Loader::with_files(&files, &self.place(), false)
    }

    fn trust(&self) -> Pins {
        let pins = pins_of(&self.project(), &self.place()).unwrap();
        self.approve(&self.project(), &pins);
        pins
    }

    /// What came of the hooks on an event in that folder, and whether one left a mark.
    fn carry_out(&self, cwd: &str, environment: &[(&str, String)]) -> (Vec<RunRow>, bool) {
        let snapshot = self.loader("project").current();
        let cwd = self.path(cwd);
        let payload = json!({"hook_event_name": "PreToolUse", "cwd": cwd, "tool_name": "Bash"});
        let payload = payload.to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let event = EventName::PreToolUse;
        let asked = Asked {
            id: EventId::new(5, [7; 2]),
            event: &event,
            head: &head,
            payload: payload.as_bytes(),
            project: &self.project(),
            attended: true,
        };
        let Some(plan) = Plan::of(&asked, &snapshot.hooks, Arc::default) else {
            return (Vec::new(), false);
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let pair = |(name, value): &(&str, String)| {
            let value = value.replace("PATH", &path);
            (OsString::from(name), OsString::from(value))
        };
        let usual = [("PATH".into(), path.clone().into())];
        let kit = Kit {
            becket: "/bin/becket".into(),
            home: self.path("home"),
            environment: usual
                .into_iter()
                .chain(environment.iter().map(pair))
                .collect(),
        };
        let runs = RefCell::new(Vec::new());
        let silent = Verdict::silent(event.clone());
        plan.carry_out(
            &kit,
            &Cancel::new(),
            silent.clone(),
            |_| silent,
            |done| runs.replace(done.runs).clear(),
            |_| {},
        );
        let marked = fs::remove_file(self.path("project/marked")).is_ok();
        (runs.into_inner(), marked)
    }

    fn approve(&self, project: &Path, pins: &Pins) {
        let approval = Approval {
            project: project.display().to_string(),
            at: 1,
            hash: pins.hash(),
            pins: pins.clone(),
        };
        let key = key_of(project).unwrap();
        let aside = change(&self.place(), |book| {
            book.projects.insert(key.clone(), approval.clone());
        });
        assert_eq!(aside.unwrap(), None);
    }
}

fn trust(snapshot: &Snapshot) -> Trust {
    snapshot.project.as_ref().unwrap().trust
}

fn untrusted(snapshot: &Snapshot) -> Vec<(String, bool)> {
    let hooks = snapshot.hooks.iter();
    hooks
        .map(|hook| (hook.name.clone(), hook.untrusted))
        .collect()
}

fn paths(pins: &Pins) -> Vec<&str> {
    pins.paths().collect()
}

#[test]
fn nothing_counts_until_it_is_approved_and_everything_afterwards() {
    let world = World::new();
    let mut loader = world.loader("project");
    let before = loader.current();
    assert_eq!(trust(&before), Trust::No);
    assert!(before.project.as_ref().unwrap().holds);
    assert_eq!(untrusted(&before), [("style".to_owned(), true)]);
    assert_eq!(before.config.guards, []);
    assert!(!before.settings.keys().any(|key| key.starts_with("hooks.")));
    let pins = world.trust();
    assert_eq!(paths(&pins), [".becket/config.toml", "scripts/style.sh"]);
    let after = loader.current();
    assert_eq!(trust(&after), Trust::Yes);
    assert_eq!(untrusted(&after), [("style".to_owned(), false)]);
    assert_eq!(after.config.guards.len(), 1);
    let standing = |it: &Snapshot| it.files[2].standing;
    assert_eq!(standing(&before), Standing::NotTrusted);
    assert_eq!(standing(&after), Standing::InForce);
    change(&world.place(), |book| book.projects.clear()).unwrap();
    assert_eq!(trust(&loader.current()), Trust::No, "revoked");
}

#[test]
fn any_change_asks_again_and_the_way_back_does_not() {
    type Undo = Box<dyn Fn(&World)>;
    let rewrite = |name: &'static str, text: &'static str| -> Undo {
        Box::new(move |world| world.write(name, text))
    };
    let remove = |name: &'static str| -> Undo {
        Box::new(move |world| fs::remove_file(world.path(name)).unwrap())
    };
    let (script, config) = ("project/scripts/style.sh", "project/.becket/config.toml");
    let skill = "project/.becket/skills/x/SKILL.md";
    for (what, spoil, mend) in [
        (
            "a script",
            rewrite(script, "exit 1"),
            rewrite(script, "exit 0"),
        ),
        ("no script", remove(script), rewrite(script, "exit 0")),
        ("the config", rewrite(config, ""), rewrite(config, CONFIG)),
        ("a new file", rewrite(skill, "evil"), remove(skill)),
        (
            "local.toml",
            rewrite("project/.becket/local.toml", ""),
            remove("project/.becket/local.toml"),
        ),
    ] {
        let world = World::new();
        world.trust();
        world.settle();
        let mut loader = world.loader("project");
        assert_eq!(trust(&loader.current()), Trust::Yes, "{what}");
        spoil(&world);
        let spoilt = loader.current();
        assert_eq!(trust(&spoilt), Trust::Changed, "{what}");
        assert!(spoilt.hooks.iter().all(|hook| hook.untrusted), "{what}");
        assert_eq!(spoilt.config.guards, [], "{what}");
        assert_eq!(trust(&world.loader("project").current()), Trust::Changed);
        mend(&world);
        assert_eq!(trust(&loader.current()), Trust::Yes, "{what} as it was");
    }
}

#[test]
fn documents_and_the_rest_of_the_project_do_not_count() {
    let world = World::new();
    world.write("project/.becket/prd/a.md", "one");
    world.trust();
    let mut loader = world.loader("project");
    let before = loader.current();
    world.write("project/.becket/prd/a.md", "two");
    world.write("project/.becket/prd/b.md", "three");
    world.write("project/src/main.rs", "fn main() {}");
    assert!(Arc::ptr_eq(&before, &loader.current()));
    assert_eq!(trust(&before), Trust::Yes);
}

#[test]
fn what_would_count_can_be_seen_before() {
    let world = World::new();
    let pins = pins_of(&world.project(), &world.place()).unwrap();
    let preview = world
        .loader("project")
        .as_if_approved(pins.clone())
        .current();
    assert_eq!(untrusted(&preview), [("style".to_owned(), false)]);
    assert_eq!(trust(&preview), Trust::No, "nobody said so yet");
    world.write(
        "project/.becket/config.toml",
        "[hooks.other]\non = \"Stop\"\nrun = \"x\"\n",
    );
    let other = world.loader("project").as_if_approved(pins).current();
    assert_eq!(
        untrusted(&other),
        [("other".to_owned(), true)],
        "these pins are not of it"
    );
}

#[test]
fn a_project_without_a_becket_folder_can_be_trusted_for_its_tools() {
    let world = World::new();
    fs::remove_dir_all(world.path("project/.becket")).unwrap();
    world.write("home/config.toml", "[hooks.typecheck-changed]\n");
    let mut loader = world.loader("project");
    let before = loader.current();
    assert_eq!(untrusted(&before), [("typecheck-changed".to_owned(), true)]);
    assert_eq!(before.project.as_ref().unwrap().says(), None);
    assert!(world.trust().is_empty());
    assert_eq!(
        untrusted(&loader.current()),
        [("typecheck-changed".to_owned(), false)]
    );
    world.write("project/.becket/config.toml", CONFIG);
    let changed = loader.current();
    assert_eq!(trust(&changed), Trust::Changed);
    assert!(
        changed
            .project
            .as_ref()
            .unwrap()
            .says()
            .unwrap()
            .contains("what changed")
    );
}

#[test]
fn a_file_that_claims_to_come_from_the_future_is_not_read_on_every_event() {
    let world = World::new();
    let soon = SystemTime::now() + Duration::from_secs(86_400);
    let script = fs::File::open(world.path("project/scripts/style.sh")).unwrap();
    script.set_modified(soon).unwrap();
    world.trust();
    world.settle();
    let looked = pin::collect(&world.project(), true).unwrap();
    assert!(looked.still_holds());
    world.write("project/scripts/style.sh", "exit 1");
    assert!(!looked.still_holds());
}
