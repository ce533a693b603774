//! What doctor says, word for word, and what it does not say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use becket_tests::world::World;
use serde_json::Value;

/// What doctor says of one thing.
fn told(world: &World, name: &str) -> Vec<String> {
    let (_, told) = world.doctor();
    let checks = told["checks"].as_array().expect("checks").iter();
    let of_it = checks.filter(|check| {
        check["name"]
            .as_str()
            .is_some_and(|it| it.starts_with(name))
    });
    let text = |check: &Value| check["what"].as_str().unwrap_or_default().to_owned();
    of_it.map(text).collect()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_config_that_nobody_else_comes_near_may_have_any_mode() {
    let world = World::new();
    world.run(&["init"]);
    world.start_daemon();
    let config = world.path("config.toml");
    fs::write(&config, "").expect("a config");
    set_mode(&config, 0o644);
    let open = |path: &Path| {
        let told = told(&world, "home");
        let said = format!("{} is open to others", path.display());
        told.iter().any(|what| what.starts_with(&said))
    };
    assert!(!open(&config));
    set_mode(&world.becket_home, 0o755);
    assert!(open(&config) && open(&world.becket_home));
    set_mode(&world.becket_home, 0o700);
    // Where it is a link, what counts is where it leads.
    let shared = world.home.join("shared");
    fs::create_dir_all(&shared).expect("a folder");
    set_mode(&shared, 0o755);
    fs::rename(&config, shared.join("config.toml")).expect("a file");
    std::os::unix::fs::symlink(shared.join("config.toml"), &config).expect("a link");
    assert!(open(&config));
}

#[test]
fn without_a_daemon_the_canary_is_said_to_be_judged_so() {
    let world = World::new();
    world.run(&["init"]);
    let canary = |variables: &[(&str, &str)]| {
        let mut doctor = world.becket(["doctor"]);
        let output = doctor.envs(variables.iter().copied()).output();
        String::from_utf8(output.expect("becket").stdout).expect("text")
    };
    let alone = canary(&[("BECKET_NO_DAEMON", "1")]);
    assert!(
        alone.contains(" ms (as seen from here, judged without a daemon)"),
        "{alone}"
    );
    let asked = canary(&[]);
    assert!(
        asked.contains(" ms (as seen from here, by the daemon)"),
        "{asked}"
    );
}
