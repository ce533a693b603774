//! Hooks moved and given back, on real files in a throw-away home.

use std::fs::{self};
use std::path::PathBuf;

use becket_engine::config::{Level, Source, parse_layer};
use proptest::prelude::*;

use crate::adopt::adoption::{plans, prepare};
use crate::adopt::config_table::texts;
use crate::adopt::{
    Adoption, ForeignHooks, HookCandidate, Obstacle, UndoneAdoption, adopt, find_hooks, list_table,
    undo,
};
use crate::settings::tests::any;
use crate::settings::tests::files::Home;
use crate::settings::{self, EntryState, Strict, inspect};
use crate::ui::style::{Glyphs, Look};

/// Hooks as people have them: formatters, guards, notices, logs; comments and odd indentation.
pub fn forty() -> String {
    let mut events = String::new();
    let all = [
        (
            "PreToolUse",
            "Bash",
            "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.sh",
        ),
        (
            "PostToolUse",
            "Edit|MultiEdit|Write",
            "npx prettier --write",
        ),
        ("Stop", "", "say done"),
        (
            "Notification",
            "permission_prompt",
            "notify-send 'Claude needs you'",
        ),
        ("UserPromptSubmit", "", "python3 ~/.claude/hooks/context.py"),
        ("SessionStart", "startup|resume", "cat CONTRIBUTING.md"),
        ("SubagentStop", "", "echo \\\"$(date) sub\\\" >> ~/sub.log"),
        ("PreCompact", "auto", "node ./scripts/save.mjs"),
    ];
    for (nth, (event, matcher, command)) in all.iter().enumerate() {
        let comma = if nth + 1 < all.len() { "," } else { "" };
        events += &format!("    // {event}\n    \"{event}\": [\n");
        for group in 0..2 {
            events += &format!("      {{ \"matcher\": \"{matcher}\",\n  \t\"hooks\": [\n");
            for number in 0..if group == 0 { 3 } else { 2 } {
                let more = match number {
                    0 => ", \"timeout\": 30",
                    1 => "",
                    _ => ",\"async\" : true /* slow */",
                };
                let tail = if number == 1 && group == 1 { "" } else { "," };
                events += &format!(
                    "\t\t{{ \"type\":\"command\", \"command\": \"{command} {group}{number}\"{more} }}{tail} // no. {number}\n"
                );
            }
            events += &format!("        ]\n      }}{}\n", if group == 0 { "," } else { "" });
        }
        events += &format!("    ]{comma}\n");
    }
    format!(
        "// mine\n{{\n   \"model\" : \"opus\",\n  \"hooks\": {{\n{events}  }},\n \"env\": {{}} }}\n"
    )
}

fn config(home: &Home) -> Option<String> {
    fs::read_to_string(home.world.place.config()).ok()
}

fn found(home: &Home) -> ForeignHooks {
    find_hooks(&home.world).unwrap()
}

fn can(found: &ForeignHooks) -> Vec<&HookCandidate> {
    found
        .hooks
        .iter()
        .filter(|hook| hook.obstacle.is_none())
        .collect()
}

fn adopt_all(home: &Home) -> Vec<Adoption> {
    let found = found(home);
    adopt(&home.world, &found, &can(&found), false).unwrap()
}

fn undo_all(home: &Home) -> Vec<UndoneAdoption> {
    undo(&home.world, false).unwrap()
}

fn names(home: &Home) -> Vec<String> {
    found(home)
        .hooks
        .into_iter()
        .map(|hook| hook.name)
        .collect()
}

/// A home that becket is registered in, with these settings.
fn registered(text: &str) -> (Home, String) {
    let home = Home::with(text);
    home.init();
    let before = home.text();
    (home, before)
}

fn stop(commands: &str) -> String {
    format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{commands}]}}]}}}}"#)
}

fn command(line: &str) -> String {
    format!(r#"{{"type": "command", "command": "{line}"}}"#)
}

fn project(home: &Home, name: &str, text: &str) -> PathBuf {
    let folder = home.world.cwd.join(".claude");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

fn check_config(text: &str) {
    let source = Source {
        level: Level::User,
        file: PathBuf::from("config.toml"),
    };
    let layer = parse_layer(&source, text).unwrap_or_else(|error| panic!("{error:?}: {text}"));
    assert!(layer.warnings.is_empty(), "{:?}", layer.warnings);
}

#[test]
fn forty_hooks_and_back_byte_for_byte() {
    let crlf = forty().replace('\n', "\r\n");
    for original in [forty(), crlf.clone(), format!("\u{feff}{crlf}")] {
        let (home, before) = registered(&original);
        let own = "# mine\n[store]\nkeep_days = 7 # a week";
        fs::create_dir_all(home.world.place.home()).unwrap();
        fs::write(home.world.place.config(), own).unwrap();
        let here = found(&home);
        assert_eq!(
            here.hooks
                .iter()
                .map(|hook| hook.entries.len())
                .sum::<usize>(),
            40
        );
        assert!(
            here.hooks.iter().all(|hook| hook.obstacle.is_none()),
            "{:?}",
            here.hooks
        );
        let moved = adopt_all(&home);
        assert_eq!((moved.len(), moved[0].names.len()), (1, 40));
        assert_eq!(settings::foreign(&home.text()).unwrap(), []);
        assert!(home.text().contains("// PreToolUse") && home.text().contains("// no. 1"));
        let written = config(&home).unwrap();
        assert!(written.starts_with(own));
        assert_eq!(written.matches("[hooks.").count(), 40);
        check_config(&written);
        assert!(fs::read_to_string(moved[0].settings.backup.as_ref().unwrap()).unwrap() == before);
        assert!(found(&home).is_empty());

        let undone = undo_all(&home);
        assert!(undone[0].exact && undone[0].left.is_empty());
        assert_eq!(home.text(), before);
        assert_eq!(config(&home).unwrap(), own);
        assert!(undo_all(&home).is_empty(), "once is enough");
        home.uninit();
        assert_eq!(home.text(), original);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn undo_restores_any_settings(text in any::foreign()) {
        let (home, before) = registered(&text);
        let moved = adopt_all(&home);
        if let Some(config) = config(&home) {
            check_config(&config);
        }
        let rest = found(&home);
        prop_assert!(can(&rest).is_empty());
        undo_all(&home);
        prop_assert_eq!(home.text(), before, "{:?}", moved);
        prop_assert_eq!(config(&home), None);
    }
}

#[test]
fn undo_keeps_later_changes_of_the_settings() {
    let (home, before) = registered(&format!(
        "{{\n  \"model\": \"opus\",\n  {}",
        &stop(&command("a"))[1..]
    ));
    adopt_all(&home);
    let edited = home.text().replace("opus", "sonnet");
    fs::write(home.file(), &edited).unwrap();
    fs::write(
        home.world.place.config(),
        config(&home)
            .unwrap()
            .replace("[hooks.a]", "# about a\n[hooks.a]")
            + "[mask]\nenabled = true\n",
    )
    .unwrap();
    let undone = undo_all(&home);
    assert!(!undone[0].exact && undone[0].left.is_empty());
    assert!(undone[0].settings.backup.is_some());
    let text = home.text();
    assert!(text.contains("sonnet"));
    let like = |text: &str| settings::foreign(text).unwrap();
    assert_eq!(like(&text), like(&before));
    assert_eq!(
        config(&home).unwrap(),
        "# about a\n[mask]\nenabled = true\n"
    );
}

#[test]
fn undo_keeps_a_table_that_was_changed() {
    for change in [
        ("run = \"a\"", "run = \"a --fast\""),
        ("run = \"a\"\n", "run = \"a\"\nenabled = false\n"),
    ] {
        let (home, before) = registered(&stop(&command("a")));
        adopt_all(&home);
        let edited = config(&home).unwrap().replace(change.0, change.1);
        fs::write(home.world.place.config(), &edited).unwrap();
        let undone = undo_all(&home);
        assert_eq!(undone[0].left, ["a"], "{}", change.1);
        assert_eq!((home.text(), config(&home).unwrap()), (before, edited));
    }
}

#[test]
fn what_claude_code_ran_once_does_not_run_twice() {
    let (home, before) = registered(&stop(&command("a")));
    let shared = stop(&command("a"));
    let file = project(&home, "settings.json", &shared);
    let here = found(&home);
    let hooks: Vec<_> = here
        .hooks
        .iter()
        .map(|hook| (&*hook.name, hook.scope.to_string()))
        .collect();
    assert_eq!(
        hooks,
        [("a", "user".to_owned()), ("a", "project".to_owned())]
    );
    adopt_all(&home);
    let theirs = home.world.cwd.join(".becket/config.toml");
    assert!(fs::read_to_string(&theirs).unwrap().contains("[hooks.a]"));
    undo_all(&home);
    assert_eq!(
        (home.text(), fs::read_to_string(&file).unwrap()),
        (before, shared.clone())
    );
    assert!(!theirs.parent().unwrap().exists(), "the folder was ours");

    let other = r#"{"type": "command", "command": "a", "timeout": 3}"#;
    fs::write(&file, stop(other)).unwrap();
    assert!(
        found(&home).hooks.iter().all(HookCandidate::is_unsupported),
        "in another way"
    );
    let other = r#"{"type": "command", "command": "a", "if": "Bash(x)"}"#;
    fs::write(&file, stop(other)).unwrap();
    assert!(
        found(&home).hooks.iter().all(HookCandidate::is_unsupported),
        "one that cannot go"
    );
    fs::write(&file, shared.replace("Stop", "Setup")).unwrap();
    assert_eq!(names(&home), ["a", "a-setup"], "they never meet");
}

#[test]
fn a_hook_on_an_unregistered_event_is_refused() {
    let home = Home::with(stop(&command("a")));
    let unheard = |home: &Home| {
        let hooks = found(home).hooks;
        hooks
            .into_iter()
            .map(|hook| matches!(hook.obstacle, Some(Obstacle::Unregistered(_))))
            .collect::<Vec<_>>()
    };
    assert_eq!(unheard(&home), [true]);
    project(&home, "settings.json", &stop(&command("b")));
    assert_eq!(unheard(&home), [true, true]);
    settings::init(
        &home.world,
        settings::SettingsScope::Local,
        Strict::Keep,
        settings::StatusLine::Off,
        false,
    )
    .unwrap();
    assert_eq!(unheard(&home), [true, false], "in the project becket hears");
    home.init();
    assert_eq!(unheard(&home), [false, false]);
}

#[test]
fn adopt_makes_the_events_of_answering_hooks_synchronous() {
    let (home, before) = registered(&stop(&command("a")).replace("Stop", "Notification"));
    project(
        &home,
        "settings.local.json",
        &stop(&command("b")).replace("Stop", "CwdChanged"),
    );
    adopt_all(&home);
    let registration = settings::registration_of(&home.world, Strict::Keep).unwrap();
    assert_eq!(registration.synchronous.len(), 2);
    let inspection = inspect(&home.text(), &registration).unwrap();
    assert_eq!(
        inspection.count(EntryState::Found),
        inspection.entries.len()
    );
    let asynchronous = |text: &str| text.matches(r#""async": true"#).count();
    assert_eq!(asynchronous(&home.text()), asynchronous(&before) - 2);
    assert!(!home.init().change.changed());
    undo_all(&home);
    assert_eq!(home.text(), before);

    let (home, before) = registered(
        &stop(r#"{"type": "command", "command": "a", "async": true}"#)
            .replace("Stop", "Notification"),
    );
    adopt_all(&home);
    assert_eq!(
        asynchronous(&home.text()),
        asynchronous(&before) - 1,
        "only the hook's own is gone"
    );
}

#[test]
fn one_command_is_one_hook_where_it_can_be() {
    let (home, _) = registered(
        r#"{"hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "x", "timeout": 5}, {"type": "command", "command": "y"}]},
            {"matcher": "Read", "hooks": [{"type": "command", "command": "x", "timeout": 9}]}
        ],
        "PostToolUse": [{"matcher": "Bash|Read", "hooks": [{"type": "command", "command": "x", "timeout": 9}]}],
        "Stop": [{"matcher": "ignored", "hooks": [{"type": "command", "command": "x"}, {"type": "command", "command": "y"}]}],
        "Setup": [{"hooks": [{"type": "command", "command": "y"}]}]
        }}"#,
    );
    adopt_all(&home);
    let file = home.file().display().to_string();
    insta::assert_snapshot!(config(&home).unwrap().replace(&file, "FILE"), @r#"
    [hooks.x]
    # adopted from FILE
    on = ["PreToolUse", "PostToolUse"]
    tools = "Bash|Read"
    run = "x"
    timeout = "9s"

    [hooks.y]
    # adopted from FILE
    on = "PreToolUse"
    tools = "Bash"
    run = "y"

    [hooks.x-stop]
    # adopted from FILE
    on = "Stop"
    run = "x"

    [hooks.y-stop]
    # adopted from FILE
    on = ["Stop", "Setup"]
    run = "y"
    "#);
}

#[test]
fn the_list_fits() {
    let (home, _) = registered(
        r#"{"hooks": {
        "PostToolUse": [{"matcher": "Edit|Write", "hooks": [
            {"type": "command", "command": "npx prettier --write \"$(jq -r .tool_input.file_path)\""},
            {"type": "http", "url": "http://127.0.0.1:9/hook"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done", "once": true},
            {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/check"},
            {"type": "command", "command": "x", "if": "Bash(git *)"}]}],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "mk"}]}]
        }}"#,
    );
    let here = found(&home);
    let shown = |width: usize| {
        let look = Look {
            now: becket_engine::local_time::now(),
            width,
            glyphs: Glyphs::Unicode,
        };
        anstream::adapter::strip_str(&list_table(&here, &look)).to_string()
    };
    insta::assert_snapshot!(shown(usize::MAX), @r#"
       NAME      ON           TOOLS       RUNS                                                   FROM
    1  prettier  PostToolUse  Edit|Write  npx prettier --write "$(jq -r .tool_input.file_path)"  user
    2  say-stop  Stop                     say done                                               user
    3  check     Stop                     "$CLAUDE_PROJECT_DIR"/check                            user
    say-stop: `once` means nothing in settings, and is dropped
    check starts a file of the session's project, so it runs only where you trust the project

    3 hooks stay where they are:
      PostToolUse http://127.0.0.1:9/hook (user)
        type http: becket runs commands only
      Stop x (user)
        `if` has no counterpart
      WorktreeCreate mk (user)
        a hook on WorktreeCreate replaces git, so becket does not take it over
    "#);
    let narrow = shown(50);
    let narrow: Vec<_> = narrow.lines().take(3).collect();
    insta::assert_snapshot!(narrow.join("\n"), @"
       NAME      ON           RUNS                FROM
    1  prettier  PostToolUse  npx prettier --wr…  user
    2  say-stop  Stop         say done            user
    ");
}

#[test]
fn a_write_by_another_program_is_not_overwritten() {
    let (home, before) = registered(&stop(&command("a")));
    let here = found(&home);
    let registration = settings::registration_of(&home.world, Strict::Keep).unwrap();
    let hooks = can(&here);
    let plans = plans(&here, &hooks);
    let prepared = prepare(&home.world, &plans[0], &registration).unwrap();
    let theirs = format!("{before} ");
    fs::write(home.file(), &theirs).unwrap();
    assert!(prepared.commit(&home.world, &plans[0]).unwrap().is_none());
    assert_eq!(
        (home.text(), config(&home)),
        (theirs.clone(), None),
        "nothing was done"
    );
    assert!(undo_all(&home).is_empty(), "and nothing remembered");

    let prepared = prepare(&home.world, &plans[0], &registration).unwrap();
    fs::write(home.world.place.config(), "# new\n").unwrap();
    assert!(prepared.commit(&home.world, &plans[0]).unwrap().is_none());
    assert_eq!(
        (home.text(), config(&home).unwrap()),
        (theirs, "# new\n".to_owned())
    );

    fs::write(home.file(), before.replace("\"a\"", "\"b\"")).unwrap();
    let error = adopt(&home.world, &here, &hooks, false).unwrap_err();
    assert!(
        format!("{error:#}").contains("changed meanwhile"),
        "{error:#}"
    );
    assert_eq!(config(&home).unwrap(), "# new\n");
}

#[test]
fn after_a_crash_between_the_two_files_adopt_and_undo_both_work() {
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
                toml::Value::String(line) => becket_engine::process::Program::Shell(line.clone()),
                words => becket_engine::process::Program::List(texts(words)),
            };
            assert_eq!(run, expected, "{line:?}");
            undo_all(&home);
            assert_eq!(home.text(), before);
        }
    }
}
