//! `becket guard coverage`: shows the tool calls that no guard saw.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_daemon::store::RanDenied;
use becket_engine::coverage::AgentCoverage;
use serde::Serialize;

use crate::client::Client;
use crate::coverage::{A_DAY, CoverageScope, SessionCoverage, compare};
use crate::hook_runs::short;
use crate::session::source::id_of_title;
use crate::session::words::projects;
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text;
use crate::ui::time::{clock, timestamp};
use crate::world::World;

/// Show the tool calls that no guard saw, or that ran though denied
///
/// Compares the tool calls in Claude Code's transcripts, those of subagents too, with the PreToolUse
/// events that arrived. Sessions whose hooks are switched off are found as well.
#[derive(Debug, clap::Args)]
pub struct GuardCoverage {
    /// All calls of this session (the first characters of its id, or its title)
    #[arg(long, value_name = "ID", conflicts_with = "since")]
    session: Option<String>,
    /// Calls since then: 10m, 2h, 3d, or a moment like 2026-11-15T08:00:00Z (default: 1d)
    #[arg(long, value_name = "WHEN", value_parser = crate::ui::time::since)]
    since: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl GuardCoverage {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let session = self.session.as_deref();
        let session = session.map(|meant| id_of_title(world, meant)).transpose()?;
        let scope = match &session {
            Some(session) => CoverageScope::Session(session),
            None => CoverageScope::Since(self.since.unwrap_or_else(|| now_ms() - A_DAY)),
        };
        Client::take_in_or_warn(world);
        let compared = compare(world, scope)?;
        if self.json {
            let all: Vec<_> = compared.iter().map(CoverageJson::from).collect();
            println!("{}", text::json(&all)?);
        } else {
            anstream::print!("{}", report(&compared, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The most calls of a session that the JSON lists.
const LISTED: usize = 100;

#[derive(Debug, Serialize)]
struct CoverageJson<'a> {
    session_id: &'a str,
    project: Option<&'a str>,
    hooked: bool,
    calls: u32,
    unseen: u32,
    agents: &'a [AgentCoverage],
    unseen_calls: Vec<UnseenCall<'a>>,
    /// The calls that ran although becket had denied them.
    ran_denied: Vec<RanCall<'a>>,
    transcript_path: Option<&'a Path>,
    trouble: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct UnseenCall<'a> {
    tool_use_id: &'a str,
    agent_id: Option<&'a str>,
    tool: &'a str,
    at: Option<String>,
}

#[derive(Debug, Serialize)]
struct RanCall<'a> {
    tool_use_id: &'a str,
    tool: &'a str,
    at: String,
}

impl<'a> From<&'a SessionCoverage> for CoverageJson<'a> {
    fn from(one: &'a SessionCoverage) -> Self {
        let unseen = one.calls.calls.unseen().into_iter();
        let unseen = unseen.map(|(id, call)| UnseenCall {
            tool_use_id: id,
            agent_id: call.agent.as_deref(),
            tool: &call.tool,
            at: call.at.map(timestamp),
        });
        let ran = one.ran_denied.iter().map(|ran| RanCall {
            tool_use_id: &ran.tool_use_id,
            tool: &ran.tool,
            at: timestamp(ran.at),
        });
        Self {
            session_id: &one.session_id,
            project: one.project.as_deref(),
            hooked: one.hooked,
            calls: one.coverage.calls,
            unseen: one.coverage.unseen,
            agents: &one.coverage.agents,
            unseen_calls: unseen.take(LISTED).collect(),
            ran_denied: ran.take(LISTED).collect(),
            transcript_path: one.transcript.as_deref(),
            trouble: one.calls.trouble.as_deref(),
        }
    }
}

const COLUMNS: [Column; 6] = [
    Column::left("SESSION", 0),
    Column::left("PROJECT", 3).cut_to(8),
    Column::left("AGENT", 2),
    Column::right("CALLS", 1),
    Column::right("UNSEEN", 0),
    Column::left("TOOLS", 0).cut_to(12),
];

/// Renders a line for each agent with unseen calls, the sum, and hints.
fn report(compared: &[SessionCoverage], look: &Look) -> String {
    let paths = compared.iter().filter_map(|one| one.project.as_deref());
    let names = projects(paths);
    let mut rows = Vec::new();
    for one in compared {
        let project = one.project.as_deref().and_then(|path| names.get(path));
        for agent in one.coverage.agents.iter().filter(|agent| agent.unseen > 0) {
            rows.push([
                Cell::new(short(Some(&one.session_id)), BOLD),
                Cell::plain(project.map_or("", |name| name)),
                Cell::new(agent.agent_id.as_deref().unwrap_or("main"), DIM),
                Cell::plain(agent.calls.to_string()),
                Cell::new(agent.unseen.to_string(), BAD),
                Cell::plain(tools(one, agent.agent_id.as_deref())),
            ]);
        }
    }
    let mut out = String::new();
    if !rows.is_empty() {
        out += &grid(COLUMNS, &rows, look);
        out.push('\n');
    }
    let calls: u32 = compared.iter().map(|one| one.coverage.calls).sum();
    let unseen: u32 = compared.iter().map(|one| one.coverage.unseen).sum();
    let all = text::count(calls as usize, "tool call", "tool calls");
    let sessions = text::count(compared.len(), "session", "sessions");
    out += &match (calls, unseen) {
        (0, _) => "No tool calls in the transcripts of that time.\n".to_owned(),
        (_, 0) => format!("Guards saw every call: {all}, {sessions}.\n"),
        _ => format!("No guard saw {unseen} of {all} in {sessions}.\n"),
    };
    for one in compared {
        for RanDenied { tool, at, .. } in &one.ran_denied {
            out += &format!(
                "{BAD}denied, but it ran:{BAD:#} {} of session {}, {}\n",
                text::one_line(tool),
                short(Some(&one.session_id)),
                clock(*at, &look.now),
            );
        }
    }
    if compared.iter().any(|one| !one.ran_denied.is_empty()) {
        out += "hint: `becket doctor` lists the mods of Claude Code that can lift a denial\n";
    }
    if let Some(one) = compared
        .iter()
        .find(|one| !one.hooked && one.coverage.unseen > 0)
    {
        let place = one.project.as_deref().unwrap_or("its project");
        out += &format!(
            "hint: no event of session {} came; look for disableAllHooks in the settings of {}, and run `becket doctor` there\n",
            short(Some(&one.session_id)),
            text::one_line(place),
        );
    }
    for trouble in compared
        .iter()
        .filter_map(|one| one.calls.trouble.as_deref())
    {
        out += &format!("{WARN}warning:{WARN:#} {}\n", text::one_line(trouble));
    }
    out
}

/// Lists the tools of an agent's unseen calls, with their numbers.
fn tools(one: &SessionCoverage, agent: Option<&str>) -> String {
    let mut tools: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, call) in one.calls.calls.unseen() {
        if call.agent.as_deref() == agent {
            *tools.entry(&call.tool).or_default() += 1;
        }
    }
    let each = tools.iter().map(|(tool, count)| match count {
        1 => (*tool).to_owned(),
        _ => format!("{tool} {count}"),
    });
    each.collect::<Vec<_>>().join(", ")
}
