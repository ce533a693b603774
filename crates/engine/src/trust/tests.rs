//! Trust on real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use becket_wire::Place;
use proptest::prelude::*;

use super::*;
use crate::config::{Files, Loader, Snapshot, Standing};
use crate::hooks::Action;
use crate::run::Program;

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

    /// Writes a file that looks as if nobody had touched it for long.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        settle(&path);
        settle(path.parent().unwrap());
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

fn settle(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(100);
    let file = fs::File::open(path).unwrap();
    file.set_modified(long_ago).unwrap();
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
fn a_script_that_comes_later_was_not_approved() {
    let world = World::new();
    fs::remove_file(world.path("project/scripts/style.sh")).unwrap();
    assert_eq!(paths(&world.trust()), [".becket/config.toml"]);
    let mut loader = world.loader("project");
    assert_eq!(trust(&loader.current()), Trust::Yes);
    world.write("project/scripts/style.sh", "evil");
    assert_eq!(trust(&loader.current()), Trust::Changed);
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
    assert!(std::sync::Arc::ptr_eq(&before, &loader.current()));
    assert_eq!(trust(&before), Trust::Yes);
}

#[test]
fn links_are_pinned_as_links_and_as_what_they_lead_to() {
    let world = World::new();
    world.write("project/shared/a.md", "a");
    symlink("../shared/a.md", world.path("project/.becket/a.md")).unwrap();
    symlink("../shared", world.path("project/.becket/more")).unwrap();
    symlink("nowhere", world.path("project/.becket/broken")).unwrap();
    let pins = world.trust();
    let expected = [
        ".becket/a.md",
        ".becket/broken",
        ".becket/config.toml",
        ".becket/more",
        ".becket/more/a.md",
        "scripts/style.sh",
    ];
    assert_eq!(paths(&pins), expected);
    let mut loader = world.loader("project");
    assert_eq!(trust(&loader.current()), Trust::Yes);
    world.write("project/shared/a.md", "b");
    assert_eq!(trust(&loader.current()), Trust::Changed);
    world.write("project/shared/a.md", "a");
    world.write("project/shared/b.md", "a");
    fs::remove_file(world.path("project/.becket/a.md")).unwrap();
    symlink("../shared/b.md", world.path("project/.becket/a.md")).unwrap();
    let now = pins_of(&world.project(), &world.place()).unwrap();
    let changes: Vec<_> = now
        .changes_since(&pins)
        .into_iter()
        .map(|it| (it.path, it.how))
        .collect();
    let expected = [
        (".becket/a.md".to_owned(), How::Changed),
        (".becket/more/b.md".to_owned(), How::New),
    ];
    assert_eq!(changes, expected, "the same content by another link");
}

#[test]
fn what_leads_out_or_has_no_end_cannot_be_approved() {
    let world = World::new();
    world.write("outside", "x");
    let link = world.path("project/.becket/out");
    symlink("../../outside", &link).unwrap();
    let path = ".becket/out".to_owned();
    assert_eq!(
        pins_of(&world.project(), &world.place()),
        Err(Refusal::LeadsOut { path })
    );
    fs::remove_file(&link).unwrap();
    symlink("../.becket", &link).unwrap();
    let refused = pins_of(&world.project(), &world.place());
    assert!(
        matches!(refused, Err(Refusal::TooMuch { .. })),
        "{refused:?}"
    );
    fs::remove_file(&link).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &link,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let path = ".becket/out".to_owned();
    assert_eq!(
        pins_of(&world.project(), &world.place()),
        Err(Refusal::Odd { path })
    );
}

#[test]
fn what_a_run_names_in_the_project_is_pinned() {
    let world = World::new();
    world.write("outside.sh", "");
    for name in [
        "a.sh",
        "tools/b.py",
        "tools/c d.sh",
        "e.cfg",
        "tools/f.sh",
        "g.js",
        "h.js",
    ] {
        world.write(&format!("project/{name}"), "x");
    }
    symlink(world.path("outside.sh"), world.path("project/tools/python")).unwrap();
    let run = |run: &str| {
        let text = format!("[hooks.x]\non = \"Stop\"\nrun = {run}\n");
        world.write("project/.becket/config.toml", &text);
        let pins = pins_of(&world.project(), &world.place()).unwrap();
        let files = pins.paths().filter(|path| !path.starts_with(".becket"));
        files.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run(r#"["./a.sh", "x"]"#), ["a.sh"]);
    assert_eq!(run(r#"["python3", "tools/../tools/b.py"]"#), ["tools/b.py"]);
    assert_eq!(run(r#"["sh", "-c", "exec a.sh"]"#), ["a.sh"]);
    assert_eq!(run(r#"["../outside.sh", "src"]"#), [""; 0]);
    assert_eq!(run(r#"["tools/python", "-c", "1"]"#), ["tools/python"]);
    let line = r#"'X=1 a.sh --config=e.cfg | (python3 "tools/b.py"); "tools/c d.sh"&&"$CLAUDE_PROJECT_DIR"/tools/f.sh ${CLAUDE_PROJECT_DIR}/g.js `h.js`'"#;
    let all = [
        "a.sh",
        "e.cfg",
        "g.js",
        "h.js",
        "tools/b.py",
        "tools/c d.sh",
        "tools/f.sh",
    ];
    assert_eq!(run(line), all);
    let absolute = format!("[\"{}\"]", world.path("project/a.sh").display());
    assert_eq!(run(&absolute), ["a.sh"]);
}

#[test]
fn an_approved_program_is_the_one_at_the_root_wherever_the_session_works() {
    let world = World::new();
    let text = "[hooks.list]\non = \"Stop\"\nrun = [\"scripts/style.sh\", \"x/y\"]\n[hooks.line]\non = \"Stop\"\nrun = \"scripts/style.sh\"\n";
    world.write("project/.becket/config.toml", text);
    world.write("project/sub/README", "");
    world.trust();
    let snapshot = world.loader("project").current();
    let script = world.path("project/scripts/style.sh").display().to_string();
    let Action::Run(Program::List(words)) = &snapshot.hooks[0].action else {
        panic!("{:?}", snapshot.hooks)
    };
    assert_eq!(words, &[script, "x/y".to_owned()]);
    assert_eq!(snapshot.hooks[0].description, "scripts/style.sh x/y");
    let (root, sub) = (world.project(), world.path("project/sub"));
    let astray = |cwd: &Path| -> Vec<bool> {
        let hooks = snapshot.hooks.iter();
        hooks.map(|hook| hook.is_led_astray(cwd)).collect()
    };
    assert_eq!(astray(&root), [false, false]);
    assert_eq!(astray(&sub), [false, false]);
    world.write("project/sub/scripts/style.sh", "evil");
    assert_eq!(astray(&sub), [false, true]);
}

#[test]
fn worktrees_are_one_project_and_impostors_are_not() {
    let world = World::new();
    let git = world.path("project/.git");
    let key = git.display().to_string();
    assert_eq!(key_of(&world.project()), Some(key.clone()));
    world.write("tree/.git", &format!("gitdir: {key}/worktrees/tree\n"));
    world.write("project/.git/worktrees/tree/commondir", "../..\n");
    let back = world.path("tree/.git").display().to_string();
    world.write("project/.git/worktrees/tree/gitdir", &format!("{back}\n"));
    assert_eq!(key_of(&world.path("tree")), Some(key.clone()));
    world.write("tree/.becket/config.toml", CONFIG);
    world.write("tree/scripts/style.sh", "exit 0");
    world.trust();
    assert_eq!(trust(&world.loader("tree").current()), Trust::Yes);
    world.write("tree/scripts/style.sh", "exit 1");
    assert_eq!(trust(&world.loader("tree").current()), Trust::Changed);

    let itself = |name: &str| {
        let path = world.path(name);
        assert_eq!(key_of(&path).as_deref(), path.to_str(), "{name}");
    };
    world.write("copy/.git", &format!("gitdir: {key}/worktrees/tree\n"));
    itself("copy");
    world.write("direct/.git", &format!("gitdir: {key}\n"));
    itself("direct");
    fs::create_dir(world.path("link")).unwrap();
    symlink(&git, world.path("link/.git")).unwrap();
    itself("link");
    let fake = world.path("fake/admin/worktrees/x").display().to_string();
    world.write("fake/.git", &format!("gitdir: {fake}\n"));
    world.write("fake/admin/worktrees/x/commondir", &format!("{key}\n"));
    let back = world.path("fake/.git").display().to_string();
    world.write("fake/admin/worktrees/x/gitdir", &format!("{back}\n"));
    itself("fake");
    fs::create_dir(world.path("plain")).unwrap();
    itself("plain");
    assert_eq!(key_of(&world.path("nothing")), None);
}

#[test]
fn a_damaged_book_counts_as_empty_and_is_set_aside() {
    let world = World::new();
    world.trust();
    let file = world.place().trust();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::write(&file, "{\"projects\": 3}").unwrap();
    let mut loader = world.loader("project");
    let snapshot = loader.current();
    assert_eq!(trust(&snapshot), Trust::No);
    let told: Vec<String> = snapshot.errors().map(ToString::to_string).collect();
    assert!(told[0].contains("is damaged"), "{told:?}");
    let aside = change(&world.place(), |_| {}).unwrap().unwrap();
    assert_eq!(fs::read(&aside).unwrap(), b"{\"projects\": 3}");
    assert_eq!(Book::read(&world.place()).unwrap(), Book::default());
    assert_eq!(loader.current().errors().count(), 0);
}

#[test]
fn beckets_own_home_is_no_projects() {
    let world = World::new();
    world.write("you/.becket/config.toml", "");
    let place = Place::new(world.path("you/.becket"));
    assert!(pins_of(&world.path("you"), &place).unwrap().is_empty());
    assert!(
        !pins_of(&world.path("you"), &world.place())
            .unwrap()
            .is_empty()
    );
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
fn many_who_trust_at_once_lose_nothing() {
    let world = World::new();
    let place = world.place();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let place = &place;
            scope.spawn(move || {
                let approval = Approval {
                    project: String::new(),
                    at: number,
                    hash: String::new(),
                    pins: Pins::default(),
                };
                let key = format!("/{number}");
                change(place, |book| {
                    book.projects.insert(key.clone(), approval.clone());
                })
                .unwrap();
            });
        }
    });
    assert_eq!(Book::read(&place).unwrap().projects.len(), 16);
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

proptest! {
    #[test]
    fn words_never_panic_and_hold_what_stands_between_spaces(
        line in "[a-z./;|&()<>`'\"\\\\$= -]{0,40}",
        name in "[a-z]{1,8}(/[a-z]{1,8}){0,2}",
    ) {
        let words = |line: String| words_of(&Program::Shell(line), Path::new("/p"));
        words(line.clone());
        let quoted = line.matches(['"', '\'']).count() > 0;
        if !quoted {
            let found = words(format!("{line} {name} {line}"));
            prop_assert!(found.contains(&name));
        }
        let list = vec!["sh".to_owned(), "-c".to_owned(), format!("cd x && {name} -v")];
        prop_assert!(words_of(&Program::List(list), Path::new("/p")).contains(&name));
    }

    #[test]
    fn another_set_of_pins_has_another_hash(
        one in proptest::collection::btree_map("[a :1\n]{0,5}", "[a :1\n]{0,5}", 0..4),
        other in proptest::collection::btree_map("[a :1\n]{0,5}", "[a :1\n]{0,5}", 0..4),
    ) {
        let pins = |map: &std::collections::BTreeMap<String, String>| -> Pins {
            serde_json::from_value(serde_json::json!(map)).unwrap()
        };
        prop_assert_eq!(one == other, pins(&one).hash() == pins(&other).hash());
    }
}
