//! Runs as scripts get them: the fields in the order of the documentation.

use becket_daemon::store::FoundRun;
use serde::Serialize;

use super::cost::Stats;
use crate::ui::time::moment;

#[derive(Debug, Serialize)]
pub struct Run<'a> {
    at: String,
    hook: &'a str,
    event_id: String,
    event: &'a str,
    tool: Option<&'a str>,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    took_us: i64,
    until: Option<String>,
    exit: Option<i32>,
    outcome: &'a str,
    decision: Option<&'a str>,
    said: u64,
    note: Option<&'a str>,
}

impl<'a> From<&'a FoundRun> for Run<'a> {
    fn from(found: &'a FoundRun) -> Self {
        let run = &found.run;
        Self {
            at: moment(run.at),
            hook: &run.hook,
            event_id: run.event_id.to_string(),
            event: &run.event,
            tool: found.tool.as_deref(),
            session_id: run.session_id.as_deref(),
            agent_id: run.agent_id.as_deref(),
            took_us: run.took_us,
            until: found.until.map(moment),
            exit: run.exit,
            outcome: &run.outcome,
            decision: run.decision.as_deref(),
            said: run.said,
            note: run.note.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct HookStats<'a> {
    hook: &'a str,
    runs: usize,
    failed: usize,
    cancelled: usize,
    success_pct: Option<f64>,
    mean_us: i64,
    p95_us: i64,
    max_us: i64,
    last_at: String,
    last_outcome: &'a str,
}

impl<'a> From<&'a Stats> for HookStats<'a> {
    fn from(stats: &'a Stats) -> Self {
        Self {
            hook: &stats.hook,
            runs: stats.runs,
            failed: stats.failed,
            cancelled: stats.cancelled,
            success_pct: stats.success_pct(),
            mean_us: stats.mean_us,
            p95_us: stats.p95_us,
            max_us: stats.max_us,
            last_at: moment(stats.last_at),
            last_outcome: &stats.last_outcome,
        }
    }
}
