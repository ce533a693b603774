//! Work that outlives a window. `work` is what a session keeps of its effort, `rules` what the effort says to an
//! event; `directive` and `recovery` read the files that an agent is given, by `artifact`; the rest is pure.

pub mod artifact;
pub mod directive;
pub mod recovery;
pub mod rules;
pub mod skill;
mod work;

use std::path::{Path, PathBuf};

use becket_wire::effort::{Artifact, Dehydrated};
use becket_wire::{EventId, Head, json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::guard::command;
use crate::is_default;
pub use work::{AgentWork, Bound, Effect, Given, Work};

/// The key of the main agent.
pub const MAIN: &str = "";

/// Tools that only look: they count no heartbeat.
const LOOKS: [&str; 3] = ["Read", "Grep", "Glob"];
/// Tools that touch one file.
const FILES: [&str; 4] = ["Read", "Edit", "Write", "NotebookEdit"];

/// An effort as the rules and the files for its agents need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EffortFacts {
    pub id: i64,
    pub ordinal: u32,
    pub skill: String,
    pub title: Option<String>,
    pub phase: Option<String>,
    pub project: PathBuf,
    /// The task's.
    pub folder: PathBuf,
    /// The artifacts that becket has made, which a project without trust did not bring along.
    pub created: Vec<PathBuf>,
}

impl EffortFacts {
    pub fn artifact(&self, kind: Artifact) -> PathBuf {
        self.folder.join(kind.file_name(self.ordinal, &self.skill))
    }

    /// `effort 1 implement, phase build`.
    pub fn label(&self) -> String {
        let phase = self.phase.as_ref().map(|phase| format!(", phase {phase}"));
        let (ordinal, skill) = (self.ordinal, &self.skill);
        format!("effort {ordinal} {skill}{}", phase.unwrap_or_default())
    }
}

/// What the judgement of an event depends on, where its session has an effort.
#[derive(Debug, Clone, Default)]
pub struct EffortContext {
    pub facts: EffortFacts,
    /// `MAIN`, or a subagent's id.
    pub agent: String,
    pub window: Option<EventId>,
    pub heartbeat: u32,
    pub calls: u32,
    pub fired: Vec<String>,
    pub context_pct: Option<f64>,
    pub loading: bool,
    pub dehydrating: bool,
    /// The context was handed over already.
    pub handed_over: bool,
    /// A launch starts a fresh Claude Code when the context is full.
    pub restarts: bool,
    pub notes: Vec<String>,
    pub dialogue: Option<String>,
    /// The folders that it touched for the first time.
    pub touched: Vec<PathBuf>,
    /// The files that it has already.
    pub has: Vec<String>,
    /// What the window before leaves, where one is opened that goes on from another.
    pub left: Option<Left>,
    /// What was read for this event.
    pub read: Option<directive::Reading>,
}

/// What one window leaves to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Left {
    pub dehydrated: Option<Dehydrated>,
    /// The files that were touched last, the last one last.
    pub loaded: Vec<String>,
}

/// What the effort said to an event: kept with the decision, and what the session remembers of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EffortSaid {
    pub effort_id: i64,
    /// The window.
    #[serde(skip_serializing_if = "is_default")]
    pub session_id: Option<EventId>,
    #[serde(skip_serializing_if = "is_default")]
    pub found: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub phase: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub task_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "is_default")]
    pub files_to_preload: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub dehydrated_context: Option<Dehydrated>,
    #[serde(skip_serializing_if = "is_default")]
    pub skill_config: Option<Value>,
    #[serde(skip_serializing_if = "is_default")]
    pub allow: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub heartbeat_count: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub context_usage: Option<f64>,
    #[serde(skip_serializing_if = "is_default")]
    pub overflow_warning: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub fired_rules: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub pending_injections: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub dialogue_entry: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub session_context: Option<String>,
    /// Lines of other agents.
    #[serde(skip_serializing_if = "is_default")]
    pub told: Vec<String>,
}

/// Whether a call counts no heartbeat: it only looks, or all that it runs is becket itself.
pub fn is_exempt(head: &Head<'_>) -> bool {
    match head.tool.as_deref() {
        Some("Bash") => runs_only_becket(head),
        Some(tool) => LOOKS.contains(&tool),
        None => false,
    }
}

/// Whether all that a Bash call runs is becket itself.
pub fn runs_only_becket(head: &Head<'_>) -> bool {
    let Some(command) = bash_command(head).filter(|command| command.contains("becket")) else {
        return false;
    };
    let cwd = head.cwd.as_deref().unwrap_or("/");
    let read = command::read(&command, Path::new(cwd), Path::new("/"));
    let is_ours = |program: &str| program.rsplit('/').next() == Some("becket");
    let ours = read.acts.iter().all(|act| is_ours(&act.program));
    ours && !read.acts.is_empty() && read.unread.is_empty()
}

fn bash_command(head: &Head<'_>) -> Option<String> {
    let input: Value = json::lenient(head.tool_input?).ok()?;
    Some(input.get("command")?.as_str()?.to_owned())
}

/// The file or folder that a call names, absolute.
fn named_path(head: &Head<'_>) -> Option<PathBuf> {
    let input: Value = json::lenient(head.tool_input?).ok()?;
    let keys = ["file_path", "notebook_path", "path"];
    let path = keys.iter().find_map(|key| input.get(key)?.as_str())?;
    Some(Path::new(head.cwd.as_deref().unwrap_or("/")).join(path))
}

/// The folders that a call touched.
fn touched(head: &Head<'_>) -> Vec<PathBuf> {
    let folder = |path: &Path| path.parent().map(Path::to_path_buf);
    match head.tool.as_deref() {
        Some(tool) if FILES.contains(&tool) => named_path(head)
            .and_then(|path| folder(&path))
            .into_iter()
            .collect(),
        Some("Grep" | "Glob" | "LS") => named_path(head).into_iter().collect(),
        Some("Bash") => {
            let Some(command) = bash_command(head) else {
                return Vec::new();
            };
            let cwd = head.cwd.as_deref().unwrap_or("/");
            let read = command::read(&command, Path::new(cwd), Path::new("/"));
            let known = read.touches.iter().filter(|touch| !touch.opaque);
            known
                .filter_map(|touch| folder(Path::new(&touch.path)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A question and its answers, as AskUserQuestion has them.
pub fn dialogue(head: &Head<'_>) -> Option<String> {
    if head.tool.as_deref() != Some("AskUserQuestion") {
        return None;
    }
    let input: Value = json::lenient(head.tool_input?).ok()?;
    let response: Value = json::lenient(head.tool_response?).unwrap_or_default();
    let answers = response.get("answers").or_else(|| input.get("answers"));
    let mut text = String::new();
    for question in input.get("questions")?.as_array()? {
        let asked = question.get("question")?.as_str()?;
        let answer = answers.and_then(|answers| answers.get(asked));
        let answer = match answer {
            Some(Value::String(answer)) => answer.clone(),
            Some(other) => other.to_string(),
            None => "(no answer)".to_owned(),
        };
        text.push_str(&format!("Q: {asked}\nA: {answer}\n"));
    }
    Some(text.trim_end().to_owned())
}

/// Why a turn died whose context was full.
pub const EXHAUSTED: &str = "the context ran out";

/// Whether this is how Claude Code says that the context is full.
pub fn is_exhausted(said: &str) -> bool {
    let said = said.trim_start().to_ascii_lowercase();
    let too_long = "prompt is too long";
    said == EXHAUSTED
        || said.starts_with(too_long)
        || said.starts_with("context limit reached")
        || said.starts_with("api error") && said.contains(too_long)
}

/// Whether Claude Code compacts by itself.
pub fn is_auto(head: &Head<'_>) -> bool {
    head.trigger.as_deref() == Some("auto")
}
