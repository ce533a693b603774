//! Finds mods: plugins and skills whose code runs inside Claude Code. A mod that takes part in permissions can let a
//! denied call run.

use std::fs;
use std::io::Read;
use std::iter;
use std::path::{Path, PathBuf};

use becket_engine::open_regular;
use serde_json::Value;

use crate::doctor::DoctorCheck;
use crate::world::{World, project_of};

/// The events by which a mod decides about tool calls, as its code names them.
const DECISION_EVENTS: [&str; 3] = ["classic.", "tool.check", "tool.call"];
const CODE: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];
/// The most code files of one mod that are read.
const MAX_FILES: usize = 1000;
/// The greatest depth of a folder that is searched.
const MAX_DEPTH: usize = 6;
/// The most bytes of a file that are read.
const MAX_BYTES: u64 = 4 << 20;

/// Warns of each mod that can lift a denial.
pub(super) fn mods(world: &World) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    for folder in folders(world) {
        let events = decision_events(&folder, modules(&folder));
        if events.is_empty() {
            continue;
        }
        let folder = folder.display();
        let events = events.join(", ");
        let what = format!("the mod in {folder} names {events}: it can lift a denial");
        checks.push(DoctorCheck::warning(
            "mods",
            what,
            format!("read its code, or remove {folder}"),
        ));
    }
    checks
}

/// Returns the folders that may be mods: installed plugins, the user's skills, and those of this project.
fn folders(world: &World) -> Vec<PathBuf> {
    let claude = world.claude_home.as_deref();
    let mut found = claude.map_or_else(Vec::new, installed);
    let projects = [&world.cwd, project_of(&world.cwd)].map(|folder| folder.join(".claude"));
    let homes = claude.map(Path::to_path_buf).into_iter().chain(projects);
    for home in homes {
        let skills = fs::read_dir(home.join("skills")).into_iter().flatten();
        found.extend(skills.flatten().map(|skill| skill.path()));
    }
    found.sort();
    found.dedup();
    found
}

fn installed(claude_home: &Path) -> Vec<PathBuf> {
    let list = read_json(&claude_home.join("plugins/installed_plugins.json"));
    let plugins = list["plugins"].as_object().into_iter().flatten();
    let places = plugins.flat_map(|(_, places)| places.as_array().into_iter().flatten());
    let paths = places.filter_map(|place| place["installPath"].as_str());
    paths.map(PathBuf::from).collect()
}

/// Returns the code files that the hooks files of a plugin or skill name. The list is empty if it is not a mod.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let manifest = read_json(&folder.join(".claude-plugin/plugin.json"));
    let named = match &manifest["hooks"] {
        Value::Array(files) => files.as_slice(),
        file => std::slice::from_ref(file),
    };
    let named = named.iter().filter_map(Value::as_str);
    let mut found = Vec::new();
    for file in iter::once("hooks/hooks.json").chain(named) {
        let file = folder.join(file);
        let hooks = read_json(&file);
        let modules = hooks["modules"].as_array().into_iter().flatten();
        let modules = modules.filter_map(Value::as_str);
        found.extend(modules.map(|module| file.with_file_name(module)));
    }
    found
}

/// Returns those of [`DECISION_EVENTS`] that a mod's code names, in its modules and in the rest of its folder.
fn decision_events(folder: &Path, modules: Vec<PathBuf>) -> Vec<&'static str> {
    if modules.is_empty() {
        return Vec::new();
    }
    let mut files = modules;
    let mut folders = vec![(folder.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
                continue;
            }
            let end = path.extension().and_then(|end| end.to_str());
            if files.len() < MAX_FILES && end.is_some_and(|end| CODE.contains(&end)) {
                files.push(path);
            }
        }
    }
    let mut named = Vec::new();
    for file in files {
        let code = read(&file);
        named.extend(DECISION_EVENTS.iter().filter(|name| code.contains(**name)));
    }
    named.sort_unstable();
    named.dedup();
    named
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_default()
}

/// Reads the beginning of a regular file. Returns an empty text for anything else.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = open_regular(path) {
        drop(file.take(MAX_BYTES).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
