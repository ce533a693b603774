//! becket's entries in Claude Code's settings: one for each event, the file that they are in, and the
//! events on which Claude Code waits for the answer.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use becket_engine::hooks::Hook;
use becket_wire::Place;
use becket_wire::event::EventName;
use serde_json::{Value, json};

use crate::claude::Numbers;
use crate::failure::{Code, Failure};
use crate::settings::document::{Document, PlacedEntry, SettingsError, plain_object, split_mark};
use crate::settings::text_file::read;
use crate::world::{World, project_of};

/// An event that becket is registered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredEvent {
    pub event: &'static str,
    /// The number of seconds until Claude Code gives up on the hook.
    pub timeout: u64,
    /// True if Claude Code does not wait for the hook, so that it cannot answer.
    pub asynchronous: bool,
}

impl RegisteredEvent {
    pub fn new(name: &'static str) -> Self {
        let event = EventName::from(name);
        Self {
            event: name,
            timeout: event.waits().as_secs(),
            asynchronous: event.comes_late(),
        }
    }

    /// Returns the event as one on which Claude Code waits, as long as on all others.
    fn synchronous(self) -> Self {
        Self {
            asynchronous: false,
            timeout: DEFAULT_TIMEOUT,
            ..self
        }
    }
}

/// The number of seconds that Claude Code waits for a hook without a `timeout`.
const DEFAULT_TIMEOUT: u64 = 600;

/// Every event that Claude Code knows, except `NOT_REGISTERED`.
pub const REGISTERED: &[&str] = &[
    "SessionStart",
    "SessionEnd",
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "Notification",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
];

/// Returns the oldest Claude Code that was seen to know an event. Older ones warn of it at every start.
fn known_since(event: &str) -> Numbers {
    match event {
        "UserPromptExpansion" | "PostToolBatch" => [2, 1, 139],
        "PreModelSwitch" | "PostModelSwitch" | "DirectoryAdded" => [2, 1, 260],
        _ => [0; 3],
    }
}

/// The events that becket is not registered for. A hook on `WorktreeCreate` replaces git, and
/// `WorktreeRemove` belongs to it. `MessageDisplay` would start a process for each piece of text.
#[cfg(test)]
pub const NOT_REGISTERED: &[&str] = &["WorktreeCreate", "WorktreeRemove", "MessageDisplay"];

/// The only event on which a failing shim can be made to block.
pub const STRICT_EVENT: &str = "PreToolUse";

/// The choice of whether a missing or crashing shim blocks the tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    On,
    Off,
    /// As the file has it, and off in a new file.
    Keep,
}

/// The choice of whether the status line goes through becket too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLine {
    On,
    /// The user's own status line stays.
    Off,
    /// As chosen the last time, and on at first.
    Keep,
}

/// The values that go into becket's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The shim, as an absolute path.
    pub program: String,
    /// The becket home, as an absolute path.
    pub home: String,
    pub strict: Strict,
    pub status_line: bool,
    /// The number of seconds between two refreshes of the status line.
    pub refresh: Option<u64>,
    /// The `refresh` that `init` wrote last. Another number in the settings is the user's.
    pub refresh_written: Option<u64>,
    /// The version of the Claude Code that will read the entries. `None` is the newest.
    pub claude: Option<Numbers>,
    /// The events on which a named hook answers, so that Claude Code has to wait.
    pub synchronous: BTreeSet<String>,
}

impl Registration {
    /// Returns the events that this Claude Code knows.
    pub fn events(&self) -> impl Iterator<Item = RegisteredEvent> {
        let all = REGISTERED.iter().copied();
        let known = all.filter(|event| self.claude.is_none_or(|it| it >= known_since(event)));
        known.map(RegisteredEvent::new).map(|registered| {
            if registered.asynchronous && self.synchronous.contains(registered.event) {
                registered.synchronous()
            } else {
                registered
            }
        })
    }

    /// Returns every text that is right for an entry, the best first. Claude Code may wait where it
    /// need not: a hook of another project may have asked for that.
    pub fn entries(&self, registered: RegisteredEvent, strict: bool) -> Vec<String> {
        let mut entries = vec![self.entry(registered, strict)];
        if registered.asynchronous {
            entries.push(self.entry(registered.synchronous(), strict));
        }
        entries
    }

    /// Returns the text of one entry, on one line.
    pub fn entry(&self, registered: RegisteredEvent, strict: bool) -> String {
        self.entry_from("settings", registered, strict)
    }

    /// Returns the text of one entry for another place than a settings file, which `from` names.
    pub fn entry_from(&self, from: &str, registered: RegisteredEvent, strict: bool) -> String {
        let args = [
            "--event",
            registered.event,
            "--from",
            from,
            "--home",
            &self.home,
        ];
        let mut entry = format!(
            r#"{{"type": "command", "command": {}, "args": [{}], "timeout": {}"#,
            quoted(&self.program),
            args.map(quoted).join(", "),
            registered.timeout,
        );
        if registered.asynchronous {
            entry.push_str(r#", "async": true"#);
        }
        if strict && registered.event == STRICT_EVENT {
            entry.push_str(r#", "onFailure": "block""#);
        }
        entry.push('}');
        entry
    }
}

/// Returns the hooks of the plugin: the same events, with programs that are found in PATH.
#[cfg(test)]
fn plugin_hooks() -> String {
    let mut entries = Vec::new();
    for RegisteredEvent {
        event,
        timeout,
        asynchronous,
    } in REGISTERED.iter().copied().map(RegisteredEvent::new)
    {
        let more = if asynchronous {
            r#", "async": true"#
        } else {
            ""
        };
        entries.push(format!(
            r#"    "{event}": [{{"hooks": [{{"type": "command", "command": "becket-hook", "args": ["--event", "{event}", "--from", "plugin"], "timeout": {timeout}{more}}}]}}]"#,
        ));
    }
    let what = "Every hook event goes through becket";
    format!(
        "{{\n  \"description\": \"{what}\",\n  \"hooks\": {{\n{}\n  }}\n}}\n",
        entries.join(",\n")
    )
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns true if an entry calls becket, by the name of its program. Without `args` the command is a
/// line for the shell, and counts only if it is the program alone.
pub fn is_becket(command: &str, args: Option<&[&str]>) -> bool {
    let name = Path::new(command)
        .file_name()
        .and_then(|name| name.to_str());
    match (name, args) {
        (Some("becket-hook"), Some(_)) => true,
        (Some("becket-hook"), None) => !command.contains(char::is_whitespace),
        (Some("becket"), Some(args)) => args.first() == Some(&"hook"),
        _ => false,
    }
}

const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// The sessions that a settings file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingsScope {
    /// All sessions of the user.
    User,
    /// All users' sessions in this project.
    Project,
    /// The user's own sessions in this project.
    Local,
    /// All sessions on the machine, by its owner. becket only reads this file.
    Managed,
}

impl fmt::Display for SettingsScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Managed => "managed",
        })
    }
}

impl SettingsScope {
    /// Returns the settings file of this scope.
    pub fn file(self, world: &World) -> Result<PathBuf> {
        match self {
            Self::User => match &world.claude_home {
                Some(folder) => Ok(world.cwd.join(folder).join("settings.json")),
                None => {
                    let what = "no user settings: neither CLAUDE_CONFIG_DIR nor HOME is set";
                    Err(Failure::new(Code::Usage, what).hint("set HOME").into())
                }
            },
            Self::Project => Ok(project_of(&world.cwd).join(".claude/settings.json")),
            Self::Local => Ok(project_of(&world.cwd).join(".claude/settings.local.json")),
            Self::Managed => Ok(PathBuf::from(MANAGED)),
        }
    }

    /// Returns the modes of a new folder and of a new file, before the umask.
    pub fn modes(self) -> (u32, u32) {
        match self {
            Self::User => (0o700, 0o600),
            Self::Local => (0o755, 0o600),
            Self::Project | Self::Managed => (0o755, 0o644),
        }
    }
}

/// A settings file that Claude Code reads. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    pub scope: SettingsScope,
    pub path: PathBuf,
}

/// Returns every settings file that concerns a session started here.
pub fn files(world: &World) -> Vec<SettingsFile> {
    let mut files = Vec::new();
    for scope in [
        SettingsScope::User,
        SettingsScope::Project,
        SettingsScope::Local,
        SettingsScope::Managed,
    ] {
        if let Ok(path) = scope.file(world) {
            files.push(SettingsFile { scope, path });
        }
    }
    // In the home itself the project's file is the user's.
    files.dedup_by(|later, earlier| later.path == earlier.path);
    files
}

/// Returns true if a settings file that counts for a session started here registers this becket. With
/// `sources`, only the files of these scopes are read. A file that cannot be read does not count:
/// Claude Code itself reports it.
pub fn is_registered_here(world: &World, sources: Option<&str>) -> bool {
    let home = world.place.home().to_string_lossy();
    files(world).iter().any(|file| {
        let scope = file.scope.to_string();
        if sources.is_some_and(|sources| sources.split(',').all(|it| it.trim() != scope)) {
            return false;
        }
        let text = read(&file.path).ok().flatten();
        text.is_some_and(|text| is_registered(&text, &home).unwrap_or(false))
    })
}

/// Returns the asynchronous events that have a hook which is on and not asynchronous itself. A hook of
/// a project that is not trusted counts too, since the registration outlives that question.
pub fn synchronous_events(world: &World) -> BTreeSet<String> {
    let mut hooks = named_hooks(world);
    hooks.retain(|hook| hook.off.is_none() && !hook.is_async);
    let events = hooks.iter().flat_map(|hook| &hook.on);
    events
        .filter(|event| event.comes_late())
        .map(ToString::to_string)
        .collect()
}

/// Returns every named hook that a session started here might have.
pub fn named_hooks(world: &World) -> Vec<Arc<Hook>> {
    let project = project_of(&world.cwd);
    let config = world.loader(Some(project)).current();
    config.hooks.clone()
}

/// Returns true if these settings register SessionStart with the becket of this home, and with a
/// program that exists.
pub fn is_registered(text: &str, home: &str) -> Result<bool, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    Ok(document.becket_entries().iter().any(|entry| {
        let program = Path::new(entry.string("command").unwrap_or_default());
        entry.is_in_force
            && entry.event == "SessionStart"
            && home_of(entry).is_none_or(|named| named == Some(home))
            && (!program.is_absolute() || program.exists())
    }))
}

/// Returns the argument after `--home`, or `None` if an entry has no `--home`.
fn home_of<'d>(entry: &'d PlacedEntry<'_, '_>) -> Option<Option<&'d str>> {
    let args = entry.args()?;
    let at = args.iter().position(|arg| *arg == "--home")?;
    Some(args.get(at + 1).copied())
}

/// Returns the homes of all beckets in the settings files of a session started here. An entry without
/// `--home` means the home of the environment.
pub fn registered_homes(world: &World) -> Vec<PathBuf> {
    let mut homes = Vec::new();
    for file in files(world) {
        if let Ok(Some(text)) = read(&file.path) {
            homes.extend(homes_in(&text));
        }
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let own = Place::find(None, variable("BECKET_HOME"), variable("HOME"));
    homes.extend(own.map(|place| place.home().to_path_buf()));
    homes
}

fn homes_in(text: &str) -> Vec<PathBuf> {
    let Ok(document) = Document::parse(split_mark(text).1) else {
        return Vec::new();
    };
    let entries = document.becket_entries();
    let homes = entries.iter().filter_map(|entry| home_of(entry).flatten());
    let homes = homes.map(PathBuf::from);
    homes.filter(|home| home.is_absolute()).collect()
}

/// Returns these settings as one line of JSON, with becket's entries added.
pub fn with_registration(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let mut settings = document.root()?.map_or_else(|| json!({}), plain_object);
    document.hooks()?;
    for registered in registration.events() {
        document.groups(registered.event)?;
        let entry = registration.entry_from("run", registered, false);
        let entry: Value = serde_json::from_str(&entry).unwrap_or_default();
        let group = json!({"hooks": [entry]});
        match settings["hooks"][registered.event].as_array_mut() {
            Some(groups) => groups.push(group),
            None => settings["hooks"][registered.event] = json!([group]),
        }
    }
    Ok(settings.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use crate::settings::Strict;
    use crate::settings::tests::files::Home;

    use super::*;

    #[test]
    fn every_event_is_registered_or_left_out_on_purpose() {
        for event in EventName::ALL {
            let here = REGISTERED.contains(&event.as_str());
            assert_eq!(event.is_registered(), here, "{event}");
        }
        let mut here = [REGISTERED, NOT_REGISTERED].concat();
        let mut known: Vec<_> = EventName::ALL.iter().map(EventName::as_str).collect();
        here.sort_unstable();
        known.sort_unstable();
        assert_eq!(here, known);
    }

    #[test]
    fn beckets_entries_are_found_by_the_programs_name() {
        assert!(is_becket("/opt/my tools/becket-hook", Some(&[])));
        assert!(is_becket("becket-hook", None));
        assert!(is_becket(
            "/usr/bin/becket",
            Some(&["hook", "--event", "Stop"])
        ));
        assert!(!is_becket("/usr/bin/becket", Some(&["sessions"])));
        assert!(!is_becket("strace /opt/becket-hook", None));
        assert!(!is_becket("/opt/becket-hook --verbose", None));
        assert!(!is_becket("/opt/becket-hook.sh", Some(&[])));
        assert!(!is_becket("/opt/becket-hook/run", Some(&[])));
    }

    /// `BECKET_WRITE_PLUGIN=1 cargo test -p becket plugin` writes the file.
    #[test]
    fn the_plugin_registers_the_same_events() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin/hooks/hooks.json");
        if std::env::var_os("BECKET_WRITE_PLUGIN").is_some() {
            fs::write(&file, plugin_hooks()).unwrap();
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, plugin_hooks(), "{}", file.display());
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["hooks"].as_object().unwrap().len(), REGISTERED.len());
    }

    #[test]
    fn only_a_hook_that_is_on_and_answers_makes_claude_code_wait() {
        let home = Home::new();
        fs::create_dir_all(home.world.place.home()).unwrap();
        let events = |text: &str| -> Vec<String> {
            fs::write(home.world.place.config(), text).unwrap();
            synchronous_events(&home.world).into_iter().collect()
        };
        let hook = "[hooks.a]\nrun = \"a\"\non = [\"Notification\", \"Stop\"]\n";
        assert_eq!(events(hook), ["Notification"]);
        assert!(events(&format!("{hook}async = true\n")).is_empty());
        assert!(events(&format!("{hook}enabled = false\n")).is_empty());
        let theirs = home.world.cwd.join(".becket");
        fs::create_dir(&theirs).unwrap();
        fs::write(
            theirs.join("local.toml"),
            hook.replace("Notification", "CwdChanged"),
        )
        .unwrap();
        assert_eq!(events(""), ["CwdChanged"], "a project's counts too");
    }

    fn registration() -> Registration {
        Registration {
            program: "/opt/becket-hook".to_owned(),
            home: "/home/user/.becket".to_owned(),
            strict: Strict::Keep,
            status_line: false,
            refresh: None,
            refresh_written: None,
            claude: None,
            synchronous: BTreeSet::new(),
        }
    }

    #[test]
    fn with_registration_keeps_the_users_settings() {
        let theirs = r#"{ // mine
            "model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]},
        }"#;
        let both = with_registration(theirs, &registration()).unwrap();
        let both: Value = serde_json::from_str(&both).unwrap();
        assert_eq!(both["model"], "opus");
        assert_eq!(both["hooks"]["Stop"][0]["hooks"][0]["command"], "beep");
        let ours = &both["hooks"]["Stop"][1]["hooks"][0];
        assert_eq!(ours["command"], "/opt/becket-hook");
        let args = [
            "--event",
            "Stop",
            "--from",
            "run",
            "--home",
            "/home/user/.becket",
        ];
        assert_eq!(ours["args"], json!(args));
    }

    #[test]
    fn a_registration_counts_for_its_home_and_while_its_program_is_there() {
        let home = "/home/user/.becket";
        let text = |program: &str| {
            let program = program.to_owned();
            with_registration(
                "",
                &Registration {
                    program,
                    ..registration()
                },
            )
            .unwrap()
        };
        assert!(!is_registered(&text("/gone/becket-hook"), home).unwrap());
        let anywhere = text("becket-hook");
        assert!(is_registered(&anywhere, home).unwrap());
        assert!(!is_registered(&anywhere, "/another/home").unwrap());
        assert!(!is_registered("{}", home).unwrap());
    }
}
