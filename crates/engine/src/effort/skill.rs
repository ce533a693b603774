//! A skill: what an effort of it goes through, is given and is held to. `[skills.NAME]` in the
//! configuration; four come with becket.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::config::Snapshot;

/// A phase in which no heartbeat is counted: the agent reads itself in.
pub const LOADING: &str = "loading";

/// One skill, as `[skills.NAME]` has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Skill {
    /// For the slash command and lists.
    pub description: String,
    /// In order. An effort begins in the first one.
    pub phases: Vec<String>,
    /// Files that a window is given when it opens, relative to the project.
    pub preload: Vec<String>,
    /// Names of directive files besides `.directives/*.md`: `CONTRIBUTING.md`.
    pub directives: Vec<String>,
    /// Calls without a log entry until a reminder and a denial; none: as `[effort]` says. 0 is never.
    pub remind: Option<u32>,
    pub deny: Option<u32>,
    /// What a log entry should say: given to the agent with the skill.
    pub log: String,
    /// Given to the agent with the skill: what it is to do.
    pub instructions: String,
    pub rules: BTreeMap<String, SkillRule>,
}

/// One rule of a skill: where all of its conditions hold, its answer does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillRule {
    /// Tools, as matchers of hooks are written: `Edit|Write`. Empty: every tool.
    pub tool: String,
    /// Phases. Empty: every phase.
    pub phase: Vec<String>,
    /// At least so many calls without a log entry.
    pub heartbeat: Option<u32>,
    /// At least this percentage of the context is used. Never holds for a subagent.
    pub context: Option<f64>,
    /// At least so many calls since the phase began.
    pub calls: Option<u32>,
    pub answer: RuleAnswer,
    /// What the agent is told.
    pub say: String,
}

/// As guards answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAnswer {
    Deny,
    Ask,
    /// The agent is told, and goes on.
    #[default]
    Warn,
    /// Denied once in a window, then passed.
    Once,
}

/// What holds for every skill: `[effort]`. 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EffortLimits {
    pub remind: u32,
    pub deny: u32,
    /// The percentage of the context at which the work is handed over. Claude Code compacts by itself at
    /// about 96.6.
    pub overflow: u32,
    /// Points before `overflow` at which the agent is warned.
    pub warn_before: u32,
}

impl Default for EffortLimits {
    fn default() -> Self {
        Self {
            remind: 3,
            deny: 10,
            overflow: 91,
            warn_before: 10,
        }
    }
}

impl Skill {
    pub fn remind(&self, limits: &EffortLimits) -> u32 {
        self.remind.unwrap_or(limits.remind)
    }

    pub fn deny(&self, limits: &EffortLimits) -> u32 {
        self.deny.unwrap_or(limits.deny)
    }
}

/// Skills by name.
pub type Skills = BTreeMap<String, Arc<Skill>>;

/// The skill of this name, as the configuration has it. One that is gone since its effort began says
/// nothing.
pub fn find(config: &Snapshot, name: &str) -> Option<Arc<Skill>> {
    config.skills.get(name).cloned()
}

/// `[effort]` of the configuration.
pub fn limits(config: &Snapshot) -> EffortLimits {
    config.config.effort
}

/// The skills that come with becket.
pub fn built_in() -> &'static Skills {
    static SKILLS: LazyLock<Skills> = LazyLock::new(|| {
        let read: BTreeMap<String, Skill> =
            toml::from_str(include_str!("skills.toml")).unwrap_or_default();
        let shared = |(name, skill)| (name, Arc::new(skill));
        read.into_iter().map(shared).collect()
    });
    &SKILLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skills_of_becket_parse() {
        let names: Vec<&str> = built_in().keys().map(String::as_str).collect();
        assert_eq!(names, ["brainstorm", "fix", "implement", "prd"]);
        assert!(built_in().values().all(|skill| !skill.phases.is_empty()));
    }
}
