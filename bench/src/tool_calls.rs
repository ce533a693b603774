//! Tool calls inside the real Claude Code, one contender's beside the others'. A scripted model on
//! 127.0.0.1 asks for one tool after another; a call lasts from one of its requests to the next.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_tests::claude::{Claude, Home, Print, Scope};
use becket_tests::model::{Kind, Model, Turn, say, tool};
use becket_wire::rpc::DaemonStatus;
use serde_json::{Value, json};

use crate::args::Order;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Programs, World};

/// Calls of each contender that count.
const CALLS: usize = 240;
/// Calls in one session: more would measure a long conversation.
pub const SESSION: usize = 30;
/// The first calls of a session load what later ones have.
pub const WARM_UP: usize = 5;
pub const PROMPT: &str = "read it again and again";
const BOUND: Duration = Duration::from_secs(180);

/// What may be registered besides a program's path.
pub const NO_HOOK: &str = "no hook";
pub const BECKET: &str = "becket";

/// Who is compared with whom.
#[derive(Debug)]
pub struct Contest<const N: usize> {
    /// The first is Claude Code without a hook: what the others add is counted from there.
    pub names: [&'static str; N],
    /// What `names[ours]` adds is held against what `names[rival]` adds.
    pub ours: usize,
    pub rival: usize,
    /// The rival in the head of the table.
    pub against: &'static str,
    pub bar: &'static str,
    pub most: f64,
}

/// What came of it besides the figures.
#[derive(Debug)]
pub struct Held {
    pub version: String,
    pub sessions: usize,
    pub status: DaemonStatus,
}

impl<const N: usize> Contest<N> {
    /// One session after the other, turn by turn. `enter` makes the world what that contender needs,
    /// and says what is registered. None where there is no Claude Code.
    pub fn hold(
        &self,
        order: &Order,
        report: &mut Report,
        enter: impl Fn(&World, usize) -> Result<&'static str>,
    ) -> Result<Option<Held>> {
        let claude = match Claude::get(&Claude::wanted()) {
            Ok(claude) => claude,
            Err(why) => {
                report.notes.push(format!("SKIPPED: {why}"));
                return Ok(None);
            }
        };
        let world = World::new(&Programs::find(order)?)?;
        let daemon = world.daemon()?;
        let mut samples = [const { Samples::new() }; N];
        let sessions = (order.rounds.unwrap_or(CALLS) * order.runs).div_ceil(SESSION);
        for round in 0..sessions {
            for turn in 0..N {
                let at = (round + turn) % N;
                let registered = enter(&world, at)?;
                session(&claude, &world, registered, &mut samples[at])?;
            }
        }
        self.tell(&samples, report);
        Ok(Some(Held {
            version: claude.version.clone(),
            sessions,
            status: daemon.client()?.status()?,
        }))
    }

    fn tell(&self, samples: &[Samples; N], report: &mut Report) {
        let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
        let [bare, ..] = figures[..] else {
            return;
        };
        if figures.len() < N {
            return;
        }
        let added = |figures: &Figures| figures.median - bare.median;
        let rival = added(&figures[self.rival]);
        let ratio = added(&figures[self.ours]) / rival;
        let rows = self.names.iter().zip(&figures).map(|(name, figures)| {
            vec![
                (*name).to_owned(),
                number(figures.median),
                number(added(figures)),
                number(added(figures) / rival),
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
                self.against,
                "p99 µs",
                "calls",
            ],
            rows: rows.collect(),
        });
        report
            .bars
            .push(Bar::at_most(self.bar, ratio, self.most, None));
        let in_json = self.names.iter().zip(&figures).map(|(name, figures)| {
            json!({
                "registered": name, "median_us": figures.median, "p99_us": figures.p99,
                "added_us": added(figures), "calls": figures.count,
            })
        });
        report.figures = json!({"contenders": in_json.collect::<Vec<_>>(), "ratio": ratio});
    }
}

/// One session of the real program, with its own home and model.
fn session(claude: &Claude, world: &World, registered: &str, samples: &mut Samples) -> Result<()> {
    let turns = calls_of_session(world.root())?;
    let model = Model::script().on(PROMPT, turns).start();
    let home = Home::new(&model.url());
    register(world, &home, registered)?;
    let running = Print::new(claude, &home, PROMPT)
        .mode("bypassPermissions")
        .bound(BOUND)
        .start();
    measure(&model, samples);
    running.finish().succeeded();
    Ok(())
}

/// What the model does in one session: the calls, then its last words.
fn calls_of_session(folder: &Path) -> Result<Vec<Turn>> {
    let file = folder.join("read-me");
    std::fs::write(&file, "a line\n")?;
    let mut turns: Vec<Turn> = (0..SESSION + WARM_UP)
        .map(|_| tool("Read", json!({"file_path": file})))
        .collect();
    turns.push(say("read"));
    Ok(turns)
}

fn measure(model: &Model, samples: &mut Samples) {
    each_call(model, SESSION + WARM_UP, |call, took| {
        if call >= WARM_UP {
            samples.push(took);
        }
    });
}

/// Takes the time from each of the model's requests to the next, while a session runs.
pub fn each_call(model: &Model, calls: usize, mut took: impl FnMut(usize, Duration)) {
    let mut before = None;
    for request in 0..=calls {
        model.wait_for("the next call", |requests| {
            let seen = requests
                .iter()
                .filter(|request| matches!(request.kind, Kind::Turn { .. }));
            (seen.count() > request).then_some(())
        });
        let now = Instant::now();
        if let Some(before) = before.replace(now) {
            took(request - 1, now - before);
        }
    }
}

/// Writes it into the user's settings of this home, in the form of `becket init`.
pub fn register(world: &World, home: &Home, registered: &str) -> Result<()> {
    if registered == NO_HOOK {
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
    let program = match registered {
        BECKET => &*hook,
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
