//! From files to rules.

use super::*;
use crate::config::{Layer, merge};

fn source(level: Level) -> Source {
    let file = PathBuf::from(format!("/{level}.toml"));
    Source { level, file }
}

fn layer(level: Level, text: &str) -> Layer {
    parse_layer(&source(level), text).unwrap_or_else(|error| *error.rest.unwrap())
}

fn guards(layers: &[(Level, &str)]) -> Guards {
    let layers: Vec<Layer> = layers.iter().map(|(it, text)| layer(*it, text)).collect();
    read(&merge(&layers).config.guards)
}

fn find<'a>(guards: &'a Guards, id: &str) -> &'a Rule {
    guards.rules.iter().find(|rule| rule.id == id).unwrap()
}

fn told(guards: &Guards) -> Vec<String> {
    guards.problems.iter().map(ToString::to_string).collect()
}

fn wrong(text: &str) -> Vec<String> {
    let problems = match parse_layer(&source(Level::User), text) {
        Ok(layer) => layer.warnings,
        Err(error) => error.problems,
    };
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn the_pack_is_sound() {
    let layer = parse_layer(&source(Level::BuiltIn), PACK).unwrap();
    assert_eq!(layer.warnings, []);
    for table in &layer.tables {
        let rule = rule(&table.name, &[table]).unwrap();
        assert!(rule.reason.is_some(), "{} has no reason", rule.id);
    }
    assert_eq!(guards(&[]).rules.len(), layer.tables.len());
}

#[test]
fn a_table_without_effect_is_reported() {
    let level = Level::User;
    let of = |text: &str| told(&guards(&[(level, text)]));
    assert_eq!(
        of("[guards.delete-folders]\nenabled = false"),
        [
            "/user.toml:1:9: guards.delete-folders switches off a guard that does not exist (did you mean delete-folder?)"
        ]
    );
    let project = [(Level::Project, "[guards.delete-folders]\nenabled = false")];
    assert_eq!(
        told(&guards(&project)),
        [
            "/project.toml:1:9: guards.delete-folders switches off a guard that does not exist (did you mean delete-folder?)"
        ]
    );
    let known =
        "[guards.delete-folder]\nenabled = false\n[guards.mine]\nenabled = false\ntools = 'Bash'";
    assert_eq!(of(known), Vec::<String>::new());
    assert_eq!(
        wrong("[guards.mine]\ntools = 'bash'"),
        ["/user.toml:2:9: guards.mine.tools: \"bash\" never matches a tool (did you mean Bash?)"]
    );
}

#[test]
fn keys_are_checked() {
    let text = r#"
[guards.prod]
comand = "psql"
answer = "forbid"
access = ["read", "look"]
flags = ["force"]
paths = ""
tools = "(?=x)"
check = "unread"
[guards.Prod]
tools = "Bash"
"#;
    insta::assert_snapshot!(wrong(text).join("\n"), @r#"
    /user.toml:3:1: unknown key guards.prod.comand (did you mean command?)
    /user.toml:4:10: guards.prod.answer: expected "deny" or "ask" or "once" or "warn", found "forbid"
    /user.toml:5:10: guards.prod.access: expected "read" or "write" or "delete" or "list", found "look"
    /user.toml:6:9: guards.prod.flags: expected flags like "-f|--force", found "force"
    /user.toml:7:9: guards.prod.paths: the path "" names nothing
    /user.toml:8:9: guards.prod.tools: "(?=x)" is not a regular expression that becket can read: look-around, including look-ahead and look-behind, is not supported
    /user.toml:9:1: unknown key guards.prod.check
    /user.toml:10:9: "Prod" cannot be the name of a guard (a-z, 0-9, - _ and . only, at most 64 of them)
    "#);
    let empty = guards(&[(Level::User, "[guards.all]\nanswer = \"deny\"")]);
    assert_eq!(
        told(&empty),
        ["/user.toml:1:9: guards.all has no condition: it would answer every call"]
    );
}

#[test]
fn the_user_overrides_and_switches_off_the_pack() {
    let text = "[guards.git-push-force]\nanswer = \"ask\"\n[guards.sql]\nenabled = false\n";
    let guards = guards(&[(Level::User, text)]);
    let push = find(&guards, "git-push-force");
    assert_eq!((push.say, push.instead.is_some()), (Say::Ask, true));
    assert_eq!(find(&guards, "sql").off.as_ref().unwrap().line, Some(4));
    let setting = &guards.settings["guards.git-push-force.answer"];
    assert_eq!(setting.origin.to_string(), "/user.toml:2");
    assert_eq!(told(&guards), [""; 0]);
}

#[test]
fn a_project_adds_and_tightens_and_never_relaxes() {
    let user =
        "[guards.mine]\ncommand = \"psql\"\nanswer = \"ask\"\n[guards.git-clean]\nenabled = false";
    for (project, warns) in [
        (
            "[guards.theirs]\ntools = \"Bash\"\nanswer = \"warn\"",
            false,
        ),
        ("[guards.mine]\nanswer = \"deny\"\nfail = \"closed\"", false),
        ("[guards.sql]\nanswer = \"deny\"", false),
        ("[guards.mine]\nanswer = \"warn\"", true),
        ("[guards.mine]\nenabled = false", true),
        ("[guards.mine]\ncommand = \"nothing\"", true),
        ("[guards.git-push-force]\nenabled = false", true),
        ("[guards.git-push-force]\nanswer = \"once\"", true),
        ("[guards.git-clean]\nanswer = \"deny\"", true),
    ] {
        let guards = guards(&[(Level::User, user), (Level::Project, project)]);
        assert_eq!(told(&guards).len(), usize::from(warns), "{project}");
        let mine = find(&guards, "mine");
        assert_eq!(mine.off, None, "{project}");
        assert!(mine.say >= Say::Ask, "{project}");
        assert_eq!(find(&guards, "git-push-force").say, Say::Deny, "{project}");
        assert_eq!(find(&guards, "git-push-force").off, None, "{project}");
        assert!(find(&guards, "git-clean").off.is_some(), "{project}");
    }
    let tightened = guards(&[
        (Level::User, user),
        (
            Level::Project,
            "[guards.mine]\nanswer = \"deny\"\nfail = \"closed\"",
        ),
    ]);
    let mine = find(&tightened, "mine");
    assert_eq!((mine.say, mine.closed), (Say::Deny, true));
}

#[test]
fn the_managed_file_defines_a_guard_alone() {
    let guards = guards(&[
        (
            Level::User,
            "[guards.git-clean]\nenabled = false\n[guards.late]\nenabled = false",
        ),
        (
            Level::Managed,
            "[guards.git-clean]\nanswer = \"deny\"\n[guards.late]\ncommand = \"psql\"",
        ),
    ]);
    let clean = find(&guards, "git-clean");
    assert_eq!((clean.say, &clean.off), (Say::Deny, &None));
    assert_eq!(find(&guards, "late").off, None);
}

#[test]
fn a_guard_that_cannot_be_read_is_left_out_or_denies() {
    let text = "[guards.a]\ncommand = 3\n[guards.b]\ncommand = 3\nfail = \"closed\"\n";
    let guards = guards(&[(Level::User, text)]);
    assert!(guards.rules.iter().all(|rule| rule.id != "a"));
    assert!(find(&guards, "b").broken.is_some());
    let broken = "[guards.a]\ncommand = \"x\"\nfail = \"closed\"\n[guards.b]\nfail='closed' # \n[hooks.c]\nfail = \"closed\"\n[[";
    let closed = closed_in(&source(Level::User), broken);
    let names: Vec<&str> = closed.iter().map(|table| &*table.name).collect();
    assert_eq!(names, ["a", "b"]);
}
