//! `hooks`: measures the time that ten named hooks on PreToolUse add to a tool call inside the real Claude
//! Code, compared with one. Each hook is `/bin/true`, so that only becket's part is measured.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::args::BenchOptions;
use crate::report::Report;
use crate::tool_calls::{BECKET, NO_HOOK, ToolCallBench};
use crate::world::World;

const BENCH: ToolCallBench<4> = ToolCallBench {
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
/// The number of named hooks of each contender. The first one is without becket.
const HOOKS: [usize; 4] = [0, 0, 1, 10];

pub fn run(options: &BenchOptions) -> Result<Report> {
    let mut report = Report::new(options);
    let run = BENCH.run(options, &mut report, |world, at| {
        configure(world, HOOKS[at])?;
        Ok(if at == 0 { NO_HOOK } else { BECKET })
    })?;
    let version = run.map(|run| format!("Claude Code {}", run.version));
    report.notes.extend(version);
    Ok(report)
}

/// Writes a config with this number of hooks. It takes effect with the next event.
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
