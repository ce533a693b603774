//! Hands an event or status line over to `becket` when no daemon answers: `becket hook --alone` judges an event
//! while the shim waits, so that its death is noticed; `becket statusline` replaces the shim's process.

use std::convert::Infallible as Never;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use becket_wire::rpc::{Request, environment_block};
use becket_wire::{EventId, NoAnswer, Place};

use crate::{Call, os, wake};

/// Lets `becket … --alone` answer. If it dies or cannot be started, an event goes into the spool, and Claude
/// Code goes on (strict: blocks).
pub(crate) fn answer(call: &Call<'_>, id: Option<EventId>, why: NoAnswer, held: bool) -> ExitCode {
    let (place, frame, why) = (call.place, call.frame, why.to_string());
    let Some(id) = id else {
        let Err(error) = exec_becket(place, &["statusline", "--alone", &why], Some(frame));
        eprintln!("becket-hook: no daemon ({why}), no becket beside this program: {error}");
        return ExitCode::FAILURE;
    };
    let args = &["hook", "--alone", &why, "--held"][..3 + usize::from(held)];
    let failed = match judge(place, args, frame) {
        Ok(ended) => match ended.code().and_then(|code| u8::try_from(code).ok()) {
            Some(code @ 0..=2) => return ExitCode::from(code),
            _ => format!("becket hook ended with {ended}"),
        },
        Err(error) => format!("could not run the becket beside this program: {error}"),
    };
    let kept = match spool(place, id, frame) {
        Ok(()) => "the event is in the spool".to_owned(),
        Err(error) => format!("the event is lost: {error}"),
    };
    eprintln!("becket-hook: no daemon ({why}), and this event is not judged: {failed}; {kept}");
    ExitCode::FAILURE
}

/// Runs `becket hook --alone` and waits for its end. It gets the daemon's environment, since a repository's
/// settings can set the shim's. The shim's own follows the event, for named hooks.
fn judge(place: &Place, args: &[&str], frame: &[u8]) -> io::Result<ExitStatus> {
    let environment = Request::Environment(environment_block(std::env::vars_os()));
    let environment = environment.to_frame().map_err(io::Error::other)?;
    let input = [frame, &environment].concat();
    let mut becket = becket(place, args)?;
    becket.env_clear().envs(wake::environment(place));
    let Ok(mut child) = becket.stdin(Stdio::piped()).spawn() else {
        // No other process can be started: replace this one.
        return Err(becket.stdin(os::memory_file(&input)?).exec());
    };
    // If this fails, the exit of the child tells why.
    drop(child.stdin.take().map(|mut stdin| stdin.write_all(&input)));
    child.wait()
}

fn becket(place: &Place, args: &[&str]) -> io::Result<Command> {
    let mut becket = Command::new(wake::program()?);
    becket.args(args).arg("--home").arg(place.home());
    Ok(becket)
}

/// Replaces this process by `becket` with this frame, or with the shim's stdin. Returns only if that failed.
pub(crate) fn exec_becket(place: &Place, args: &[&str], frame: Option<&[u8]>) -> io::Result<Never> {
    let frame = frame.map(os::memory_file).transpose()?;
    let stdin = frame.map_or(Stdio::inherit(), Stdio::from);
    Err(becket(place, args)?.stdin(stdin).exec())
}

/// Writes the frame into the spool for the next daemon, which masks it, unless a more complete file of the
/// event exists.
fn spool(place: &Place, id: EventId, frame: &[u8]) -> io::Result<()> {
    wake::private_folder(&place.spool())?;
    let path = place.spooled(id);
    if path.exists() {
        return Ok(());
    }
    os::may_write(frame)?;
    let temp = path.with_extension("tmp");
    wake::create(&temp)?.write_all(frame)?;
    fs::rename(&temp, path)
}
