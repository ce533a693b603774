//! `becket allow`: lets a denied call pass once.

use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_engine::guard::memory::{self, LASTS};

use crate::failure::{Code, Failure};
use crate::ui::text::one_line;
use crate::world::World;

/// Let a call that a guard denied pass once
///
/// The code is shown by `becket why`, `becket hooks recent` and the live view, while the session lives. The pass
/// waits ten minutes for the same call in the same session, and also covers the permission dialog of that call.
#[derive(Debug, clap::Args)]
pub struct AllowArgs {
    /// The code of the denied call
    #[arg(value_name = "CODE")]
    code: String,
}

impl AllowArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        world.refuse_inside_claude("allow")?;
        let allowed =
            memory::allow(&world.place, self.code.trim()).context("could not make a pass")?;
        let Some(denied) = allowed else {
            let minutes = LASTS.as_secs() / 60;
            let what = format!(
                "no call with the code {} was denied in the last {minutes} minutes, or it was allowed already, or its session has ended",
                one_line(&self.code)
            );
            let failure = Failure::new(Code::Missing, what);
            return Err(failure
                .hint("becket why shows the code of the last denied call")
                .into());
        };
        println!(
            "Tell Claude to try again: the next such {} call of session {} passes {} once, within {} minutes.",
            one_line(&denied.tool),
            one_line(&denied.session_id),
            denied.rule,
            LASTS.as_secs() / 60
        );
        Ok(ExitCode::SUCCESS)
    }
}
