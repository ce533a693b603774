//! What docs/reference/hooks.md says of the built-ins that run tools, compared with their tables.

use becket_engine::hooks::builtin::language::{Kind, LANGUAGES, Language};
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};

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
fn the_hooks_that_run_tools_are_all_there() {
    let page = page("docs/reference/hooks.md");
    let section = page.section("## Built-ins that run tools");
    let end = section.iter().position(|line| line.starts_with("###"));
    let row = |hook: &BuiltIn| {
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
    };
    let wanted: Vec<_> = BUILT_INS
        .iter()
        .filter(|hook| hook.starts_project_tools)
        .map(row)
        .collect();
    let table = section[..end.expect("a part")]
        .iter()
        .filter(|line| line.starts_with("| `"));
    assert_eq!(table.copied().collect::<Vec<_>>(), wanted);
}
