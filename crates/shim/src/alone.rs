//! Hands the event over to `becket hook --alone`, which takes this process's place.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use becket_wire::{EventId, Place};

use crate::link::Missed;
use crate::{os, wake};

/// Becomes `becket hook --alone`, with the frame as its stdin. Comes back only if that failed: then
/// the frame goes into the spool, and Claude Code goes on (or blocks, if it was told to be strict).
pub fn go(place: &Place, id: EventId, frame: &[u8], why: &Missed, held: bool) -> ExitCode {
    let error = match (wake::program(), os::memory_file(frame)) {
        (Ok(program), Ok(stdin)) => {
            let mut becket = Command::new(program);
            becket
                .args(["hook", "--alone", &why.to_string(), "--home"])
                .arg(place.home());
            if held {
                becket.arg("--held");
            }
            becket.stdin(stdin).exec()
        }
        (Err(error), _) | (_, Err(error)) => error,
    };
    let kept = match spool(place, id, frame) {
        Ok(()) => "the event is in the spool".to_owned(),
        Err(error) => format!("the event is lost: {error}"),
    };
    eprintln!("becket-hook: no daemon ({why}) and no becket beside this program ({error}); {kept}");
    ExitCode::FAILURE
}

/// Leaves the frame for the next daemon. It masks what it takes in; nobody masked this.
fn spool(place: &Place, id: EventId, frame: &[u8]) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place.spool())?;
    let last = place.spooled(id);
    let temp = last.with_extension("tmp");
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&temp)?;
    file.write_all(frame)?;
    std::fs::rename(&temp, last)
}
