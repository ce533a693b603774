//! What is registered for the events of a story. Becket is one answer, the plain recorder
//! another; a story does not know which one it runs with.

use std::fmt::Debug;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::events::{self, Events};
use crate::claude::{Claude, Home, Scope};
use crate::skip::Unavailable;
use crate::world::World;

/// Every event of the pinned version but WorktreeCreate, where a hook replaces git.
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

/// Something that takes part in every event of a story.
pub trait Registration: Debug {
    fn name(&self) -> &'static str;

    /// Registers itself in the home's settings; may add to the home's environment.
    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable>;

    /// What it has got so far, in order of arrival.
    fn events(&self, home: &Home) -> Events;

    /// The becket that it is.
    fn world(&self) -> Option<&World> {
        None
    }
}

/// Writes down every event and has no opinion.
#[derive(Debug, Default)]
pub struct Recorder {
    without: Vec<&'static str>,
}

impl Recorder {
    /// Watches what becket watches: what becket does not register cannot be held against it.
    pub fn witness() -> Self {
        Self::default().without(&["MessageDisplay", "WorktreeRemove"])
    }

    /// Leaves these events alone.
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
            // In print mode the program ends its hooks of StopFailure after some 10 ms; a witness
            // has to outlast that.
            let stubborn = format!("trap '' TERM INT HUP; exec {}", command(home, &[]));
            let handler = handler(&stubborn);
            home.add_hook(Scope::User, event, None, &handler);
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

/// The recorder's command line for the shell: every version of the program knows that form.
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

/// Cargo builds the programs of this crate beside the folder of the test binaries.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the test binary");
    let mut folders = test.ancestors().skip(1);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()));
    found.unwrap_or_else(|| panic!("find {name} beside the test binary"))
}
