//! `instructions`: counts the instructions of the shim for one event. The count does not depend on the load
//! of the machine, so a test can check it.

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::BenchOptions;
use crate::event::{PayloadKind, Payloads};
use crate::report::{Bar, Report, Table, number};
use crate::world::{Programs, World};

/// The maximum number of instructions for one event of 2 KB, without those of the kernel.
pub const BOUND: u64 = 80_000;

const ROUNDS: usize = 5;

/// Counts the shim's instructions for this number of events, each answered by a real daemon. Returns
/// `None` if valgrind is not installed.
pub fn count(programs: &Programs, rounds: usize) -> Result<Option<Vec<u64>>> {
    let world = World::new(programs)?;
    let has_valgrind = world
        .command("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_valgrind {
        return Ok(None);
    }
    let daemon = world.daemon()?;
    let mut payloads = Payloads::new(PayloadKind::Edit)?;
    let counts = (0..rounds)
        .map(|_| count_one(&world, payloads.next_payload()))
        .collect::<Result<_>>()?;
    let status = daemon.client()?.status()?;
    if status.events != rounds as u64 || status.counts.taken_in > 0 {
        bail!(
            "of {rounds} events {} are in the database, {} by way of the spool",
            status.events,
            status.counts.taken_in
        );
    }
    Ok(Some(counts))
}

fn count_one(world: &World, payload: &[u8]) -> Result<u64> {
    let mut child = world
        .command("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&world.hook)
        .args(world.hook_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not start valgrind")?;
    child
        .stdin
        .take()
        .context("no stdin")?
        .write_all(payload)
        .context("could not send the event")?;
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let collected = stderr
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse().ok());
    collected.with_context(|| format!("valgrind printed no count: {stderr}"))
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let rounds = options.rounds.unwrap_or(ROUNDS) * options.runs;
    let mut report = Report::new(options);
    let Some(mut counts) = count(&Programs::find(options)?, rounds)? else {
        report
            .notes
            .push("SKIPPED: valgrind is not installed".to_owned());
        return Ok(report);
    };
    counts.sort_unstable();
    let (least, middle, most) = (counts[0], counts[rounds / 2], counts[rounds - 1]);
    report.tables.push(Table {
        title: "Instructions of the shim for one event of 2 KB".to_owned(),
        columns: vec!["", "instructions"],
        rows: [("least", least), ("median", middle), ("most", most)]
            .map(|(what, count)| vec![what.to_owned(), number(count as f64)])
            .to_vec(),
    });
    report.bars.push(Bar::at_most(
        "instructions",
        most as f64,
        BOUND as f64,
        None,
    ));
    report.figures = json!({"counts": counts});
    Ok(report)
}

#[cfg(test)]
mod tests {
    use becket_tests::skip::{Unavailable, skip};

    use super::*;

    #[test]
    fn an_event_costs_the_shim_no_more_than_its_bound() {
        let name = "instructions::an_event_costs_the_shim_no_more_than_its_bound";
        let programs = Programs::built().expect("./test builds them first");
        match count(&programs, 3).expect("events that arrive") {
            None => skip(name, &Unavailable::new("valgrind is missing")),
            Some(counts) => {
                let most = counts.iter().max().copied().unwrap_or(u64::MAX);
                assert!(most <= BOUND, "{most} instructions, over {BOUND}");
                assert!(most > 10_000, "{most} instructions: that was no event");
            }
        }
    }
}
