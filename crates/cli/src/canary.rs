//! The canary: an event sent through the very command line that is registered, and looked for in
//! the database. What doctor and `becket up` prove, they prove with it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_daemon::life::now_ms;
use becket_engine::run::{self, Bounds};
use becket_wire::rpc::{EventQuery, EventRow};
use serde_json::json;

use crate::client::Client;
use crate::log;
use crate::world::World;

/// The event's name: unknown to Claude Code, so it changes nothing but the log.
pub const NAME: &str = "BecketCanary";

/// What the registered command may take.
pub const BOUNDS: Bounds<'_> = Bounds {
    time: Some(Duration::from_secs(60)),
    bytes: 64 << 10,
    own_group: true,
    cancel: None,
};

/// How a canary came back.
#[derive(Debug)]
pub struct Flight {
    /// From the start of the hook process to its end.
    pub took: Duration,
    pub row: EventRow,
}

/// Runs the registered command line as Claude Code would: event on stdin, no terminal, own folder.
/// Where no daemon answers, the event is looked for in database and spool.
pub fn send(
    world: &World,
    program: &Path,
    args: &[String],
    daemon_answers: bool,
) -> Result<Flight> {
    let nonce = format!("{}-{}", std::process::id(), now_ms());
    let payload =
        json!({"hook_event_name": NAME, "session_id": "becket-canary", "cwd": "/", "nonce": nonce});
    let since = now_ms();
    let began = Instant::now();
    let mut hook = Command::new(program);
    hook.args(args)
        .env_clear()
        .envs(world.no_daemon.then_some(("BECKET_NO_DAEMON", "1")))
        .envs(
            ["HOME", "PATH"]
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .current_dir("/");
    let done = run::command(&mut hook, payload.to_string().as_bytes(), &BOUNDS);
    let done = done.with_context(|| format!("could not start {}", program.display()))?;
    let took = began.elapsed();
    if !done.success() || !done.stdout.is_empty() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        bail!(
            "{} ended with {} instead of silence: {said}",
            program.display(),
            done.end()
        );
    }
    let row = find(world, since, &nonce, daemon_answers)?;
    Ok(Flight { took, row })
}

fn find(world: &World, since: i64, nonce: &str, daemon_answers: bool) -> Result<EventRow> {
    let query = EventQuery {
        event: Some(NAME.to_owned()),
        since: Some(since),
        ..EventQuery::default()
    };
    let is_ours = |row: &EventRow| {
        let payload = row
            .payload
            .as_deref()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok());
        payload.is_some_and(|payload| payload["nonce"] == nonce)
    };
    let rows = if daemon_answers {
        Client::connect_or_start(world)?.events(query)?
    } else {
        log::read(world, query)?
    };
    let found = rows.into_iter().find(is_ours);
    found.context("the event was sent and is not in the database")
}
