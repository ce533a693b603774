//! `claude`: what becket adds to a tool call inside the real Claude Code, beside `/bin/true`
//! registered in the same form for the same events, and beside no hook at all. A scripted model on
//! 127.0.0.1 asks for one tool after another; a call lasts from one of its requests to the next.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_tests::claude::{Claude, Home, Print, Scope};
use becket_tests::model::{Kind, Model, Turn, say, tool};
use serde_json::{Value, json};

use crate::args::Order;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Programs, World};

/// Calls of each contender that count.
pub(crate) const CALLS: usize = 240;
/// Calls in one session: more would measure a long conversation.
pub(crate) const SESSION: usize = 30;
/// The first calls of a session load what later ones have.
pub(crate) const WARM_UP: usize = 5;
const PROMPT: &str = "read it again and again";
const BOUND: Duration = Duration::from_secs(180);

const CONTENDERS: [&str; 3] = ["no hook", "/bin/true", "becket"];

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
            session(&claude, &world, CONTENDERS[at], &mut samples[at])?;
        }
    }
    let status = daemon.client()?.status()?;
    let least = sessions * (SESSION + WARM_UP) * 2;
    if status.events < least as u64 {
        bail!(
            "only {} events are in the database; the calls of becket's sessions alone make {least}",
            status.events
        );
    }
    report.notes.push(format!(
        "Claude Code {}; {} events of becket's sessions are in the database, {} by way of the spool",
        claude.version, status.events, status.counts.taken_in
    ));
    tell(&samples, &mut report);
    Ok(report)
}

/// One session of the real program, with its own home and model.
pub(crate) fn session(
    claude: &Claude,
    world: &World,
    contender: &str,
    samples: &mut Samples,
) -> Result<()> {
    let calls = SESSION + WARM_UP;
    let file = world.root().join("read-me");
    std::fs::write(&file, "a line\n")?;
    let mut turns: Vec<Turn> = (0..calls)
        .map(|_| tool("Read", json!({"file_path": file})))
        .collect();
    turns.push(say("read"));
    let model = Model::script().on(PROMPT, turns).start();
    let home = Home::new(&model.url());
    register(world, &home, contender)?;
    let running = Print::new(claude, &home, PROMPT)
        .mode("bypassPermissions")
        .bound(BOUND)
        .start();
    let mut before = None;
    for call in 0..=calls {
        model.wait_for("the next call", |requests| {
            let seen = requests
                .iter()
                .filter(|request| matches!(request.kind, Kind::Turn { .. }));
            (seen.count() > call).then_some(())
        });
        let now = Instant::now();
        if let Some(before) = before.replace(now)
            && call > WARM_UP
        {
            samples.push(now - before);
        }
    }
    running.finish().succeeded();
    Ok(())
}

/// Writes the contender into the user's settings of this home, in the form of `becket init`.
fn register(world: &World, home: &Home, contender: &str) -> Result<()> {
    if contender == "no hook" {
        return Ok(());
    }
    let done = world
        .command(&world.becket)
        .arg("init")
        .env("HOME", home.home())
        .env("CLAUDE_CONFIG_DIR", home.config())
        .current_dir(home.project())
        .output()
        .context("could not start becket")?;
    if !done.status.success() {
        bail!(
            "becket init failed: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let mut settings = home.settings(Scope::User);
    // The status line is no hook, and the print mode shows none.
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("statusLine");
    }
    let hook = world.hook.to_string_lossy();
    let program = match contender {
        "becket" => &*hook,
        other => other,
    };
    let changed = name_program(&mut settings["hooks"], program);
    if changed == 0 {
        bail!("becket init registered nothing");
    }
    home.set_settings(Scope::User, &settings);
    Ok(())
}

/// Has every registered hook start this program; says how many there are.
fn name_program(hooks: &mut Value, program: &str) -> usize {
    let groups = hooks.as_object_mut().into_iter().flatten();
    let groups = groups.filter_map(|(_, groups)| groups.as_array_mut());
    let handlers = groups
        .flatten()
        .filter_map(|group| group["hooks"].as_array_mut())
        .flatten();
    let mut changed = 0;
    for handler in handlers {
        handler["command"] = json!(program);
        changed += 1;
    }
    changed
}

fn tell(samples: &[Samples; CONTENDERS.len()], report: &mut Report) {
    let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
    let [bare, truth, becket] = figures[..] else {
        return;
    };
    let added = |figures: Figures| figures.median - bare.median;
    let ratio = added(becket) / added(truth);
    let rows = CONTENDERS.iter().zip(&figures).map(|(name, &figures)| {
        vec![
            (*name).to_owned(),
            number(figures.median),
            number(added(figures)),
            number(added(figures) / added(truth)),
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
            "× true",
            "p99 µs",
            "calls",
        ],
        rows: rows.collect(),
    });
    report.bars.push(Bar::at_most(
        "what becket adds × what /bin/true adds",
        ratio,
        1.3,
        None,
    ));
    let in_json = CONTENDERS.iter().zip(&figures).map(|(name, figures)| {
        json!({
            "registered": name, "median_us": figures.median, "p99_us": figures.p99,
            "added_us": added(*figures), "calls": figures.count,
        })
    });
    report.figures = json!({"contenders": in_json.collect::<Vec<_>>(), "ratio": ratio});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rival_is_registered_as_becket_is() {
        let handler = |program: &str| json!({"type": "command", "command": program, "args": ["a"], "async": true});
        let hooks = |program: &str| {
            json!({
                "PreToolUse": [{"hooks": [handler(program)]}],
                "Stop": [{"matcher": "x", "hooks": [handler(program), handler(program)]}],
            })
        };
        let mut renamed = hooks("/x/becket-hook");
        assert_eq!(name_program(&mut renamed, "/bin/true"), 3);
        assert_eq!(renamed, hooks("/bin/true"));
        assert_eq!(name_program(&mut Value::Null, "/bin/true"), 0);
    }
}
