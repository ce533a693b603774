//! On which events a named hook answers, though Claude Code would not wait for becket there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use becket_engine::config::{Level, Loader, RawTable, Source, parse_layer};
use becket_engine::hooks::builtin::BuiltIn;

use super::registration::REGISTERED;
use crate::world::{World, project_of};

/// Every `[hooks.*]` that a session started here might see, lowest layer first. Whether the project
/// is trusted makes no difference to a registration, which outlives the question.
pub fn tables(world: &World) -> Vec<RawTable> {
    let mut tables = Loader::read_only(&world.place)
        .current()
        .config
        .hooks
        .clone();
    let project = project_of(&world.cwd).join(".becket");
    let files = [
        (Level::Project, project.join("config.toml")),
        (Level::Local, project.join("local.toml")),
    ];
    for (level, file) in files {
        // In the home itself the project's file is the user's.
        if file == world.place.config() {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let source = Source { level, file };
        let layer = parse_layer(&source, &text).map(|layer| layer.tables);
        let hooks = layer.unwrap_or_default().into_iter();
        tables.extend(hooks.filter(|table| table.section == "hooks"));
    }
    tables.sort_by_key(|table| table.level);
    tables
}

/// Those of the asynchronous events on which a hook that is on, and not asynchronous itself, stands.
pub fn events(world: &World) -> BTreeSet<String> {
    wanted(&tables(world))
}

#[derive(Debug, Default)]
struct Said {
    on: Vec<String>,
    asynchronous: bool,
    off: bool,
}

fn wanted(tables: &[RawTable]) -> BTreeSet<String> {
    let mut hooks: BTreeMap<&str, Said> = BTreeMap::new();
    for RawTable { name, table, .. } in tables {
        let said = hooks.entry(name).or_insert_with(|| Said {
            on: BuiltIn::find(name).map_or_else(Vec::new, |hook| {
                hook.on.iter().map(ToString::to_string).collect()
            }),
            ..Said::default()
        });
        let flag = |key: &str| table.get(key).and_then(toml::Value::as_bool);
        said.asynchronous = flag("async").unwrap_or(said.asynchronous);
        said.off = flag("enabled").map_or(said.off, |on| !on);
        if let Some(on) = table.get("on") {
            said.on = texts(on);
        }
    }
    let answers = hooks.into_values().filter(|it| !it.asynchronous && !it.off);
    let on: BTreeSet<String> = answers.flat_map(|it| it.on).collect();
    let late = REGISTERED.iter().filter(|one| one.asynchronous);
    late.filter(|one| on.contains(one.event))
        .map(|one| one.event.to_owned())
        .collect()
}

/// A text, or the texts of a list.
pub fn texts(value: &toml::Value) -> Vec<String> {
    let one = value.as_str().into_iter();
    let many = value.as_array().into_iter().flatten();
    let all = one.chain(many.filter_map(toml::Value::as_str));
    all.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn wanted(layers: &[&str]) -> Vec<String> {
        let source = Source {
            level: Level::User,
            file: PathBuf::from("config.toml"),
        };
        let layers = layers.iter().map(|text| parse_layer(&source, text));
        let tables: Vec<_> = layers.flat_map(|layer| layer.unwrap().tables).collect();
        super::wanted(&tables).into_iter().collect()
    }

    #[test]
    fn only_a_hook_that_is_on_and_answers_makes_claude_code_wait() {
        let hook = "[hooks.a]\nrun = \"a\"\non = [\"Notification\", \"Stop\"]\n";
        assert_eq!(wanted(&[hook]), ["Notification"]);
        assert!(wanted(&[&format!("{hook}async = true\n")]).is_empty());
        assert!(wanted(&[&format!("{hook}enabled = false\n")]).is_empty());
        let off = "[hooks.a]\nenabled = false\n";
        let elsewhere = "[hooks.a]\non = \"CwdChanged\"\n";
        assert!(wanted(&[hook, off]).is_empty());
        assert_eq!(wanted(&[hook, elsewhere]), ["CwdChanged"]);
    }
}
