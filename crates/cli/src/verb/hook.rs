//! `becket hook`: what Claude Code calls where the shim cannot be had, and what the shim becomes
//! when no daemon answers it.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_daemon::store::spool::{self, Left};
use becket_daemon::store::{Decision, fault, mask_key};
use becket_engine::config::Loader;
use becket_engine::judge::{Case, judge};
use becket_engine::mask::Masker;
use becket_engine::notice::{Change, minute_of_day};
use becket_engine::session::project_of;
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::rpc::{EventRequest, Request, Source};
use becket_wire::{Head, Place, Registration};

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

/// Takes a call of `becket hook` before the command line is read as a person's: Claude Code takes
/// exit 2 for a block, so a wrong argument here must never end so. None if it is another verb.
pub fn called() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1).peekable();
    args.next_if(|verb| verb == "hook")?;
    let args: Vec<OsString> = args.collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    if has("--help") || has("-h") {
        return None;
    }
    if !has("--alone") {
        return Some(becket_hook::run(args.into_iter()));
    }
    let why = args.iter().skip_while(|arg| *arg != "--alone").nth(1);
    let why = why.map_or("unknown".into(), |why| why.to_string_lossy());
    let registration = Registration::read(args.iter().cloned());
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let place = Place::find(registration.home, variable("BECKET_HOME"), variable("HOME"));
    let done = place
        .context("no home folder")
        .and_then(|place| alone(&place, &why));
    Some(done.unwrap_or_else(|error| {
        eprintln!("becket: {error:#}");
        ExitCode::FAILURE
    }))
}

/// Judges with the same engine and the same config as the daemon, leaves the event in the spool,
/// then prints.
fn alone(place: &Place, why: &str) -> Result<ExitCode> {
    let began = Instant::now();
    let Request::Event(EventRequest {
        envelope, payload, ..
    }) = read_frame().context("could not read the event")?
    else {
        bail!("stdin holds no event's frame");
    };
    let head = Head::read(&payload);
    let cwd = head.as_ref().ok().and_then(|head| head.cwd.as_deref());
    let claude = envelope.variable("CLAUDE_PROJECT_DIR");
    let has_git = |folder: &Path| folder.join(".git").exists();
    let project = cwd.map(|cwd| project_of(cwd, claude, has_git));
    let mut loader = match project {
        Some(project) => Loader::for_project(place, Path::new(&project)),
        None => Loader::read_only(place),
    };
    let config = loader.current();
    let change = head
        .as_ref()
        .ok()
        .and_then(|head| Change::alone(head, &envelope, has_git));
    let case = Case {
        envelope: &envelope,
        payload: &payload,
        head: head.as_ref(),
        config: &config,
        told: false,
        change: change.as_ref(),
        minute: minute_of_day(envelope.at),
    };
    let verdict = judge(&case);
    let output = verdict.output();
    // Without its key nothing could be masked alike; a key of zeros still masks.
    let masker = Masker::from_config(mask_key(place).unwrap_or_default(), &config.config);
    let masked = masker.mask(&payload);
    let left = Left {
        took_us: i64::try_from(began.elapsed().as_micros()).ok(),
        decision: Decision::new(verdict.decision(), &output),
        masked: masked.count,
        source: Source::Alone,
        why: why.to_owned(),
    };
    if let Err(error) = spool::leave(place, &envelope, &masked.bytes, &left) {
        // Claude Code shows the stderr of a hook that exits 0 in its debug log only.
        eprintln!("becket: the event is not kept: {error}");
    }
    if let Some(fault) = fault(&head, envelope.cut) {
        eprintln!("becket: {fault}");
    }
    Ok(becket_hook::print(&output))
}

/// The frame that the shim left on stdin.
pub(super) fn read_frame() -> Result<Request> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take((HEAD + MAX_BODY) as u64)
        .read_to_end(&mut bytes)?;
    let mut decoder = Decoder::new();
    decoder.push(&bytes);
    drop(bytes);
    let frame = decoder.next_frame()?.context("stdin holds no frame")?;
    Ok(Request::from_frame(frame)?)
}
