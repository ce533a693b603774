//! Adds the tables of hooks to the end of a config file and removes them again, and touches nothing
//! else.

use std::time::Duration;

use becket_engine::process::Program;
use toml_edit::Value;

use crate::adopt::candidate::HookCandidate;
use crate::settings::{SettingsError, newline};
use crate::ui::text::one_line;

/// The table of a hook, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HookTable {
    pub name: String,
    pub text: String,
}

impl HookTable {
    /// Writes the table of a hook that comes from the settings file `from`.
    pub fn of(hook: &HookCandidate, from: &str, newline: &str) -> Self {
        let mut lines = vec![format!("[hooks.{}]", key(&hook.name))];
        let from = one_line(from);
        if hook.takes_built_in {
            let program = one_line(&hook.program.to_string());
            lines.push(format!("# in place of {program} of {from}"));
        } else {
            let on = match &hook.on[..] {
                [event] => string(event),
                events => list(events),
            };
            let run = match &hook.program {
                Program::Shell(line) => string(line),
                Program::List(words) => list(words),
            };
            // No description: without one, lists show the command.
            lines.push(format!("# adopted from {from}"));
            lines.push(format!("on = {on}"));
            if let Some(tools) = &hook.tools {
                lines.push(format!("tools = {}", string(tools)));
            }
            lines.push(format!("run = {run}"));
            if let Some(time) = hook.timeout {
                lines.push(format!("timeout = \"{}\"", span(time)));
            }
            if hook.is_async {
                lines.push("async = true".to_owned());
            }
        }
        lines.push(String::new());
        Self {
            name: hook.name.clone(),
            text: lines.join(newline),
        }
    }
}

/// Quotes a key if needed: a dot would make two keys of one.
fn key(name: &str) -> String {
    toml_edit::Key::new(name).display_repr().into_owned()
}

/// Writes a string on one line.
fn string(text: &str) -> String {
    if !text.contains(char::is_control) {
        return Value::from(text).to_string();
    }
    // The escapes of JSON are among those of TOML. JSON does not escape the character DEL.
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace('\u{7f}', "\\u007F")
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| string(word)).collect();
    format!("[{}]", words.join(", "))
}

fn span(time: Duration) -> String {
    match time.as_millis() {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        ms => format!("{ms}ms"),
    }
}

/// Parses a config. The error begins with the line and the column.
fn parse(text: &str) -> Result<toml::Table, String> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    body.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = body.get(..at).unwrap_or(body);
        SettingsError::after(before, &error.message().replace('\n', ", ")).to_string()
    })
}

/// Returns the config with these tables at its end.
pub fn append(text: &str, tables: &[HookTable]) -> Result<String, String> {
    let before = parse(text)?;
    let newline = newline(text);
    let mut after = text.to_owned();
    for table in tables {
        if !after.is_empty() && !after.ends_with('\n') {
            after.push_str(newline);
        }
        if !after.trim_start_matches('\u{feff}').is_empty() {
            after.push_str(newline);
        }
        after.push_str(&table.text);
    }
    let mut rest = parse(&after).map_err(|_| {
        "no table can be added to its `hooks`; write them as [hooks.NAME]".to_owned()
    })?;
    for table in tables {
        remove_hook(&mut rest, &table.name);
    }
    let mut same = before;
    let mut names = tables.iter().map(|table| &table.name);
    if names.any(|name| remove_hook(&mut same, name)) {
        return Err("a hook of that name is there already".to_owned());
    }
    remove_empty_hooks(&mut rest);
    remove_empty_hooks(&mut same);
    if rest == same {
        Ok(after)
    } else {
        Err("nothing can be added at its end".to_owned())
    }
}

/// Returns the config without a table, or `None` if the table was changed since it was written.
pub fn cut(text: &str, table: &HookTable) -> Option<String> {
    let mut starts = text.match_indices(&table.text).map(|(at, _)| at);
    let start = starts.find(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let end = start + table.text.len();
    let before = &text[..start];
    // `append` wrote the empty line before the table too.
    let newline = newline(text);
    let doubled = format!("{newline}{newline}");
    let before = match before.strip_suffix(newline) {
        Some(bare) if before.ends_with(&doubled) => bare,
        _ => before,
    };
    let after = format!("{before}{}", &text[end..]);
    let mut same = parse(text).ok()?;
    let mut rest = parse(&after).ok()?;
    remove_hook(&mut same, &table.name);
    remove_empty_hooks(&mut same);
    remove_empty_hooks(&mut rest);
    (rest == same).then_some(after)
}

/// Returns true if a config names that hook.
pub fn names_hook(text: &str, name: &str) -> bool {
    parse(text).is_ok_and(|mut config| remove_hook(&mut config, name))
}

/// Returns every hook of a config, however it is written.
pub fn hooks(text: &str) -> toml::Table {
    let hooks = parse(text).ok().and_then(|mut table| table.remove("hooks"));
    match hooks {
        Some(toml::Value::Table(hooks)) => hooks,
        _ => toml::Table::new(),
    }
}

/// Returns a string, or the strings of a list.
pub fn texts(value: &toml::Value) -> Vec<String> {
    let one = value.as_str().into_iter();
    let many = value.as_array().into_iter().flatten();
    let all = one.chain(many.filter_map(toml::Value::as_str));
    all.map(str::to_owned).collect()
}

/// Returns true if a table is on and has the values of the hook.
pub fn is_equal(table: &toml::Table, hook: &HookCandidate) -> bool {
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
    let run = match &hook.program {
        Program::Shell(line) => text("run") == Some(line),
        Program::List(words) => {
            let run = table.get("run").filter(|run| run.is_array());
            run.is_some_and(|run| texts(run) == *words)
        }
    };
    let on = table.get("on").map(texts).unwrap_or_default();
    let flag = |key: &str| table.get(key).and_then(toml::Value::as_bool);
    run && on == hook.on
        && text("tools") == hook.tools.as_deref()
        && flag("async").unwrap_or(false) == hook.is_async
        && flag("enabled") != Some(false)
        && text("timeout").map(str::to_owned) == hook.timeout.map(span)
}

/// Removes a hook from a config. Returns true if it was there.
fn remove_hook(config: &mut toml::Table, name: &str) -> bool {
    let hooks = config.get_mut("hooks").and_then(toml::Value::as_table_mut);
    hooks.is_some_and(|hooks| hooks.remove(name).is_some())
}

/// Removes `hooks` if it is empty, which is the same as none.
fn remove_empty_hooks(config: &mut toml::Table) {
    let hooks = config.get("hooks").and_then(toml::Value::as_table);
    if hooks.is_some_and(toml::Table::is_empty) {
        config.remove("hooks");
    }
}
