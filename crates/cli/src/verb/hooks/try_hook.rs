//! `becket hooks try`: runs one hook on one event, and shows its answer.

use std::process::ExitCode;

use anyhow::Result;

use crate::failure::{Code, Failure};
use crate::hook_trial::{TrialSetup, report};
use crate::ui::style::Look;
use crate::world::World;

/// Run one hook on one event, and show its answer
#[derive(Debug, clap::Args)]
pub struct HooksTry {
    /// The hook: its name, or a part that only it has
    #[arg(value_name = "NAME")]
    hook: String,
    /// The event: a file, or the id of a recorded one (default: the newest that the hook wants)
    #[arg(long, value_name = "EVENT", value_hint = clap::ValueHint::AnyPath)]
    event: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HooksTry {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let bench = TrialSetup::new(world)?;
        let hook = bench.named(&self.hook)?;
        bench.refuse_untrusted(hook)?;
        let sample = match &self.event {
            Some(event) => bench.sample(event)?,
            None => bench.sample_for(hook)?.ok_or_else(|| {
                let what = format!("no recorded event and no sample event fits {}", hook.name);
                Failure::new(Code::Missing, what).hint("pass --event FILE or --event EVENT_ID")
            })?,
        };
        let standing = bench.obstacle(hook, &sample);
        let tried = bench.try_on(hook, &sample)?;
        if self.json {
            let report = report::json(&tried, &sample, standing.as_deref());
            println!("{}", crate::ui::text::json(&report)?);
        } else {
            let look = Look::of_stdout();
            anstream::print!(
                "{}",
                report::one(&tried, &sample, standing.as_deref(), &look)
            );
        }
        Ok(if tried.row.has_failed() || tried.was_cancelled() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}
