//! Hands over to `becket`, which takes this process's place: `becket hook --alone` with an event,
//! `becket statusline` with a status line.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use becket_wire::{EventId, Missed, Place};

use crate::{Question, os, wake};

/// Becomes `becket … --alone`, with the frame as its stdin. Comes back only if that failed: then an
/// event (it has an id) goes into the spool, and Claude Code goes on (strict: blocks).
pub(crate) fn go(asked: &Question<'_>, id: Option<EventId>, why: Missed, held: bool) -> ExitCode {
    let why = why.to_string();
    let verb = id.map_or("statusline", |_| "hook");
    let args = &[verb, "--alone", &why, "--held"][..3 + usize::from(held)];
    let error = become_becket(asked.place, args, Some(asked.frame));
    let kept = match id.map(|id| spool(asked.place, id, asked.frame)) {
        None => "no status line".to_owned(),
        Some(Ok(())) => "the event is in the spool".to_owned(),
        Some(Err(error)) => format!("the event is lost: {error}"),
    };
    eprintln!("becket-hook: no daemon ({why}), no becket beside this program ({error}); {kept}");
    ExitCode::FAILURE
}

/// Becomes `becket` with this frame, or our own stdin. Comes back only if it failed, and says why.
pub(crate) fn become_becket(place: &Place, args: &[&str], frame: Option<&[u8]>) -> io::Error {
    let become_it = || -> io::Result<io::Error> {
        let mut becket = Command::new(wake::program()?);
        becket.args(args).arg("--home").arg(place.home());
        let frame = frame.map(os::memory_file).transpose()?;
        let stdin = frame.map_or(Stdio::inherit(), Stdio::from);
        Ok(becket.stdin(stdin).exec())
    };
    become_it().unwrap_or_else(|error| error)
}

/// Leaves the frame for the next daemon. It masks what it takes in; nobody masked this.
fn spool(place: &Place, id: EventId, frame: &[u8]) -> io::Result<()> {
    wake::private_folder(&place.spool())?;
    let last = place.spooled(id);
    let temp = last.with_extension("tmp");
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(0o600);
    options.open(&temp)?.write_all(frame)?;
    fs::rename(&temp, last)
}
