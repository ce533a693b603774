//! Shows the hooks that `becket hooks adopt` found, and reads which ones the user chose.

use std::collections::BTreeSet;

use becket_engine::process::Program;
use serde_json::{Value, json};

use crate::adopt::candidate::{HookCandidate, Obstacle};
use crate::adopt::search::{ForeignHooks, config_of};
use crate::settings::{ForeignEntry, SettingsScope};
use crate::ui::style::{BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{count, fit, one_line};
use crate::world::World;

const COLUMNS: [Column; 6] = [
    Column::right("", 0),
    Column::left("NAME", 0).cut_to(8),
    Column::left("ON", 0).cut_to(8),
    Column::left("TOOLS", 2).cut_to(8),
    Column::left("RUNS", 0).cut_to(16),
    Column::left("FROM", 1),
];

/// Lists the hooks that could be moved, with numbers, and then those that stay.
pub fn list_table(found: &ForeignHooks, look: &Look) -> String {
    let movable = || found.hooks.iter().filter(|hook| !hook.is_unsupported());
    let rows: Vec<_> = movable().zip(1..).map(row).collect();
    let mut out = String::new();
    if !rows.is_empty() {
        out += &grid(COLUMNS, &rows, look);
    }
    for hook in movable() {
        for note in &hook.notes {
            out += &format!("{DIM}{}: {note}{DIM:#}\n", hook.name);
        }
        if let Some(note) = hook.trust_note(&found.project) {
            out += &format!("{DIM}{} {note}{DIM:#}\n", hook.name);
        }
    }
    out + &staying(found, look)
}

fn row((hook, number): (&HookCandidate, usize)) -> [Cell; 6] {
    [
        Cell::new(number.to_string(), DIM),
        Cell::new(&hook.name, BOLD),
        Cell::plain(hook.on.join(", ")),
        Cell::plain(hook.tools.as_deref().unwrap_or_default()),
        Cell::plain(hook.program.to_string()),
        Cell::new(hook.scope.to_string(), DIM),
    ]
}

/// Lists the hooks that stay where they are, and the reasons.
fn staying(found: &ForeignHooks, look: &Look) -> String {
    let mut all: Vec<(String, SettingsScope, &str)> = Vec::new();
    for hook in found.hooks.iter().filter(|hook| hook.is_unsupported()) {
        let what = format!("{}  {}", hook.on.join(", "), hook.program);
        let reason = hook.obstacle.as_ref().map(Obstacle::text);
        all.push((what, hook.scope, reason.unwrap_or_default()));
    }
    for unsupported in &found.unsupported {
        let entry = &unsupported.entry;
        let what = format!("{}  {}", entry.event, command_text(entry));
        all.push((what, unsupported.scope, &unsupported.reason));
    }
    if all.is_empty() {
        return String::new();
    }
    let is_alone = all.len() == found.hooks.len() + found.unsupported.len();
    let gap = if is_alone { "" } else { "\n" };
    let stay = count(
        all.len(),
        "hook stays where it is",
        "hooks stay where they are",
    );
    let mut out = format!("{gap}{stay}:\n");
    for (what, scope, reason) in all {
        let what = one_line(&format!("{what}  ({scope})"));
        let what = fit(&what, look.width.saturating_sub(2), look.glyphs);
        out += &format!("  {what}\n    {WARN}{}{WARN:#}\n", one_line(reason));
    }
    out
}

/// Returns the text that describes an entry best.
fn command_text(entry: &ForeignEntry) -> String {
    let fields = ["command", "url", "tool", "prompt"];
    let text = fields
        .iter()
        .find_map(|name| entry.value.get(name)?.as_str());
    text.map_or_else(|| entry.text.clone(), str::to_owned)
}

/// Returns the list for scripts.
pub fn json(world: &World, found: &ForeignHooks) -> Value {
    let hooks = found.hooks.iter();
    let hooks: Vec<Value> = hooks.map(|hook| hook_json(world, found, hook)).collect();
    let others = found.unsupported.iter().map(|one| {
        json!({
            "scope": one.scope.to_string(),
            "file": found.file(one.scope),
            "event": one.entry.event,
            "matcher": one.entry.matcher,
            "entry": one.entry.value,
            "why": one.reason,
        })
    });
    json!({"hooks": hooks, "others": others.collect::<Value>()})
}

fn hook_json(world: &World, found: &ForeignHooks, hook: &HookCandidate) -> Value {
    json!({
        "name": hook.name,
        "scope": hook.scope.to_string(),
        "file": found.file(hook.scope),
        "config": config_of(world, hook.scope),
        "on": hook.on,
        "tools": hook.tools,
        "run": match &hook.program {
            Program::Shell(line) => json!(line),
            Program::List(words) => json!(words),
        },
        "timeout_ms": hook.timeout.map(|time| time.as_millis() as u64),
        "async": hook.is_async,
        "adoptable": hook.obstacle.is_none(),
        "why": hook.obstacle.as_ref().map(Obstacle::text),
        "notes": hook.notes,
        "built_in": hook.built_in.map(|built_in| built_in.name),
        "needs_trust": hook.trust_note(&found.project).is_some(),
    })
}

/// Reads an answer such as `1 3-5`, `all` or `none`.
pub fn numbers(answer: &str, most: usize) -> Option<BTreeSet<usize>> {
    match &*answer.to_lowercase() {
        "" | "none" | "no" | "n" => return Some(BTreeSet::new()),
        "all" | "a" => return Some((1..=most).collect()),
        _ => {}
    }
    let mut numbers = BTreeSet::new();
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first == 0 || first > last || last > most {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_commas_spaces_and_ranges() {
        let read = |answer: &str| numbers(answer, 5).map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("none"), Some(vec![]));
        assert_eq!(read("All"), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(read("1, 3-5 3"), Some(vec![1, 3, 4, 5]));
        for wrong in [
            "0",
            "6",
            "2-1",
            "1-6",
            "x",
            "1-",
            "-1",
            "99999999999999999999",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
