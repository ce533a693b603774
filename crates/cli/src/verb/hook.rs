//! `becket hook`: what Claude Code calls where the shim cannot be had, and what the shim becomes
//! when no daemon answers it.

use std::ffi::OsString;
use std::io::Read;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_daemon::store::spool::{self, Left};
use becket_daemon::store::{Decision, fault, mask_key};
use becket_engine::config::Loader;
use becket_engine::judge::{Case, judge};
use becket_engine::mask::Masker;
use becket_wire::Head;
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::rpc::{EventRequest, Request, Source};

use crate::world::World;

/// Take one event from Claude Code (what the shim does, where the shim cannot be had)
#[derive(Debug, clap::Args)]
pub struct Hook {
    /// Judge the frame on stdin without a daemon, and say why there is none
    #[arg(long, value_name = "WHY", hide = true)]
    alone: Option<String>,
    /// The daemon had taken the event already: start no named hook again
    #[arg(long, requires = "alone", hide = true)]
    held: bool,
    /// The event that this registration is for
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Where this registration stands: settings, plugin, run
    #[arg(long, value_name = "SOURCE")]
    from: Option<String>,
}

impl Hook {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match &self.alone {
            Some(why) => alone(world, why),
            None => {
                let mut args = vec![OsString::from("--home"), world.place.home().into()];
                for (name, value) in [("--event", self.event), ("--from", self.from)] {
                    args.extend(
                        value
                            .into_iter()
                            .flat_map(|value| [name.into(), value.into()]),
                    );
                }
                Ok(becket_hook::run(args.into_iter()))
            }
        }
    }
}

/// Judges with the same engine and the same config as the daemon, leaves the event in the spool,
/// then prints.
fn alone(world: &World, why: &str) -> Result<ExitCode> {
    let began = Instant::now();
    let EventRequest { envelope, payload } = read_frame().context("could not read the event")?;
    let config = Loader::read_only(&world.place).current();
    let head = Head::read(&payload);
    let case = Case {
        envelope: &envelope,
        payload: &payload,
        head: head.as_ref(),
        config: &config,
        told: false,
    };
    let verdict = judge(&case);
    let output = verdict.output();
    // Without its key nothing could be masked alike; a key of zeros still masks.
    let masker = Masker::from_config(mask_key(&world.place).unwrap_or_default(), &config.config);
    let masked = masker.mask(&payload);
    let left = Left {
        took_us: i64::try_from(began.elapsed().as_micros()).ok(),
        decision: Decision::new(verdict.decision(), &output),
        masked: masked.count,
        source: Source::Alone,
        why: why.to_owned(),
    };
    if let Err(error) = spool::leave(&world.place, &envelope, &masked.bytes, &left) {
        // Claude Code shows the stderr of a hook that exits 0 in its debug log only.
        eprintln!("becket: the event is not kept: {error}");
    }
    if let Some(fault) = fault(&head, envelope.cut) {
        eprintln!("becket: {fault}");
    }
    Ok(becket_hook::print(&output))
}

fn read_frame() -> Result<EventRequest> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take((HEAD + MAX_BODY) as u64)
        .read_to_end(&mut bytes)?;
    let mut decoder = Decoder::new();
    decoder.push(&bytes);
    drop(bytes);
    match decoder.next_frame()?.map(Request::from_frame).transpose()? {
        Some(Request::Event(event)) => Ok(event),
        _ => bail!("stdin holds no event's frame"),
    }
}
