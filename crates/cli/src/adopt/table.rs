//! A hook's table in a config file: written at its end, cut out again, and nothing else touched.

use std::time::Duration;

use becket_engine::process::Program;
use toml_edit::{Array, Value};

use super::named::Named;
use crate::ui::text::one_line;

/// One table as it was written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Block {
    pub name: String,
    pub text: String,
}

/// The table of a hook, as text.
pub fn block(hook: &Named, from: &str, newline: &str) -> Block {
    if hook.takes_built_in {
        let lines = [
            format!("[hooks.{}]", key(&hook.name)),
            format!(
                "# in place of {} of {}",
                one_line(&hook.program.to_string()),
                one_line(from)
            ),
            String::new(),
        ];
        return Block {
            name: hook.name.clone(),
            text: lines.join(newline),
        };
    }
    let on = match &hook.on[..] {
        [event] => string(event),
        events => list(events),
    };
    let run = match &hook.program {
        Program::Shell(line) => string(line),
        Program::List(words) => list(words),
    };
    let mut lines = vec![
        format!("[hooks.{}]", key(&hook.name)),
        // No description: without one, lists show what it runs.
        format!("# adopted from {}", one_line(from)),
        format!("on = {on}"),
    ];
    lines.extend(
        hook.tools
            .iter()
            .map(|tools| format!("tools = {}", string(tools))),
    );
    lines.push(format!("run = {run}"));
    lines.extend(
        hook.timeout
            .map(|time| format!("timeout = \"{}\"", span(time))),
    );
    lines.extend(hook.is_async.then(|| "async = true".to_owned()));
    lines.push(String::new());
    Block {
        name: hook.name.clone(),
        text: lines.join(newline),
    }
}

/// A dot would make two keys of one.
fn key(name: &str) -> String {
    toml_edit::Key::new(name).display_repr().into_owned()
}

/// On one line, whatever is in it.
fn string(text: &str) -> String {
    if !text.contains(char::is_control) {
        return Value::from(text).to_string();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn list(words: &[String]) -> String {
    let plain = words.iter().all(|word| !word.contains(char::is_control));
    if plain {
        return words.iter().collect::<Array>().to_string();
    }
    let words: Vec<String> = words.iter().map(|word| string(word)).collect();
    format!("[{}]", words.join(", "))
}

fn span(time: Duration) -> String {
    match time.as_millis() {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        ms => format!("{ms}ms"),
    }
}

/// Why a config cannot take a table: where, and what.
pub type Broken = String;

pub fn parse(text: &str) -> Result<toml::Table, Broken> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    body.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(body.len()));
        let before = &body.as_bytes()[..at];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        format!("{line}:{column}: {}", error.message().replace('\n', ", "))
    })
}

/// The text with these tables at its end.
pub fn append(text: &str, blocks: &[Block]) -> Result<String, Broken> {
    let before = parse(text)?;
    let newline = newline(text);
    let mut after = text.to_owned();
    for block in blocks {
        if !after.is_empty() && !after.ends_with('\n') {
            after.push_str(newline);
        }
        if !after.trim_start_matches('\u{feff}').is_empty() {
            after.push_str(newline);
        }
        after.push_str(&block.text);
    }
    let mut rest = parse(&after).map_err(|_| {
        "no table can be added to its `hooks`; write them as [hooks.NAME]".to_owned()
    })?;
    for block in blocks {
        take_away(&mut rest, &block.name);
    }
    let mut same = before;
    if blocks.iter().any(|block| take_away(&mut same, &block.name)) {
        return Err("a hook of that name is there already".to_owned());
    }
    tidy(&mut rest);
    tidy(&mut same);
    if rest == same {
        Ok(after)
    } else {
        Err("nothing can be added at its end".to_owned())
    }
}

/// The text without a table that stands there as it was written. None: it was changed.
pub fn cut(text: &str, block: &Block) -> Option<String> {
    let mut starts = text.match_indices(&block.text).map(|(at, _)| at);
    let start = starts.find(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let end = start + block.text.len();
    let before = &text[..start];
    // The empty line before it is ours too.
    let newline = newline(text);
    let doubled = format!("{newline}{newline}");
    let before = match before.strip_suffix(newline) {
        Some(bare) if before.ends_with(&doubled) => bare,
        _ => before,
    };
    let after = format!("{before}{}", &text[end..]);
    let mut same = parse(text).ok()?;
    let mut rest = parse(&after).ok()?;
    take_away(&mut same, &block.name);
    tidy(&mut same);
    tidy(&mut rest);
    (rest == same).then_some(after)
}

/// Whether a config names that hook at all.
pub fn names(text: &str, name: &str) -> bool {
    parse(text).is_ok_and(|mut table| take_away(&mut table, name))
}

/// Every hook that a config names, however it does.
pub fn hooks(text: &str) -> toml::Table {
    let hooks = parse(text).ok().and_then(|mut table| table.remove("hooks"));
    match hooks {
        Some(toml::Value::Table(hooks)) => hooks,
        _ => toml::Table::new(),
    }
}

/// A text, or the texts of a list.
pub fn texts(value: &toml::Value) -> Vec<String> {
    let one = value.as_str().into_iter();
    let many = value.as_array().into_iter().flatten();
    let all = one.chain(many.filter_map(toml::Value::as_str));
    all.map(str::to_owned).collect()
}

/// Whether a table says what the hook says, and is on.
pub fn says(table: &toml::Table, hook: &Named) -> bool {
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

fn take_away(table: &mut toml::Table, name: &str) -> bool {
    let hooks = table.get_mut("hooks").and_then(toml::Value::as_table_mut);
    hooks.is_some_and(|hooks| hooks.remove(name).is_some())
}

/// `hooks` without a hook is as good as none.
fn tidy(table: &mut toml::Table) {
    let hooks = table.get("hooks").and_then(toml::Value::as_table);
    if hooks.is_some_and(toml::Table::is_empty) {
        table.remove("hooks");
    }
}

/// The line ending that the file uses.
pub fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
