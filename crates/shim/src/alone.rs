//! Hands the event over to `becket hook --alone`, which takes this process's place.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use becket_wire::{EventId, Missed, Place};

use crate::{os, wake};

/// Becomes `becket hook --alone`, with the frame as its stdin. Comes back only if that failed: then
/// the frame goes into the spool, and Claude Code goes on (or blocks, if it was told to be strict).
pub(crate) fn go(place: &Place, id: EventId, frame: &[u8], why: Missed, held: bool) -> ExitCode {
    let error = become_becket(place, frame, why, held).unwrap_or_else(|error| error);
    let kept = match spool(place, id, frame) {
        Ok(()) => "the event is in the spool".to_owned(),
        Err(error) => format!("the event is lost: {error}"),
    };
    eprintln!("becket-hook: no daemon ({why}), no becket beside this program ({error}); {kept}");
    ExitCode::FAILURE
}

fn become_becket(place: &Place, frame: &[u8], why: Missed, held: bool) -> io::Result<io::Error> {
    let mut becket = Command::new(wake::program()?);
    becket.args(["hook", "--alone", &why.to_string()]);
    becket.args(held.then_some("--held"));
    becket.arg("--home").arg(place.home());
    Ok(becket.stdin(os::memory_file(frame)?).exec())
}

/// Leaves the frame for the next daemon. It masks what it takes in; nobody masked this.
fn spool(place: &Place, id: EventId, frame: &[u8]) -> io::Result<()> {
    wake::private_folder(&place.spool())?;
    let last = place.spooled(id);
    let temp = last.with_extension("tmp");
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&temp)?;
    file.write_all(frame)?;
    fs::rename(&temp, last)
}
