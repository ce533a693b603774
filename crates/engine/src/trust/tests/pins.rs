//! What an approval pins.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;
use crate::hooks::Action;
use crate::run::Program;
use crate::trust::start::Words;

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
    assert_eq!(run(r#"["awk", "-ftools/b.py"]"#), ["tools/b.py"]);
    assert_eq!(run(r#""awk -nftools/b.py""#), ["tools/b.py"]);
    assert_eq!(run(r#"["x", "--file=tools/b.py"]"#), ["tools/b.py"]);
    assert_eq!(run(r#"["x", "--set=file=a.sh"]"#), ["a.sh"]);
    assert_eq!(run(r#"["x", "-fé", "-", "--", "-1a.sh"]"#), [""; 0]);
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
fn no_number_of_words_hides_a_file() {
    let world = World::new();
    world.write("project/z.sh", "x");
    let run = |decoys: usize| {
        let words: String = (0..decoys).map(|n| format!("\"a{n}\", ")).collect();
        let text = format!("[hooks.x]\non = \"Stop\"\nrun = [\"sh\", {words} \"z.sh\"]\n");
        world.write("project/.becket/config.toml", &text);
        pins_of(&world.project(), &world.place())
    };
    assert!(run(1000).unwrap().names("z.sh"));
    let refused = run(2000);
    assert!(
        matches!(refused, Err(Refusal::TooMuch { .. })),
        "{refused:?}"
    );
    let long = "a=".repeat(200_000);
    let text = format!("[hooks.x]\non = \"Stop\"\nrun = [\"sh\", \"{long}\"]\n");
    world.write("project/.becket/config.toml", &text);
    assert!(pins_of(&world.project(), &world.place()).is_ok());
}

#[test]
fn a_bare_word_that_the_path_finds_in_the_project_must_be_approved() {
    let world = World::new();
    let program = |name: &str| {
        world.write(name, "#!/bin/sh");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(world.path(name), mode).unwrap();
    };
    program("outside/bin/lint");
    program("project/bin/lint");
    program("project/bin/own");
    program("project/.becket/bin/ours");
    fs::create_dir(world.path("project/sub")).unwrap();
    fs::create_dir(world.path("project/links")).unwrap();
    symlink(
        world.path("outside/bin/lint"),
        world.path("project/links/lint"),
    )
    .unwrap();
    fs::create_dir(world.path("folders")).unwrap();
    symlink(world.path("project/bin"), world.path("folders/bin")).unwrap();
    let (root, outside) = (world.project(), world.path("outside/bin"));
    let runs_with = |run: &str, path: &str, cwd: &str| {
        let text = format!("[hooks.x]\non = \"Stop\"\nrun = {run}\n");
        world.write("project/.becket/config.toml", &text);
        world.trust();
        let snapshot = world.loader("project").current();
        assert!(!snapshot.hooks[0].untrusted);
        let path = path.replace("ROOT", root.to_str().unwrap());
        let path = path.replace("OUT", outside.to_str().unwrap());
        let path = path.replace("LINK", world.path("folders/bin").to_str().unwrap());
        !snapshot.hooks[0].resolves_inside(&world.path(cwd), OsStr::new(&path))
    };
    for (run, path, cwd, runs) in [
        (r#"["lint", "x"]"#, "OUT", "project", true),
        (r#"["lint", "x"]"#, "ROOT/bin:OUT", "project", false),
        (r#"["lint", "x"]"#, "OUT:ROOT/bin", "project", true),
        (r#"["lint", "x"]"#, "LINK", "project", false),
        (r#"["lint", "x"]"#, "ROOT/links", "project", false),
        (r#"["lint", "x"]"#, "bin:OUT", "project", false),
        (r#"["lint", "x"]"#, "bin:OUT", "project/sub", true),
        (r#"["lint", "bin/lint"]"#, "ROOT/bin", "project", true),
        (r#"["true", "own"]"#, "ROOT/bin", "project", false),
        (r#"["timeout", "9", "own"]"#, "ROOT/bin", "project", false),
        (r#"["true", "x=own"]"#, "ROOT/bin", "project", false),
        (r#"["true", "other"]"#, "ROOT/bin", "project", true),
        (r#"["ours"]"#, "ROOT/.becket/bin", "project", true),
        (r#"["sh", "-c", "cd x; own"]"#, "ROOT/bin", "project", false),
        (r#""true && own""#, "ROOT/bin", "project", false),
        (r#""bin/own""#, "ROOT/bin", "project", true),
        (r#"["missing"]"#, "ROOT/bin", "project", true),
    ] {
        assert_eq!(
            runs_with(run, path, cwd),
            runs,
            "{run} with {path} in {cwd}"
        );
    }
}

#[test]
fn the_command_of_a_built_in_is_looked_up_too() {
    let world = World::new();
    let config = "[hooks.lint-changed]\ncommand = \"own {file}\"\n";
    world.write("project/.becket/config.toml", config);
    world.write("project/bin/own", "#!/bin/sh");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(world.path("project/bin/own"), mode).unwrap();
    world.trust();
    let snapshot = world.loader("project").current();
    let bin = world.path("project/bin");
    let inside = |path: &OsStr| snapshot.hooks[0].resolves_inside(&world.path("home"), path);
    assert!(inside(bin.as_os_str()));
    assert!(inside(OsStr::new("bin")), "it runs at the root");
    assert!(!inside(OsStr::new("/usr/bin:/bin")));
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

proptest! {
    #[test]
    fn words_never_panic_and_hold_what_stands_between_spaces(
        line in "[a-z./;|&()<>`'\"\\\\$= -]{0,40}",
        name in "[a-z]{1,8}(/[a-z]{1,8}){0,2}",
    ) {
        let words = |line: String| Words::of(&Program::Shell(line), Path::new("/p")).names;
        words(line.clone());
        let quoted = line.matches(['"', '\'']).count() > 0;
        if !quoted {
            let found = words(format!("{line} {name} {line}"));
            prop_assert!(found.contains(&name));
        }
        let list = vec!["sh".to_owned(), "-c".to_owned(), format!("cd x && {name} -v")];
        let found = Words::of(&Program::List(list), Path::new("/p")).names;
        prop_assert!(found.contains(&name));
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
