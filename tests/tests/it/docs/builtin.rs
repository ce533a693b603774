//! What docs/reference says of the hooks that becket brings along, and of its slash commands,
//! compared with their tables.

use becket_engine::hooks::builtin::language::{Kind, LANGUAGES, Language};
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};
use becket_engine::hooks::slash::Verb;

use super::page::{page, rows};

#[test]
fn the_languages_and_their_tools_are_all_there() {
    let page = page("docs/reference/hooks.md");
    let tools = |language: &Language, kind| {
        let names: Vec<_> = language.tools_for(kind).map(|tool| tool.name).collect();
        names.join(", ")
    };
    let row = |language: &Language| {
        let markers: Vec<_> = language
            .markers
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        vec![
            language.name.to_owned(),
            markers.join(", "),
            tools(language, Kind::Typecheck),
            tools(language, Kind::Lint),
            tools(language, Kind::Test),
        ]
    };
    let wanted: Vec<_> = LANGUAGES.iter().map(row).collect();
    assert_eq!(rows(&page.section("### Which tool")), wanted);
}

#[test]
fn the_hooks_are_all_there() {
    let page = page("docs/reference/hooks.md");
    for (heading, starts_tools) in [
        ("## Built-ins that run tools", true),
        ("## Built-ins that look at Claude's work", false),
    ] {
        let section = page.section(heading);
        let end = section.iter().position(|line| line.starts_with("###"));
        let wanted: Vec<_> = BUILT_INS
            .iter()
            .filter(|hook| hook.starts_project_tools == starts_tools)
            .map(row)
            .collect();
        let table = section[..end.expect("a part")]
            .iter()
            .filter(|line| line.starts_with("| `"));
        assert_eq!(table.copied().collect::<Vec<_>>(), wanted);
        for hook in BUILT_INS
            .iter()
            .filter(|hook| hook.starts_project_tools == starts_tools)
        {
            for key in hook.keys {
                let cell = format!("| `{key}` |");
                let is_there = section.iter().any(|line| line.starts_with(&cell));
                assert!(is_there, "{}.{key}", hook.name);
            }
        }
    }
}

fn row(hook: &BuiltIn) -> String {
    let on: Vec<_> = hook.on.iter().map(ToString::to_string).collect();
    let tools = match hook.tools {
        "" => String::new(),
        tools => format!(" of `{}`", tools.replace('|', "\\|")),
    };
    format!(
        "| `{}` | {}{tools} | {} |",
        hook.name,
        on.join(", "),
        hook.description
    )
}

#[test]
fn the_slash_commands_are_all_there() {
    let page = page("docs/reference/commands.md");
    for verb in Verb::ALL {
        let row = format!(
            "| `/hook:{0} NAME` | `/becket:hook:{0} NAME` |",
            verb.word()
        );
        let is_there = page.text.lines().any(|line| line.starts_with(&row));
        assert!(is_there, "{row}");
    }
}
