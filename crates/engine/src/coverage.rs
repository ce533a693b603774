//! Coverage: the tool calls in transcripts, compared with the calls that guards saw.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::is_default;
use crate::transcript::{TranscriptFact, TranscriptFinding};

/// One tool call of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The subagent that made it; none for the main agent.
    pub agent: Option<String>,
    pub tool: String,
    /// Milliseconds since 1970.
    pub at: Option<i64>,
    /// True if its PreToolUse event is in the log.
    pub seen: bool,
    /// False for a call that is under way, was cut off, or was refused by Claude Code before any hook.
    has_run: bool,
}

impl ToolCall {
    /// Returns true if the call bypassed the guards. A call without a result may still reach them.
    pub fn is_unseen(&self) -> bool {
        !self.seen && self.has_run
    }
}

/// The tool calls of one session by `tool_use_id`. A fork copies those of the session before it.
#[derive(Debug, Clone, Default)]
pub struct ToolCalls(HashMap<String, ToolCall>);

impl ToolCalls {
    /// Takes the findings of a transcript.
    pub fn take(&mut self, findings: impl IntoIterator<Item = TranscriptFinding>) {
        for finding in findings {
            match finding.fact {
                TranscriptFact::ToolCall { tool_use_id, tool } => {
                    self.0.entry(tool_use_id).or_insert_with(|| ToolCall {
                        agent: finding.agent,
                        tool,
                        at: finding.at,
                        ..ToolCall::default()
                    });
                }
                TranscriptFact::ToolResult {
                    tool_use_id,
                    refused,
                } => {
                    if let Some(call) = self.0.get_mut(&tool_use_id) {
                        call.has_run = !refused;
                    }
                }
                _ => {}
            }
        }
    }

    /// Removes the calls before this time.
    pub fn only_since(&mut self, since: i64) {
        self.0
            .retain(|_, call| call.at.is_none_or(|at| at >= since));
    }

    /// Marks a call whose PreToolUse event is in the log.
    pub fn see(&mut self, tool_use_id: &str) {
        if let Some(call) = self.0.get_mut(tool_use_id) {
            call.seen = true;
        }
    }

    /// Returns the calls that bypassed the guards, the oldest first.
    pub fn unseen(&self) -> Vec<(&str, &ToolCall)> {
        let all = self.0.iter().map(|(id, call)| (&**id, call));
        let mut unseen: Vec<_> = all.filter(|(_, call)| call.is_unseen()).collect();
        unseen.sort_by_key(|(id, call)| (call.at, *id));
        unseen
    }

    /// Counts the calls of each agent, the main agent first.
    pub fn coverage(&self) -> Coverage {
        let mut agents: BTreeMap<Option<&str>, AgentCoverage> = BTreeMap::new();
        for call in self.0.values().filter(|call| call.seen || call.is_unseen()) {
            let agent = agents.entry(call.agent.as_deref()).or_default();
            agent.calls += 1;
            agent.unseen += u32::from(call.is_unseen());
        }
        let agents = agents.into_iter().map(|(agent_id, counts)| AgentCoverage {
            agent_id: agent_id.map(str::to_owned),
            ..counts
        });
        let agents: Vec<AgentCoverage> = agents.collect();
        Coverage {
            calls: agents.iter().map(|agent| agent.calls).sum(),
            unseen: agents.iter().map(|agent| agent.unseen).sum(),
            agents,
            ended_at: 0,
        }
    }
}

/// The numbers of a session's calls, and of those that no guard saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coverage {
    pub calls: u32,
    pub unseen: u32,
    pub agents: Vec<AgentCoverage>,
    /// The end of the session at which they were counted; 0 if it was live.
    #[serde(skip_serializing_if = "is_default")]
    pub ended_at: i64,
}

/// The numbers of one agent's calls, and of those that no guard saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentCoverage {
    /// None for the main agent.
    pub agent_id: Option<String>,
    pub calls: u32,
    pub unseen: u32,
}

/// The most agents that a session keeps, because it is stored with each of its events.
const MAX_AGENTS: usize = 50;

impl Coverage {
    /// Reduces the counts to what a session keeps: only agents with unseen calls.
    pub fn at_end(mut self, ended_at: i64) -> Self {
        self.agents.retain(|agent| agent.unseen > 0);
        self.agents.truncate(MAX_AGENTS);
        Self { ended_at, ..self }
    }

    /// Returns the message for views; none if guards saw every call.
    pub fn trouble(&self) -> Option<String> {
        let Self { calls, unseen, .. } = self;
        (*unseen > 0).then(|| {
            format!("no guard saw {unseen} of its {calls} tool calls; see becket guard coverage")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Tail;

    fn line(kind: &str, second: u32, agent: &str, block: &str) -> String {
        format!(
            r#"{{"type":"{kind}","timestamp":"2026-11-15T12:00:{second:02}.000Z",{agent}"message":{{"content":[{block}]}}}}
"#
        )
    }

    fn call(id: &str, second: u32, agent: &str) -> String {
        let block = format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}"#);
        line("assistant", second, agent, &block)
    }

    fn result(id: &str, content: &str) -> String {
        let block = format!(
            r#"{{"type":"tool_result","tool_use_id":"{id}","is_error":true,"content":{content}}}"#
        );
        line("user", 59, "", &block)
    }

    fn calls(lines: &[String]) -> ToolCalls {
        let mut calls = ToolCalls::default();
        calls.take(Tail::default().push(lines.concat().as_bytes()));
        calls
    }

    #[test]
    fn a_call_counts_that_ran_and_that_no_guard_saw() {
        let refused = r#""<tool_use_error>Error: No such tool available: X</tool_use_error>""#;
        let mut calls = calls(&[
            call("seen", 1, ""),
            call("unseen", 2, ""),
            call("unseen", 3, ""),
            call("refused", 4, ""),
            call("pending", 5, ""),
            call("child", 6, r#""agentId":"a1","#),
            result("seen", r#""one""#),
            result("unseen", r#"[{"type":"text","text":"<tool_use_error>"}]"#),
            result("refused", refused),
            result("child", r#""exit 3""#),
            result("unknown", r#""x""#),
        ]);
        calls.see("seen");
        calls.see("of another session");
        let ids = |calls: &ToolCalls| -> Vec<String> {
            let unseen = calls.unseen().into_iter();
            unseen.map(|(id, _)| id.to_owned()).collect()
        };
        assert_eq!(ids(&calls), ["unseen", "child"]);
        let coverage = calls.coverage();
        let counts = |agent: &AgentCoverage| (agent.agent_id.clone(), agent.calls, agent.unseen);
        let counts: Vec<_> = coverage.agents.iter().map(counts).collect();
        assert_eq!(counts, [(None, 2, 1), (Some("a1".to_owned()), 1, 1)]);
        assert!(
            coverage
                .trouble()
                .is_some_and(|text| text.contains("2 of its 3"))
        );
        calls.only_since(1_794_744_003_000);
        assert_eq!(ids(&calls), ["child"]);
        calls.see("child");
        assert_eq!(calls.coverage().trouble(), None);
    }
}
