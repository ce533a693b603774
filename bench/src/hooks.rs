//! `hooks`: what ten named hooks on PreToolUse add to a tool call inside the real Claude Code, beside
//! what one adds. Each hook is `/bin/true`: what is measured is becket's part.

use std::fmt::Write;

use anyhow::{Context, Result};
use becket_tests::claude::Claude;
use serde_json::json;

use crate::args::Order;
use crate::claude::{CALLS, SESSION, session};
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Programs, World};

/// How many named hooks each contender has; none is Claude Code without becket.
const CONTENDERS: [(&str, Option<usize>); 4] = [
    ("no hook", None),
    ("becket, no named hook", Some(0)),
    ("becket, one named hook", Some(1)),
    ("becket, ten named hooks", Some(10)),
];

pub fn run(order: &Order) -> Result<Report> {
    let mut report = Report::new(order);
    let claude = match Claude::get(&Claude::wanted()) {
        Ok(claude) => claude,
        Err(why) => {
            report.notes.push(format!("SKIPPED: {why}"));
            return Ok(report);
        }
    };
    let world = World::new(&Programs::find(order)?)?;
    let daemon = world.daemon()?;
    let mut samples = [const { Samples::new() }; CONTENDERS.len()];
    let sessions = (order.rounds.unwrap_or(CALLS) * order.runs).div_ceil(SESSION);
    for round in 0..sessions {
        for turn in 0..CONTENDERS.len() {
            let at = (round + turn) % CONTENDERS.len();
            let contender = match CONTENDERS[at].1 {
                None => "no hook",
                Some(hooks) => {
                    configure(&world, hooks)?;
                    "becket"
                }
            };
            session(&claude, &world, contender, &mut samples[at])?;
        }
    }
    report.notes.push(format!("Claude Code {}", claude.version));
    drop(daemon);
    tell(&samples, &mut report);
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

fn tell(samples: &[Samples; CONTENDERS.len()], report: &mut Report) {
    let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
    let [bare, _, one, ten] = figures[..] else {
        return;
    };
    let added = |figures: Figures| figures.median - bare.median;
    let ratio = added(ten) / added(one);
    let rows = CONTENDERS
        .iter()
        .zip(&figures)
        .map(|((name, _), &figures)| {
            vec![
                (*name).to_owned(),
                number(figures.median),
                number(added(figures)),
                number(added(figures) / added(one)),
                number(figures.p99),
                figures.count.to_string(),
            ]
        });
    report.tables.push(Table {
        title: "One tool call inside Claude Code (a Read)".to_owned(),
        columns: vec![
            "registered",
            "median µs",
            "added µs",
            "× one",
            "p99 µs",
            "calls",
        ],
        rows: rows.collect(),
    });
    report.bars.push(Bar::at_most(
        "what ten named hooks add × what one adds",
        ratio,
        1.5,
        None,
    ));
    let in_json = CONTENDERS.iter().zip(&figures).map(|((name, _), figures)| {
        json!({
            "registered": name, "median_us": figures.median, "p99_us": figures.p99,
            "added_us": added(*figures), "calls": figures.count,
        })
    });
    report.figures = json!({"contenders": in_json.collect::<Vec<_>>(), "ratio": ratio});
}
