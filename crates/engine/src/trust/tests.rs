//! Trust on real files: what a project can do before it is approved, and after it has changed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use becket_wire::event::EventName;
use becket_wire::hook_run::RunRow;
use becket_wire::{EventId, Head, Place};
use serde_json::json;

use super::*;
use crate::config::{ConfigFiles, FileStatus, Loader, Snapshot};
use crate::hooks::plan::{HookEvent, HookPlan, HookSetup};
use crate::hooks::switch::Switches;
use crate::judge::Verdict;
use crate::process::Cancel;
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

    /// Writes a program that leaves a mark in the project.
    fn marks(&self, name: &str) {
        let mark = self.path("project/marked").display().to_string();
        self.write(name, &format!("#!/bin/sh\ntouch '{mark}'\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), mode).unwrap();
    }

    /// Writes a config with this one hook.
    fn run(&self, config: &str, run: &str) {
        let text = format!("[hooks.x]\non = \"PreToolUse\"\nrun = {run}\n");
        self.write(config, &text);
    }

    /// Waits until the stamps of these files can be relied on.
    fn settle(&self) {
        for name in ["", "/config.toml", "/../scripts/style.sh"] {
            settle(&self.path(&format!("project/.becket{name}")));
        }
        settle(&self.place().trust());
    }

    fn loader(&self, project: &str) -> Loader {
        let files = ConfigFiles {
            system: self.path("system.toml"),
            user: self.path("home/config.toml"),
            project: Some(self.path(project)),
            managed: self.path("managed.toml"),
        };
        Loader::with_files(&files, &self.place(), false)
    }

    fn trust(&self) -> Pins {
        let pins = pins_of(&self.project(), &self.place()).unwrap();
        let approval = Approval {
            project: self.project().display().to_string(),
            at: 1,
            hash: pins.hash(),
            pins: pins.clone(),
        };
        let key = key_of(&self.project()).unwrap();
        let aside = change(&self.place(), |book| {
            book.projects.insert(key.clone(), approval.clone());
        });
        assert_eq!(aside.unwrap(), None);
        pins
    }

    fn revoke(&self) {
        change(&self.place(), |book| book.projects.clear()).unwrap();
    }

    /// Runs the hooks on an event in that folder. Returns their rows, and whether one left a mark.
    fn run_hooks(&self, cwd: &str, environment: &[(&str, String)]) -> (Vec<RunRow>, bool) {
        let snapshot = self.loader("project").current();
        let cwd = self.path(cwd);
        let payload = json!({"hook_event_name": "PreToolUse", "cwd": cwd, "tool_name": "Bash"});
        let payload = payload.to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let event = EventName::PreToolUse;
        let asked = HookEvent {
            id: EventId::new(5, [7; 2]),
            event: &event,
            head: &head,
            payload: payload.as_bytes(),
            project: &self.project(),
            attended: true,
        };
        let Some(plan) = HookPlan::of(&asked, &snapshot.hooks, &Switches::default()) else {
            return (Vec::new(), false);
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let pair = |(name, value): &(&str, String)| {
            let value = value.replace("PATH", &path);
            (OsString::from(name), OsString::from(value))
        };
        // Without a HOME, bash takes the real one.
        let home = ("HOME".into(), self.path("home").into());
        let usual = [("PATH".into(), path.clone().into()), home];
        let environment = environment.iter().map(pair);
        let setup = HookSetup {
            becket: "/bin/becket".into(),
            home: self.path("home"),
            environment: usual.into_iter().chain(environment).collect(),
        };
        let silent = Verdict::silent(event.clone());
        let cancel = Cancel::new();
        let results = plan.runs(&setup, &cancel).run_awaited();
        let (_, runs) = results.merge(silent.clone(), |_| silent, |it| it);
        let marked = fs::remove_file(self.path("project/marked")).is_ok();
        (runs, marked)
    }
}

fn trust(snapshot: &Snapshot) -> Trust {
    snapshot.project.as_ref().unwrap().trust
}

fn untrusted(snapshot: &Snapshot) -> Vec<(&str, bool)> {
    let hooks = snapshot.hooks.iter();
    hooks.map(|hook| (&*hook.name, hook.untrusted)).collect()
}

fn paths(pins: &Pins) -> Vec<&str> {
    pins.paths().collect()
}

/// A project without a `.becket/`, which is not trusted.
fn strange() -> World {
    let world = World::new();
    fs::remove_dir_all(world.path("project/.becket")).unwrap();
    world
}

#[test]
fn nothing_counts_until_it_is_approved_and_everything_afterwards() {
    let world = World::new();
    let mut loader = world.loader("project");
    let before = loader.current();
    assert_eq!(trust(&before), Trust::No);
    assert!(before.project.as_ref().unwrap().holds);
    assert_eq!(untrusted(&before), [("style", true)]);
    assert_eq!(before.config.guards, []);
    assert!(!before.settings.keys().any(|key| key.starts_with("hooks.")));
    let pins = pins_of(&world.project(), &world.place()).unwrap();
    let preview = world.loader("project").as_if_approved(pins).current();
    assert_eq!(untrusted(&preview), [("style", false)]);
    assert_eq!(trust(&preview), Trust::No, "it is only assumed");
    let pins = world.trust();
    assert_eq!(paths(&pins), [".becket/config.toml", "scripts/style.sh"]);
    let after = loader.current();
    assert_eq!(trust(&after), Trust::Yes);
    assert_eq!(untrusted(&after), [("style", false)]);
    assert_eq!(after.config.guards.len(), 1);
    let standing = |it: &Snapshot| it.files[2].status;
    assert_eq!(standing(&before), FileStatus::NotTrusted);
    assert_eq!(standing(&after), FileStatus::InForce);
    world.revoke();
    assert_eq!(trust(&loader.current()), Trust::No, "revoked");
}

#[test]
fn any_change_asks_again_and_the_way_back_does_not() {
    let (script, config) = ("project/scripts/style.sh", "project/.becket/config.toml");
    let skill = "project/.becket/skills/x/SKILL.md";
    let local = "project/.becket/local.toml";
    // What is there before, and after.
    for (name, before, after) in [
        (script, Some("exit 0"), Some("exit 1")),
        (script, Some("exit 0"), None),
        (script, None, Some("exit 0")),
        (config, Some(CONFIG), Some("")),
        (skill, None, Some("evil")),
        (local, None, Some("")),
    ] {
        let world = World::new();
        let put = |text: Option<&str>| match text {
            Some(text) => world.write(name, text),
            None => drop(fs::remove_file(world.path(name))),
        };
        put(before);
        world.trust();
        settle(&world.path("project/.becket"));
        let mut loader = world.loader("project");
        assert_eq!(trust(&loader.current()), Trust::Yes, "{name}");
        put(after);
        let spoilt = loader.current();
        assert_eq!(trust(&spoilt), Trust::Changed, "{name}");
        assert!(spoilt.hooks.iter().all(|hook| hook.untrusted), "{name}");
        assert_eq!(spoilt.config.guards, [], "{name}");
        assert_eq!(trust(&world.loader("project").current()), Trust::Changed);
        put(before);
        assert_eq!(trust(&loader.current()), Trust::Yes, "{name} as it was");
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
fn a_project_without_a_becket_folder_can_be_trusted_for_its_tools() {
    let world = strange();
    world.write("home/config.toml", "[hooks.typecheck-changed]\n");
    let mut loader = world.loader("project");
    let before = loader.current();
    assert_eq!(untrusted(&before), [("typecheck-changed", true)]);
    assert_eq!(before.project.as_ref().unwrap().message(), None);
    assert!(world.trust().is_empty());
    assert_eq!(untrusted(&loader.current()), [("typecheck-changed", false)]);
    world.write("project/.becket/config.toml", CONFIG);
    assert_eq!(trust(&loader.current()), Trust::Changed);
}

#[test]
fn what_a_run_names_in_the_project_is_pinned() {
    let world = World::new();
    world.write("outside.sh", "");
    for name in ["a.sh", "tools/b.py", "tools/c d.sh", "web/check", "g.js"] {
        world.write(&format!("project/{name}"), "x");
    }
    symlink(world.path("outside.sh"), world.path("project/tools/python")).unwrap();
    let absolute = format!("[\"{}\"]", world.path("project/a.sh").display());
    let line = r#"'a.sh | (python3 "tools/b.py"); "tools/c d.sh"&&${CLAUDE_PROJECT_DIR}/g.js'"#;
    for (run, files) in [
        (r#"["./a.sh", "x"]"#, vec!["a.sh"]),
        (r#"["python3", "tools/../tools/b.py"]"#, vec!["tools/b.py"]),
        (r#"["sh", "-c", "exec a.sh"]"#, vec!["a.sh"]),
        (r#"["x", "--file=tools/b.py"]"#, vec!["tools/b.py"]),
        (r#"["../outside.sh", "src"]"#, vec![]),
        (r#"["tools/python", "-c", "1"]"#, vec!["tools/python"]),
        (r#""cd web && ./check""#, vec!["web/check"]),
        (line, vec!["a.sh", "g.js", "tools/b.py", "tools/c d.sh"]),
        (&absolute, vec!["a.sh"]),
        (r#""npm run lint""#, vec![]),
    ] {
        world.run("project/.becket/config.toml", run);
        let pins = pins_of(&world.project(), &world.place()).unwrap();
        let named = pins.paths().filter(|path| !path.starts_with(".becket"));
        assert_eq!(named.collect::<Vec<_>>(), files, "{run}");
    }
    let long = format!("[\"sh\", \"{}\"]", "a=".repeat(200_000));
    world.run("project/.becket/config.toml", &long);
    assert!(pins_of(&world.project(), &world.place()).is_ok());
}

#[test]
fn links_are_pinned_and_lead_nowhere_else() {
    let world = World::new();
    world.write("project/shared/a.md", "a");
    world.write("outside", "x");
    symlink("../shared", world.path("project/.becket/more")).unwrap();
    let before = world.trust();
    world.write("project/shared/a.md", "b");
    let now = pins_of(&world.project(), &world.place()).unwrap();
    let changed = PinChange {
        path: ".becket/more/a.md".to_owned(),
        kind: PinChangeKind::Changed,
    };
    assert_eq!(now.changes_since(&before), [changed]);
    let link = world.path("project/.becket/out");
    for target in ["../../outside", "../.becket"] {
        symlink(target, &link).unwrap();
        assert!(pins_of(&world.project(), &world.place()).is_err());
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn beckets_own_home_is_no_projects() {
    let world = World::new();
    world.write("you/.becket/config.toml", "");
    let you = world.path("you");
    let own = Place::new(world.path("you/.becket"));
    assert!(pins_of(&you, &own).unwrap().is_empty());
    assert!(!pins_of(&you, &world.place()).unwrap().is_empty());
}

#[test]
fn a_users_hook_that_names_a_file_of_an_untrusted_project_does_not_run() {
    let world = strange();
    world.write("project/sub/README", "");
    for run in [
        r#"["./check"]"#,
        r#""sh -c './check'""#,
        r#""timeout 9 ./check""#,
        r#"["sh", "./check"]"#,
        r#"'"$CLAUDE_PROJECT_DIR"/check'"#,
        r#""cd bin && ./check""#,
    ] {
        world.run("home/config.toml", run);
        for name in ["check", "bin/check", "sub/check"] {
            world.marks(&format!("project/{name}"));
        }
        let around = [("CLAUDE_PROJECT_DIR", world.project().display().to_string())];
        for cwd in ["project", "project/sub"] {
            assert!(!world.run_hooks(cwd, &around).1, "{run} in {cwd}");
        }
        world.trust();
        let (runs, marked) = world.run_hooks("project", &around);
        assert!(marked, "trusted: {run} {runs:?}");
        world.revoke();
    }
    // In the session's folder, which the config knows nothing of.
    fs::remove_file(world.path("project/check")).unwrap();
    world.run("home/config.toml", r#""timeout 9 ./check""#);
    let (runs, marked) = world.run_hooks("project/sub", &[]);
    assert_eq!((runs[0].outcome.as_str(), marked), ("not started", false));
}

#[test]
fn a_repository_cannot_stop_a_users_hook_by_the_name_of_a_file() {
    let world = strange();
    for name in ["true", "timeout", "sh", "psql"] {
        world.marks(&format!("project/{name}"));
    }
    let own = world.path("hooks/own");
    world.marks("hooks/own");
    for run in [
        r#""timeout 9 true; ! grep -q psql""#.to_owned(),
        format!("[\"sh\", \"{}\"]", own.display()),
    ] {
        world.run("home/config.toml", &run);
        let (runs, _) = world.run_hooks("project", &[]);
        assert_eq!(runs[0].outcome.as_str(), "ok", "{run}");
    }
}

#[test]
fn path_entries_inside_an_untrusted_project_are_dropped_for_every_hook() {
    let world = strange();
    world.marks("project/evil/jq");
    world.marks("elsewhere/tool");
    let evil = world.path("project/evil").display().to_string();
    symlink(&evil, world.path("link")).unwrap();
    let link = world.path("link").display().to_string();
    // The folder of the daemon that resolves them is another one.
    symlink("/proc/self/cwd/evil", world.path("of-process")).unwrap();
    for run in [
        r#"["jq", "--version"]"#,
        r#""jq --version""#,
        r#"["env", "jq"]"#,
    ] {
        world.run("home/config.toml", run);
        for path in [
            format!("{evil}:PATH"),
            format!("{link}:PATH"),
            "evil:PATH".into(),
            "/proc/self/cwd/evil:PATH".into(),
            "/proc/thread-self/cwd/evil:PATH".into(),
            "/dev/fd/../cwd/evil:PATH".into(),
            "/tmp/../proc/self/task/../cwd/evil:PATH".into(),
            format!("{}:PATH", world.path("of-process").display()),
        ] {
            let (runs, marked) = world.run_hooks("project", &[("PATH", path)]);
            assert!(!marked, "{run}: {runs:?}");
        }
        assert!(
            !world
                .run_hooks("project/evil", &[("PATH", String::new())])
                .1
        );
    }
    world.trust();
    let path = [("PATH", format!("{evil}:PATH"))];
    assert!(world.run_hooks("project", &path).1, "trusted");
    world.revoke();
    world.run("home/config.toml", r#"["tool"]"#);
    let path = [(
        "PATH",
        format!("{evil}:{}:PATH", world.path("elsewhere").display()),
    )];
    assert!(world.run_hooks("project", &path).1, "the others stay");
}

#[test]
fn what_lies_around_beckets_own_home_is_the_users() {
    let world = strange();
    world.run("home/config.toml", r#"["tool"]"#);
    let files = ConfigFiles {
        system: world.path("system.toml"),
        user: world.path("home/config.toml"),
        project: Some(world.project()),
        managed: world.path("managed.toml"),
    };
    fs::create_dir(world.path("project/home")).unwrap();
    let place = Place::new(world.path("project/home"));
    let snapshot = Loader::with_files(&files, &place, false).current();
    assert_eq!(snapshot.hooks[0].untrusted_project, None);
}

#[test]
fn no_variable_leads_a_shell_elsewhere() {
    let world = World::new();
    world.marks("project/evil/web/check");
    world.write("project/web/README", "");
    let evil = world.path("project/evil").display().to_string();
    let mark = world.path("project/marked").display().to_string();
    world.write("project/evil/env.sh", &format!("touch '{mark}'"));
    let file = format!("{evil}/env.sh");
    let function = format!("() {{ touch '{mark}'; }}");
    for (run, name, value) in [
        (r#""cd web && ./check""#, "CDPATH", evil.clone()),
        (r#""cd - && web/check""#, "OLDPWD", evil),
        (r#"["bash", "-c", "true"]"#, "BASH_ENV", file.clone()),
        (r#"["sh", "-i", "-c", "true"]"#, "ENV", file),
        (
            r#"["bash", "-c", "true; tool"]"#,
            "BASH_FUNC_tool%%",
            function,
        ),
    ] {
        world.run("project/.becket/config.toml", run);
        world.trust();
        let (runs, marked) = world.run_hooks("project", &[(name, value)]);
        assert_eq!(runs.len(), 1, "{run}");
        assert!(!marked, "{run} with {name}: {runs:?}");
    }
}

#[test]
fn an_approved_hook_runs_the_approved_files_wherever_the_session_works() {
    let world = World::new();
    world.marks("project/scripts/style.sh");
    world.write("project/sub/scripts/style.sh", "exit 0");
    for (run, runs) in [
        (r#"["scripts/style.sh"]"#, true),
        (r#"["sh", "scripts/style.sh"]"#, true),
        (r#"'"$CLAUDE_PROJECT_DIR"/scripts/style.sh'"#, true),
        (r#"'cd "$CLAUDE_PROJECT_DIR" && scripts/style.sh'"#, true),
        (r#""sh scripts/style.sh""#, false),
    ] {
        world.run("project/.becket/config.toml", run);
        world.trust();
        let (rows, marked) = world.run_hooks("project/sub", &[]);
        assert_eq!(marked, runs, "{run}: {rows:?}");
        assert_eq!(rows[0].outcome.as_str() == "not started", !runs, "{run}");
    }
}

#[test]
fn a_hook_that_changes_the_next_one_ends_it() {
    let world = World::new();
    let text = "[hooks.first]\non = \"PreToolUse\"\nrewrites = true\nrun = \"cp evil scripts/style.sh\"\n\
        [hooks.second]\non = \"PreToolUse\"\nrun = \"sh scripts/style.sh\"\n\
        [hooks.lint-changed]\non = \"PreToolUse\"\ntools = \"Bash\"\ncommand = \"sh scripts/style.sh\"\n";
    world.write("project/.becket/config.toml", text);
    world.write("project/evil", "touch marked");
    world.trust();
    world.settle();
    let (runs, marked) = world.run_hooks("project", &[]);
    let ends: Vec<_> = runs
        .iter()
        .map(|run| (&*run.hook, run.outcome.as_str()))
        .collect();
    let none = "not started";
    let expected = [("first", "ok"), ("second", none), ("lint-changed", none)];
    assert_eq!(ends, expected);
    assert!(!marked);
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
    assert_eq!(key_of(&world.path("nothing")), None);
}

#[test]
fn a_damaged_book_counts_as_empty_and_is_set_aside() {
    let world = World::new();
    world.trust();
    let file = world.place().trust();
    fs::write(&file, "{\"projects\": 3}").unwrap();
    let mut loader = world.loader("project");
    let snapshot = loader.current();
    assert_eq!(trust(&snapshot), Trust::No);
    let told: Vec<String> = snapshot.errors().map(ToString::to_string).collect();
    assert!(told[0].contains("is damaged"), "{told:?}");
    let aside = change(&world.place(), |_| {}).unwrap().unwrap();
    assert_eq!(fs::read(&aside).unwrap(), b"{\"projects\": 3}");
    assert_eq!(
        TrustStore::read(&world.place()).unwrap(),
        TrustStore::default()
    );
    assert_eq!(loader.current().errors().count(), 0);
}

#[test]
fn a_trusted_folder_that_was_removed_is_told_of() {
    let world = World::new();
    world.trust();
    let mut loader = world.loader("project");
    assert_eq!(trust(&loader.current()), Trust::Yes);
    fs::remove_dir_all(world.path("project/.becket")).unwrap();
    let says = loader.current().project.as_ref().and_then(Project::message);
    assert!(says.unwrap().contains(".becket/config.toml"));
}
