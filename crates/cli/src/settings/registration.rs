//! What stands in Claude Code's settings for becket: one entry an event, in which file, and on which
//! events Claude Code waits for the answer.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use becket_engine::hooks::Hook;
use becket_wire::Place;
use serde_json::{Value, json};

use crate::claude::Numbers;
use crate::failure::{Code, Failure};
use crate::settings::change;
use crate::settings::document::{Document, Placed, SettingsError, plain_object, split_mark};
use crate::world::{World, project_of};

/// One event that becket is registered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    pub event: &'static str,
    /// Seconds until Claude Code gives up on the hook.
    pub timeout: u32,
    /// Claude Code does not wait for it, so it cannot answer.
    pub asynchronous: bool,
    /// The oldest Claude Code that was seen to know it; older ones warn of it at every start.
    pub since: Numbers,
}

impl Registered {
    const fn since(self, since: Numbers) -> Self {
        Self { since, ..self }
    }

    /// The same, but Claude Code waits for it, as long as for all others.
    fn synchronous(self) -> Self {
        Self {
            asynchronous: false,
            timeout: LONG,
            ..self
        }
    }
}

/// As long as Claude Code waits for hooks that say nothing of it.
const LONG: u32 = 600;

const fn sync(event: &'static str, timeout: u32) -> Registered {
    Registered {
        event,
        timeout,
        asynchronous: false,
        since: [0; 3],
    }
}

const fn asynchronous(event: &'static str) -> Registered {
    Registered {
        event,
        timeout: 10,
        asynchronous: true,
        since: [0; 3],
    }
}

const WITH_BATCHES: Numbers = [2, 1, 139];
const WITH_MODEL_SWITCHES: Numbers = [2, 1, 260];

/// Every event that Claude Code knows, except `NOT_REGISTERED`.
pub const REGISTERED: &[Registered] = &[
    sync("SessionStart", 600),
    sync("SessionEnd", 10),
    sync("Setup", 600),
    sync("UserPromptSubmit", 60),
    sync("UserPromptExpansion", 600).since(WITH_BATCHES),
    sync("PreToolUse", 600),
    sync("PermissionRequest", 600),
    sync("PermissionDenied", 600),
    sync("PostToolUse", 600),
    sync("PostToolUseFailure", 600),
    sync("PostToolBatch", 600).since(WITH_BATCHES),
    sync("Stop", 600),
    sync("StopFailure", 600),
    sync("SubagentStart", 600),
    sync("SubagentStop", 600),
    sync("PreCompact", 600),
    sync("PostCompact", 600),
    sync("PreModelSwitch", 600).since(WITH_MODEL_SWITCHES),
    sync("PostModelSwitch", 600).since(WITH_MODEL_SWITCHES),
    sync("TeammateIdle", 600),
    sync("TaskCreated", 600),
    sync("TaskCompleted", 600),
    sync("Elicitation", 600),
    sync("ElicitationResult", 600),
    sync("ConfigChange", 600),
    asynchronous("Notification"),
    asynchronous("InstructionsLoaded"),
    asynchronous("CwdChanged"),
    asynchronous("FileChanged"),
    asynchronous("DirectoryAdded").since(WITH_MODEL_SWITCHES),
];

/// A hook on `WorktreeCreate` replaces git, and its fellow goes with it; `MessageDisplay` would be
/// one process for each piece of text.
#[cfg(test)]
pub const NOT_REGISTERED: &[&str] = &["WorktreeCreate", "WorktreeRemove", "MessageDisplay"];

/// The one event on which a failing shim can be made to block.
pub const STRICT_EVENT: &str = "PreToolUse";

/// Whether a missing or crashing shim blocks the tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    On,
    Off,
    /// As it stands in the file; off in a new one.
    Keep,
}

/// Whether the status line goes through becket too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLine {
    On,
    /// Left to the person.
    Off,
    /// As it was said the last time; on in the beginning.
    Keep,
}

/// What an entry has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The shim, as an absolute path.
    pub program: String,
    /// The becket home, as an absolute path.
    pub home: String,
    pub strict: Strict,
    pub status_line: bool,
    /// The seconds between two refreshes of the status line.
    pub refresh: Option<u64>,
    /// The same as `init` wrote it last: another number in the settings is the user's.
    pub refresh_written: Option<u64>,
    /// The Claude Code that will read it; none stands for the newest.
    pub claude: Option<Numbers>,
    /// Events on which a named hook answers, so that Claude Code has to wait.
    pub synchronous: BTreeSet<String>,
}

impl Registration {
    /// The events that this Claude Code knows.
    pub fn events(&self) -> impl Iterator<Item = Registered> {
        let knows = |registered: &Registered| self.claude.is_none_or(|it| it >= registered.since);
        let known = REGISTERED.iter().copied().filter(knows);
        known.map(|registered| match registered.asynchronous {
            true if self.synchronous.contains(registered.event) => registered.synchronous(),
            _ => registered,
        })
    }

    /// Every text that is right for one entry, the best first. Claude Code may wait where it need
    /// not: a hook of another project may have asked for it.
    pub fn entries(&self, registered: Registered, strict: bool) -> Vec<String> {
        let mut entries = vec![self.entry(registered, strict)];
        if registered.asynchronous {
            entries.push(self.entry(registered.synchronous(), strict));
        }
        entries
    }

    /// The text of one entry, on one line.
    pub fn entry(&self, registered: Registered, strict: bool) -> String {
        self.entry_from("settings", registered, strict)
    }

    /// The same for another place than a settings file: `from` says which.
    pub fn entry_from(&self, from: &str, registered: Registered, strict: bool) -> String {
        let args = ["--event", registered.event, "--from", from];
        let args: Vec<String> = args.iter().copied().map(quoted).collect();
        let mut entry = format!(
            r#"{{"type": "command", "command": {}, "args": [{}, "--home", {}], "timeout": {}"#,
            quoted(&self.program),
            args.join(", "),
            quoted(&self.home),
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

    /// The text of a matcher group that holds nothing but one entry.
    pub fn group(&self, registered: Registered, strict: bool) -> String {
        format!(r#"{{"hooks": [{}]}}"#, self.entry(registered, strict))
    }
}

/// The hooks of the plugin: the same events, by programs that are found in PATH.
#[cfg(test)]
fn plugin_hooks() -> String {
    let entry = |registered: &Registered| {
        let event = registered.event;
        let more = match registered.asynchronous {
            true => r#", "async": true"#,
            false => "",
        };
        format!(
            r#"    "{event}": [{{"hooks": [{{"type": "command", "command": "becket-hook", "args": ["--event", "{event}", "--from", "plugin"], "timeout": {}{more}}}]}}]"#,
            registered.timeout
        )
    };
    let entries: Vec<String> = REGISTERED.iter().map(entry).collect();
    let what = "Every hook event goes through becket";
    format!(
        "{{\n  \"description\": \"{what}\",\n  \"hooks\": {{\n{}\n  }}\n}}\n",
        entries.join(",\n")
    )
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Whether an entry calls becket: known by the program's name. Without `args` the command is a
/// line for the shell, and only one that is nothing but our program counts.
pub fn is_ours(command: &str, args: Option<&[&str]>) -> bool {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All of the user's sessions.
    User,
    /// Everybody's sessions in this project.
    Project,
    /// The user's own sessions in this project.
    Local,
    /// What the machine's owner says; we only look at it.
    Managed,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Managed => "managed",
        })
    }
}

impl Scope {
    pub fn file(self, world: &World) -> Result<PathBuf> {
        let in_project = |name: &str| project_of(&world.cwd).join(".claude").join(name);
        match self {
            Self::User => match &world.claude_home {
                Some(folder) => Ok(world.cwd.join(folder).join("settings.json")),
                None => {
                    let what = "no user settings: neither CLAUDE_CONFIG_DIR nor HOME is set";
                    Err(Failure::new(Code::Usage, what).hint("set HOME").into())
                }
            },
            Self::Project => Ok(in_project("settings.json")),
            Self::Local => Ok(in_project("settings.local.json")),
            Self::Managed => Ok(PathBuf::from(MANAGED)),
        }
    }

    /// The mode of a folder and of a file that we make, before the umask.
    pub fn modes(self) -> (u32, u32) {
        match self {
            Self::User => (0o700, 0o600),
            Self::Local => (0o755, 0o600),
            Self::Project | Self::Managed => (0o755, 0o644),
        }
    }
}

/// One settings file that Claude Code reads; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    pub scope: Scope,
    pub path: PathBuf,
}

/// Every settings file that concerns a session started here.
pub fn files(world: &World) -> Vec<SettingsFile> {
    let scopes = [Scope::User, Scope::Project, Scope::Local, Scope::Managed];
    let file = |scope: Scope| {
        let path = scope.file(world).ok()?;
        Some(SettingsFile { scope, path })
    };
    let mut files: Vec<SettingsFile> = scopes.into_iter().filter_map(file).collect();
    // In the home itself the project's file is the user's.
    files.dedup_by(|later, earlier| later.path == earlier.path);
    files
}

/// Returns true if a settings file that counts for a session started here registers this becket;
/// with `sources`, only the files of these scopes are read. A file that cannot be read is Claude
/// Code's to complain about.
pub fn is_registered_here(world: &World, sources: Option<&str>) -> bool {
    let home = world.place.home().to_string_lossy();
    let is_read = |file: &&SettingsFile| {
        let scope = file.scope.to_string();
        sources.is_none_or(|sources| sources.split(',').any(|source| source.trim() == scope))
    };
    files(world).iter().filter(is_read).any(|file| {
        let text = super::read(&file.path).ok().flatten();
        text.is_some_and(|text| is_registered(&text, &home).unwrap_or(false))
    })
}

/// The seconds after which Claude Code is to draw the status line again, by the user's config.
pub fn refresh(world: &World) -> Option<u64> {
    let config = world.loader(None).current();
    let refresh = config.config.statusline.refresh?;
    Some(refresh.as_secs())
}

/// Those of the asynchronous events on which a hook that is on, and not asynchronous itself, stands.
/// Whether its project is trusted makes no difference to a registration, which outlives the question.
pub fn synchronous_events(world: &World) -> BTreeSet<String> {
    let answers = |hook: &&Arc<Hook>| hook.off.is_none() && !hook.is_async;
    let hooks = named_hooks(world);
    let on = hooks.iter().filter(answers).flat_map(|hook| &hook.on);
    on.filter(|event| event.comes_late())
        .map(ToString::to_string)
        .collect()
}

/// Every named hook that a session started here might have.
pub fn named_hooks(world: &World) -> Vec<Arc<Hook>> {
    let project = project_of(&world.cwd);
    let config = world.loader(Some(project)).current();
    config.hooks.clone()
}

/// Whether a settings file of this text has SessionStart told to the becket of this home, by a
/// program that is there.
pub fn is_registered(text: &str, home: &str) -> Result<bool, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    let names_home = |ours: &Placed<'_, '_>| {
        let args = ours.args().unwrap_or_default();
        let at = args.iter().position(|arg| *arg == "--home");
        at.is_none_or(|at| args.get(at + 1) == Some(&home))
    };
    let is_there = |ours: &Placed<'_, '_>| {
        let program = Path::new(ours.string("command").unwrap_or_default());
        !program.is_absolute() || program.exists()
    };
    Ok(document.ours().iter().any(|ours| {
        ours.counts && ours.event == "SessionStart" && names_home(ours) && is_there(ours)
    }))
}

/// The homes that becket is registered with in the settings files of a session started here. An
/// entry without `--home` means the home of the environment.
pub fn registered_homes(world: &World) -> Vec<PathBuf> {
    let texts = files(world)
        .into_iter()
        .filter_map(|file| change::read(&file.path).ok().flatten());
    let mut homes: Vec<PathBuf> = texts.flat_map(|text| homes_in(&text)).collect();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let own = Place::find(None, variable("BECKET_HOME"), variable("HOME"));
    homes.extend(own.map(|place| place.home().to_path_buf()));
    homes
}

fn homes_in(text: &str) -> Vec<PathBuf> {
    let Ok(document) = Document::parse(split_mark(text).1) else {
        return Vec::new();
    };
    let home = |ours: &Placed<'_, '_>| {
        let args = ours.args()?;
        let at = args.iter().position(|arg| *arg == "--home")?;
        Some(PathBuf::from(*args.get(at + 1)?)).filter(|home| home.is_absolute())
    };
    document.ours().iter().filter_map(home).collect()
}

/// These settings as one line of JSON, with becket registered besides what is there.
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

    use becket_wire::event::EventName;

    use crate::settings::Strict;
    use crate::settings::tests::files::Home;

    use super::*;

    #[test]
    fn every_event_is_registered_or_left_out_on_purpose() {
        let registered = REGISTERED.iter().map(|registered| registered.event);
        for event in EventName::ALL {
            let here = REGISTERED.iter().any(|it| it.event == event.as_str());
            assert_eq!(event.is_registered(), here, "{event}");
        }
        let mut here: Vec<_> = registered.chain(NOT_REGISTERED.iter().copied()).collect();
        let mut known: Vec<_> = EventName::ALL.iter().map(EventName::as_str).collect();
        here.sort_unstable();
        known.sort_unstable();
        assert_eq!(here, known);
    }

    #[test]
    fn entries_are_known_by_the_programs_name() {
        assert!(is_ours("/opt/my tools/becket-hook", Some(&[])));
        assert!(is_ours("becket-hook", None));
        assert!(is_ours(
            "/usr/bin/becket",
            Some(&["hook", "--event", "Stop"])
        ));
        assert!(!is_ours("/usr/bin/becket", Some(&["sessions"])));
        assert!(!is_ours("strace /opt/becket-hook", None));
        assert!(!is_ours("/opt/becket-hook --verbose", None));
        assert!(!is_ours("/opt/becket-hook.sh", Some(&[])));
        assert!(!is_ours("/opt/becket-hook/run", Some(&[])));
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
    fn becket_joins_what_the_user_gave() {
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
