//! The background tasks that Claude Code has announced: agents, shell commands, monitors.
//!
//! Measured with 2.1.325: a task that ends while a turn runs is told to the model within that turn, or in
//! a turn of its own that follows at once; the only sign which of the two is that Claude Code says that
//! it is idle. It says so since 2.1.101, if [`SAYS_IDLE`] is set.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Message;

/// The environment variable that makes Claude Code say when it is idle.
pub(crate) const SAYS_IDLE: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";

/// The tasks that run, and those that have ended but may still be told to the model.
#[derive(Debug, Default)]
pub(super) struct Background {
    /// Descriptions by id.
    running: BTreeMap<String, String>,
    /// The descriptions of tasks that have ended since Claude Code was idle.
    ended: Vec<String>,
    says_idle: bool,
}

impl Background {
    pub(super) fn see(&mut self, message: &Message) {
        let system = match message {
            Message::System(system) => system,
            // Of a version that does not say it: what a task came to is taken to be in here.
            Message::Result(_) if !self.says_idle => return self.ended.clear(),
            _ => return,
        };
        let json = system.json();
        match system.subtype() {
            "task_started" if is_activity(json) => self.start(json),
            "task_notification" => self.keep(|id| json["task_id"] != *id),
            "background_tasks_changed" => {
                let listed = json["tasks"].as_array().map_or(&[][..], Vec::as_slice);
                self.keep(|id| listed.iter().any(|task| task["task_id"] == *id));
                let listed = listed.iter().filter(|task| is_activity(task));
                listed.for_each(|task| self.start(task));
            }
            "session_state_changed" => {
                self.says_idle = true;
                if json["state"] == "idle" {
                    self.ended.clear();
                }
            }
            _ => {}
        }
    }

    /// Returns true if no task runs, and none that has ended is to be told to the model.
    pub(super) fn is_done(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }

    /// The descriptions of the tasks that are not done.
    pub(super) fn tasks(&self) -> Vec<String> {
        self.running.values().chain(&self.ended).cloned().collect()
    }

    fn start(&mut self, task: &Value) {
        let [id, description] =
            ["task_id", "description"].map(|key| task[key].as_str().unwrap_or_default().to_owned());
        self.running.insert(id, description);
    }

    /// The tasks that are not kept have ended.
    fn keep(&mut self, kept: impl Fn(&String) -> bool) {
        let ended = self.running.extract_if(.., |id, _| !kept(id));
        self.ended.extend(ended.map(|(_, description)| description));
    }
}

/// Returns false for a task of Claude Code's own, such as a watcher: it ends without a word.
fn is_activity(task: &Value) -> bool {
    task["ambient"] != true && task["skip_transcript"] != true
}
