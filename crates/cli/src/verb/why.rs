//! `becket why`: explains the decision about an event.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::store::{LoggedRun, RunQuery};
use becket_engine::hooks::switch::{HookState, Switches, state};
use becket_engine::matcher::concerns;
use becket_wire::event::EventName;
use becket_wire::rpc::EventRow;
use becket_wire::{EventId, Head};

use crate::failure::{Code, Failure};
use crate::hook_runs::explanation::{JsonExplanation, Skipped, Why as Told, explain};
use crate::hook_runs::query::Runs;
use crate::log;
use crate::ui::style::Look;
use crate::world::{World, denied_calls, own_session, project_of};

/// Show why an event was decided as it was, by guards and hooks
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// The event: the first characters of its id (default: the last one that a guard or a hook decided, or on which a hook failed; else one whose hook runs now)
    #[arg(value_name = "EVENT_ID")]
    event: Option<String>,
    /// The last one of this session (the first characters of its id, or its title; inside Claude Code: its own)
    #[arg(long, value_name = "ID", conflicts_with = "event")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl WhyArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let runs = Runs::open(world)?;
        let id = match self.event {
            Some(prefix) => log::event_id(world, &prefix)?,
            None => last(&runs, self.session)?,
        };
        let explanation = collect(world, &runs, id)?;
        if self.json {
            println!(
                "{}",
                crate::ui::text::json(&JsonExplanation::from(&explanation))?
            );
        } else {
            anstream::print!("{}", explain(&explanation, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the newest event that was decided or on which a hook failed, else the newest with a running hook.
fn last(runs: &Runs<'_>, session: Option<String>) -> Result<EventId> {
    let session = runs.session(session.or_else(own_session).as_deref())?;
    let decided = runs.last_explainable(session.as_deref())?;
    let last = decided.or_else(|| runs.last_begun(session.as_deref()));
    last.ok_or_else(|| {
        let whose = session.map_or_else(String::new, |id| format!(" in the session {id}"));
        let what = format!("nothing was decided{whose} yet, and no hook has failed");
        let failure = Failure::new(Code::Missing, what);
        failure
            .hint("becket hooks recent shows the runs of hooks, becket events the ids of events")
            .into()
    })
}

fn collect(world: &World, runs: &Runs<'_>, id: EventId) -> Result<Told> {
    let event = runs.event(id)?.ok_or_else(|| {
        let failure = Failure::new(Code::Missing, format!("no event has the id {id}"));
        failure.hint("becket events shows the ids")
    })?;
    let query = RunQuery {
        event: Some(id),
        ..RunQuery::default()
    };
    let mut ran = runs.find_all(&query)?;
    ran.sort_by(|one, other| {
        let by_time = one.run.at.cmp(&other.run.at);
        by_time.then_with(|| one.run.hook.cmp(&other.run.hook))
    });
    Ok(Told {
        detour: runs.detour(id),
        skipped: skipped(world, &event, &ran),
        allow_once: code_of(world, id),
        event,
        runs: ran,
    })
}

/// Returns the code that allows the call once. Returns none inside Claude Code: the code is for a person.
fn code_of(world: &World, event: EventId) -> Option<String> {
    let mut denied = denied_calls(world).into_iter();
    denied
        .find(|denied| denied.event_id == event)
        .map(|denied| denied.code)
}

/// Returns the hooks that match the event and did not run, with the reason in today's config and switches.
fn skipped(world: &World, event: &EventRow, ran: &[LoggedRun]) -> Vec<Skipped> {
    let payload = event.payload.as_deref().unwrap_or_default();
    let Ok(head) = Head::read(payload) else {
        return Vec::new();
    };
    let name: EventName = head.event.as_deref().unwrap_or_default().into();
    let project = project_of(Path::new(head.cwd.as_deref().unwrap_or("/")));
    let config = world.loader(Some(project)).current();
    let session = head.session_id.as_deref().unwrap_or_default();
    let switches = Switches::read(&world.place, session).switches;
    let missing = config.hooks.iter().filter(|hook| {
        let has_run = ran.iter().any(|found| found.run.hook == hook.name);
        !has_run && concerns(hook, &name, &head, payload, project)
    });
    let states = missing.map(|hook| (hook, state(hook, &switches, head.agent_type.as_deref())));
    states
        .filter(|(_, state)| *state != HookState::Enabled)
        .map(|(hook, state)| Skipped {
            hook: hook.name.clone(),
            reason: state.to_string(),
        })
        .collect()
}
