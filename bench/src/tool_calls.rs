//! Measures tool calls inside the real Claude Code, and compares contenders. A scripted model on 127.0.0.1
//! asks for one tool after another; a call lasts from one request to the model to the next.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_tests::claude::{Claude, Home, Print, SettingsScope};
use becket_tests::model::{Model, RequestKind, Turn, say, tool};
use becket_wire::rpc::DaemonStatus;
use serde_json::{Value, json};

use crate::args::BenchOptions;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Programs, World};

/// The number of measured calls of each contender.
const CALLS: usize = 240;
/// The number of measured calls in one session: more would measure a long conversation.
pub const SESSION: usize = 30;
/// The number of calls at the start of a session that do not count: they load data for the later ones.
pub const WARM_UP: usize = 5;
pub const PROMPT: &str = "read it again and again";
const BOUND: Duration = Duration::from_secs(180);

/// The registration without a hook. Other registrations are [`BECKET`] or the path of a program.
pub const NO_HOOK: &str = "no hook";
pub const BECKET: &str = "becket";

/// The contenders of a bench, and the bar for their figures.
#[derive(Debug)]
pub struct ToolCallBench<const N: usize> {
    /// The names of the contenders. The first is Claude Code without a hook, to which the others add time.
    pub names: [&'static str; N],
    /// The index of the contender whose added time is compared with that of the rival.
    pub ours: usize,
    /// The index of the rival.
    pub rival: usize,
    /// The column of the table with the ratio to the rival.
    pub against: &'static str,
    /// The name of the bar.
    pub bar: &'static str,
    /// The bound of the bar.
    pub most: f64,
}

/// The circumstances of a finished run.
#[derive(Debug)]
pub struct ToolCallRun {
    pub version: String,
    pub sessions: usize,
    pub status: DaemonStatus,
}

impl<const N: usize> ToolCallBench<N> {
    /// Runs one session after the other; the contenders take turns. `enter` prepares the world for a
    /// contender, and returns its registration. Returns `None` if there is no Claude Code.
    pub fn run(
        &self,
        options: &BenchOptions,
        report: &mut Report,
        enter: impl Fn(&World, usize) -> Result<&'static str>,
    ) -> Result<Option<ToolCallRun>> {
        let claude = match Claude::get(&Claude::wanted()) {
            Ok(claude) => claude,
            Err(error) => {
                report.notes.push(format!("SKIPPED: {error}"));
                return Ok(None);
            }
        };
        let world = World::new(&Programs::find(options)?)?;
        let daemon = world.daemon()?;
        let mut samples = [const { Samples::new() }; N];
        let sessions = (options.rounds.unwrap_or(CALLS) * options.runs).div_ceil(SESSION);
        for round in 0..sessions {
            for turn in 0..N {
                let at = (round + turn) % N;
                let registered = enter(&world, at)?;
                session(&claude, &world, registered, &mut samples[at])?;
            }
        }
        self.fill_report(&samples, report);
        Ok(Some(ToolCallRun {
            version: claude.version.clone(),
            sessions,
            status: daemon.client()?.status()?,
        }))
    }

    fn fill_report(&self, samples: &[Samples; N], report: &mut Report) {
        let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
        let [bare, ..] = figures[..] else {
            return;
        };
        if figures.len() < N {
            return;
        }
        let rival = added(figures[self.rival], bare);
        let ratio = added(figures[self.ours], bare) / rival;
        let rows = self.names.iter().zip(&figures).map(|(name, figures)| {
            vec![
                (*name).to_owned(),
                number(figures.median),
                number(added(*figures, bare)),
                number(added(*figures, bare) / rival),
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
                "added_us": added(*figures, bare), "calls": figures.count,
            })
        });
        report.figures = json!({"contenders": in_json.collect::<Vec<_>>(), "ratio": ratio});
    }
}

/// Returns the microseconds that a contender adds to a call.
fn added(contender: Figures, bare: Figures) -> f64 {
    contender.median - bare.median
}

/// Runs one session of the real program, with its own home and model.
fn session(claude: &Claude, world: &World, registered: &str, samples: &mut Samples) -> Result<()> {
    let turns = model_turns(world.root())?;
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

/// Returns the turns of the model in one session: the calls, then a text.
fn model_turns(folder: &Path) -> Result<Vec<Turn>> {
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

/// Calls `took` with the time from each request to the model to the next, while a session runs.
pub fn each_call(model: &Model, calls: usize, mut took: impl FnMut(usize, Duration)) {
    let mut before = None;
    for request in 0..=calls {
        model.wait_for("the next call", |requests| {
            let seen = requests
                .iter()
                .filter(|request| matches!(request.kind, RequestKind::Turn { .. }));
            (seen.count() > request).then_some(())
        });
        let now = Instant::now();
        if let Some(before) = before.replace(now) {
            took(request - 1, now - before);
        }
    }
}

/// Writes a registration into the user's settings of this home, in the form of `becket up`.
pub fn register(world: &World, home: &Home, registered: &str) -> Result<()> {
    if registered == NO_HOOK {
        return Ok(());
    }
    let done = world
        .command(&world.becket)
        .args(["up", "--only-register"])
        .env("HOME", home.home())
        .env("CLAUDE_CONFIG_DIR", home.config())
        .current_dir(home.project())
        .output()
        .context("could not start becket")?;
    if !done.status.success() {
        bail!(
            "becket up failed: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let mut settings = home.settings(SettingsScope::User);
    // The status line is no hook, and print mode does not show it.
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("statusLine");
    }
    let hook = world.hook.to_string_lossy();
    let program = match registered {
        BECKET => &*hook,
        other => other,
    };
    let changed = replace_program(&mut settings["hooks"], program);
    if changed == 0 {
        bail!("becket up registered nothing");
    }
    home.set_settings(SettingsScope::User, &settings);
    Ok(())
}

/// Replaces the program of every registered hook. Returns the number of hooks.
fn replace_program(hooks: &mut Value, program: &str) -> usize {
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

    fn hooks(program: &str) -> Value {
        let handler = json!({"type": "command", "command": program, "args": ["a"], "async": true});
        json!({
            "PreToolUse": [{"hooks": [handler]}],
            "Stop": [{"matcher": "x", "hooks": [handler, handler]}],
        })
    }

    #[test]
    fn only_the_program_of_a_registration_is_replaced() {
        let mut renamed = hooks("/x/becket-hook");
        assert_eq!(replace_program(&mut renamed, "/bin/true"), 3);
        assert_eq!(renamed, hooks("/bin/true"));
        assert_eq!(replace_program(&mut Value::Null, "/bin/true"), 0);
    }
}
