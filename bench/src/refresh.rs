//! `refresh`: measures the cost of ten idle sessions whose status line Claude Code draws again every two
//! seconds, compared with a user's own status line that runs each time.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::args::BenchOptions;
use crate::report::{Bar, Report, Table, number};
use crate::view::{busy_seconds, children_busy_seconds};
use crate::world::{Daemon, Programs, World};

const SESSIONS: usize = 10;
const INTERVAL: Duration = Duration::from_secs(2);
/// The number of measurements of becket and of its rival.
const ROUNDS: usize = 3;
/// The duration of one measurement.
const SLICE: Duration = Duration::from_secs(10);

/// The status line that the user had before becket. It records each run.
const OWN_LINE: &str = "cat > /dev/null; echo x >> ~/ran; echo mine";

/// The processor time of calls, and the time by the clock (`wall`), in seconds.
#[derive(Debug, Default)]
struct Cost {
    calls: usize,
    wall: f64,
    programs: f64,
    daemon: f64,
}

impl Cost {
    fn percent(&self) -> f64 {
        (self.programs + self.daemon) / self.wall * 100.0
    }

    fn row(&self, name: &str) -> Vec<String> {
        let each = (self.programs + self.daemon) / self.calls as f64;
        vec![
            name.to_owned(),
            number(self.percent()),
            number(self.programs / self.wall * 100.0),
            number(self.daemon / self.wall * 100.0),
            number(each * 1e3),
        ]
    }
}

/// A world with idle sessions and the status line of becket.
struct StatusLineWorld {
    // The daemon is dropped before the world, because it ends before its folder is deleted.
    daemon: Daemon,
    /// The command that `becket up` registered.
    line: String,
    calls: u64,
    world: World,
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let mut lines = StatusLineWorld::new(&Programs::find(options)?)?;
    let registered = lines.line.clone();
    let (mut becket, mut own) = (Cost::default(), Cost::default());
    // The first call of a session runs the user's own line, as at the start of a real session.
    lines.draw(&registered, SESSIONS, Duration::ZERO, &mut Cost::default())?;
    let ran = lines.ran()?;
    for _ in 0..options.rounds.unwrap_or(ROUNDS) * options.runs {
        let calls = SESSIONS * (SLICE.as_secs() / INTERVAL.as_secs()) as usize;
        let pause = INTERVAL / SESSIONS as u32;
        let before = lines.ran()?;
        lines.draw(&registered, calls, pause, &mut becket)?;
        if lines.ran()? != before {
            bail!("the user's own status line ran for a refresh");
        }
        lines.draw(OWN_LINE, calls, pause, &mut own)?;
    }
    if ran != SESSIONS {
        bail!("the user's own status line ran {ran} times for {SESSIONS} sessions");
    }
    Ok(report(options, &becket, &own))
}

impl StatusLineWorld {
    fn new(programs: &Programs) -> Result<Self> {
        let world = World::new(programs)?;
        let settings = world.root().join("home/.claude/settings.json");
        fs::create_dir_all(settings.parent().context("no folder")?)?;
        let theirs = json!({"statusLine": {"type": "command", "command": OWN_LINE}});
        fs::write(&settings, theirs.to_string())?;
        let init = world
            .command(&world.becket)
            .args(["up", "--only-register"])
            .output()?;
        if !init.status.success() {
            bail!("becket up: {}", String::from_utf8_lossy(&init.stderr));
        }
        let written: Value = serde_json::from_slice(&fs::read(&settings)?)?;
        let line = written["statusLine"]["command"].as_str();
        let lines = Self {
            line: line.context("no status line is registered")?.to_owned(),
            daemon: world.daemon()?,
            calls: 0,
            world,
        };
        for session in 0..SESSIONS {
            for event in ["SessionStart", "Stop"] {
                let payload = json!({"hook_event_name": event, "session_id": id(session)});
                let mut hook = lines.world.command(&lines.world.hook);
                hook.args(["--event", event, "--home"]);
                hook.arg(lines.world.place.home());
                feed(hook, &payload)?;
            }
        }
        Ok(lines)
    }

    /// Draws the lines of the sessions in turn with a command, with a pause between the calls.
    fn draw(&mut self, line: &str, calls: usize, pause: Duration, cost: &mut Cost) -> Result<()> {
        let begin = Instant::now();
        let before = [children_busy_seconds()?, busy_seconds(self.daemon.pid())?];
        for call in 0..calls {
            let due = begin + pause * call as u32;
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            self.calls += 1;
            let mut shell = self.world.command("/bin/sh");
            shell.args(["-c", line]).env("COLUMNS", "120");
            let printed = feed(shell, &payload(call % SESSIONS, self.calls))?;
            if !printed.starts_with("mine\n") {
                bail!("`{line}` printed {printed}");
            }
        }
        cost.calls += calls;
        cost.programs += children_busy_seconds()? - before[0];
        cost.daemon += busy_seconds(self.daemon.pid())? - before[1];
        cost.wall += (begin.elapsed()).max(pause * calls as u32).as_secs_f64();
        Ok(())
    }

    /// Returns the number of runs of the user's own line.
    fn ran(&self) -> Result<usize> {
        let runs = fs::read_to_string(self.world.root().join("home/ran"))?;
        Ok(runs.lines().count())
    }
}

fn id(session: usize) -> String {
    format!("0bec4e70-0000-4000-8000-{session:012}")
}

/// Returns the payload of a status line. Only the duration differs from call to call.
fn payload(session: usize, calls: u64) -> Value {
    json!({
        "session_id": id(session), "cwd": "/home/user/project", "version": "2.1.325",
        "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
        "workspace": {"current_dir": "/home/user/project", "project_dir": "/home/user/project"},
        "cost": {"total_cost_usd": 1.5, "total_duration_ms": calls * 2_000, "total_lines_added": 3},
        "context_window": {"context_window_size": 200_000, "used_percentage": 42},
    })
}

/// Runs a command with a payload on its stdin. Returns its stdout.
fn feed(mut command: Command, payload: &Value) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("could not start a program")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    stdin.write_all(payload.to_string().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("a program ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn report(options: &BenchOptions, becket: &Cost, own: &Cost) -> Report {
    let mut report = Report::new(options);
    report.tables.push(Table {
        title: format!("{SESSIONS} idle sessions, each drawn again every two seconds"),
        columns: vec![
            "status line",
            "% of a core",
            "programs %",
            "daemon %",
            "ms each",
        ],
        rows: vec![
            becket.row("becket beneath the user's own"),
            own.row("the user's own alone, run each time"),
        ],
    });
    let name = "ten idle sessions, % of a core";
    report.bars = vec![Bar::at_most(name, becket.percent(), 2.0, None)];
    report
        .notes
        .push(format!("{} refreshes of each", becket.calls));
    report.figures = json!({
        "percent": becket.percent(), "own_percent": own.percent(),
        "ratio": becket.percent() / own.percent(), "refreshes": becket.calls,
    });
    report
}
