//! `becket daemon`: starts, stops, shows and runs the daemon.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::lifecycle::{self, Options, StartError};
use becket_wire::Version;
use becket_wire::rpc::{Ask, DaemonStatus};
use clap::Subcommand;
use serde_json::json;

use crate::client::{self, Client};
use crate::failure::{Code, Failure};
use crate::ui::style::Tell;
use crate::ui::text::one_line;
use crate::ui::time::timestamp;
use crate::world::World;

/// Start, stop or look at the daemon
#[derive(Debug, clap::Args)]
pub struct DaemonArgs {
    #[command(subcommand)]
    verb: DaemonVerb,
}

#[derive(Debug, Subcommand)]
enum DaemonVerb {
    /// Start the daemon in the background, unless it runs
    Start,
    /// End the daemon; the next event starts it again
    Stop,
    /// Show the daemon (exit 4 if there is none)
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the daemon in the foreground
    Run {
        /// Cut loose from the terminal
        #[arg(long, hide = true)]
        detached: bool,
        /// Seconds that hooks may go on after the daemon was told to end
        #[arg(long, hide = true, value_name = "SECONDS")]
        drain: Option<u64>,
        /// Pass for another version
        #[arg(long, hide = true, value_name = "VERSION")]
        as_version: Option<Version>,
    },
}

impl DaemonArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            DaemonVerb::Start => start(world),
            DaemonVerb::Stop => stop(world),
            DaemonVerb::Status { json } => status(world, json),
            DaemonVerb::Run {
                detached,
                drain,
                as_version,
            } => run_daemon(world, detached, drain, as_version),
        }
    }
}

fn start(world: &World) -> Result<ExitCode> {
    if client::start(world)? {
        println!("The daemon is running.");
    } else {
        println!("The daemon is already running.");
    }
    Ok(ExitCode::SUCCESS)
}

fn stop(world: &World) -> Result<ExitCode> {
    world.refuse_inside_claude("daemon stop")?;
    let running = running_hooks(world);
    if !running.is_empty() {
        println!(
            "The daemon waits {} seconds at most for its hooks: {}.",
            lifecycle::DRAIN.as_secs(),
            running.join(", ")
        );
    }
    if end(world)? {
        println!("The daemon has ended.");
    } else {
        println!("No daemon is running.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of the hooks that run now.
fn running_hooks(world: &World) -> Vec<String> {
    let running = becket_engine::process::running(&world.place.running());
    let names: BTreeSet<String> = running.iter().map(|one| one_line(&one.run.hook)).collect();
    names.into_iter().collect()
}

/// Ends the daemon, and waits until its process has ended. Returns false if no daemon ran.
pub fn end(world: &World) -> Result<bool> {
    let Some(mut client) = Client::connect(world)? else {
        return Ok(false);
    };
    let status = client.status()?;
    client.execute(Ask::Stop)?;
    // The next event may start another daemon at once, so this looks at the process, not at the lock alone.
    let until = Instant::now() + lifecycle::DRAIN + Duration::from_secs(15);
    while is_daemon(world, status.pid) {
        if Instant::now() > until {
            return Err(Failure::new(Code::TimedOut, "the daemon did not end")
                .hint("becket daemon status")
                .into());
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(true)
}

/// Returns true if this process still holds the daemon's lock.
fn is_daemon(world: &World, pid: u32) -> bool {
    let Ok(lock) = File::open(world.place.life_lock()) else {
        return false;
    };
    let holder = fs::read_to_string(world.place.life_lock()).unwrap_or_default();
    lock.try_lock_shared().is_err() && holder.trim() == pid.to_string()
}

fn status(world: &World, json: bool) -> Result<ExitCode> {
    let status = match Client::connect(world)? {
        Some(mut client) => match client.status() {
            // The daemon ended between the two calls.
            Err(error) if client::is_unreachable(&error) => None,
            status => Some(status?),
        },
        None => None,
    };
    let Some(status) = status else {
        if json {
            println!("{}", json!({"running": false}));
        } else {
            println!(
                "No daemon is running. The next event starts it, and so does `becket daemon start`."
            );
        }
        return Ok(ExitCode::from(Code::Unreachable as u8));
    };
    if json {
        println!("{}", as_json(&status));
    } else {
        show(&status);
    }
    Ok(ExitCode::SUCCESS)
}

/// Renders the status for scripts.
pub fn as_json(status: &DaemonStatus) -> serde_json::Value {
    json!({
        "running": true,
        "pid": status.pid,
        "version": status.version,
        "protocol": status.protocol,
        "socket": status.socket,
        "started_at": timestamp(status.started_at),
        "sessions": status.sessions,
        "events": status.events,
        "counts": status.counts,
        "troubles": status.troubles,
    })
}

fn show(status: &DaemonStatus) {
    let mut tell = Tell::new();
    tell.field(
        "daemon",
        format!("running, pid {}, version {}", status.pid, status.version),
    );
    tell.field("since", timestamp(status.started_at));
    tell.field("socket", &status.socket);
    tell.field("sessions", status.sessions.to_string());
    tell.field("events", status.events.to_string());
    for (name, count) in crate::ui::style::counts(&status.counts)
        .into_iter()
        .filter(|(_, count)| *count > 0)
    {
        tell.field(name, count.to_string());
    }
    for trouble in &status.troubles {
        tell.field("trouble", trouble);
    }
    tell.print();
}

fn run_daemon(
    world: &World,
    detached: bool,
    drain: Option<u64>,
    as_version: Option<Version>,
) -> Result<ExitCode> {
    find_home()?;
    let version = as_version.unwrap_or_else(Version::current);
    match lifecycle::run(&Options {
        place: world.place.clone(),
        detached,
        version,
        drain: drain.map_or(lifecycle::DRAIN, Duration::from_secs),
    }) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(StartError::Running(_)) if detached => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}

/// Replaces this process by one with `HOME` set to the home folder of the password database, if `HOME` is unset.
fn find_home() -> Result<()> {
    let missing = std::env::var_os("HOME").is_none();
    let Some(home) = std::env::home_dir().filter(|home| missing && home.is_absolute()) else {
        return Ok(());
    };
    let mut again = Command::new(std::env::current_exe()?);
    let again = again.args(std::env::args_os().skip(1)).env("HOME", home);
    Err(again.exec()).context("could not start again with HOME")
}
