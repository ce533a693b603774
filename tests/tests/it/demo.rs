//! `becket demo`, and `becket` where there is no terminal.

use std::fs;
use std::path::Path;

use becket_tests::world::{World, call};

/// All names below a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_demo_plays_in_its_own_home_and_leaves_nothing() {
    let world = World::new();
    let temp = world.root().join("temp");
    fs::create_dir(&temp).expect("a folder");
    let before = names(world.root());
    let mut demo = world.becket(["demo", "--plain", "--speed", "10000"]);
    demo.env("TMPDIR", &temp);
    let called = call(demo, b"");
    let said = called.stdout.clone();
    assert_eq!(called.code, Some(0), "{said}{called:?}");
    for event in [
        "SubagentStart",
        "PermissionRequest",
        "PermissionDenied",
        "PostCompact",
        "StopFailure",
        "SessionEnd",
    ] {
        assert!(said.contains(event), "{event}: {said}");
    }
    assert!(!said.contains('\u{1b}'));
    assert_eq!(names(world.root()), before);
    assert!(world.daemons().is_empty());
}

#[test]
fn the_picture_is_the_same_each_time() {
    let world = World::new();
    let draw = |name: &str| {
        let file = world.root().join(name);
        world.run(&["demo", "--svg", &file.to_string_lossy()]);
        fs::read_to_string(file).expect("a picture")
    };
    let first = draw("one.svg");
    assert!(first.starts_with("<svg "));
    assert_eq!(first, draw("two.svg"));
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let world = World::new();
    let called = call(world.becket::<&str>([]), b"");
    let said = called.stdout.clone();
    assert_eq!((called.code, called.stderr.len()), (Some(0), 0), "{said}");
    assert!(
        said.lines().count() == 2 && !said.contains('\u{1b}'),
        "{said}"
    );
    let refused = call(world.becket(["demo"]), b"");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("hint: becket demo --plain"));
}
