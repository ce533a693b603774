//! What the environment and the command line say of keys, hooks among them.

use super::*;
use crate::hooks::Hook;

const STYLE: &str = "[hooks.style]\non = \"Stop\"\nrun = \"style\"\ntimeout = \"9s\"\n";

/// Everything that is wrong with pairs.
fn wrong(pairs: &[(&str, &str)]) -> Vec<String> {
    let (_, errors) = parse_pairs(pairs.iter().copied());
    errors.iter().map(ToString::to_string).collect()
}

/// A config of the user's and the managed file's, with what the command line says.
fn with(user: &str, managed: &str, pairs: &[(&str, &str)]) -> Snapshot {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("user.toml"), user).unwrap();
    std::fs::write(path("managed.toml"), managed).unwrap();
    let files = Files {
        system: path("none"),
        user: path("user.toml"),
        project: None,
        managed: path("managed.toml"),
    };
    let loader = Loader::with_files(&files, &becket_wire::Place::new(folder.path()), false);
    let mut loader = loader.with_pairs(pairs.iter().copied());
    Snapshot::clone(&loader.current())
}

fn hook<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Hook {
    let mut hooks = snapshot.hooks.iter();
    hooks.find(|hook| hook.name == name).expect("the hook")
}

#[test]
fn a_key_of_a_hook_is_set_as_a_file_would_set_it() {
    let pairs = [
        ("hooks.style.enabled", "false"),
        ("hooks.style.timeout", "5s"),
        ("hooks.style.skip_agents", r#"["Explore", "Plan"]"#),
        ("hooks.style.description", "true"),
        ("hooks.style.run", "[\"other\", \"way\"]"),
    ];
    let snapshot = with(STYLE, "", &pairs);
    assert_eq!(snapshot.problems, []);
    let style = hook(&snapshot, "style");
    assert_eq!(style.off.as_ref().unwrap().to_string(), "command line");
    assert_eq!(style.timeout, Duration::from_secs(5));
    assert_eq!(style.skip_agents, ["Explore", "Plan"]);
    assert_eq!(style.description, "true");
    assert!(style.declared.to_string().ends_with("user.toml:1"));
    let origin = |key: &str| snapshot.settings[key].origin.to_string();
    assert_eq!(origin("hooks.style.timeout"), "command line");
    assert_eq!(origin("hooks.style.run"), "command line");
    assert!(origin("hooks.style.on").ends_with("user.toml:2"));
}

#[test]
fn a_program_is_a_text_or_a_list_as_in_a_file() {
    let command = |text| {
        let snapshot = with("", "", &[("notice.command", text)]);
        assert_eq!(snapshot.problems, []);
        snapshot.settings["notice.command"].value.clone()
    };
    let list = vec!["tell".to_owned(), "--short".to_owned()];
    assert_eq!(command(r#"["tell", "--short"]"#), Value::List(list));
    assert_eq!(command("tell it"), Value::Text("tell it".to_owned()));
    assert_eq!(command("[ -f x ]"), Value::Text("[ -f x ]".to_owned()));
    assert_eq!(wrong(&[("notice.command", "[1]")]).len(), 1);
}

#[test]
fn a_built_in_can_be_named_with_keys_of_its_own() {
    let pairs = [
        ("hooks.create-checkpoint.keep", "7"),
        ("hooks.create-checkpoint.on", "Stop"),
    ];
    let snapshot = with("", "", &pairs);
    assert_eq!(snapshot.problems, []);
    let checkpoint = hook(&snapshot, "create-checkpoint");
    assert_eq!(checkpoint.declared.to_string(), "command line");
    let crate::hooks::Action::BuiltIn(_, own) = &checkpoint.action else {
        panic!("{checkpoint:?}")
    };
    assert_eq!(own["keep"].as_integer(), Some(7));
}

#[test]
fn the_managed_file_has_the_last_word_on_hooks_too() {
    let managed = "[hooks.style]\nenabled = true\n";
    let pairs = [("hooks.style.enabled", "false")];
    let switched = with(STYLE, managed, &pairs);
    assert_eq!(hook(&switched, "style").off, None);
    let defined = with("", STYLE, &pairs);
    assert_eq!(hook(&defined, "style").off, None);
    let told = defined.problems[0].to_string();
    assert!(
        told.starts_with("command line: hooks.style is set by /"),
        "{told}"
    );
    assert!(
        told.ends_with("managed.toml, and nothing else can change it"),
        "{told}"
    );
}

#[test]
fn a_hook_that_nobody_defines_is_no_hook() {
    let snapshot = with(STYLE, "", &[("hooks.stile.enabled", "true")]);
    let told: Vec<String> = snapshot.problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"command line: hooks.stile has no `run`, and is no built-in (run = ["a program", "and its arguments"])"#);
    assert_eq!(snapshot.hooks.len(), 1);
}

#[test]
fn what_is_wrong_on_the_command_line_is_told_with_the_nearest_that_is_right() {
    let all = [
        ("store.keep_day", "3"),
        ("store.keep_days", "many"),
        ("colour", "red"),
        ("guards.x.answer", "deny"),
        ("hooks", "1"),
        ("store", "1"),
        ("hooks.style", "off"),
        ("hooks.style.run", "["),
        ("hooks.style.run", r#"[ "a", "b""#),
        ("notice.command", r#"["tell""#),
        ("hooks.style.timout", "5s"),
        ("hooks.typecheck-changed.comand", "x"),
        ("hooks.style.timeout", "soon"),
        ("hooks.Style.enabled", "false"),
        ("hooks.lint-changed.run", "x"),
        ("hooks.style.enabled", "1"),
    ];
    let told: Vec<String> = all.iter().flat_map(|pair| wrong(&[*pair])).collect();
    assert_eq!(told.len(), all.len(), "{told:?}");
    insta::assert_snapshot!(told.join("\n"), @r#"
    command line: store.keep_day is no key that becket knows (did you mean store.keep_days?)
    command line: store.keep_days: expected a number from 0 to 36500, found "many"
    command line: colour is no key that becket knows (`becket config` lists the keys)
    command line: guards.x.answer cannot be set here (it belongs into a config file: `becket config path` lists them)
    command line: hooks is a section: it is set key by key (hooks.NAME.enabled=false)
    command line: store is a section: it is set key by key (`becket config` lists the keys)
    command line: hooks.style: a hook is set key by key (hooks.style.enabled=false)
    command line: hooks.style.run: [ is no whole list (["a program", "and its arguments"], quoted for your shell)
    command line: hooks.style.run: [ "a", "b" is no whole list (["a program", "and its arguments"], quoted for your shell)
    command line: notice.command: ["tell" is no whole list (["a program", "and its arguments"], quoted for your shell)
    command line: hooks.style.timout is no key that becket knows (did you mean hooks.style.timeout?)
    command line: hooks.typecheck-changed.comand is no key that becket knows (did you mean hooks.typecheck-changed.command?)
    command line: hooks.style.timeout: expected a time like "30s", "5m", "12h" (at least 1ms) or "never", found "soon"
    command line: "Style" cannot be the name of a hook (a-z, 0-9, - _ and . only, at most 64 of them)
    command line: hooks.lint-changed.run: this hook is a built-in; use `command`
    command line: hooks.style.enabled: expected true or false, found "1"
    "#);
}

#[test]
fn an_event_that_nobody_knows_is_a_warning_as_in_a_file() {
    let pairs = [("hooks.style.on", "PreTooluse")];
    assert_eq!(wrong(&pairs), [""; 0]);
    let snapshot = with(STYLE, "", &pairs);
    let told = snapshot.problems[0].to_string();
    assert_eq!(
        told,
        "command line: hooks.style.on: PreTooluse is no event that becket knows (did you mean PreToolUse?)"
    );
}

#[test]
fn only_variables_that_set_a_key_are_found_among_all() {
    let all = [
        ("AAA", "1"),
        ("BECKET_", "1"),
        ("BECKET_HOME", "/x"),
        ("BECKET_MASK_ENABLED", "true"),
        ("BECKET_MASK_PATTERNS_X", "y"),
        ("BECKET_NOTICE_ON", "off"),
        ("BECKETS_MASK_ENABLED", "true"),
        ("TMUX", "x"),
    ];
    let all: BTreeMap<String, String> = all
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let found: Vec<_> = variables_among(&all).collect();
    assert_eq!(
        found,
        [("BECKET_MASK_ENABLED", "true"), ("BECKET_NOTICE_ON", "off")]
    );
}

#[test]
fn a_wish_about_masking_that_cannot_be_read_masks() {
    let off = layer(Level::User, "mask.enabled = false\n");
    for (text, masks, errors) in [
        ("yes", true, 1),
        ("FALSE", true, 1),
        ("", true, 1),
        ("true", true, 0),
        ("false", false, 0),
    ] {
        let (said, told) = parse_variables([("BECKET_MASK_ENABLED", text)]);
        assert_eq!(told.len(), errors, "{text}");
        let config = merge([&off, &said]).config;
        assert_eq!(config.mask.enabled, masks, "{text}");
    }
    let (said, told) = parse_variables([("BECKET_NOTICE_ON", "loudly")]);
    assert_eq!((said.entries.len(), told.len()), (0, 1), "of no other key");
}

#[test]
fn of_a_variable_that_is_wrong_little_is_said_and_nothing_that_a_terminal_obeys() {
    let text = format!("{{\u{1b}]0;x\u{7}{}", "x".repeat(5000));
    let variables: Vec<String> = KEYS.iter().filter_map(Key::variable).collect();
    let (_, errors) = parse_variables(variables.iter().map(|name| (&**name, &*text)));
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    // A program may be any text.
    assert_eq!(told.len(), variables.len() - 1, "{told:?}");
    for told in told {
        assert!(told.chars().count() < 300, "{told}");
        assert!(!told.contains(char::is_control), "{told}");
    }
}

#[test]
fn a_variable_that_is_nearly_one_of_a_key_is_told_with_that() {
    let told: Vec<String> = misspelt([
        "BECKET_MASK_ENABLE",
        "BECKET_mask_enabled",
        "BECKET_STORE_KEEPDAYS",
        "BECKET_MASK_ENABLED",
        "BECKET_HOME",
        "BECKET_NO_DAEMON",
        "BECKET_HOOK",
        "BECKET_BESIDE",
        "BECKET_NOTICE_KIND",
        "BECKET_NOTICE_TEXT",
        "BECKET_TEST_BIN",
        "BECKET_",
        "MASK_ENABLE",
    ])
    .iter()
    .map(ToString::to_string)
    .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    BECKET_MASK_ENABLE: becket knows no such variable (did you mean BECKET_MASK_ENABLED?)
    BECKET_mask_enabled: becket knows no such variable (did you mean BECKET_MASK_ENABLED?)
    BECKET_STORE_KEEPDAYS: becket knows no such variable (did you mean BECKET_STORE_KEEP_DAYS?)
    ");
    let odd = misspelt(["BECKET_MASK_ENABLED\u{1b}"]);
    assert!(!odd[0].to_string().contains('\u{1b}'), "{odd:?}");
}

#[test]
fn a_key_that_no_variable_can_set_is_said_to_be_one() {
    let (said, _) = parse_variables([
        ("BECKET_STORE_KEEP_DAYS", "1"),
        ("BECKET_MASK_ENABLED", "false"),
    ]);
    let told = merge([&said]).warnings;
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    BECKET_STORE_KEEP_DAYS: store.keep_days cannot be set by the environment: ignored (it belongs into your config.toml, or into --set for one command)
    BECKET_MASK_ENABLED: mask.enabled cannot be set here: the environment may tighten, never relax
    ");
}
