//! `claude`: measures the time that becket adds to a tool call inside the real Claude Code, compared with
//! `/bin/true` registered in the same form for the same events, and with no hook.

use anyhow::{Result, bail};

use crate::args::BenchOptions;
use crate::report::Report;
use crate::tool_calls::{BECKET, NO_HOOK, SESSION, ToolCallBench, WARM_UP};

const BENCH: ToolCallBench<3> = ToolCallBench {
    names: [NO_HOOK, "/bin/true", BECKET],
    ours: 2,
    rival: 1,
    against: "× true",
    bar: "what becket adds × what /bin/true adds",
    most: 1.3,
};

pub fn run(options: &BenchOptions) -> Result<Report> {
    let mut report = Report::new(options);
    let run = BENCH.run(options, &mut report, |_, at| Ok(BENCH.names[at]))?;
    let Some(run) = run else {
        return Ok(report);
    };
    let least = run.sessions * (SESSION + WARM_UP) * 2;
    if run.status.events < least as u64 {
        bail!(
            "only {} events are in the database; the calls of becket's sessions alone make {least}",
            run.status.events
        );
    }
    report.notes.push(format!(
        "Claude Code {}; {} events of becket's sessions are in the database, {} by way of the spool",
        run.version, run.status.events, run.status.counts.taken_in
    ));
    Ok(report)
}
