//! Layers, merging and loading together, as the rest of becket uses them.

mod loading;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::*;
use crate::hooks::Hook;
use crate::notice::{NoticeChannel, NoticeFilter, QuietHours};
use crate::process::Program;

fn source(level: Level) -> Source {
    let file = PathBuf::from(format!("/{level}.toml"));
    Source { level, file }
}

fn layer(level: Level, text: &str) -> Layer {
    parse_layer(&source(level), text).unwrap()
}

fn told(text: &str) -> Vec<String> {
    let problems = match parse_layer(&source(Level::User), text) {
        Ok(layer) => layer.warnings,
        Err(error) => error.problems,
    };
    problems.iter().map(ToString::to_string).collect()
}

fn origin(effective: &Effective, path: &str) -> String {
    effective.settings[path].origin.to_string()
}

#[test]
fn without_files_the_defaults_hold() {
    let effective = merge([]);
    assert_eq!(effective.config.store.keep_days, 90);
    assert_eq!(effective.config.store.keep_bytes, 4 << 30);
    assert_eq!(
        effective.config.daemon.idle,
        Some(Duration::from_secs(12 * 3600))
    );
    assert!(effective.config.mask.enabled);
    assert_eq!(origin(&effective, "mask.enabled"), "built-in");
    assert_eq!(effective.settings.len(), 18);
    assert_eq!(effective.config.notice.on, NoticeFilter::Off);
}

#[test]
fn a_higher_layer_wins_key_by_key_and_says_where() {
    let layers = [
        layer(Level::Managed, "[store]\nkeep_days = 7"),
        layer(
            Level::User,
            "daemon.idle = \"never\"\n[store]\nkeep_days = 30\nkeep_bytes = 1000",
        ),
        layer(
            Level::System,
            "[store]\nkeep_days = 60\nkeep_bytes = 2000\n[mask.patterns]\na = \"x\"",
        ),
    ];
    let effective = merge(&layers);
    assert_eq!(effective.config.store.keep_days, 7);
    assert_eq!(effective.config.store.keep_bytes, 1000);
    assert_eq!(effective.config.daemon.idle, None);
    assert_eq!(effective.config.mask.patterns["a"], "x");
    assert_eq!(origin(&effective, "store.keep_days"), "/managed.toml:2");
    assert_eq!(origin(&effective, "store.keep_bytes"), "/user.toml:4");
    assert_eq!(origin(&effective, "daemon.idle"), "/user.toml:1");
    assert_eq!(origin(&effective, "mask.patterns.a"), "/system.toml:5");
    assert_eq!(effective.warnings, []);
}

/// A line of the user's file, and what is told of it.
const WRONG: &str = r#"
a = => 1:4:
store.keep_days = "x" => 1:19: store.keep_days: expected a number from 0 to 36500, found "x"
store.keep_bytes = "4 gigs" => 1:20: store.keep_bytes: expected a size
daemon.idle = 30 => 1:15: daemon.idle: expected a time
mask.enabled = "yes" => 1:16: mask.enabled: expected true or false, found "yes"
mask.patterns.x = "(" => 1:19: mask.patterns.x: the mask pattern
mask.patterns."a b" = "x" => 1:23: mask.patterns.a b: the name
notice.on = "loud" => 1:13: notice.on: expected one of off, attention, done, all, found "loud"
notice.quiet = "night" => 1:16: notice.quiet: expected hours like "22:00-07:00" or "never", found "night"
notice.command = ["a", 1] => 1:18: notice.command: expected a command, or a list of a program and its arguments, found 1 in it
store = 3 => 1:9: store is a section
hooks = 3 => 1:9: hooks is a section
hooks.x = 3 => 1:11: hooks.x: expected a table
hooks.x.on = 3 => 1:14: hooks.x.on: expected a text, or a list of texts, found 3
hooks.x.on = [""] => 1:14: hooks.x.on: expected the name of an event
hooks.x.run = [] => 1:15: hooks.x.run: expected a command
hooks.x.timeout = 30 => 1:19: hooks.x.timeout: expected a time
hooks.x.enabled = 1 => 1:19: hooks.x.enabled: expected true or false
[hooks."a b"] => 1:8: "a b" cannot be the name of a hook
[hooks."../x"] => 1:8: "../x" cannot be the name of a hook
hooks.typecheck-changed.run = "x" => 1:31: hooks.typecheck-changed.run: this hook is a built-in; use `command`
"#;

#[test]
fn wrong_values_are_told_with_their_place() {
    for row in WRONG.lines().filter(|row| !row.is_empty()) {
        let (text, expected) = row.split_once(" => ").unwrap();
        let told = told(text);
        assert_eq!(told.len(), 1, "{told:?}");
        let expected = format!("/user.toml:{expected}");
        assert!(told[0].starts_with(&expected), "{}\n{expected}", told[0]);
        assert!(parse_layer(&source(Level::User), text).is_err(), "{text}");
    }
}

#[test]
fn everything_wrong_in_a_file_is_told_at_once() {
    let told = told("[store]\nkeep_day = 1\nkeep_days = true\n[daemon]\nidle = 1\n");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].ends_with("(did you mean store.keep_days?)"),
        "{told:?}"
    );
}

#[test]
fn an_unknown_key_is_a_warning_with_the_nearest_known_one() {
    assert_eq!(
        told("[stor]\nkeep_days = 1\n[store]\nx = 1"),
        [
            "/user.toml:1:2: unknown key stor (did you mean store?)",
            "/user.toml:4:1: unknown key store.x",
        ]
    );
    assert!(parse_layer(&source(Level::User), "x = 1").is_ok());
}

#[test]
fn hooks_and_guards_are_kept_as_written() {
    let text =
        "[hooks.style]\nrun = [\"x\"]\n\n[guards.prod]\nanswer = \"deny\"\ncommand = \"psql\"\n";
    assert_eq!(told(text), [""; 0]);
    let config = merge(&[
        layer(Level::User, text),
        layer(Level::System, "[hooks.style]\non = \"Stop\""),
    ])
    .config;
    let lines: Vec<_> = config
        .hooks
        .iter()
        .map(|hook| (hook.level, hook.at.line))
        .collect();
    assert_eq!(lines, [(Level::System, 1), (Level::User, 1)]);
    assert_eq!(config.hooks[1].table["run"][0].as_str(), Some("x"));
    assert_eq!(config.guards[0].name, "prod");
    assert_eq!(config.guards[0].keys.len(), 2);
}

#[test]
fn a_project_cannot_set_the_users_keys() {
    let layer = layer(
        Level::Project,
        "[store]\nkeep_days = 1\n[mask]\nenabled = false",
    );
    assert_eq!(layer.entries, []);
    assert_eq!(layer.warnings.len(), 2);
    assert!(
        layer.warnings[0]
            .to_string()
            .contains("cannot be set by a project")
    );
}

#[test]
fn the_environment_may_tighten_never_relax() {
    let with = |variables: &[(&str, &str)], user: &str| {
        let (environment, errors) = parse_variables(variables.iter().copied());
        let effective = merge(&[layer(Level::User, user), environment]);
        (effective, errors)
    };
    let (relaxed, _) = with(&[("BECKET_MASK_ENABLED", "0")], "");
    assert!(relaxed.config.mask.enabled);
    assert_eq!(relaxed.warnings.len(), 1);
    let (tightened, _) = with(&[("BECKET_MASK_ENABLED", "1")], "mask.enabled = false");
    assert!(tightened.config.mask.enabled);
    assert_eq!(origin(&tightened, "mask.enabled"), "BECKET_MASK_ENABLED");
    assert_eq!(tightened.warnings, []);
    let (kept, errors) = with(
        &[("BECKET_STORE_KEEP_DAYS", "1"), ("BECKET_HOME", "/x")],
        "",
    );
    assert_eq!(kept.config.store.keep_days, 90);
    assert_eq!((kept.warnings.len(), errors.len()), (1, 0));
    let (_, errors) = with(&[("BECKET_DAEMON_IDLE", "soon")], "");
    assert!(
        errors[0]
            .to_string()
            .starts_with("BECKET_DAEMON_IDLE: expected a time")
    );
}

#[test]
fn the_command_line_beats_the_user_but_not_the_managed_file() {
    let (said, errors) = parse_pairs([("daemon.idle", "5m"), ("store.keep_days", "3"), ("x", "1")]);
    assert_eq!(errors.len(), 1);
    let layers = [
        layer(Level::Managed, "store.keep_days = 9"),
        said,
        layer(Level::User, "daemon.idle = \"1h\""),
    ];
    let effective = merge(&layers);
    assert_eq!(effective.config.daemon.idle, Some(Duration::from_secs(300)));
    assert_eq!(effective.config.store.keep_days, 9);
    assert_eq!(origin(&effective, "daemon.idle"), "command line");
}

#[test]
fn the_schema_knows_every_key_and_no_other() {
    let schema = schema();
    assert_eq!(
        schema["properties"]["store"]["properties"]["keep_days"]["default"],
        90
    );
    assert_eq!(schema["properties"]["store"]["additionalProperties"], false);
    let patterns = &schema["properties"]["mask"]["properties"]["patterns"];
    assert_eq!(patterns["additionalProperties"]["type"], "string");
    assert_eq!(
        schema["properties"]["daemon"]["properties"]["idle"]["default"],
        "12h"
    );
    let hooks = &schema["properties"]["hooks"];
    let own = &hooks["additionalProperties"];
    assert_eq!(own["properties"]["timeout"]["type"], "string");
    assert_eq!(own["additionalProperties"], false);
    assert_eq!(own["properties"]["command"], Json::Null);
    let built_in = &hooks["properties"]["typecheck-changed"];
    assert_eq!(built_in["properties"]["enabled"]["type"], "boolean");
    assert_eq!(built_in["properties"]["run"], Json::Null);
    assert!(built_in["properties"]["command"].is_object());
    let events = &own["properties"]["on"]["anyOf"][0]["examples"];
    assert!(events.as_array().unwrap().contains(&Json::from("Stop")));
    assert_eq!(
        schema["properties"]["guards"]["additionalProperties"]["type"],
        "object"
    );
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn notices_are_as_the_user_writes_them() {
    let text = r#"
[notice]
on = "attention"
how = "osc777"
command = ["notify", "a b"]
after = "5m"
quiet = "22:00-07:00"
[notice.projects]
shop = "off"
"/home/you/v1.2" = "all"
"#;
    let settings = merge(&[layer(Level::User, text)]).config.notice;
    assert_eq!(
        (settings.on, settings.how),
        (NoticeFilter::Attention, NoticeChannel::Osc777)
    );
    let words = ["notify", "a b"].map(str::to_owned);
    assert_eq!(settings.command, Some(Program::List(words.to_vec())));
    assert_eq!(settings.after, Some(Duration::from_secs(300)));
    assert_eq!(Ok(settings.quiet), QuietHours::read("22:00-07:00"));
    let projects: Vec<_> = settings.projects.into_iter().collect();
    assert_eq!(
        projects,
        [
            ("/home/you/v1.2".to_owned(), NoticeFilter::All),
            ("shop".to_owned(), NoticeFilter::Off)
        ]
    );
    let line = layer(Level::User, "notice.command = \"beep; beep\"");
    let command = merge(&[line]).config.notice.command;
    assert_eq!(command, Some(Program::Shell("beep; beep".to_owned())));
    assert_eq!(merge([]).config.notice.command, None);
}

#[test]
fn a_project_and_the_environment_may_only_silence() {
    let user = layer(
        Level::User,
        "notice.on = \"attention\"\nnotice.command = \"mine\"",
    );
    let on = |text: &str| {
        let project = layer(Level::Project, text);
        let effective = merge([&user, &project]);
        (effective.config.notice.on, effective.warnings.len())
    };
    assert_eq!(on("notice.on = \"off\""), (NoticeFilter::Off, 0));
    assert_eq!(on("notice.on = \"all\""), (NoticeFilter::Attention, 1));
    assert_eq!(on("notice.on = \"done\""), (NoticeFilter::Attention, 1));
    let theirs = layer(Level::Project, "notice.command = \"theirs\"");
    assert_eq!(theirs.warnings.len(), 1);
    let (variables, _) = parse_variables([
        ("BECKET_NOTICE_COMMAND", "theirs"),
        ("BECKET_NOTICE_HOW", "command"),
        ("BECKET_NOTICE_ON", "off"),
    ]);
    let effective = merge([&user, &theirs, &variables]);
    let settings = effective.config.notice;
    assert_eq!(settings.command, Some(Program::Shell("mine".to_owned())));
    assert_eq!(
        (settings.how, settings.on),
        (NoticeChannel::Bell, NoticeFilter::Off)
    );
    assert_eq!(effective.warnings.len(), 2);
}

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
    let files = ConfigFiles {
        system: path("none"),
        user: path("user.toml"),
        project: None,
        managed: path("managed.toml"),
    };
    let loader = Loader::with_files(&files, &becket_wire::Place::new(folder.path()), false);
    let mut loader = loader.with_pairs(pairs.iter().copied());
    Snapshot::clone(&loader.current())
}

fn hook_of<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Hook {
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
    let style = hook_of(&snapshot, "style");
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
    let list = vec!["tell", "--short"];
    assert_eq!(command(r#"["tell", "--short"]"#), toml::Value::from(list));
    assert_eq!(command("tell it"), toml::Value::from("tell it"));
    assert_eq!(command("[ -f x ]"), toml::Value::from("[ -f x ]"));
    assert_eq!(wrong(&[("notice.command", "[1]")]).len(), 1);
}

#[test]
fn the_managed_file_has_the_last_word_on_hooks_too() {
    let managed = "[hooks.style]\nenabled = true\n";
    let pairs = [("hooks.style.enabled", "false")];
    let switched = with(STYLE, managed, &pairs);
    assert_eq!(hook_of(&switched, "style").off, None);
    let defined = with("", STYLE, &pairs);
    assert_eq!(hook_of(&defined, "style").off, None);
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
fn a_wrong_pair_is_reported_with_a_similar_key() {
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
        ("hooks.style.enabled", "2"),
    ];
    let told: Vec<String> = all.iter().flat_map(|pair| wrong(&[*pair])).collect();
    assert_eq!(told.len(), all.len(), "{told:?}");
    insta::assert_snapshot!(told.join("\n"), @r#"
    command line: unknown key store.keep_day (did you mean store.keep_days?)
    command line: store.keep_days: expected a number from 0 to 36500, found "many"
    command line: unknown key colour (`becket config` lists the keys)
    command line: guards.x.answer cannot be set here (set it in a config file: `becket config path` lists them)
    command line: hooks is a section: it is set key by key (hooks.NAME.enabled=false)
    command line: store is a section: it is set key by key (`becket config` lists the keys)
    command line: hooks.style: a hook is set key by key (hooks.style.enabled=false)
    command line: hooks.style.run: [ is not a complete list (["a program", "and its arguments"], quoted for your shell)
    command line: hooks.style.run: [ "a", "b" is not a complete list (["a program", "and its arguments"], quoted for your shell)
    command line: notice.command: ["tell" is not a complete list (["a program", "and its arguments"], quoted for your shell)
    command line: unknown key hooks.style.timout (did you mean hooks.style.timeout?)
    command line: unknown key hooks.typecheck-changed.comand (did you mean hooks.typecheck-changed.command?)
    command line: hooks.style.timeout: expected a time like "30s", "5m", "12h" (at least 1ms) or "never", found "soon"
    command line: "Style" cannot be the name of a hook (a-z, 0-9, - _ and . only, at most 64 of them)
    command line: hooks.lint-changed.run: this hook is a built-in; use `command`
    command line: hooks.style.enabled: expected true or false, found "2"
    "#);
}

#[test]
fn a_value_of_mask_enabled_that_cannot_be_read_masks() {
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
fn a_wrong_variable_is_shown_shortened_and_without_hidden_characters() {
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
    BECKET_MASK_ENABLE: unknown variable (did you mean BECKET_MASK_ENABLED?)
    BECKET_mask_enabled: unknown variable (did you mean BECKET_MASK_ENABLED?)
    BECKET_STORE_KEEPDAYS: unknown variable (did you mean BECKET_STORE_KEEP_DAYS?)
    ");
    let odd = misspelt(["BECKET_MASK_ENABLED\u{1b}"]);
    assert!(!odd[0].to_string().contains('\u{1b}'), "{odd:?}");
}

#[test]
fn the_first_256_hooks_of_a_file_are_listed_and_the_rest_is_told() {
    // Names that sort the other way round than they stand there.
    let table = |n: usize| format!("[hooks.h{:05}]\non = \"Stop\"\nrun = \"x\"\n", 20_000 - n);
    let text: String = (0..20_000).map(table).collect();
    let read = layer(Level::Project, &text);
    let listed = hook::read(&[], &read.tables, &hook::HookProject::default());
    assert_eq!(listed.hooks.len(), 256);
    assert_eq!(listed.hooks[0].name, "h20000");
    assert_eq!(listed.hooks[255].name, "h19745");
    let told: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    let expected = "/project.toml:769:8: hooks: a file may have 256; this one and all that follow are left out";
    assert_eq!(told, [expected]);
    let fits: String = (0..256).map(table).collect();
    assert_eq!(layer(Level::Project, &fits).tables.len(), 256);
}

#[test]
fn no_line_and_no_number_of_mistakes_makes_it_long() {
    let inline: String = (0..20_000)
        .map(|n| format!("h{n} = {{ x = 1 }}, "))
        .collect();
    let read = layer(Level::Project, &format!("hooks = {{ {inline} y = {{}} }}"));
    assert_eq!(read.tables.len(), 256);
    let problems = read.warnings;
    assert_eq!(problems.len(), 100);
    assert!(problems[0].message.contains("left out"), "{}", problems[0]);
    let text = |problem: &Problem| problem.at.as_ref().unwrap().text.len();
    assert!(problems.iter().all(|problem| text(problem) <= 1000));

    let unknown: String = (0..20_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(layer(Level::Project, &unknown).warnings.len(), 100);
    let wrong: String = (0..20_000).map(|n| format!("p{n} = 1\n")).collect();
    let wrong = format!("[mask.patterns]\n{wrong}");
    assert_eq!(told(&wrong).len(), 100);
    let events = "\"Stop\", ".repeat(101);
    let text = format!("[hooks.x]\nrun = \"x\"\non = [{events}]\n");
    assert_eq!(
        told(&text),
        [
            "/user.toml:3:6: hooks.x.on: expected a text, or a list of texts, found a list of more than 100"
        ]
    );
}
