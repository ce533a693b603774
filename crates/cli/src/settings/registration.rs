//! What stands in Claude Code's settings for becket: one entry an event.

use std::collections::BTreeSet;
use std::path::Path;

use crate::claude::Numbers;

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
    serde_json::Value::from(text).to_string()
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

#[cfg(test)]
mod tests {
    use becket_wire::event::EventName;

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
    fn what_may_come_late_is_what_claude_code_does_not_wait_for() {
        for registered in REGISTERED {
            let event = EventName::from(registered.event);
            assert_eq!(event.comes_late(), registered.asynchronous, "{event}");
            let waits = event.waits().as_secs();
            assert_eq!(waits, u64::from(registered.timeout), "{event}");
        }
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

    #[test]
    fn an_entry_is_json_and_says_what_the_design_says() {
        let registration = Registration {
            program: "/opt/a \"b\"/becket-hook".into(),
            home: "/home/user/.becket".into(),
            strict: Strict::On,
            status_line: true,
            claude: None,
            synchronous: BTreeSet::from(["CwdChanged".to_owned()]),
        };
        let entry = |event: &str| {
            let registered = REGISTERED.iter().find(|r| r.event == event).unwrap();
            registration.entry(*registered, true)
        };
        insta::assert_snapshot!(entry("PreToolUse"), @r#"{"type": "command", "command": "/opt/a \"b\"/becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 600, "onFailure": "block"}"#);
        insta::assert_snapshot!(entry("FileChanged"), @r#"{"type": "command", "command": "/opt/a \"b\"/becket-hook", "args": ["--event", "FileChanged", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 10, "async": true}"#);
        insta::assert_snapshot!(entry("SessionEnd"), @r#"{"type": "command", "command": "/opt/a \"b\"/becket-hook", "args": ["--event", "SessionEnd", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 10}"#);
        serde_json::from_str::<serde_json::Value>(&entry("Stop")).unwrap();
    }

    /// `BECKET_WRITE_PLUGIN=1 cargo test -p becket plugin` writes the file.
    #[test]
    fn the_plugin_registers_the_same_events() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin/hooks/hooks.json");
        if std::env::var_os("BECKET_WRITE_PLUGIN").is_some() {
            std::fs::write(&file, plugin_hooks()).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, plugin_hooks(), "{}", file.display());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["hooks"].as_object().unwrap().len(), REGISTERED.len());
    }
}
