//! What stands in the settings files that concern a session started here, and how it is shown.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_engine::hooks::builtin::BUILT_INS;
use becket_engine::process::Program;
use becket_engine::replace;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::adopt::named::{Named, Read, Why, hooks, name_all};
use crate::adopt::table::{self, says};
use crate::adopt::wish::Wish;
use crate::settings::{
    self, Foreign, Inspection, Scope, SettingsFile, State, Strict, inspect, unreadable,
};
use crate::ui::style::{BOLD, DIM, Look, WARN};
use crate::ui::text::{count, fit, one_line};
use crate::world::{World, project_of};

/// The foreign hooks of all settings files.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that could be named.
    pub hooks: Vec<Named>,
    /// Those that becket could never run, and why.
    pub others: Vec<(Scope, Foreign, String)>,
    pub files: Vec<File>,
    /// The project that it was asked in.
    pub here: PathBuf,
}

/// A settings file that is there.
#[derive(Debug)]
pub struct File {
    pub scope: Scope,
    pub path: PathBuf,
    /// What it says about becket.
    pub inspection: Inspection,
}

impl Found {
    pub fn file(&self, scope: Scope) -> Option<&Path> {
        let file = self.files.iter().find(|file| file.scope == scope);
        file.map(|file| &*file.path)
    }

    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.others.is_empty()
    }

    /// Takes becket's own hooks in place of those of these names, where it has them.
    pub fn take_built_ins(&mut self, world: &World, names: &mut BTreeSet<String>) {
        let mut written: BTreeSet<(Scope, &str)> = BTreeSet::new();
        for hook in &mut self.hooks {
            let Some(built_in) = hook.built_in.filter(|_| names.remove(&hook.name)) else {
                continue;
            };
            let text = fs::read_to_string(config_of(world, hook.scope)).unwrap_or_default();
            let is_new = written.insert((hook.scope, built_in.name));
            let is_written = !is_new || table::names(&text, built_in.name);
            hook.take_built_in(built_in, is_written);
            names.insert(hook.name.clone());
        }
    }

    /// The names of becket's own hooks that could be taken in place of others.
    pub fn built_ins<'a>(&self, among: impl Iterator<Item = &'a Named>) -> String {
        let names: BTreeSet<&str> = among
            .filter_map(|hook| hook.built_in)
            .map(|it| it.name)
            .collect();
        Vec::from_iter(names).join(", ")
    }

    /// The events of which becket hears for hooks of that scope.
    fn heard(&self, scope: Scope) -> BTreeSet<&str> {
        let counts = |file: &&File| match scope {
            Scope::Project | Scope::Local => file.scope != Scope::Managed,
            Scope::User | Scope::Managed => file.scope == Scope::User,
        };
        let entries = self.files.iter().filter(counts);
        let entries = entries.flat_map(|file| &file.inspection.entries);
        let found = entries.filter(|entry| entry.state == State::Found);
        found.map(|entry| entry.event).collect()
    }
}

/// The config file into which hooks of that scope go.
pub fn config_of(world: &World, scope: Scope) -> PathBuf {
    let project = project_of(&world.cwd).join(".becket");
    match scope {
        Scope::User | Scope::Managed => world.place.config(),
        Scope::Project => project.join("config.toml"),
        Scope::Local => project.join("local.toml"),
    }
}

/// Reads every settings file. One that cannot be read is an error: what stands in it might be what
/// stands in another.
pub fn look(world: &World) -> Result<Found> {
    let registration = settings::registration_of(world, Strict::Keep)?;
    let mut found = Found {
        here: project_of(&world.cwd).to_path_buf(),
        ..Found::default()
    };
    let mut read = Vec::new();
    let mut seen = BTreeSet::new();
    for SettingsFile { scope, path } in settings::files(world) {
        // Two names of one file.
        if !seen.insert(replace::resolve(&path).unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let text = match settings::read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(_) if scope == Scope::Managed => continue,
            Err(error) => return Err(error),
        };
        let broken = |error| unreadable(&path, &error);
        let inspection = inspect(&text, &registration).map_err(broken)?;
        let entries = settings::foreign(&text).map_err(broken)?;
        read.extend(entries.into_iter().map(|entry| Read {
            scope,
            wish: wish(world, scope, &entry),
            entry,
        }));
        found.files.push(File {
            scope,
            path,
            inspection,
        });
    }
    found.hooks = name(world, hooks(&read));
    for nth in 0..found.hooks.len() {
        found.hooks[nth].why = why(&found, &found.hooks[nth]);
    }
    let others = read.into_iter().filter_map(|read| {
        let why = read.wish.err()?;
        Some((read.scope, read.entry, why))
    });
    found.others = others.collect();
    Ok(found)
}

fn wish(world: &World, scope: Scope, entry: &Foreign) -> Result<Wish, String> {
    if scope == Scope::Managed {
        return Err("managed settings are not yours to change".to_owned());
    }
    let config = config_of(world, scope);
    let home = replace::resolve(&world.place.config()).ok();
    let home = home.as_deref().and_then(Path::parent);
    let folder = replace::resolve(&config).ok();
    if scope != Scope::User && folder.as_deref().and_then(Path::parent) == home {
        return Err("this folder is becket's home, not a project".to_owned());
    }
    if entry.event == "WorktreeCreate" {
        return Err(
            "a hook on WorktreeCreate replaces git, so becket does not take it over".to_owned(),
        );
    }
    let registered = |event: &str| settings::REGISTERED.iter().any(|one| one.event == event);
    if !registered(&entry.event) {
        return Err(format!("becket does not register {}", entry.event));
    }
    Wish::read(entry)
}

/// Gives names: none that a config has, and none of a built-in.
fn name(world: &World, mut hooks: Vec<Named>) -> Vec<Named> {
    let scopes = [Scope::User, Scope::Project, Scope::Local];
    let written = scopes.map(|scope| {
        let text = fs::read_to_string(config_of(world, scope)).unwrap_or_default();
        (scope, table::hooks(&text))
    });
    let named = settings::named_hooks(world);
    let configured = named.iter().map(|hook| hook.name.clone());
    let there = written.iter().flat_map(|(_, hooks)| hooks.keys().cloned());
    let built_in = BUILT_INS.iter().map(|hook| hook.name.to_owned());
    let taken = configured.chain(there).chain(built_in).collect();
    name_all(&mut hooks, &taken, |hook| {
        let (_, there) = written.iter().find(|(scope, _)| *scope == hook.scope)?;
        let same = |table: &toml::Value| table.as_table().is_some_and(|table| says(table, hook));
        let (name, _) = there.iter().find(|(_, table)| same(table))?;
        Some(name.clone())
    });
    hooks
}

/// A hook whose events do not reach becket would silently not run.
fn why(found: &Found, hook: &Named) -> Option<Why> {
    if hook.why.is_some() {
        return hook.why.clone();
    }
    let heard = found.heard(hook.scope);
    let event = hook.on.iter().find(|event| !heard.contains(&***event))?;
    let place = match hook.scope {
        Scope::User | Scope::Managed => "your own settings",
        Scope::Project | Scope::Local => "the settings of this folder",
    };
    let text = format!("becket is not registered for {event} in {place}");
    Some(Why::Unregistered(text))
}

const GAP: usize = 2;
const HEADS: [&str; 6] = ["", "NAME", "ON", "TOOLS", "RUNS", "FROM"];
/// The widest that each column ever is; what it runs takes the rest.
const MOST: [usize; 6] = [3, 28, 30, 20, usize::MAX, 7];
/// What goes when there is too little room, in this order.
const DROPPED: [usize; 2] = [3, 5];
/// So much of what it runs is always shown.
const LEAST: usize = 16;

/// The hooks that could be moved, numbered, then those that stay.
pub fn list_table(found: &Found, look: &Look) -> String {
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
        "built_in": hook.built_in.map(|built_in| built_in.name),
        "needs_trust": hook.rests(&found.here).is_some(),
    })
}
