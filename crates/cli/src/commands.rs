//! The slash commands as files of Claude Code's: put there by `init`, taken back by `uninit`. A file
//! says itself whether it is still what we wrote, so nothing has to be remembered of it.

use std::fmt::Write;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};
use becket_wire::place::fnv1a;

use crate::settings::{self, Scope};
use crate::world::{World, project_of};

/// The folder of the commands that switch hooks: `/hook:disable`.
const HOOK: &str = "hook";
const LARGEST: u64 = 1 << 20;
const ATTEMPTS: usize = 20;

/// One file of ours, and what was done about it, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its file in the folder of commands.
    name: &'static str,
    pub path: PathBuf,
    pub before: Option<String>,
    /// None: the file is gone.
    pub after: Option<String>,
    /// A person had it before us or changed it since: it stays as it is.
    pub left_alone: bool,
}

impl Command {
    pub fn changed(&self) -> bool {
        self.before != self.after
    }

    /// Returns it as a person types it: `/hook:disable`.
    fn slash(&self) -> String {
        format!("/{}", self.name.trim_end_matches(".md").replace('/', ":"))
    }
}

/// The commands whose files were changed, and the folder that they are in; none if none was.
pub fn changed(commands: &[Command]) -> Option<(String, &Path)> {
    let changed = || commands.iter().filter(|command| command.changed());
    let first = changed().next()?;
    let folder = first.path.ancestors().nth(first.name.split('/').count())?;
    let names: Vec<String> = changed().map(Command::slash).collect();
    Some((names.join(", "), folder))
}

/// Writes the files. With `dry_run` it only says what it would do.
pub fn install(world: &World, scope: Scope, dry_run: bool) -> Result<Vec<Command>> {
    let folder = folder(world, scope)?;
    let earlier = written(&folder);
    let first = earlier.first();
    let call = Call::of(world, scope);
    let end = first.map_or_else(end, |file| file.end.clone());
    let made = first.map_or_else(|| missing(&folder.join(HOOK)), |file| file.made);
    let mut commands = Vec::new();
    for (name, template) in TEMPLATES {
        let path = folder.join(name);
        let wanted = Written {
            end: end.clone(),
            made,
        };
        let plan = |before: Option<&str>| match before {
            Some(text) if Written::read(text).is_none() => None,
            _ => Some(Some(wanted.render(template, &call))),
        };
        commands.push(edit(name, &path, scope, dry_run, plan)?);
    }
    Ok(commands)
}

/// Takes back what `install` wrote, unless it was changed since.
pub fn take_back(world: &World, scope: Scope, dry_run: bool) -> Result<Vec<Command>> {
    let folder = folder(world, scope)?;
    if is_needed(world, scope) {
        return Ok(Vec::new());
    }
    let made = written(&folder).iter().map(|file| file.made).max();
    let mut commands = Vec::new();
    for (name, _) in TEMPLATES {
        let path = folder.join(name);
        let plan = |before: Option<&str>| match before {
            Some(text) if Written::read(text).is_some() => Some(None),
            _ => None,
        };
        commands.push(edit(name, &path, scope, dry_run, plan)?);
    }
    if !dry_run {
        for folder in folder.join(HOOK).ancestors().take(made.unwrap_or(0)) {
            // It stays if anything is in it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
    commands.retain(|command| command.before.is_some());
    Ok(commands)
}

fn folder(world: &World, scope: Scope) -> Result<PathBuf> {
    let settings = match scope {
        // Claude Code has no commands for one person in one project.
        Scope::Local => project_of(&world.cwd).join(".claude"),
        _ => {
            let file = scope.file(world)?;
            file.parent().unwrap_or(Path::new("/")).to_path_buf()
        }
    };
    Ok(settings.join("commands"))
}

/// The project's and the person's own settings for it share one folder of commands.
fn is_needed(world: &World, scope: Scope) -> bool {
    let other = match scope {
        Scope::Project => Scope::Local,
        Scope::Local => Scope::Project,
        _ => return false,
    };
    let text = other.file(world).and_then(|file| settings::read(&file));
    text.is_ok_and(|text| text.is_some_and(|text| text.contains("becket-hook")))
}

/// What our files in this folder say of themselves.
fn written(folder: &Path) -> Vec<Written> {
    let read = |name: &str| {
        let file = Snapshot::read(&folder.join(name), LARGEST).ok()?;
        Written::read(str::from_utf8(file.bytes()?).ok()?)
    };
    let names = TEMPLATES.iter();
    names.filter_map(|(name, _)| read(name)).collect()
}

/// How many folders will have to be made, the innermost first.
fn missing(folder: &Path) -> usize {
    folder
        .ancestors()
        .take(3)
        .take_while(|folder| !folder.exists())
        .count()
}

/// Makes a file what `plan` says, as often as it takes. None: it is not ours to change.
fn edit(
    name: &'static str,
    path: &Path,
    scope: Scope,
    dry_run: bool,
    plan: impl Fn(Option<&str>) -> Option<Option<String>>,
) -> Result<Command> {
    let failed = || format!("could not write {}", path.display());
    for _ in 0..ATTEMPTS {
        let snapshot = Snapshot::read(path, LARGEST).with_context(failed)?;
        let bytes = snapshot.bytes();
        let before = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let planned = plan(before.as_deref());
        let command = Command {
            name,
            path: path.to_path_buf(),
            left_alone: planned.is_none() && before.is_some(),
            after: planned.unwrap_or_else(|| before.clone()),
            before,
        };
        if dry_run || !command.changed() {
            return Ok(command);
        }
        let (folder_mode, mode) = scope.modes();
        replace::make_folder(snapshot.folder(), folder_mode).with_context(failed)?;
        let attempt = match &command.after {
            Some(after) => snapshot.replace(after.as_bytes(), mode),
            None => snapshot.remove(),
        };
        if attempt.with_context(failed)? == Attempt::Done {
            return Ok(command);
        }
    }
    anyhow::bail!("{} keeps changing", path.display())
}

/// The files of the plugin, which ours are made of.
pub const TEMPLATES: [(&str, &str); 7] = [
    (
        "hook/disable.md",
        include_str!("../../../plugin/commands/hook/disable.md"),
    ),
    (
        "hook/enable.md",
        include_str!("../../../plugin/commands/hook/enable.md"),
    ),
    (
        "hook/status.md",
        include_str!("../../../plugin/commands/hook/status.md"),
    ),
    (
        "brainstorm.md",
        include_str!("../../../plugin/commands/brainstorm.md"),
    ),
    ("fix.md", include_str!("../../../plugin/commands/fix.md")),
    (
        "implement.md",
        include_str!("../../../plugin/commands/implement.md"),
    ),
    ("prd.md", include_str!("../../../plugin/commands/prd.md")),
];

/// The last line of the here-document in the plugin's files.
pub const PLUGINS_END: &str = "END_OF_ARGUMENTS_8c1f0d5e7ab94263";

const OPENING: &str = "---\n";
const MARK: &str =
    "# Written by `becket init`; `becket uninit` takes it away, unless it was changed: ";

/// How becket is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub home: Option<String>,
}

impl Call {
    /// By its path and with its home, as the hooks are. What a project shares names neither, and nor
    /// does a path that Claude Code's rules could not hold.
    pub fn of(world: &World, scope: Scope) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        let plain = |path: PathBuf| {
            let path = path.into_os_string().into_string().ok();
            path.filter(|path| scope != Scope::Project && path.chars().all(is_plain))
        };
        let program = plain(world.programs.join("becket"));
        Self {
            program: program.unwrap_or_else(|| "becket".to_owned()),
            home: plain(world.place.home().to_path_buf()),
        }
    }
}

/// What differs between two files that we wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The last line of the here-document.
    pub end: String,
    /// So many folders were made for it.
    pub made: usize,
}

/// An end for a here-document that no text contains by chance.
pub fn end() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("END_OF_ARGUMENTS_{:016x}{:016x}", random(), random())
}

impl Written {
    pub fn render(&self, template: &str, call: &Call) -> String {
        let home = call.home.as_ref();
        let home = home.map_or_else(String::new, |home| format!(" --home {home}"));
        let text = template
            .replace(PLUGINS_END, &self.end)
            // The first rule is for the call in the file. Others are for the model, which calls plain `becket`.
            .replacen("(becket ", &format!("({} ", call.program), 1)
            .replace("\nbecket ", &format!("\n{} ", call.program))
            .replace(" --slash", &format!("{home} --slash"));
        let body = text.strip_prefix(OPENING).unwrap_or(&text);
        let made = self.made;
        format!("{OPENING}{MARK}{made}-{:016x}\n{body}", hash(made, body))
    }

    /// What a file of ours says of itself. None if a person wrote or changed it.
    pub fn read(text: &str) -> Option<Self> {
        let (mark, body) = text
            .strip_prefix(OPENING)?
            .strip_prefix(MARK)?
            .split_once('\n')?;
        let (made, hash_said) = mark.split_once('-')?;
        let made = made.parse().ok()?;
        let mut said = String::new();
        write!(said, "{:016x}", hash(made, body)).ok()?;
        let (_, end) = body.split_once("<<'")?;
        let (end, _) = end.split_once('\'')?;
        let end = end.to_owned();
        (hash_said == said).then_some(Self { end, made })
    }
}

fn hash(made: usize, body: &str) -> u64 {
    fnv1a(format!("{made}\n{body}").as_bytes())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn call() -> Call {
        Call {
            program: "/home/user/.local/bin/becket".to_owned(),
            home: Some("/home/user/.becket".to_owned()),
        }
    }

    fn written() -> Written {
        Written {
            end: "END_OF_ARGUMENTS_0123".to_owned(),
            made: 2,
        }
    }

    #[test]
    fn the_files() {
        let mut all = String::new();
        for (name, template) in TEMPLATES {
            all += &format!("# {name}\n{}\n", written().render(template, &call()));
        }
        insta::assert_snapshot!(all);
    }

    #[test]
    fn the_plugins_files_end_their_argument_in_one_line() {
        for (name, template) in TEMPLATES {
            assert_eq!(template.matches(PLUGINS_END).count(), 2, "{name}");
            assert!(
                template.contains(&format!("\n$ARGUMENTS\n{PLUGINS_END}\n")),
                "{name}"
            );
        }
    }

    #[test]
    fn every_skill_of_becket_is_a_command() {
        for (name, skill) in becket_engine::effort::skill::built_in() {
            let file = format!("{name}.md");
            let template = TEMPLATES.iter().find(|(name, _)| *name == file);
            let (_, template) = template.unwrap_or_else(|| panic!("{file}"));
            for part in [
                format!("description: {}\n", skill.description),
                format!("\nbecket effort start {name} --slash - <<"),
            ] {
                assert!(template.contains(&part), "{part} in {template}");
            }
        }
    }

    #[test]
    fn a_file_knows_whether_it_is_still_ours() {
        for (_, template) in TEMPLATES {
            assert_eq!(Written::read(template), None, "the plugin's");
            let text = written().render(template, &call());
            assert_eq!(Written::read(&text), Some(written()));
            assert_eq!(Written::read(&text.replace("argument", "this")), None);
            assert_eq!(Written::read(&format!("{text}\n")), None);
            assert_eq!(Written::read(&text.replace(": 2-", ": 3-")), None);
        }
        assert_eq!(Written::read(""), None);
    }
}
