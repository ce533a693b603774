//! `hooks`: what ten named hooks on PreToolUse add to a tool call inside the real Claude Code, beside
//! what one adds. Each hook is `/bin/true`: what is measured is becket's part.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::args::Order;
use crate::inside::{BECKET, Contest, NO_HOOK};
use crate::report::Report;
use crate::world::World;

const CONTEST: Contest<4> = Contest {
    names: [
        NO_HOOK,
        "becket, no named hook",
        "becket, one named hook",
        "becket, ten named hooks",
    ],
    ours: 3,
    rival: 2,
    against: "× one",
    bar: "what ten named hooks add × what one adds",
    most: 1.5,
};
/// How many named hooks each contender has; the first is without becket.
const HOOKS: [usize; 4] = [0, 0, 1, 10];

pub fn run(order: &Order) -> Result<Report> {
    let mut report = Report::new(order);
    let held = CONTEST.hold(order, &mut report, |world, at| {
        configure(world, HOOKS[at])?;
        Ok(if at == 0 { NO_HOOK } else { BECKET })
    })?;
    let version = held.map(|held| format!("Claude Code {}", held.version));
    report.notes.extend(version);
    Ok(report)
}

/// Takes effect with the next event.
fn configure(world: &World, hooks: usize) -> Result<()> {
    let mut config = String::new();
    for hook in 0..hooks {
        write!(
            config,
            "[hooks.h{hook}]\non = \"PreToolUse\"\nrun = [\"/bin/true\"]\n"
        )?;
    }
    let file = world.place.config();
    std::fs::write(&file, config).with_context(|| format!("could not write {}", file.display()))
}
