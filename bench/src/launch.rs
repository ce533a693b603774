//! `launch`: what `becket run` adds before Claude Code's first screen, against starting it directly,
//! with becket registered in the settings and without.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_tests::claude::{Claude, Home};
use becket_tests::model::Model;
use serde_json::json;

use crate::args::Order;
use crate::inside::{BECKET, NO_HOOK, register};
use crate::pty::OnTerminal;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Programs, World};

const ROUNDS: usize = 20;
/// Milliseconds that `becket run` may add.
const MOST: f64 = 30.0;
/// The first screen has it.
const SIGN: &str = "Claude Code";

/// A way to start Claude Code.
struct Way {
    name: &'static str,
    registered: &'static str,
    launched: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: "claude, becket registered",
        registered: BECKET,
        launched: false,
    },
    Way {
        name: "becket run, becket registered",
        registered: BECKET,
        launched: true,
    },
    Way {
        name: "claude, no hooks",
        registered: NO_HOOK,
        launched: false,
    },
    Way {
        name: "becket run, registers itself",
        registered: NO_HOOK,
        launched: true,
    },
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
    let _daemon = world.daemon()?;
    let mut samples = [const { Samples::new() }; WAYS.len()];
    for round in 0..order.rounds.unwrap_or(ROUNDS) * order.runs + 1 {
        for turn in 0..WAYS.len() {
            let at = (round + turn) % WAYS.len();
            let took = start(&claude, &world, &WAYS[at])?;
            // The first round fills the caches.
            if round > 0 {
                samples[at].push(took);
            }
        }
    }
    let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
    let [direct, launched, bare, inline] = figures[..] else {
        bail!("nothing was measured");
    };
    let millis = |figures: &Figures| figures.median / 1000.0;
    let rows = WAYS.iter().zip(&figures).map(|(way, figures)| {
        let p99 = figures.p99 / 1000.0;
        vec![
            way.name.to_owned(),
            number(millis(figures)),
            number(p99),
            figures.count.to_string(),
        ]
    });
    report.tables.push(Table {
        title: "From the start to Claude Code's first screen".to_owned(),
        columns: vec!["started as", "median ms", "p99 ms", "starts"],
        rows: rows.collect(),
    });
    for (what, ours, theirs) in [
        ("ms that becket run adds, registered", launched, direct),
        ("ms that becket run adds, registering itself", inline, bare),
    ] {
        let added = millis(&ours) - millis(&theirs);
        report.bars.push(Bar::at_most(what, added, MOST, None));
    }
    let ratio = launched.median / direct.median;
    report
        .notes
        .push(format!("becket run × claude: {}", number(ratio)));
    let in_json = WAYS.iter().zip(&figures).map(|(way, figures)| {
        json!({"started_as": way.name, "median_us": figures.median, "p99_us": figures.p99})
    });
    report.figures = json!({"ways": in_json.collect::<Vec<_>>(), "ratio": ratio});
    Ok(report)
}

/// One start in a home of its own, until the first screen.
fn start(claude: &Claude, world: &World, way: &Way) -> Result<std::time::Duration> {
    let model = Model::script().start();
    let home = Home::new(&model.url());
    register(world, &home, way.registered)?;
    let program = claude.command().first().context("a program")?;
    let mut command = match way.launched {
        true => {
            let mut command = Command::new(&world.becket);
            command.arg("--home").arg(world.place.home());
            command.args(["run", "--"]).arg(program);
            command
        }
        // From a shell, as a user starts it: as the leader of its session, which becket run would
        // spare it, Claude Code starts later.
        false => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "\"$@\"; exit", "sh"]).arg(program);
            command
        }
    };
    command.args(["--permission-mode", "default"]);
    command
        .current_dir(home.project())
        .envs(home.env().to_vec());
    let began = Instant::now();
    let started = OnTerminal::start(&command, SIGN)?;
    started.wait_until_ready()?;
    Ok(began.elapsed())
}
