//! What hooks said, as it is answered and recorded: long texts are cut with the whole in a file, and runs
//! are masked.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use becket_wire::answer::Answer;
use becket_wire::hook_run::RunRow;
use becket_wire::{EventId, Place};

use crate::mask::Masker;
use crate::merge::fit;

/// Claude Code puts longer texts into a file of its own, and shows the model their beginning only.
const LONGEST_TEXT: usize = 9_000;

/// Cuts what is too long for an answer, and leaves all of it in a file that the answer names.
pub fn shorten(answer: Answer, place: &Place, event: EventId, masker: &Masker) -> Answer {
    let (answer, rest) = fit(answer, LONGEST_TEXT, || place.said(event));
    if let Some((file, text)) = rest {
        // Without the file the answer is still the beginning of it.
        drop(leave(&file, &masker.mask(text.as_bytes()).bytes));
    }
    answer
}

fn leave(file: &Path, text: &[u8]) -> io::Result<()> {
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
    let one = |run: RunRow| RunRow {
        note: run.note.map(|note| masker.text(&note)),
        ..run
    };
    runs.into_iter().map(one).collect()
}
