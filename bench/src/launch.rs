//! `launch`: measures the time that `becket run` adds before Claude Code's first screen, compared with
//! starting it directly, with and without becket registered in the settings.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_tests::claude::{Claude, Home};
use becket_tests::model::Model;
use serde_json::json;

use crate::args::BenchOptions;
use crate::pty::OnTerminal;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::tool_calls::{BECKET, NO_HOOK, register};
use crate::world::{Programs, World};

const ROUNDS: usize = 20;
/// The number of milliseconds that `becket run` may add.
const MAX_ADDED_MS: f64 = 30.0;
/// A text on the first screen.
const SIGN: &str = "Claude Code";

/// A way to start Claude Code.
struct StartVariant {
    name: &'static str,
    registered: &'static str,
    launched: bool,
}

const VARIANTS: [StartVariant; 4] = [
    StartVariant {
        name: "claude, becket registered",
        registered: BECKET,
        launched: false,
    },
    StartVariant {
        name: "becket run, becket registered",
        registered: BECKET,
        launched: true,
    },
    StartVariant {
        name: "claude, no hooks",
        registered: NO_HOOK,
        launched: false,
    },
    StartVariant {
        name: "becket run, registers itself",
        registered: NO_HOOK,
        launched: true,
    },
];

pub fn run(options: &BenchOptions) -> Result<Report> {
    let mut report = Report::new(options);
    let claude = match Claude::get(&Claude::wanted()) {
        Ok(claude) => claude,
        Err(error) => {
            report.notes.push(format!("SKIPPED: {error}"));
            return Ok(report);
        }
    };
    let world = World::new(&Programs::find(options)?)?;
    let _daemon = world.daemon()?;
    let mut samples = [const { Samples::new() }; VARIANTS.len()];
    for round in 0..options.rounds.unwrap_or(ROUNDS) * options.runs + 1 {
        for turn in 0..VARIANTS.len() {
            let at = (round + turn) % VARIANTS.len();
            let took = start(&claude, &world, &VARIANTS[at])?;
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
    let rows = VARIANTS.iter().zip(&figures).map(|(variant, figures)| {
        let p99 = figures.p99 / 1000.0;
        vec![
            variant.name.to_owned(),
            number(figures.median / 1000.0),
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
        let added = (ours.median - theirs.median) / 1000.0;
        report
            .bars
            .push(Bar::at_most(what, added, MAX_ADDED_MS, None));
    }
    let ratio = launched.median / direct.median;
    report
        .notes
        .push(format!("becket run × claude: {}", number(ratio)));
    let in_json = VARIANTS.iter().zip(&figures).map(|(variant, figures)| {
        json!({"started_as": variant.name, "median_us": figures.median, "p99_us": figures.p99})
    });
    report.figures = json!({"ways": in_json.collect::<Vec<_>>(), "ratio": ratio});
    Ok(report)
}

/// Starts Claude Code in a home of its own. Returns the time until the first screen.
fn start(claude: &Claude, world: &World, variant: &StartVariant) -> Result<std::time::Duration> {
    let model = Model::script().start();
    let home = Home::new(&model.url());
    register(world, &home, variant.registered)?;
    let program = claude.command().first().context("a program")?;
    let mut command = if variant.launched {
        let mut command = Command::new(&world.becket);
        command.arg("--home").arg(world.place.home());
        command.args(["run", "--"]).arg(program);
        command
    } else {
        // From a shell, as a user starts it. As the leader of its session, which it is not under `becket
        // run`, Claude Code would start later.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "\"$@\"; exit", "sh"]).arg(program);
        command
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
