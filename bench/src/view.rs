//! `view`: what the live view of a thousand sessions costs while they work, and how long
//! `becket sessions` takes with few and with many events stored.

mod look;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::Order;
use crate::client::Client;
use crate::fleet::Fleet;
use crate::pty::OnTerminal;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples, median};
use crate::world::{Daemon, Programs, World};

const SESSIONS: usize = 1000;
/// Events a second.
const RATE: usize = 200;
/// How often each program is looked at, in turn, and for how long.
const ROUNDS: usize = 3;
const SLICE: Duration = Duration::from_secs(10);

/// A program that shows what happens, or what runs.
struct Rival {
    name: &'static str,
    args: &'static [&'static str],
    /// It shows this once it is ready.
    sign: &'static str,
    /// Percent of one core, a value each slice.
    busy: Vec<f64>,
    daemon_busy: Vec<f64>,
}

fn rivals() -> Vec<Rival> {
    let rival = |name, args, sign| Rival {
        name,
        args,
        sign,
        busy: Vec::new(),
        daemon_busy: Vec::new(),
    };
    vec![
        rival("becket", &[], "project-"),
        rival("becket events --follow", &["events", "--follow"], "ToolUse"),
        rival("top -d 0.5", &["-d", "0.5"], "PID"),
    ]
}

pub fn run(order: &Order) -> Result<Report> {
    let programs = Programs::find(order)?;
    let mut report = Report::new(order);
    let mut live = Scene::new(&programs)?;
    let mut rivals = rivals();
    for round in 0..order.rounds.unwrap_or(ROUNDS) * order.runs {
        for turn in 0..rivals.len() {
            let at = (round + turn) % rivals.len();
            live.watch(&mut rivals[at])?;
        }
    }
    let [frames, busy] = live.frames()?;
    let frames = frames.figures().context("the view drew nothing")?;
    let busy = busy.figures().context("the view drew nothing")?;
    drop(live);
    tell(&rivals, frames, busy, &mut report);
    let looks = look::run(&programs, order)?;
    let figures = look::tell(&looks, &mut report);
    report.figures = json!({
        "programs": rivals.iter().map(Rival::json).collect::<Vec<_>>(),
        "frame_us": {
            "count": frames.count, "median": frames.median, "p99": frames.p99, "max": frames.max,
            "busy_median": busy.median, "busy_p99": busy.p99, "busy_max": busy.max,
        },
        "looks": figures,
    });
    Ok(report)
}

/// A thousand sessions, and somebody who looks on.
struct Scene {
    fleet: Fleet,
    client: Client,
    // The world goes last: the daemon ends before its folder does.
    daemon: Daemon,
    world: World,
}

impl Scene {
    fn new(programs: &Programs) -> Result<Self> {
        let world = World::new(programs)?;
        let daemon = world.daemon()?;
        let mut client = daemon.client()?;
        let fleet = Fleet::begin(&world, &mut client, SESSIONS)?;
        let live = client.sessions()?;
        if live != SESSIONS {
            bail!("{live} sessions live, not {SESSIONS}");
        }
        Ok(Self {
            fleet,
            client,
            daemon,
            world,
        })
    }

    /// One program for one slice of time, while the sessions work.
    fn watch(&mut self, rival: &mut Rival) -> Result<()> {
        let program = OnTerminal::start(&self.command(rival), rival.sign)?;
        // What follows shows nothing before something happens.
        self.work(RATE)?;
        program.wait_until_ready()?;
        let before = [busy_seconds(program.pid())?, self.daemon_busy()?];
        let took = self.work(RATE * SLICE.as_secs() as usize)?.as_secs_f64();
        let percent = |before: f64, after: f64| (after - before) / took * 100.0;
        rival
            .busy
            .push(percent(before[0], busy_seconds(program.pid())?));
        rival
            .daemon_busy
            .push(percent(before[1], self.daemon_busy()?));
        if self.client.sessions()? != SESSIONS {
            bail!("sessions were lost");
        }
        Ok(())
    }

    fn command(&self, rival: &Rival) -> Command {
        let mut command = match rival.name.starts_with("becket") {
            true => self.world.command(&self.world.becket),
            false => self.world.command("top"),
        };
        command.args(rival.args);
        if rival.name == "becket" {
            command
                .arg("--frame-times")
                .arg(self.world.root().join("frames"));
        }
        command
    }

    fn daemon_busy(&self) -> Result<f64> {
        busy_seconds(self.daemon.pid())
    }

    /// Sends so many events, evenly; how long it took.
    fn work(&mut self, events: usize) -> Result<Duration> {
        let begin = Instant::now();
        for sent in 0..events {
            let due = begin + Duration::from_secs(1) * sent as u32 / RATE as u32;
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            self.fleet.next(&mut self.client)?;
        }
        let took = begin.elapsed();
        let rate = events as f64 / took.as_secs_f64();
        if rate < RATE as f64 * 0.95 {
            bail!("only {rate:.0} events a second were taken");
        }
        Ok(took)
    }

    /// What each frame took by the clock, and of the processor.
    fn frames(&self) -> Result<[Samples; 2]> {
        let text = std::fs::read_to_string(self.world.root().join("frames"))?;
        let mut frames = [Samples::new(), Samples::new()];
        for line in text.lines() {
            let (took, busy) = line.split_once(' ').context("an odd line of times")?;
            for (samples, micros) in frames.iter_mut().zip([took, busy]) {
                samples.push(Duration::from_micros(micros.parse()?));
            }
        }
        Ok(frames)
    }
}

impl Rival {
    fn figure(busy: &[f64]) -> f64 {
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

/// The processor time of a process so far.
pub fn busy_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("the process {pid} has ended"))?;
    seconds(ticks(&stat, OWN))
}

/// The same of the children of this process that have ended.
pub fn children_busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("could not read /proc")?;
    seconds(ticks(&stat, OF_CHILDREN))
}

fn seconds(ticks: Option<u64>) -> Result<f64> {
    let ticks = ticks.context("an odd line of /proc/PID/stat")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The places of the two fields after the name.
const OWN: usize = 11;
const OF_CHILDREN: usize = 13;

/// The ticks in user and system mode. The name may hold anything, so fields are counted from its end.
fn ticks(stat: &str, from: usize) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(from);
    let user: u64 = fields.next()?.parse().ok()?;
    Some(user + fields.next()?.parse::<u64>().ok()?)
}

fn tell(rivals: &[Rival], frames: Figures, busy: Figures, report: &mut Report) {
    let view = Rival::figure(&rivals[0].busy);
    let rows = rivals.iter().map(|rival| {
        let busy = Rival::figure(&rival.busy);
        vec![
            rival.name.to_owned(),
            format!("{busy:.1}"),
            number(busy / Rival::figure(&rivals[1].busy)),
            format!("{:.1}", rival.busy.iter().copied().fold(0.0, f64::max)),
            format!("{:.1}", Rival::figure(&rival.daemon_busy)),
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
