//! The foreign hooks as people and scripts see them.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::found::{Found, config_of};
use super::named::{Named, Why};
use crate::settings::{Foreign, Scope};
use crate::ui::style::{BOLD, DIM, Look, WARN};
use crate::ui::text::{count, fit, one_line};
use crate::world::World;
use becket_engine::run::Program;

const GAP: usize = 2;
const HEADS: [&str; 6] = ["", "NAME", "ON", "TOOLS", "RUNS", "FROM"];
/// The widest that each column ever is; what it runs takes the rest.
const MOST: [usize; 6] = [3, 28, 30, 20, usize::MAX, 7];
/// What goes when there is too little room, in this order.
const DROPPED: [usize; 2] = [3, 5];
/// So much of what it runs is always shown.
const LEAST: usize = 16;

/// The hooks that could be moved, numbered, then those that stay.
pub fn table(found: &Found, look: &Look) -> String {
    let can = found.hooks.iter().filter(|hook| !stays(hook));
    let rows: Vec<[String; 6]> = (1..)
        .zip(can)
        .map(|(number, hook)| row(number, hook))
        .collect();
    let mut out = String::new();
    if !rows.is_empty() {
        let widths = widths(&rows, look.width);
        out += &line(&HEADS.map(str::to_owned), &widths, look, true);
        for row in &rows {
            out += &line(row, &widths, look, false);
        }
    }
    for hook in found.hooks.iter().filter(|hook| !stays(hook)) {
        for note in &hook.notes {
            out += &format!("{DIM}{}: {note}{DIM:#}\n", hook.name);
        }
        if let Some(why) = hook.rests(&found.here) {
            out += &format!("{DIM}{} {why}{DIM:#}\n", hook.name);
        }
    }
    out + &staying(found, look)
}

/// It can never be moved.
pub fn stays(hook: &Named) -> bool {
    matches!(hook.why, Some(Why::Never(_)))
}

fn row(number: usize, hook: &Named) -> [String; 6] {
    [
        number.to_string(),
        hook.name.clone(),
        one_line(&hook.on.join(", ")),
        one_line(hook.tools.as_deref().unwrap_or_default()),
        one_line(&hook.program.to_string()),
        hook.scope.to_string(),
    ]
}

fn widths(rows: &[[String; 6]], room: usize) -> [usize; 6] {
    let mut widths: [usize; 6] = std::array::from_fn(|nth| {
        let widest = rows.iter().map(|row| row[nth].width()).max().unwrap_or(0);
        match widest {
            0 => 0,
            widest => widest.max(HEADS[nth].len()).min(MOST[nth]),
        }
    });
    let rest = |widths: &[usize; 6]| {
        let others = widths
            .iter()
            .enumerate()
            .filter(|(nth, width)| *nth != 4 && **width > 0);
        room.saturating_sub(others.map(|(_, width)| width + GAP).sum())
    };
    for nth in DROPPED {
        if rest(&widths) < LEAST.min(widths[4]) {
            widths[nth] = 0;
        }
    }
    widths[4] = rest(&widths).min(widths[4]);
    widths
}

fn line(cells: &[String; 6], widths: &[usize; 6], look: &Look, is_head: bool) -> String {
    let mut out = String::new();
    for (nth, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if *width == 0 {
            continue;
        }
        let text = fit(cell, *width, look.glyphs);
        let pad = " ".repeat(width - text.width() + GAP);
        let style = match nth {
            _ if is_head => DIM,
            1 => BOLD,
            0 | 5 => DIM,
            _ => anstyle::Style::new(),
        };
        out += &match nth {
            0 => format!("{}{style}{text}{style:#}{}", &pad[GAP..], &pad[..GAP]),
            _ => format!("{style}{text}{style:#}{pad}"),
        };
    }
    out.trim_end().to_owned() + "\n"
}

/// What stays where it is, and why.
fn staying(found: &Found, look: &Look) -> String {
    let never = found.hooks.iter().filter(|hook| stays(hook)).map(|hook| {
        let why = hook.why.as_ref().map(Why::text).unwrap_or_default();
        let what = format!("{}  {}", hook.on.join(", "), hook.program);
        (what, hook.scope, why)
    });
    let others = found.others.iter().map(|(scope, entry, why)| {
        let what = format!("{}  {}", entry.event, shown(entry));
        (what, *scope, &**why)
    });
    let all: Vec<(String, Scope, &str)> = never.chain(others).collect();
    if all.is_empty() {
        return String::new();
    }
    let gap = if all.len() == found.hooks.len() + found.others.len() {
        ""
    } else {
        "\n"
    };
    let mut out = format!(
        "{gap}{}:\n",
        count(
            all.len(),
            "hook stays where it is",
            "hooks stay where they are"
        )
    );
    for (what, scope, why) in all {
        let what = one_line(&format!("{what}  ({scope})"));
        let what = fit(&what, look.width.saturating_sub(GAP), look.glyphs);
        out += &format!("  {what}\n    {WARN}{}{WARN:#}\n", one_line(why));
    }
    out
}

/// What an entry that is not understood is about.
fn shown(entry: &Foreign) -> String {
    let fields = ["command", "url", "tool", "prompt"];
    let text = fields
        .iter()
        .find_map(|name| entry.value.get(name)?.as_str());
    text.map_or_else(|| entry.text.clone(), str::to_owned)
}

/// The same for scripts.
pub fn json(world: &World, found: &Found) -> Value {
    let hooks: Vec<Value> = found
        .hooks
        .iter()
        .map(|hook| one(world, found, hook))
        .collect();
    let others: Vec<Value> = found
        .others
        .iter()
        .map(|(scope, entry, why)| {
            json!({
                "scope": scope.to_string(),
                "file": found.file(*scope),
                "event": entry.event,
                "matcher": entry.matcher,
                "entry": entry.value,
                "why": why,
            })
        })
        .collect();
    json!({"hooks": hooks, "others": others})
}

fn one(world: &World, found: &Found, hook: &Named) -> Value {
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
        "timeout_ms": hook.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        "async": hook.is_async,
        "adoptable": hook.why.is_none(),
        "why": hook.why.as_ref().map(Why::text),
        "notes": hook.notes,
        "needs_trust": hook.rests(&found.here).is_some(),
    })
}
