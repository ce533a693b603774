//! What is printed for one status line: daemon and alone mode both ask here.

use becket_wire::Output;
use becket_wire::rpc::{Envelope, WRONG};

use super::{Line, render};
use crate::config::Snapshot;
use crate::trust::Project;

/// How wide the terminal is where nobody says.
const COLUMNS: usize = 80;
/// Claude Code cuts a status line that is wider than its terminal but for so many columns.
const MARGIN: usize = 4;

/// The answer to a status line, with what its envelope and the config have to say.
pub fn answer(mut line: Line, envelope: &Envelope, config: &Snapshot) -> Output {
    line.wrong
        .extend(envelope.variable(WRONG).map(str::to_owned));
    line.wrong.extend(match config.errors().count() {
        0 => None,
        1 => Some("config: 1 error".to_owned()),
        errors => Some(format!("config: {errors} errors")),
    });
    let project = config.project.as_ref();
    line.wrong.extend(
        project
            .and_then(Project::says)
            .map(|_| "not trusted".to_owned()),
    );
    let colour = envelope.variable("NO_COLOR").is_none_or(str::is_empty);
    let columns = columns(envelope.variable("COLUMNS"));
    let mut printed = render(&line, &config.config.statusline, columns, colour);
    if !printed.is_empty() {
        printed.push('\n');
    }
    Output {
        stdout: printed.into_bytes(),
        ..Output::default()
    }
}

/// How wide the line may be: Claude Code gives its status line `COLUMNS`.
fn columns(said: Option<&str>) -> usize {
    let said = said.and_then(|said| said.trim().parse().ok());
    let said = said.filter(|columns| *columns > 0).unwrap_or(COLUMNS);
    said.saturating_sub(MARGIN).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_what_claude_code_says() {
        assert_eq!(columns(Some("132")), 132 - MARGIN);
        assert_eq!(columns(Some("2")), 1);
        for nothing in [None, Some(""), Some("0"), Some("-3"), Some("wide")] {
            assert_eq!(columns(nothing), COLUMNS - MARGIN);
        }
    }
}
