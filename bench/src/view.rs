//! `view`: measures the cost of the live view of a thousand working sessions, and the time of
//! `becket sessions` with few and with many events stored.

mod sessions_command;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::BenchOptions;
use crate::client::Client;
use crate::pty::OnTerminal;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples, median};
use crate::synthetic_sessions::SyntheticSessions;
use crate::world::{Daemon, Programs, World};

const SESSIONS: usize = 1000;
/// Events a second.
const RATE: usize = 200;
/// The number of measurements of each program, which take turns.
const ROUNDS: usize = 3;
/// The duration of one measurement.
const SLICE: Duration = Duration::from_secs(10);

/// A program that shows events or processes.
struct WatchedProgram {
    name: &'static str,
    args: &'static [&'static str],
    /// The text that it shows once it is ready.
    sign: &'static str,
    /// Percent of one core, one value per slice.
    busy: Vec<f64>,
    daemon_busy: Vec<f64>,
}

impl WatchedProgram {
    fn new(name: &'static str, args: &'static [&'static str], sign: &'static str) -> Self {
        Self {
            name,
            args,
            sign,
            busy: Vec::new(),
            daemon_busy: Vec::new(),
        }
    }
}

fn watched_programs() -> Vec<WatchedProgram> {
    vec![
        WatchedProgram::new("becket", &[], "project-"),
        WatchedProgram::new("becket events --follow", &["events", "--follow"], "ToolUse"),
        WatchedProgram::new("top -d 0.5", &["-d", "0.5"], "PID"),
    ]
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let programs = Programs::find(options)?;
    let mut report = Report::new(options);
    let mut live = LiveWorld::new(&programs)?;
    let mut watched = watched_programs();
    for round in 0..options.rounds.unwrap_or(ROUNDS) * options.runs {
        for turn in 0..watched.len() {
            let at = (round + turn) % watched.len();
            live.watch(&mut watched[at])?;
        }
    }
    let [frames, busy] = live.frames()?;
    let frames = frames.figures().context("the view drew nothing")?;
    let busy = busy.figures().context("the view drew nothing")?;
    drop(live);
    fill_report(&watched, frames, busy, &mut report);
    let sizes = sessions_command::run(&programs, options)?;
    let figures = sessions_command::fill_report(&sizes, &mut report);
    report.figures = json!({
        "programs": watched.iter().map(WatchedProgram::json).collect::<Vec<_>>(),
        "frame_us": {
            "count": frames.count, "median": frames.median, "p99": frames.p99, "max": frames.max,
            "busy_median": busy.median, "busy_p99": busy.p99, "busy_max": busy.max,
        },
        "looks": figures,
    });
    Ok(report)
}

/// A world with a thousand working sessions.
struct LiveWorld {
    sessions: SyntheticSessions,
    client: Client,
    // The daemon is dropped before the world, because it ends before its folder is deleted.
    daemon: Daemon,
    world: World,
}

impl LiveWorld {
    fn new(programs: &Programs) -> Result<Self> {
        let world = World::new(programs)?;
        let daemon = world.daemon()?;
        let mut client = daemon.client()?;
        let sessions = SyntheticSessions::begin(&world, &mut client, SESSIONS)?;
        let live = client.sessions()?;
        if live != SESSIONS {
            bail!("{live} sessions live, not {SESSIONS}");
        }
        Ok(Self {
            sessions,
            client,
            daemon,
            world,
        })
    }

    /// Measures one program for one slice of time, while the sessions work.
    fn watch(&mut self, watched: &mut WatchedProgram) -> Result<()> {
        let program = OnTerminal::start(&self.command(watched), watched.sign)?;
        // `events --follow` shows nothing before the next event.
        self.work(RATE)?;
        program.wait_until_ready()?;
        let before = [busy_seconds(program.pid())?, self.daemon_busy()?];
        let took = self.work(RATE * SLICE.as_secs() as usize)?.as_secs_f64();
        let after = [busy_seconds(program.pid())?, self.daemon_busy()?];
        let [busy, daemon_busy] = [0, 1].map(|at| (after[at] - before[at]) / took * 100.0);
        watched.busy.push(busy);
        watched.daemon_busy.push(daemon_busy);
        if self.client.sessions()? != SESSIONS {
            bail!("sessions were lost");
        }
        Ok(())
    }

    fn command(&self, watched: &WatchedProgram) -> Command {
        let mut command = if watched.name.starts_with("becket") {
            self.world.command(&self.world.becket)
        } else {
            self.world.command("top")
        };
        command.args(watched.args);
        if watched.name == "becket" {
            command
                .arg("--frame-times")
                .arg(self.world.root().join("frames"));
        }
        command
    }

    fn daemon_busy(&self) -> Result<f64> {
        busy_seconds(self.daemon.pid())
    }

    /// Sends this number of events at an even rate. Returns the duration.
    fn work(&mut self, events: usize) -> Result<Duration> {
        let begin = Instant::now();
        for sent in 0..events {
            let due = begin + Duration::from_secs(1) * sent as u32 / RATE as u32;
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            self.sessions.next(&mut self.client)?;
        }
        let took = begin.elapsed();
        let rate = events as f64 / took.as_secs_f64();
        if rate < RATE as f64 * 0.95 {
            bail!("only {rate:.0} events a second were taken");
        }
        Ok(took)
    }

    /// Reads the times of the frames: by the clock, and of the processor.
    fn frames(&self) -> Result<[Samples; 2]> {
        let text = std::fs::read_to_string(self.world.root().join("frames"))?;
        let mut frames = [Samples::new(), Samples::new()];
        for line in text.lines() {
            let (took, busy) = line
                .split_once(' ')
                .context("a line of frame times is not valid")?;
            for (samples, micros) in frames.iter_mut().zip([took, busy]) {
                samples.push(Duration::from_micros(micros.parse()?));
            }
        }
        Ok(frames)
    }
}

impl WatchedProgram {
    fn median(busy: &[f64]) -> f64 {
        let mut busy = busy.to_vec();
        busy.sort_by(f64::total_cmp);
        median(&busy).unwrap_or(0.0)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "program": self.name, "percent": self.busy, "daemon_percent": self.daemon_busy,
        })
    }
}

/// Returns the processor time of a process so far.
pub fn busy_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("the process {pid} has ended"))?;
    seconds(ticks(&stat, OWN))
}

/// Returns the processor time of the children of this process that have ended.
pub fn children_busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("could not read /proc")?;
    seconds(ticks(&stat, OF_CHILDREN))
}

fn seconds(ticks: Option<u64>) -> Result<f64> {
    let ticks = ticks.context("/proc/PID/stat is not valid")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The index of the field with this process's own time, counted after the name.
const OWN: usize = 11;
/// The index of the field with the time of its children, counted after the name.
const OF_CHILDREN: usize = 13;

/// Returns the ticks in user and system mode. The name may contain any character, so fields are counted
/// from its end.
fn ticks(stat: &str, from: usize) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(from);
    let user: u64 = fields.next()?.parse().ok()?;
    Some(user + fields.next()?.parse::<u64>().ok()?)
}

fn fill_report(watched: &[WatchedProgram], frames: Figures, busy: Figures, report: &mut Report) {
    let view = WatchedProgram::median(&watched[0].busy);
    let rows = watched.iter().map(|program| {
        let busy = WatchedProgram::median(&program.busy);
        vec![
            program.name.to_owned(),
            format!("{busy:.1}"),
            number(busy / WatchedProgram::median(&watched[1].busy)),
            format!("{:.1}", program.busy.iter().copied().fold(0.0, f64::max)),
            format!("{:.1}", WatchedProgram::median(&program.daemon_busy)),
        ]
    });
    report.tables.push(Table {
        title: format!("{SESSIONS} sessions, {RATE} events a second, a terminal of 200x60"),
        columns: vec![
            "program",
            "% of a core",
            "× events",
            "most",
            "the daemon's %",
        ],
        rows: rows.collect(),
    });
    report.tables.push(Table {
        title: "Frames of the live view".to_owned(),
        columns: vec!["", "median µs", "p99 µs", "most µs"],
        rows: [("by the clock", frames), ("of the processor", busy)]
            .map(|(which, took)| {
                let micros = [took.median, took.p99, took.max].map(number);
                [vec![which.to_owned()], micros.to_vec()].concat()
            })
            .to_vec(),
    });
    report.notes.push(format!(
        "{} frames, the first one of each view among them",
        frames.count
    ));
    report.bars.extend([
        Bar::at_most("the view, % of a core", view, 10.0, None),
        Bar::at_most("a frame: p99, ms", frames.p99 / 1000.0, 16.0, None),
        Bar::at_most("a frame: the longest, ms", frames.max / 1000.0, 16.0, None),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_user_and_system() {
        let stat = "77 (a) b (c) S 42 77 77 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(ticks(stat, OWN), Some(56));
        assert_eq!(ticks(stat, OF_CHILDREN), Some(15));
        assert_eq!(ticks("77 (x) S", OWN), None);
    }
}
