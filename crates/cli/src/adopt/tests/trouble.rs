//! What comes in between: other writers, crashes, files that nobody may write, odd texts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::super::carry::{plans, prepare};
use super::super::table::texts;
use super::super::{adopt, undo};
use super::{adopt_all, can, command, config, found, registered, stop, undo_all};
use crate::settings::{self, Strict};

#[test]
fn whoever_writes_in_between_is_not_overwritten() {
    let (home, before) = registered(&stop(&command("a")));
    let here = found(&home);
    let registration = settings::registration_of(&home.world, Strict::Keep).unwrap();
    let hooks = can(&here);
    let plans = plans(&here, &hooks);
    let prepared = prepare(&home.world, &plans[0], &registration).unwrap();
    let theirs = format!("{before} ");
    fs::write(home.file(), &theirs).unwrap();
    assert!(prepared.commit(&home.world, 0o600).unwrap().is_none());
    assert_eq!(
        (home.text(), config(&home)),
        (theirs.clone(), None),
        "nothing was done"
    );
    assert!(undo_all(&home).is_empty(), "and nothing remembered");

    let prepared = prepare(&home.world, &plans[0], &registration).unwrap();
    fs::write(home.world.place.config(), "# new\n").unwrap();
    assert!(prepared.commit(&home.world, 0o600).unwrap().is_none());
    assert_eq!(
        (home.text(), config(&home).unwrap()),
        (theirs, "# new\n".to_owned())
    );

    fs::write(home.file(), before.replace("\"a\"", "\"b\"")).unwrap();
    let error = adopt(&home.world, &here, &hooks, false).unwrap_err();
    assert!(
        format!("{error:#}").contains("was changed meanwhile"),
        "{error:#}"
    );
    assert_eq!(config(&home).unwrap(), "# new\n");
}

#[test]
fn after_a_crash_between_the_two_files_it_goes_on_or_back() {
    for goes_on in [true, false] {
        let (home, before) = registered(&stop(&command("a")));
        adopt_all(&home);
        let after = home.text();
        // The settings were never written.
        fs::write(home.file(), &before).unwrap();
        if goes_on {
            let here = found(&home);
            assert!(here.hooks[0].is_written && here.hooks[0].name == "a");
            adopt_all(&home);
            assert_eq!(home.text(), after);
            assert_eq!(config(&home).unwrap().matches("[hooks.").count(), 1);
        }
        assert!(undo_all(&home)[0].exact);
        assert_eq!((home.text(), config(&home)), (before, None));
    }
}

#[test]
fn what_nobody_may_write_is_not_written() {
    let read_only = |path: PathBuf, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let (home, before) = registered(&stop(&command("a")));
    fs::create_dir_all(home.world.place.home()).unwrap();
    fs::write(home.world.place.config(), "# mine\n").unwrap();
    for file in [home.file(), home.world.place.config()] {
        read_only(file.clone(), 0o444);
        let here = found(&home);
        let error = adopt(&home.world, &here, &can(&here), false).unwrap_err();
        assert!(
            format!("{error:#}").contains(&*file.to_string_lossy()),
            "{error:#}"
        );
        assert_eq!(
            (home.text(), config(&home).unwrap()),
            (before.clone(), "# mine\n".to_owned())
        );
        read_only(file, 0o600);
    }
    adopt_all(&home);
    let after = home.text();
    read_only(home.world.place.config(), 0o444);
    undo(&home.world, false).unwrap_err();
    assert_eq!(home.text(), after, "all or nothing");
    read_only(home.world.place.config(), 0o600);
    undo_all(&home);
    assert_eq!(
        (home.text(), config(&home).unwrap()),
        (before, "# mine\n".to_owned())
    );
}

#[test]
fn a_config_that_does_not_parse_changes_nothing() {
    let (home, before) = registered(&stop(&command("a")));
    fs::create_dir_all(home.world.place.home()).unwrap();
    for broken in [
        "[store\n",
        "hooks = {}\n",
        "hooks = 1\n",
        "x = \"",
        "[[hooks.b]]\n[hooks.b.c]\na=\n",
    ] {
        fs::write(home.world.place.config(), broken).unwrap();
        let here = found(&home);
        let error = adopt(&home.world, &here, &can(&here), false).unwrap_err();
        assert!(format!("{error:#}").contains("config.toml:"), "{error:#}");
        assert_eq!(
            (home.text(), config(&home).unwrap()),
            (before.clone(), broken.to_owned())
        );
    }
}

#[test]
fn links_are_kept() {
    let (home, before) = registered(&stop(&command("a")));
    let (real, real_config) = (
        home.world.cwd.join("real.json"),
        home.world.cwd.join("real.toml"),
    );
    fs::rename(home.file(), &real).unwrap();
    symlink(&real, home.file()).unwrap();
    fs::write(&real_config, "\r\n# mine\r\n").unwrap();
    fs::create_dir_all(home.world.place.home()).unwrap();
    symlink(&real_config, home.world.place.config()).unwrap();
    adopt_all(&home);
    assert!(home.file().is_symlink() && home.world.place.config().is_symlink());
    let text = fs::read_to_string(&real_config).unwrap();
    assert!(text.contains("[hooks.a]\r\n"));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    undo_all(&home);
    assert!(home.file().is_symlink() && home.world.place.config().is_symlink());
    assert_eq!(
        (home.text(), config(&home).unwrap()),
        (before, "\r\n# mine\r\n".to_owned())
    );
}

#[test]
fn any_command_survives_the_config() {
    let odd = [
        "echo \"a\" 'b' \\\\ $x",
        "a\nb\tc\r",
        "\u{1b}[31m",
        "'''\"\"\"",
        "é🪝",
        "#",
        "\u{7f}\u{85}",
    ];
    for line in odd {
        for shell in [true, false] {
            let value = match shell {
                true => serde_json::json!({"type": "command", "command": line}),
                false => {
                    serde_json::json!({"type": "command", "command": "x", "args": [line, "y"]})
                }
            };
            let (home, before) = registered(&stop(&value.to_string()));
            let expected = found(&home).hooks[0].program.clone();
            adopt_all(&home);
            let table: toml::Table = config(&home).unwrap().parse().unwrap();
            let (_, hook) = table["hooks"].as_table().unwrap().iter().next().unwrap();
            let run = match &hook["run"] {
                toml::Value::String(line) => becket_engine::run::Program::Shell(line.clone()),
                words => becket_engine::run::Program::List(texts(words)),
            };
            assert_eq!(run, expected, "{line:?}");
            undo_all(&home);
            assert_eq!(home.text(), before);
        }
    }
}
