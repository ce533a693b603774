//! A person's own hooks in a project that they do not trust: they run, and start nothing of it.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::hooks::carry::{self, Kit, STRANGERS};

impl World {
    /// A program that leaves a mark in the project.
    fn marks(&self, name: &str) {
        let mark = self.path("project/marked").display().to_string();
        self.write(name, &format!("#!/bin/sh\ntouch '{mark}'\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), mode).unwrap();
    }

    fn own(&self, run: &str) {
        let text = format!("[hooks.mine]\non = \"PreToolUse\"\nrun = {run}\n");
        self.write("home/config.toml", &text);
    }
}

fn strange() -> World {
    let world = World::new();
    fs::remove_dir_all(world.path("project/.becket")).unwrap();
    world
}

#[test]
fn no_word_of_ones_own_starts_a_file_of_a_strange_project() {
    let world = strange();
    for run in [
        r#""sh -c './check'""#,
        r#"["sh", "-ce", "./check"]"#,
        r#"["sh", "-c", "-e", "./check"]"#,
        r#""eval ./check""#,
        r#""timeout 9 ./check""#,
        r#"["env", "./check"]"#,
        r#"["sh", "check"]"#,
    ] {
        world.marks("project/check");
        world.own(run);
        let listed = untrusted(&world.loader("project").current());
        assert_eq!(listed, [("mine".to_owned(), true)], "{run}");
        let (runs, marked) = world.carry_out("project", &[]);
        assert!(runs.is_empty() && !marked, "{run}");
        world.trust();
        let (runs, marked) = world.carry_out("project", &[]);
        assert!(marked, "trusted: {run} {runs:?}");
        change(&world.place(), |book| book.projects.clear()).unwrap();
    }
}

#[test]
fn what_was_not_there_when_the_config_was_read_is_not_started_either() {
    let world = strange();
    world.own(r#""timeout 9 ./check""#);
    world.write("project/sub/README", "");
    let listed = untrusted(&world.loader("project").current());
    assert_eq!(
        listed,
        [("mine".to_owned(), false)],
        "there is no such file"
    );
    // In the folder that the session works in, which the config knows nothing of.
    world.marks("project/sub/check");
    let (runs, marked) = world.carry_out("project/sub", &[]);
    assert!(!marked, "{runs:?}");
    assert!(runs[0].note.as_ref().unwrap().ends_with(STRANGERS));
}

#[test]
fn the_environment_leads_nothing_of_ones_own_into_a_strange_project() {
    let world = strange();
    let evil = world.path("project/evil").display().to_string();
    world.marks("project/evil/jq");
    world.write("project/sub/README", "");
    let before = [("PATH", format!("{evil}:PATH"))];
    world.own(r#"["jq", "."]"#);
    let (runs, marked) = world.carry_out("project", &before);
    assert!(!marked, "{runs:?}");
    assert!(runs[0].note.as_ref().unwrap().contains("`becket trust`"));
    world.own(r#""true && timeout 9 jq .""#);
    assert!(!world.carry_out("project", &before).1);
    world.own(r#"["timeout", "9", "jq"]"#);
    assert!(!world.carry_out("project", &before).1);
    assert!(
        !world
            .carry_out("project/evil", &[("PATH", ":PATH".into())])
            .1
    );
    world.own(r#"["true"]"#);
    let (runs, _) = world.carry_out("project", &before);
    assert_eq!(runs[0].outcome, "ok", "that one is found elsewhere");
    world.own(r#"["jq", "."]"#);
    world.trust();
    assert!(world.carry_out("project", &before).1, "trusted");
}

#[test]
fn what_lies_around_beckets_own_home_is_the_persons() {
    let world = strange();
    world.marks("project/bin/tool");
    world.own(r#"["tool"]"#);
    let path = [("PATH", world.path("project/bin").display().to_string())];
    assert!(!world.carry_out("project", &path).1);
    let files = Files {
        system: world.path("system.toml"),
        user: world.path("home/config.toml"),
        project: Some(world.project()),
        managed: world.path("managed.toml"),
    };
    fs::create_dir(world.path("project/home")).unwrap();
    let place = Place::new(world.path("project/home"));
    let snapshot = Loader::with_files(&files, &place, false).current();
    assert_eq!(snapshot.hooks[0].strange, None);
}

#[test]
fn no_variable_leads_a_shell_elsewhere() {
    let world = World::new();
    world.marks("project/evil/web/check");
    world.write("project/web/check", "#!/bin/sh\n");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(world.path("project/web/check"), mode).unwrap();
    let evil = world.path("project/evil").display().to_string();
    let mark = world.path("project/marked").display().to_string();
    world.write("project/evil/env.sh", &format!("touch '{mark}'"));
    let file = format!("{evil}/env.sh");
    for (run, name, value) in [
        (r#""cd web && ./check""#, "CDPATH", evil.clone()),
        (r#""cd - && web/check""#, "OLDPWD", evil),
        (r#"["bash", "-c", "true"]"#, "BASH_ENV", file.clone()),
        (r#"["sh", "-i", "-c", "true"]"#, "ENV", file),
        (
            r#"["bash", "-c", "true; tool"]"#,
            "BASH_FUNC_tool%%",
            format!("() {{ touch '{mark}'; }}"),
        ),
    ] {
        world.run(run);
        let config = fs::read_to_string(world.path("project/.becket/config.toml")).unwrap();
        let config = config.replace("Stop", "PreToolUse");
        world.write("project/.becket/config.toml", &config);
        world.trust();
        let (runs, marked) = world.carry_out("project", &[(name, value)]);
        assert_eq!(runs.len(), 1, "{run}");
        assert!(!marked, "{run} with {name}: {runs:?}");
    }
}

#[test]
fn what_leads_a_shell_is_in_no_hooks_environment() {
    let world = strange();
    world.own(r#"["true"]"#);
    let text = "[hooks.lint-changed]\n[hooks.theirs]\non = \"Stop\"\nrun = \"true\"\n";
    world.write("project/.becket/config.toml", text);
    world.trust();
    let names = "A BASH_ENV CDPATH ENV OLDPWD SHELLOPTS BASHOPTS BASH_FUNC_x%% PATH BASH_FUNCTION";
    let kit = Kit {
        becket: "/bin/becket".into(),
        home: world.path("home"),
        environment: names.split(' ').map(|it| (it.into(), "x".into())).collect(),
    };
    let snapshot = world.loader("project").current();
    assert_eq!(snapshot.hooks.len(), 3);
    for hook in &snapshot.hooks {
        let left = carry::environment(hook, &kit, &world.project());
        let left = left.iter().filter(|(_, value)| value == "x");
        let left: Vec<_> = left.map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(left, ["A", "PATH", "BASH_FUNCTION"], "{}", hook.name);
    }
}
