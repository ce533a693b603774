//! The programs that a story registers for events: becket or the plain recorder.

use std::fmt::Debug;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::events::{self, Event, Events};
use crate::claude::{Claude, Home, SettingsScope};
use crate::skip::Unavailable;
use crate::world::World;

/// Every event of the pinned version except WorktreeCreate, where a hook replaces git.
pub const EVENTS: [&str; 32] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

/// A program that receives every event of a story.
pub trait Registration: Debug {
    fn name(&self) -> &'static str;

    /// Registers the program in the settings of `home`; may add to its environment.
    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable>;

    /// Returns the events so far, in order of arrival.
    fn events(&self, home: &Home) -> Events;

    /// Returns the world of becket, for becket.
    fn world(&self) -> Option<&World> {
        None
    }
}

/// A program that records every event and answers nothing.
#[derive(Debug, Default)]
pub struct Recorder {
    without: Vec<&'static str>,
}

impl Recorder {
    /// Creates a recorder for the events that becket registers.
    pub fn witness() -> Self {
        Self::default().without(&["MessageDisplay", "WorktreeRemove"])
    }

    /// Excludes these events.
    #[must_use]
    pub fn without(mut self, events: &[&'static str]) -> Self {
        self.without.extend(events);
        self
    }
}

impl Registration for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable> {
        let mut events = claude.known(&EVENTS);
        events.retain(|event| !self.without.contains(event));
        for event in events {
            // In print mode Claude Code ends its hooks of StopFailure after some 10 ms; a witness has to
            // outlast that.
            let stubborn = format!("trap '' TERM INT HUP; exec {}", command(home, &[]));
            let handler = handler(&stubborn);
            home.add_hook(SettingsScope::User, event, None, &handler);
        }
        Ok(())
    }

    fn events(&self, home: &Home) -> Events {
        events::recorded(home, "")
    }
}

pub(super) fn log(home: &Home) -> PathBuf {
    home.root().join("recorder.log")
}

pub(super) fn handler(command: &str) -> Value {
    json!({"type": "command", "command": command})
}

/// Returns the recorder's command line for the shell, a form that every version knows.
pub(super) fn command(home: &Home, told: &[&str]) -> String {
    let log = log(home);
    let (program, log) = (
        program("becket-recorder").display().to_string(),
        log.display().to_string(),
    );
    let words = [program.as_str(), "--log", log.as_str()];
    let words = words.iter().chain(told).map(|word| quoted(word));
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a program of this crate, which Cargo builds beside the folder of the test binaries.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the test binary");
    let mut folders = test.ancestors().skip(1);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()));
    found.unwrap_or_else(|| panic!("find {name} beside the test binary"))
}

/// Earlier versions drop all hooks of a settings file with an event that they do not know.
pub const TOLERANT: &str = "2.1.101";

/// Earlier versions ignore a hook's `args`.
pub const EXEC_FORM: &str = "2.1.139";

/// A becket for this story, registered in the user's settings.
#[derive(Debug, Default)]
pub struct Becket {
    pub world: World,
    init: Vec<String>,
    config: String,
    even_where_deaf: bool,
    launched_only: bool,
}

impl Becket {
    /// Also runs with a version that does not call becket.
    #[must_use]
    pub fn with_any_version(mut self) -> Self {
        self.even_where_deaf = true;
        self
    }

    /// Sets the user's config and trusts the project.
    #[must_use]
    pub fn config(mut self, config: &str) -> Self {
        self.config = config.to_owned();
        self
    }

    /// Leaves becket out of all settings files: only `becket run` registers it.
    #[must_use]
    pub fn launched_only(mut self) -> Self {
        self.launched_only = true;
        self
    }

    /// Adds arguments of `becket up`.
    #[must_use]
    pub fn init(mut self, args: &[&str]) -> Self {
        self.init.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }
}

impl Registration for Becket {
    fn name(&self) -> &'static str {
        "becket"
    }

    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable> {
        if self.launched_only {
            return claude.must_be(EXEC_FORM, "hooks without a shell");
        }
        if !self.even_where_deaf {
            claude.must_be(
                TOLERANT,
                "hooks beside an event that it does not know, and becket registers some",
            )?;
        }
        if !claude.is_at_least(EXEC_FORM) {
            // Without `--home`, the shim uses `BECKET_HOME`: here the home of this story.
            home.set_env("BECKET_HOME", self.world.becket_home.to_string_lossy());
        }
        let done = self
            .world
            // A status line would hide what Claude Code shows below it about a turn.
            .becket(["up", "--only-register", "--no-statusline"])
            .args(&self.init)
            .env("HOME", home.home())
            .env("CLAUDE_CONFIG_DIR", home.config())
            .current_dir(home.project())
            .output()
            .expect("run becket up");
        assert!(done.status.success(), "becket up: {done:?}");
        if !self.config.is_empty() {
            std::fs::write(self.world.path("config.toml"), &self.config).expect("a config");
            let mut trust = self.world.becket(["trust", "--yes"]);
            let trusted = trust.current_dir(home.project()).output();
            let trusted = trusted.expect("run becket trust");
            assert!(trusted.status.success(), "becket trust: {trusted:?}");
        }
        Ok(())
    }

    fn events(&self, _: &Home) -> Events {
        let log = self.world.run(&["events", "--raw", "--duplicates"]);
        let payloads = log.lines().filter(|line| !line.is_empty());
        Events(payloads.map(|raw| Event::new(raw.to_owned())).collect())
    }

    fn world(&self) -> Option<&World> {
        Some(&self.world)
    }
}
