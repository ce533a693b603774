//! How things are told to a person: moments, names and values, columns.

use anstyle::{AnsiColor, Style};
use becket_wire::rpc::Counts;

pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

/// Whether a terminal shows this and does not obey it: no control character, and nothing that turns
/// the direction of what follows.
pub fn is_inert(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// A moment as scripts get it: RFC 3339 in UTC, with milliseconds.
pub fn moment(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

/// A moment as a person reads it: the local time, with the day if it is not today.
pub fn clock(at_ms: i64, now: &jiff::Zoned) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(at_ms) else {
        return at_ms.to_string();
    };
    let at = at.to_zoned(now.time_zone().clone());
    let form = if at.date() == now.date() {
        "%H:%M:%S%.3f"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    at.strftime(form).to_string()
}

/// Names and values, aligned.
#[derive(Debug, Default)]
pub struct Tell {
    fields: Vec<(String, String)>,
}

impl Tell {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn field(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.fields.push((name.into(), value.into()));
    }

    pub fn print(&self) {
        let width = self
            .fields
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        for (name, value) in &self.fields {
            anstream::println!("{DIM}{name:>width$}{DIM:#}  {value}");
        }
    }
}

/// The counts by the names that a person knows them by.
pub fn counts(counts: &Counts) -> [(&'static str, u64); 11] {
    [
        ("busy", counts.busy),
        ("other users refused", counts.strangers),
        ("other namespaces refused", counts.refused),
        ("garbage", counts.garbage),
        ("too late", counts.late),
        ("sent to the spool", counts.to_spool),
        ("lost", counts.lost),
        ("runs of hooks lost", counts.runs_lost),
        ("taken in from the spool", counts.taken_in),
        ("bad spool files", counts.spool_bad),
        ("double registrations", counts.duplicates),
    ]
}
