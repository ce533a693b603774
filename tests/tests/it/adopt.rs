//! `becket hooks adopt` through the real program: its list, its moves, its undo, and bad input.

mod projects;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::world::World;
use serde_json::{Value, json};

/// Hooks of five tools, with comments and an unusual layout.
const SETTINGS: &str = r#"{
   // mine, hands off
  "hooks": { "PreToolUse": [
    { "matcher": "Bash", "hooks": [ {"type": "command", "command": "~/bin/guard.sh", "timeout": 5 /* s */ } ] },
    { "matcher": "Read", "hooks": [ {"type": "http", "url": "http://127.0.0.1:9/"} ] },
  ],
	"Stop": [{"hooks": [{"type": "command", "command": "say done"}, // speaks
      {"type":"command","command":"/usr/bin/python3","args":["-u","log it.py"]}]}],
    "Notification": [{"hooks": [{"type": "command", "command": "npx notifier"}]}]
  },
  "unknownKey": [1,2,   3]   }"#;

fn settings(world: &World) -> PathBuf {
    world.home.join(".claude/settings.json")
}

fn config(world: &World) -> Option<String> {
    fs::read_to_string(world.path("config.toml")).ok()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).expect("a file")
}

/// Creates a registered home with these settings, and returns them as registered.
fn registered(text: &str) -> (World, String) {
    let world = World::new();
    fs::write(settings(&world), text).expect("settings");
    world.run(&["up", "--only-register"]);
    let before = self::text(&settings(&world));
    (world, before)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&world.run(args)).expect("JSON")
}

fn names(list: &Value) -> Vec<&str> {
    let hooks = list["hooks"].as_array().expect("hooks");
    hooks
        .iter()
        .filter_map(|hook| hook["name"].as_str())
        .collect()
}

/// Asserts that the verb fails with this code, message and a hint, and changes nothing.
fn fails(world: &World, args: &[&str], code: i32, said: &str) {
    let before = (text(&settings(world)), config(world));
    let output = world.output(args);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(
        stderr.starts_with("error: ") && stderr.contains(said),
        "{args:?}: {stderr}"
    );
    assert_eq!((text(&settings(world)), config(world)), before, "{args:?}");
}

#[test]
fn adopt_all_moves_every_hook_and_undo_restores_them() {
    let (world, before) = registered(SETTINGS);
    let listed = json(&world, &["hooks", "adopt", "--json"]);
    assert_eq!(names(&listed), ["guard", "say-stop", "log-it", "notifier"]);
    assert_eq!(
        listed["others"][0]["why"],
        "type http: becket runs commands only"
    );
    assert_eq!(text(&settings(&world)), before, "a list changes nothing");

    let said = world.run(&["hooks", "adopt", "--all"]);
    assert!(said.starts_with("moved 4 hooks from "), "{said}");
    assert!(text(&settings(&world)).contains("// speaks"));
    assert!(!text(&settings(&world)).contains("say done"));
    let config = config(&world).expect("a config");
    assert!(
        config.contains("run = [\"/usr/bin/python3\", \"-u\", \"log it.py\"]"),
        "{config}"
    );
    assert!(config.contains("timeout = \"5s\""), "{config}");
    assert!(config.contains("# adopted from "), "{config}");
    let checked = world.run(&["config", "check"]);
    assert!(
        checked.contains("hooks.guard.run: ~/bin/guard.sh does not exist"),
        "{checked}"
    );
    assert!(!checked.contains("error:"), "{checked}");
    let shown = world.run(&["hooks"]);
    for runs in ["say done", "/usr/bin/python3 -u log it.py"] {
        assert!(shown.contains(runs), "{shown}");
    }
    let mode = fs::metadata(world.path("config.toml"))
        .expect("a config")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        json(&world, &["hooks", "adopt", "--json"])["hooks"],
        json!([])
    );
    assert_eq!(
        json(&world, &["up", "--only-register", "--json"])["changed"],
        false
    );

    let said = world.run(&["hooks", "adopt", "--undo"]);
    assert!(
        said.contains("gave 4 hooks back") && said.contains("which is what it was"),
        "{said}"
    );
    assert_eq!(text(&settings(&world)), before);
    assert_eq!(self::config(&world), None);
    assert!(
        world
            .run(&["hooks", "adopt", "--undo"])
            .starts_with("nothing was adopted")
    );
    world.run(&["down"]);
    assert_eq!(text(&settings(&world)), SETTINGS);
}

/// A project's settings as claudekit writes them.
const CLAUDEKIT: &str = r#"{"hooks": {
  "PostToolUse": [
    {"matcher": "Write|Edit|MultiEdit", "hooks": [{"type": "command", "command": "claudekit-hooks run typecheck-changed"}]},
    {"matcher": "Write|Edit|MultiEdit", "hooks": [{"type": "command", "command": "claudekit-hooks run lint-changed"}]}
  ],
  "PreToolUse": [{"matcher": "Read|Edit", "hooks": [{"type": "command", "command": "claudekit-hooks run file-guard"}]}],
  "Stop": [{"hooks": [{"type": "command", "command": "npx claudekit-hooks run check-todos"}]}]
}}"#;

#[test]
fn claudekit_hooks_keep_their_names_and_built_ins_are_offered() {
    let (world, before) = registered(CLAUDEKIT);
    let listed = json(&world, &["hooks", "adopt", "--json"]);
    assert_eq!(
        names(&listed),
        [
            "claudekit-typecheck-changed",
            "claudekit-lint-changed",
            "file-guard",
            "claudekit-check-todos"
        ]
    );
    assert_eq!(listed["hooks"][0]["built_in"], "typecheck-changed");
    assert_eq!(listed["hooks"][2]["built_in"], Value::Null);
    let shown = world.run(&["hooks", "adopt"]);
    assert!(
        shown.contains("becket has these built in: check-todos, lint-changed, typecheck-changed."),
        "{shown}"
    );

    // Without a request for it, the command stays.
    world.run(&["hooks", "adopt", "--only", "claudekit-lint-changed"]);
    let own = config(&world).expect("a config");
    assert!(
        own.contains("run = \"claudekit-hooks run lint-changed\""),
        "{own}"
    );
    let said = world.run(&["hooks", "adopt", "--all", "--built-in"]);
    assert!(said.contains("typecheck-changed"), "it needs trust: {said}");
    let own = config(&world).expect("a config");
    assert!(
        own.contains("[hooks.typecheck-changed]\n# in place of claudekit-hooks run"),
        "{own}"
    );
    assert!(own.contains("[hooks.file-guard]\n# adopted from"), "{own}");
    let checked = world.run(&["config", "check"]);
    assert!(
        checked.contains("claudekit-hooks is not on PATH") && !checked.contains("error"),
        "{checked}"
    );
    let shown = world.run(&["hooks"]);
    assert!(
        shown.contains("check-todos") && shown.contains("Keeps Claude"),
        "{shown}"
    );
    assert!(!text(&settings(&world)).contains("claudekit"));

    world.run(&["hooks", "adopt", "--undo"]);
    assert_eq!(text(&settings(&world)), before);
    assert_eq!(config(&world).unwrap_or_default(), "");
}

#[test]
fn adopt_only_moves_the_named_hooks() {
    let (world, before) = registered(SETTINGS);
    fails(
        &world,
        &["hooks", "adopt", "--only", "unlisted"],
        3,
        "`unlisted`",
    );
    fails(
        &world,
        &["hooks", "adopt", "--all", "--only", "guard"],
        2,
        "cannot be used with",
    );
    world.run(&["hooks", "adopt", "--only", "guard", "log-it"]);
    let listed = json(&world, &["hooks", "adopt", "--json"]);
    assert_eq!(names(&listed), ["say-stop", "notifier"]);
    world.run(&["hooks", "adopt", "--undo"]);
    assert_eq!(text(&settings(&world)), before);
}

#[test]
fn a_dry_run_shows_both_files_and_changes_neither() {
    let (world, before) = registered(SETTINGS);
    let diff = world.run(&["hooks", "adopt", "--dry-run"]);
    assert!(
        diff.contains("+[hooks.guard]") && diff.contains("-    { \"matcher\": \"Bash\""),
        "{diff}"
    );
    assert_eq!((text(&settings(&world)), config(&world)), (before, None));
    world.run(&["hooks", "adopt", "--all"]);
    let after = text(&settings(&world));
    let diff = world.run(&["hooks", "adopt", "--undo", "--dry-run"]);
    assert!(diff.contains("-[hooks.guard]"), "{diff}");
    assert_eq!(text(&settings(&world)), after);
}

#[test]
fn a_notice_that_answers_makes_claude_code_wait() {
    let (world, before) = registered(SETTINGS);
    let waits = |text: &str| {
        let line = text
            .split("\"--event\", \"Notification\"")
            .nth(1)
            .expect("an entry");
        !line.split('}').next().expect("its end").contains("async")
    };
    assert!(!waits(&before));
    world.run(&["hooks", "adopt", "--only", "notifier"]);
    assert!(waits(&text(&settings(&world))));
    let config = config(&world).expect("a config");
    fs::write(
        settings(&world),
        before.replace("\"command\": \"npx notifier\"", "\"type\": \"command\""),
    )
    .expect("settings");
    let (code, told) = world.doctor();
    assert_eq!(code, Some(1), "doctor finds the difference: {told:#}");
    assert!(told.to_string().contains("(Notification)"), "{told:#}");
    fs::write(world.path("config.toml"), format!("{config}async = true\n")).expect("a config");
    assert_eq!(world.doctor().0, Some(0));
}

#[test]
fn without_a_registration_nothing_is_moved() {
    let world = World::new();
    fs::write(settings(&world), SETTINGS).expect("settings");
    assert!(
        world
            .run(&["hooks", "adopt"])
            .contains("run `becket up` first")
    );
    fails(
        &world,
        &["hooks", "adopt", "--all"],
        1,
        "becket is not registered for PreToolUse",
    );
    world.run(&["up", "--only-register"]);
    world.run(&["hooks", "adopt", "--all"]);
    let output = world.output(&["down"]);
    assert!(
        stderr(&output).contains("`becket hooks adopt --undo` gives them back"),
        "{output:?}"
    );
}

#[test]
fn undo_after_uninit_restores_the_settings_byte_for_byte() {
    let (world, _) = registered(SETTINGS);
    world.run(&["hooks", "adopt", "--only", "say-stop", "guard"]);
    world.run(&["hooks", "adopt", "--all"]);
    world.run(&["down"]);
    assert!(!text(&settings(&world)).contains("say done"));
    let said = world.run(&["hooks", "adopt", "--undo"]);
    assert!(said.contains("which is what it was"), "{said}");
    assert_eq!(text(&settings(&world)), SETTINGS);

    // Later additions stay, and the hooks come back.
    world.run(&["up", "--only-register"]);
    world.run(&["hooks", "adopt", "--all"]);
    world.run(&["down"]);
    let mine = text(&settings(&world)).replace("\"unknownKey\"", "\"mine\": 1, \"unknownKey\"");
    fs::write(settings(&world), mine).expect("settings");
    let said = world.run(&["hooks", "adopt", "--undo"]);
    assert!(!said.contains("which is what it was"), "{said}");
    let back = text(&settings(&world));
    for text in [
        "\"mine\": 1",
        "~/bin/guard.sh",
        "say done",
        "log it.py",
        "npx notifier",
    ] {
        assert!(back.contains(text), "{text}: {back}");
    }
}

#[test]
fn a_hook_already_in_the_config_is_not_reported_as_moved() {
    let (world, _) = registered(
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "one it"}]}]}}"#,
    );
    let table = "[hooks.mine]\non = \"Stop\"\nrun = \"one it\"\n";
    fs::write(world.path("config.toml"), table).expect("a config");
    let said = world.run(&["hooks", "adopt", "--all"]);
    let there = format!("in {} already", world.path("config.toml").display());
    assert!(
        said.starts_with(&there) && !said.contains("moved"),
        "{said}"
    );
    assert_eq!(config(&world).as_deref(), Some(table));
    assert!(!text(&settings(&world)).contains("one it"));
}

#[test]
fn adopt_asks_in_a_terminal() {
    let (world, before) = registered(SETTINGS);
    let terminal = match Terminal::of(&world.becket(["hooks", "adopt"]), (100, 30)) {
        Ok(terminal) => terminal,
        Err(why) => return skip("adopt_asks_in_a_terminal", &why),
    };
    let screen = terminal.wait_text("Which? Numbers, all or none");
    assert!(
        screen.contains("guard") && screen.contains("1 hook stays where it is"),
        "{screen:?}"
    );
    assert_eq!(text(&settings(&world)), before);
    terminal.type_text("2-3");
    terminal.press("Enter");
    terminal.wait_text("moved 2 hooks from");
    assert_eq!(terminal.wait_end(), 0);
    let listed = json(&world, &["hooks", "adopt", "--json"]);
    assert_eq!(names(&listed), ["guard", "notifier"]);
}

#[test]
fn without_hooks_each_verb_hints_at_adopt() {
    let world = World::new();
    for (args, code) in [
        (&["hooks", "recent"][..], 0),
        (&["hooks", "profile"], 0),
        (&["hooks", "profile", "lint"], 3),
        (&["hooks", "try", "lint"], 3),
        (&["hooks"], 0),
        (&["hooks", "on", "nothing"], 3),
    ] {
        let done = world.output(args);
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("becket hooks adopt"), "{args:?}: {said}");
        assert!(
            said.contains("Claude Code's settings files"),
            "{args:?}: {said}"
        );
    }
}
