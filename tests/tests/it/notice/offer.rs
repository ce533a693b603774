//! Notices, as `becket up` offers them.

use std::fs;

use becket_tests::terminal::Terminal;
use becket_tests::world::World;

use super::{SESSION, asks};

#[test]
fn up_writes_what_was_chosen_and_asks_nobody_who_is_not_there() {
    let world = World::new();
    world.run(&["up"]);
    assert!(!world.path("config.toml").exists());
    let said = world.run(&["up", "--notice", "osc777"]);
    assert!(said.contains("notices are on: osc777"), "{said}");
    let config = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert_eq!(config, "[notice]\non = \"all\"\nhow = \"osc777\"\n");
    world.run(&["up", "--notice", "off"]);
    assert!(asks(&world, SESSION).is_silent());
    fs::write(world.path("config.toml"), "[notice").expect("a config");
    let refused = world.output(&["up", "--notice", "bell"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("becket config check"), "{stderr}");
}

#[test]
fn up_asks_a_person_once() {
    let world = World::new();
    let up = |answer: &str, hooks: Option<&str>| {
        let command = [
            world.programs.join("becket"),
            "up".into(),
            "--no-view".into(),
        ];
        let command = command.map(std::ffi::OsString::from);
        let env = [
            ("HOME", world.home.clone()),
            ("BECKET_HOME", world.becket_home.clone()),
            ("CLAUDE_CONFIG_DIR", world.home.join(".claude")),
            ("PATH", "/usr/bin:/bin".into()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.display().to_string()));
        let terminal = match Terminal::start(&command, &env, &world.home, (120, 40)) {
            Ok(terminal) => terminal,
            Err(why) => {
                becket_tests::skip::skip("up_asks_a_person_once", &why);
                return None;
            }
        };
        if !answer.is_empty() {
            terminal.wait_text("[y/N]");
            terminal.type_text(answer);
            terminal.press("Enter");
        }
        if let Some(hooks) = hooks {
            terminal.wait_text("Which ones?");
            terminal.type_text(hooks);
            terminal.press("Enter");
        }
        // Whether it ended well stands on the screen: tmux does not always know how a program ended.
        terminal.wait_end();
        terminal.wait_text("Start Claude Code as always");
        Some(terminal.history())
    };
    for (answer, config) in [("n", false), ("what", false), ("y", true)] {
        if up(answer, Some("")).is_none() {
            return;
        }
        assert_eq!(world.path("config.toml").exists(), config, "{answer}");
    }
    let chosen = up("", Some("check-todos, 12")).expect("a terminal");
    assert!(!chosen.contains("[y/N]"), "{}", chosen.0);
    assert!(chosen.contains("on from now: check-todos"), "{}", chosen.0);
    let config = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert!(
        config.contains("[hooks.check-todos]\nenabled = true\n"),
        "{config}"
    );
    let again = up("", None).expect("a terminal");
    assert!(!again.contains("Which ones?"), "{}", again.0);
}
