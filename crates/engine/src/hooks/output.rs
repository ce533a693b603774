//! Prepares hooks' answers to be sent and recorded: shortens long texts, with the whole in a file, and masks the
//! notes of runs.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use becket_wire::answer::Answer;
use becket_wire::hook_run::RunRow;
use becket_wire::{EventId, Place};

use crate::mask::Masker;
use crate::merge::fit;

/// The length from which Claude Code puts a text into a file of its own, and shows the model only its beginning.
const LONGEST_TEXT: usize = 9_000;

/// Shortens an answer that is too long, and writes all of it to a file that the answer names.
pub fn shorten(answer: Answer, place: &Place, event: EventId, masker: &Masker) -> Answer {
    let (answer, rest) = fit(answer, LONGEST_TEXT, || place.said(event));
    if let Some((file, text)) = rest {
        // Without the file the shortened answer is still useful.
        drop(write_private(&file, &masker.mask(text.as_bytes()).bytes));
    }
    answer
}

fn write_private(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(file)?.write_all(text)
}

/// Masks the notes of runs.
pub fn masked(runs: Vec<RunRow>, masker: &Masker) -> Vec<RunRow> {
    let masked = runs.into_iter().map(|run| RunRow {
        note: run.note.map(|note| masker.text(&note)),
        ..run
    });
    masked.collect()
}
