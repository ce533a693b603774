//! From files to hooks.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::config::{Layer, Source, merge, parse_layer};
use crate::trust::Pins;

fn source(level: Level) -> Source {
    let file = PathBuf::from(format!("/{level}.toml"));
    Source { level, file }
}

fn layer(level: Level, text: &str) -> Layer {
    parse_layer(&source(level), text).unwrap()
}

/// The hooks of these layers, all of them in force.
fn named(layers: &[(Level, &str)]) -> ReadHooks {
    let layers: Vec<Layer> = layers.iter().map(|(it, text)| layer(*it, text)).collect();
    let approved = approved();
    read(&merge(&layers).config.hooks, &[], &around(Some(&approved)))
}

fn approved() -> Arc<Approved> {
    Arc::new(Approved::of(Path::new("/project"), true, Pins::default()))
}

fn around(approved: Option<&Arc<Approved>>) -> HookProject<'_> {
    HookProject {
        folder: Some(Path::new("/project")),
        approved,
        changed: false,
    }
}

fn told(named: &ReadHooks) -> Vec<String> {
    named.problems.iter().map(ToString::to_string).collect()
}

/// What is wrong with a file of the user's.
fn wrong(text: &str) -> Vec<String> {
    let problems = match parse_layer(&source(Level::User), text) {
        Ok(layer) => layer.warnings,
        Err(error) => error.problems,
    };
    problems.iter().map(ToString::to_string).collect()
}

/// What is wrong with a file of the user's, and the hooks that it has all the same.
fn in_force(text: &str) -> (Vec<String>, Vec<String>) {
    let (layer, problems) = match parse_layer(&source(Level::User), text) {
        Ok(layer) => (layer, Vec::new()),
        Err(error) => (*error.rest.unwrap(), error.problems),
    };
    let names = layer.tables.into_iter().map(|table| table.name);
    (
        problems.iter().map(ToString::to_string).collect(),
        names.collect(),
    )
}

const STYLE: &str = r#"
[hooks.house-style]
description = "Our naming rules"
on = ["PostToolUse", "Stop", "Stop"]
tools = "Write|Edit"
paths = ["src/**/*.rs"]
run = ["scripts/house-style", "--changed"]
timeout = "30s"
skip_agents = ["Explore"]
rewrites = true
async = true
"#;

#[test]
fn every_key_of_a_hook_is_read() {
    let named = named(&[(Level::User, STYLE)]);
    assert_eq!(told(&named), [""; 0]);
    let hook = &named.hooks[0];
    assert_eq!(hook.name, "house-style");
    assert_eq!(hook.description, "Our naming rules");
    assert_eq!(hook.on, [EventName::PostToolUse, EventName::Stop]);
    assert_eq!(hook.skip_agents, ["Explore"]);
    assert_eq!(hook.timeout, Duration::from_secs(30));
    assert!(hook.rewrites && hook.is_async && !hook.untrusted && !hook.managed);
    assert_eq!(hook.off, None);
    assert_eq!(hook.declared.to_string(), "/user.toml:2");
    let Action::Run(program) = &hook.action else {
        panic!("{hook:?}")
    };
    assert_eq!(program.to_string(), "scripts/house-style --changed");
    let origin = |key: &str| named.settings[key].origin.to_string();
    assert_eq!(origin("hooks.house-style.timeout"), "/user.toml:8");
    assert_eq!(origin("hooks.house-style.enabled"), "/user.toml:2");
}

#[test]
fn a_hook_with_few_keys_has_the_defaults_of_claude_code() {
    let named = named(&[(
        Level::User,
        "hooks.x = { on = \"UserPromptSubmit\", run = \"a | b\\nc\" }",
    )]);
    let hook = &named.hooks[0];
    assert_eq!(hook.description, "a | b");
    assert_eq!(hook.timeout, Duration::from_secs(55));
    assert!(!hook.rewrites && !hook.is_async);
    assert!(matches!(&hook.action, Action::Run(Program::Shell(line)) if line == "a | b\nc"));
}

#[test]
fn layers_are_put_on_each_other_key_by_key() {
    let named = named(&[
        (Level::Local, "[hooks.b]\nenabled = false"),
        (
            Level::User,
            "[hooks.z]\non = \"Stop\"\nrun = \"z\"\n[hooks.b]\ntimeout = \"5s\"",
        ),
        (
            Level::System,
            "[hooks.b]\non = \"Stop\"\nrun = \"b\"\ntimeout = \"9s\"",
        ),
        (Level::Project, "[hooks.a]\non = \"Stop\"\nrun = \"a\""),
    ]);
    assert_eq!(told(&named), [""; 0]);
    let names: Vec<&str> = named.hooks.iter().map(|hook| &*hook.name).collect();
    assert_eq!(names, ["b", "z", "a"], "lowest layer first, then line");
    let hook = &named.hooks[0];
    assert_eq!(hook.timeout, Duration::from_secs(5));
    assert_eq!(hook.declared.to_string(), "/system.toml:1");
    assert_eq!(hook.off.as_ref().unwrap().to_string(), "/local.toml:2");
    let origin = |key: &str| named.settings[key].origin.to_string();
    assert_eq!(origin("hooks.b.timeout"), "/user.toml:5");
    assert_eq!(origin("hooks.b.run"), "/system.toml:3");
}

#[test]
fn no_other_file_changes_a_managed_hook() {
    let audit = "[hooks.audit]\non = \"Stop\"\nrun = \"audit\"\n";
    let user = "[hooks.audit]\nenabled = false\ntimeout = \"1s\"\nskip_agents = \"Explore\"\n";
    let defined = named(&[(Level::Managed, audit), (Level::User, user)]);
    let hook = &defined.hooks[0];
    assert!(hook.managed && hook.off.is_none() && hook.skip_agents.is_empty());
    assert_eq!(hook.timeout, Duration::from_secs(595));
    assert_eq!(
        told(&defined),
        ["/user.toml:1:8: hooks.audit is set by /managed.toml, and nothing else can change it"]
    );
    let switched = named(&[
        (Level::Managed, "hooks.mine.enabled = true"),
        (
            Level::User,
            "[hooks.mine]\nenabled = false\non = \"Stop\"\nrun = \"x\"",
        ),
    ]);
    assert_eq!(told(&switched), [""; 0]);
    assert!(switched.hooks[0].managed && switched.hooks[0].off.is_none());
}

#[test]
fn an_untrusted_hook_is_listed_and_changes_nothing() {
    let own = layer(Level::User, "[hooks.mine]\non = \"Stop\"\nrun = \"mine\"");
    let theirs = layer(
        Level::Project,
        "[hooks.mine]\nrun = \"evil\"\nenabled = false\n[hooks.theirs]\non = \"SessionStart\"\nrun = \"evil\"\n[hooks.half]\non = \"Stop\"",
    );
    let named = read(&own.tables, &theirs.tables, &HookProject::default());
    assert_eq!(told(&named), [""; 0], "what does not count is no trouble");
    let hooks: Vec<_> = named
        .hooks
        .iter()
        .map(|hook| (&*hook.name, hook.untrusted))
        .collect();
    assert_eq!(hooks, [("mine", false), ("theirs", true)]);
    assert!(named.hooks[0].off.is_none());
    assert_eq!(named.hooks[0].description, "mine");
    assert!(
        named
            .settings
            .keys()
            .all(|key| key.starts_with("hooks.mine."))
    );
}

#[test]
fn a_built_in_brings_its_defaults_and_its_own_keys() {
    let built_in = BuiltIn::find("typecheck-changed").unwrap();
    let text = "[hooks.typecheck-changed]\ncommand = [\"tsc\", \"-p\", \".\"]\n";
    let named = named(&[(Level::User, text)]);
    assert_eq!(told(&named), [""; 0]);
    let hook = &named.hooks[0];
    assert_eq!(hook.on, built_in.on);
    assert_eq!(hook.description, built_in.description);
    assert_eq!(hook.timeout, built_in.timeout);
    let Action::BuiltIn(found, own) = &hook.action else {
        panic!("{hook:?}")
    };
    assert_eq!(found.name, built_in.name);
    assert_eq!(own["command"][2].as_str(), Some("."));
    let origin = |key: &str| named.settings[key].origin.to_string();
    assert_eq!(origin("hooks.typecheck-changed.on"), "built-in");
    assert_eq!(origin("hooks.typecheck-changed.command"), "/user.toml:2");
}

#[test]
fn a_hook_that_starts_a_file_or_a_tool_of_the_project_needs_trust() {
    let stop = |name: &str, run: &str| format!("[hooks.{name}]\non = \"Stop\"\nrun = {run}\n");
    let text = stop("list", r#"["scripts/check"]"#)
        + &stop("line", r#""./check""#)
        + &stop("own", r#"["/home/you/check"]"#)
        + &stop("bare", r#"["check"]"#)
        + "[hooks.typecheck-changed]\n[hooks.check-todos]\n";
    let (tables, approved) = (layer(Level::User, &text).tables, approved());
    let untrusted = |approved: Option<&Arc<Approved>>| -> Vec<bool> {
        let named = read(&tables, &[], &around(approved));
        named.hooks.iter().map(|hook| hook.untrusted).collect()
    };
    assert_eq!(untrusted(None), [true, true, false, false, true, false]);
    assert_eq!(untrusted(Some(&approved)), [false; 6]);
}

#[test]
fn a_hook_without_a_program_or_an_event_is_left_out_alone() {
    let text = "[hooks.typechek-changed]\nenabled = true\n[hooks.qqqqq]\non = \"Stop\"\n[hooks.deaf]\nrun = \"x\"\n[hooks.good]\non = \"Stop\"\nrun = \"x\"";
    let named = named(&[(Level::User, text)]);
    assert_eq!(
        told(&named),
        [
            "/user.toml:1:8: hooks.typechek-changed has no `run`, and is not a built-in (did you mean typecheck-changed?)",
            "/user.toml:3:8: hooks.qqqqq has no `run`, and is not a built-in (run = [\"a program\", \"and its arguments\"])",
            "/user.toml:5:8: hooks.deaf has no `on`: it would never run (on = \"PostToolUse\")",
        ]
    );
    assert_eq!(named.hooks.len(), 1);
    assert_eq!(named.hooks[0].name, "good");
}

#[test]
fn a_tilde_in_a_list_is_told_and_the_hook_left_out() {
    let other = "[hooks.y]\non = \"Stop\"\nrun = \"y\"\n";
    let run = |run: &str| in_force(&format!("{other}[hooks.x]\non = \"Stop\"\nrun = {run}\n"));
    let (told, names) = run(r#"["~/hooks/x"]"#);
    insta::assert_snapshot!(told.join("\n"), @r#"/user.toml:6:7: hooks.x.run: "~/hooks/x" is not expanded in a list (write the whole path, or a text, which sh runs)"#);
    assert_eq!(names, ["y"]);
    for odd in [r#"["sh", "~/x"]"#, r#"["ls", "~"]"#] {
        assert_eq!(run(odd).0.len(), 1, "{odd}");
    }
    for fine in [
        r#""~/hooks/x""#,
        r#"["sh", "-c", "~/hooks/x"]"#,
        r#"["bash", "-ec", "-u", "~/hooks/x"]"#,
        r#"["grep", "~x", "a~/b"]"#,
    ] {
        let (told, names) = run(fine);
        assert_eq!((told.len(), names.len()), (0, 2), "{fine}: {told:?}");
    }
    let own = in_force("[hooks.lint-changed]\ncommand = [\"~/lint\"]\n");
    assert_eq!((own.0.len(), own.1.len()), (1, 0), "{own:?}");
}

#[test]
fn one_wrong_hook_leaves_the_rest_of_the_file() {
    let text = "store.keep_days = 3\n[hooks.bad]\non = 3\n[hooks.good]\non = \"Stop\"\nrun = \"x\"";
    let error = parse_layer(&source(Level::User), text).unwrap_err();
    let rest = error.rest.unwrap();
    let names: Vec<&str> = rest.tables.iter().map(|table| &*table.name).collect();
    assert_eq!((names, rest.entries.len()), (vec!["good"], 1));
    let broken = format!("{text}\n[store]\nx");
    let error = parse_layer(&source(Level::User), &broken).unwrap_err();
    assert_eq!(error.rest, None, "what does not parse means nothing");
}

#[test]
fn an_unknown_name_is_a_warning_with_a_similar_one() {
    let text = "[hooks.x]\nrun = \"x\"\non = [\"PreTooluse\", \"Zzz\", \"WorktreeCreate\"]\ntimout = \"3s\"\n[hooks.typecheck-changed]\ncomand = \"x\"";
    let mut all = wrong(text);
    all.sort();
    assert_eq!(
        all,
        [
            "/user.toml:3:6: hooks.x.on: becket is not registered for WorktreeCreate, so nothing runs on it",
            "/user.toml:3:6: hooks.x.on: unknown event PreTooluse (did you mean PreToolUse?)",
            "/user.toml:3:6: hooks.x.on: unknown event Zzz",
            "/user.toml:4:1: unknown key hooks.x.timout (did you mean timeout?)",
            "/user.toml:6:1: unknown key hooks.typecheck-changed.comand (did you mean command?)",
        ]
    );
    let named = named(&[(Level::User, text)]);
    assert_eq!(
        named.hooks[0].on[0],
        EventName::Other("PreTooluse".to_owned())
    );
}

#[test]
fn no_hook_gets_more_time_than_claude_code_gives() {
    let named = named(&[(
        Level::User,
        "[hooks.x]\non = [\"Stop\", \"SessionEnd\"]\nrun = \"x\"\ntimeout = \"20m\"",
    )]);
    let hook = &named.hooks[0];
    assert_eq!(hook.timeout, Duration::from_secs(595));
    assert_eq!(
        hook.timeout_on(&EventName::SessionEnd),
        Duration::from_secs(5)
    );
    assert_eq!(hook.timeout_on(&EventName::Stop), Duration::from_secs(595));
    assert_eq!(
        told(&named),
        [
            "/user.toml:4:11: hooks.x.timeout: cut to 5s on SessionEnd, for which Claude Code waits 10s"
        ]
    );
    let behind = self::named(&[(
        Level::User,
        "[hooks.x]\non = \"SessionEnd\"\nrun = \"x\"\nasync = true\ntimeout = \"9s\"",
    )]);
    assert_eq!(behind.hooks[0].timeout, Duration::from_secs(8));
    assert!(told(&behind)[0].contains("cut to 8s on SessionEnd"));
}

#[test]
fn names_are_plain() {
    for good in ["a", "typecheck-changed", "9.x_y", &"x".repeat(64)] {
        assert!(is_name(good), "{good}");
    }
    for bad in ["", ".", "..", "-x", "a/b", "a b", "A", "é", &"x".repeat(65)] {
        assert!(!is_name(bad), "{bad}");
    }
    for own in ["becket:notice", "guard:no-prod", "effort:context"] {
        assert!(!is_name(own), "{own} is no hook's");
    }
}

proptest! {
    /// Whatever the layers say, in whatever order they come: a hook is listed once, and key by key
    /// the highest layer holds.
    #[test]
    fn the_highest_layer_holds(
        said in proptest::collection::vec((0_usize..3, 0_usize..4, 1_u64..500), 1..12),
        seed in any::<usize>(),
    ) {
        const LEVELS: [Level; 4] = [Level::System, Level::User, Level::Project, Level::Local];
        let mut texts: Vec<String> = vec![String::new(); LEVELS.len()];
        let mut seen = BTreeMap::new();
        for (hook, level, seconds) in &said {
            seen.entry((*hook, *level)).or_insert_with(|| {
                texts[*level] += &format!("[hooks.h{hook}]\non = \"Stop\"\nrun = \"x\"\ntimeout = \"{seconds}s\"\n");
                *seconds
            });
        }
        let mut layers: Vec<_> = LEVELS.iter().copied().zip(texts.iter().map(String::as_str)).collect();
        layers.rotate_left(seed % LEVELS.len());
        let named = named(&layers);
        prop_assert_eq!(told(&named), Vec::<String>::new());
        let hooks: BTreeSet<usize> = seen.keys().map(|key| key.0).collect();
        prop_assert_eq!(named.hooks.len(), hooks.len());
        for hook in hooks {
            let (_, seconds) = seen.range((hook, 0)..(hook + 1, 0)).next_back().unwrap();
            let found = named.hooks.iter().find(|it| it.name == format!("h{hook}")).unwrap();
            prop_assert_eq!(found.timeout, Duration::from_secs(*seconds));
        }
    }
}

#[test]
fn a_matcher_that_never_matches_is_told() {
    let warned = |text: &str| -> Vec<String> {
        let layer = layer(Level::User, &format!("[hooks.mine]\nrun = 'true'\n{text}"));
        layer.warnings.iter().map(|it| it.message.clone()).collect()
    };
    for text in [
        "on = 'PreToolUse'\ntools = 'bash'",
        "on = ['Stop', 'PostToolBatch']\ntools = 'Edit|bash'",
        "on = 'PostToolUse'\ntools = '^bash$'",
    ] {
        let [told] = &warned(text)[..] else {
            panic!("{text}: {:?}", warned(text));
        };
        assert!(told.contains("bash"), "{told}");
        assert!(told.ends_with("never matches a tool"), "{told}");
    }
    for text in [
        "on = 'PreToolUse'\ntools = 'Bash|Edit'",
        "on = 'PreToolUse'\ntools = 'mcp__.*|NewTool'",
        "on = 'PreToolUse'\ntools = '^[A-Z]ash'",
        "on = 'SubagentStart'\ntools = 'read'",
    ] {
        assert_eq!(warned(text), Vec::<String>::new(), "{text}");
    }
}
