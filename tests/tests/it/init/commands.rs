//! What doctor says of the slash commands' files, and that what mends them does.

use std::fs;

use becket_tests::world::World;
use serde_json::Value;

/// What doctor says of the commands: its state, its words, and how to mend it.
fn commands(world: &World, project: Option<&std::path::Path>) -> (String, String, String) {
    let mut doctor = world.becket(["doctor", "--json"]);
    if let Some(project) = project {
        doctor.current_dir(project);
    }
    let told = doctor.output().expect("becket runs").stdout;
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    let checks = told["checks"].as_array().expect("checks");
    let check = checks.iter().rfind(|check| check["name"] == "commands");
    let check = check.unwrap_or_else(|| panic!("nothing of commands: {told:#}"));
    let field = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
    (field("state"), field("what"), field("mend"))
}

#[test]
fn doctor_finds_what_is_wrong_with_the_slash_commands() {
    let world = World::new();
    world.run(&["init"]);
    let (state, what, _) = commands(&world, None);
    assert_eq!(state, "good", "{what}");
    let folder = world.home.join(".claude/commands/hook");

    fs::remove_file(folder.join("enable.md")).expect("gone");
    let (state, what, mend) = commands(&world, None);
    assert_eq!((&*state, &*mend), ("warning", "becket init"));
    assert!(
        what.starts_with("missing") && what.ends_with(": enable.md"),
        "{what}"
    );
    world.run(&["init"]);
    assert_eq!(commands(&world, None).0, "good");

    // As another becket wrote it: ours by its own word, and with another home in it.
    let elsewhere = world.root().join("elsewhere");
    let done = world.becket(["init", "--home"]).arg(&elsewhere).output();
    assert!(done.expect("becket runs").status.success());
    let (state, what, mend) = commands(&world, None);
    assert_eq!((&*state, &*mend), ("warning", "becket init"));
    assert!(what.starts_with("another becket's"), "{what}");
    world.run(&["init"]);
    assert_eq!(commands(&world, None).0, "good");

    let file = folder.join("status.md");
    let mine = fs::read_to_string(&file).expect("a command") + "mine\n";
    fs::write(&file, &mine).expect("a command");
    world.run(&["init"]);
    let (state, what, mend) = commands(&world, None);
    assert_eq!(state, "warning");
    assert!(what.ends_with(": status.md"), "{what}");
    assert!(mend.starts_with("keep it if it is yours"), "{mend}");
    fs::remove_file(&file).expect("gone");
    world.run(&["init"]);
    assert_eq!(commands(&world, None).0, "good");
}

#[test]
fn a_projects_two_settings_share_their_commands() {
    let world = World::new();
    world.run(&["init"]);
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    for scope in ["--project", "--local", "--project"] {
        let done = world.becket(["init", scope]).current_dir(&project).output();
        assert!(done.expect("becket runs").status.success());
        let (state, what, _) = commands(&world, Some(&project));
        assert_eq!(state, "good", "{scope}: {what}");
        assert!(what.contains("shop/.claude/commands/hook"), "{what}");
    }
    fs::remove_file(project.join(".claude/commands/hook/enable.md")).expect("gone");
    let (state, _, mend) = commands(&world, Some(&project));
    assert_eq!(state, "warning");
    assert!(mend.starts_with("becket init --"), "{mend}");
}
