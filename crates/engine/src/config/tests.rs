//! Layers, merging and loading together, as the rest of becket uses them.

mod bounds;
mod loading;
mod notices;
mod said;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::*;
use crate::notice::On;

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
    assert_eq!(effective.settings.len(), 12);
    assert_eq!(effective.config.notice.on, On::Off);
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

#[test]
fn wrong_values_are_told_with_their_place() {
    for (text, expected) in [
        ("a = ", "/user.toml:1:5: "),
        (
            "[store]\nkeep_days = \"x\"",
            "/user.toml:2:13: store.keep_days: expected a number from 0 to 36500, found \"x\"",
        ),
        (
            "[store]\nkeep_days = -1",
            "/user.toml:2:13: store.keep_days: expected a number from 0 to 36500, found -1",
        ),
        (
            "store.keep_bytes = \"4 gigs\"",
            "/user.toml:1:20: store.keep_bytes: expected a size",
        ),
        (
            "store.keep_bytes = 1.5",
            "/user.toml:1:20: store.keep_bytes: expected a size",
        ),
        (
            "daemon.idle = 30",
            "/user.toml:1:15: daemon.idle: expected a time",
        ),
        (
            "daemon.idle = \"0s\"",
            "/user.toml:1:15: daemon.idle: expected a time",
        ),
        (
            "mask.enabled = \"yes\"",
            "/user.toml:1:16: mask.enabled: expected true or false, found \"yes\"",
        ),
        (
            "mask.patterns.x = \"(\"",
            "/user.toml:1:19: mask.patterns.x: the mask pattern",
        ),
        (
            "mask.patterns.\"a b\" = \"x\"",
            "/user.toml:1:23: mask.patterns.a b: the name",
        ),
        ("store = 3", "/user.toml:1:9: store is a section"),
        ("hooks = 3", "/user.toml:1:9: hooks is a section"),
        ("hooks.x = 3", "/user.toml:1:11: hooks.x: expected a table"),
    ] {
        let told = told(text);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(expected), "{}\n{expected}", told[0]);
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
            "/user.toml:1:2: stor is no key that becket knows (did you mean store?)",
            "/user.toml:4:1: store.x is no key that becket knows",
        ]
    );
    assert!(parse_layer(&source(Level::User), "x = 1").is_ok());
}

#[test]
fn hooks_and_guards_are_kept_as_written() {
    let text = "[hooks.style]\nrun = [\"x\"]\n\n[guards.prod]\nanswer = \"deny\"\nwhen.x = 1\n";
    assert_eq!(told(text), [""; 0]);
    let config = merge(&[
        layer(Level::User, text),
        layer(Level::System, "[hooks.style]\non = \"Stop\""),
    ])
    .config;
    let lines: Vec<_> = config
        .hooks
        .iter()
        .map(|hook| (hook.level, hook.line))
        .collect();
    assert_eq!(lines, [(Level::System, 1), (Level::User, 1)]);
    assert_eq!(config.hooks[1].table["run"][0].as_str(), Some("x"));
    assert_eq!(config.guards[0].name, "prod");
    assert_eq!(config.guards[0].table["when"]["x"].as_integer(), Some(1));
}

#[test]
fn a_project_may_add_guards_but_not_touch_those_of_its_reader() {
    let layers = [
        layer(
            Level::Project,
            "[guards.prod]\nanswer = \"warn\"\n[guards.more]\n[guards.late]\n",
        ),
        layer(Level::User, "[guards.prod]\nanswer = \"deny\""),
        layer(Level::Managed, "[guards.late]\nanswer = \"deny\""),
    ];
    let effective = merge(&layers);
    let guards: Vec<_> = effective
        .config
        .guards
        .iter()
        .map(|guard| (guard.level, &*guard.name))
        .collect();
    let expected = [
        (Level::User, "prod"),
        (Level::Project, "more"),
        (Level::Managed, "late"),
    ];
    assert_eq!(guards, expected);
    let told: Vec<String> = effective.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "/project.toml:1:9: guards.prod is the user's: the project may add or tighten guards, never relax them (give the guard another name)",
            "/project.toml:4:9: guards.late is the user's: the project may add or tighten guards, never relax them (give the guard another name)",
        ]
    );
}

#[test]
fn a_project_cannot_set_what_is_the_users() {
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
