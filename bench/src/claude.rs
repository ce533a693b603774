//! `claude`: what becket adds to a tool call inside the real Claude Code, beside `/bin/true`
//! registered in the same form for the same events, and beside no hook at all.

use anyhow::{Result, bail};

use crate::args::Order;
use crate::inside::{BECKET, Contest, NO_HOOK, SESSION, WARM_UP};
use crate::report::Report;

const CONTEST: Contest<3> = Contest {
    names: [NO_HOOK, "/bin/true", BECKET],
    ours: 2,
    rival: 1,
    against: "× true",
    bar: "what becket adds × what /bin/true adds",
    most: 1.3,
};

pub fn run(order: &Order) -> Result<Report> {
    let mut report = Report::new(order);
    let held = CONTEST.hold(order, &mut report, |_, at| Ok(CONTEST.names[at]))?;
    let Some(held) = held else {
        return Ok(report);
    };
    let least = held.sessions * (SESSION + WARM_UP) * 2;
    if held.status.events < least as u64 {
        bail!(
            "only {} events are in the database; the calls of becket's sessions alone make {least}",
            held.status.events
        );
    }
    report.notes.push(format!(
        "Claude Code {}; {} events of becket's sessions are in the database, {} by way of the spool",
        held.version, held.status.events, held.status.counts.taken_in
    ));
    Ok(report)
}
