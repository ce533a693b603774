//! The files of Claude Code's slash commands that `init` writes and `uninit` removes. Each file holds
//! a hash of its text, so that no record is needed to tell whether a user changed it.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_wire::place::fnv1a;

use crate::settings::{self, FileChange, SettingsScope};
use crate::world::{World, project_of};

/// The folder of the commands that switch hooks: `/hook:disable`.
const HOOK: &str = "hook";

/// The file of a slash command before and after `init` or `uninit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFile {
    /// The path in the folder of commands.
    name: &'static str,
    pub change: FileChange,
    /// True if the file stays as it is: a user wrote it, or changed it since.
    pub left_alone: bool,
}

impl CommandFile {
    /// Returns the command as a user types it: `/hook:disable`.
    fn slash(&self) -> String {
        format!("/{}", self.name.trim_end_matches(".md").replace('/', ":"))
    }
}

/// Returns the commands whose files were changed and the folder that they are in, or `None` if no file
/// was changed.
pub fn changed(commands: &[CommandFile]) -> Option<(String, &Path)> {
    let changed = || commands.iter().filter(|file| file.change.changed());
    let first = changed().next()?;
    let depth = first.name.split('/').count();
    let folder = first.change.file.ancestors().nth(depth)?;
    let names: Vec<String> = changed().map(CommandFile::slash).collect();
    Some((names.join(", "), folder))
}

/// Writes the files. With `dry_run` nothing is written.
pub fn install(world: &World, scope: SettingsScope, dry_run: bool) -> Result<Vec<CommandFile>> {
    let folder = folder(world, scope)?;
    let stamp = stamps(&folder).into_iter().next();
    let stamp = stamp.unwrap_or_else(|| Stamp {
        delimiter: new_delimiter(),
        made_folders: count_missing(&folder.join(HOOK)),
    });
    let invocation = Invocation::of(world, scope);
    let mut commands = Vec::new();
    for (name, template) in TEMPLATES {
        let path = folder.join(name);
        let command = edit(name, &path, scope, dry_run, |before| match before {
            Some(text) if Stamp::read(text).is_none() => None,
            _ => Some(Some(stamp.render(template, &invocation))),
        })?;
        commands.push(command);
    }
    Ok(commands)
}

/// Removes the files that `install` wrote, unless they were changed since.
pub fn take_back(world: &World, scope: SettingsScope, dry_run: bool) -> Result<Vec<CommandFile>> {
    let folder = folder(world, scope)?;
    if is_needed(world, scope) {
        return Ok(Vec::new());
    }
    let stamps = stamps(&folder).into_iter();
    let made_folders = stamps.map(|stamp| stamp.made_folders).max().unwrap_or(0);
    let mut commands = Vec::new();
    for (name, _) in TEMPLATES {
        let path = folder.join(name);
        let command = edit(name, &path, scope, dry_run, |before| {
            Stamp::read(before?).is_some().then_some(None)
        })?;
        commands.push(command);
    }
    if !dry_run {
        for folder in folder.join(HOOK).ancestors().take(made_folders) {
            // The folder stays if anything is in it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
    commands.retain(|command| command.change.before.is_some());
    Ok(commands)
}

fn folder(world: &World, scope: SettingsScope) -> Result<PathBuf> {
    let settings = match scope {
        // Claude Code has no commands for one person in one project.
        SettingsScope::Local => project_of(&world.cwd).join(".claude"),
        _ => {
            let file = scope.file(world)?;
            file.parent().unwrap_or(Path::new("/")).to_path_buf()
        }
    };
    Ok(settings.join("commands"))
}

/// Returns true if another scope needs the files: a project's settings and a user's own settings for
/// it share one folder of commands.
fn is_needed(world: &World, scope: SettingsScope) -> bool {
    let other = match scope {
        SettingsScope::Project => SettingsScope::Local,
        SettingsScope::Local => SettingsScope::Project,
        _ => return false,
    };
    let text = other.file(world).and_then(|file| settings::read(&file));
    text.is_ok_and(|text| text.is_some_and(|text| text.contains("becket-hook")))
}

/// Returns the stamps of the files that `init` wrote to this folder.
fn stamps(folder: &Path) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    for (name, _) in TEMPLATES {
        if let Ok(file) = settings::snapshot(&folder.join(name))
            && let Ok(text) = str::from_utf8(file.bytes().unwrap_or_default())
        {
            stamps.extend(Stamp::read(text));
        }
    }
    stamps
}

/// Returns the number of folders that `install` has to make.
fn count_missing(folder: &Path) -> usize {
    let folders = folder.ancestors().take(3);
    folders.take_while(|folder| !folder.exists()).count()
}

/// Changes a file to the text that `plan` returns for the old text: `Some(None)` removes the file,
/// and `None` leaves it alone.
fn edit(
    name: &'static str,
    path: &Path,
    scope: SettingsScope,
    dry_run: bool,
    plan: impl Fn(Option<&str>) -> Option<Option<String>>,
) -> Result<CommandFile> {
    settings::retry(path, || {
        let snapshot = settings::snapshot(path)?;
        let bytes = snapshot.bytes();
        let before = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let planned = plan(before.as_deref());
        let mut command = CommandFile {
            name,
            left_alone: planned.is_none() && before.is_some(),
            change: FileChange {
                file: path.to_path_buf(),
                after: planned.unwrap_or_else(|| before.clone()),
                before,
                backup: None,
            },
        };
        let is_written = dry_run || command.change.write(&snapshot, scope, false)?;
        Ok(is_written.then_some(command))
    })
}

/// The files of the plugin, from which the files of `init` are made.
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
pub const PLUGIN_DELIMITER: &str = "END_OF_ARGUMENTS_8c1f0d5e7ab94263";

const OPENING: &str = "---\n";
const MARK: &str = "# Written by `becket up`; `becket down` takes it away, unless it was changed: ";

/// The program and the home in the command line of a command file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub program: String,
    pub home: Option<String>,
}

impl Invocation {
    /// Returns the path of becket and its home. A project's file has neither of them, since a project
    /// is shared. A path that a permission rule of Claude Code cannot hold is left out too.
    pub fn of(world: &World, scope: SettingsScope) -> Self {
        let program = rule_path(world.programs.join("becket"));
        let home = rule_path(world.place.home().to_path_buf());
        let is_shared = scope == SettingsScope::Project;
        let program = program.filter(|_| !is_shared);
        Self {
            program: program.unwrap_or_else(|| "becket".to_owned()),
            home: home.filter(|_| !is_shared),
        }
    }
}

/// Returns a path as text if a permission rule of Claude Code can hold it.
fn rule_path(path: PathBuf) -> Option<String> {
    let path = path.into_os_string().into_string().ok()?;
    let mut characters = path.chars();
    let is_plain = characters.all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    is_plain.then_some(path)
}

/// The values that a file holds besides its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The last line of the here-document.
    pub delimiter: String,
    /// The number of folders that were made for the files.
    pub made_folders: usize,
}

/// Returns the end of a here-document that no text contains by chance.
fn new_delimiter() -> String {
    let [one, two] = [(); 2].map(|()| RandomState::new().hash_one(0));
    format!("END_OF_ARGUMENTS_{one:016x}{two:016x}")
}

impl Stamp {
    /// Returns the text of a command file.
    pub fn render(&self, template: &str, invocation: &Invocation) -> String {
        let program = &invocation.program;
        let home = invocation.home.as_ref();
        let home = home.map_or_else(String::new, |home| format!(" --home {home}"));
        let text = template
            .replace(PLUGIN_DELIMITER, &self.delimiter)
            // The first rule is for the call in the file. Others are for the model, which calls plain `becket`.
            .replacen("(becket ", &format!("({program} "), 1)
            .replace("\nbecket ", &format!("\n{program} "))
            .replace(" --slash", &format!("{home} --slash"));
        let body = text.strip_prefix(OPENING).unwrap_or(&text);
        let made = self.made_folders;
        format!("{OPENING}{MARK}{made}-{:016x}\n{body}", hash(made, body))
    }

    /// Reads the stamp of a file. Returns `None` if a user wrote or changed the file.
    pub fn read(text: &str) -> Option<Self> {
        let (mark, body) = text
            .strip_prefix(OPENING)?
            .strip_prefix(MARK)?
            .split_once('\n')?;
        let (made, written_hash) = mark.split_once('-')?;
        let made_folders = made.parse().ok()?;
        let (_, delimiter) = body.split_once("<<'")?;
        let (delimiter, _) = delimiter.split_once('\'')?;
        let is_unchanged = written_hash == format!("{:016x}", hash(made_folders, body));
        is_unchanged.then(|| Self {
            delimiter: delimiter.to_owned(),
            made_folders,
        })
    }
}

fn hash(made_folders: usize, body: &str) -> u64 {
    fnv1a(format!("{made_folders}\n{body}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation() -> Invocation {
        Invocation {
            program: "/home/user/.local/bin/becket".to_owned(),
            home: Some("/home/user/.becket".to_owned()),
        }
    }

    fn stamp() -> Stamp {
        Stamp {
            delimiter: "END_OF_ARGUMENTS_0123".to_owned(),
            made_folders: 2,
        }
    }

    #[test]
    fn the_files() {
        let mut all = String::new();
        for (name, template) in TEMPLATES {
            all += &format!("# {name}\n{}\n", stamp().render(template, &invocation()));
        }
        insta::assert_snapshot!(all);
    }

    #[test]
    fn the_plugins_files_end_their_argument_in_one_line() {
        for (name, template) in TEMPLATES {
            assert_eq!(template.matches(PLUGIN_DELIMITER).count(), 2, "{name}");
            assert!(
                template.contains(&format!("\n$ARGUMENTS\n{PLUGIN_DELIMITER}\n")),
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
    fn a_changed_file_has_no_stamp() {
        for (_, template) in TEMPLATES {
            assert_eq!(Stamp::read(template), None, "the plugin's");
            let text = stamp().render(template, &invocation());
            assert_eq!(Stamp::read(&text), Some(stamp()));
            assert_eq!(Stamp::read(&text.replace("argument", "this")), None);
            assert_eq!(Stamp::read(&format!("{text}\n")), None);
            assert_eq!(Stamp::read(&text.replace(": 2-", ": 3-")), None);
        }
        assert_eq!(Stamp::read(""), None);
    }
}
