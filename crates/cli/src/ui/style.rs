//! Colours, glyphs, and names with values in columns.

use anstyle::{AnsiColor, Style};
use becket_engine::local_time;
use becket_wire::rpc::Counts;
use becket_wire::session::Display;

use crate::event_line;
use crate::ui::time;

pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

/// Aligned names and values.
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

/// Returns the counts with their names for people.
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

/// The time, width and glyphs of an output.
#[derive(Debug, Clone)]
pub struct Look {
    pub now: jiff::Zoned,
    /// The width in cells, or `usize::MAX` for no limit.
    pub width: usize,
    pub glyphs: Glyphs,
}

impl Look {
    /// Returns the look of this process's stdout.
    pub fn of_stdout() -> Self {
        Self {
            now: local_time::now(),
            width: event_line::width(),
            glyphs: Glyphs::of_the_locale(),
        }
    }

    /// Returns the look of lines that [`indent`](super::text::indent) indents.
    pub fn inside(&self) -> Self {
        Self {
            width: self.width.saturating_sub(2),
            ..self.clone()
        }
    }

    pub fn now_ms(&self) -> i64 {
        self.now.timestamp().as_millisecond()
    }

    /// Formats the time since a moment, or returns none if the moment is not known.
    pub fn since(&self, at_ms: i64) -> Option<String> {
        (at_ms != 0).then(|| time::span(self.now_ms().saturating_sub(at_ms)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    Unicode,
    Ascii,
}

impl Glyphs {
    /// Returns the glyphs that the locale of this process can show.
    pub fn of_the_locale() -> Self {
        Self::chosen_by(|name| std::env::var(name).ok())
    }

    /// Chooses by the first locale variable that is set, as every program does.
    pub fn chosen_by(variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(variable)
            .find(|value| !value.is_empty())
            .unwrap_or_default()
            .to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }

    /// Returns the one of two spellings that the terminal can show.
    pub fn pick<'a>(self, unicode: &'a str, ascii: &'a str) -> &'a str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }

    /// Replaces the characters that the terminal cannot show.
    pub fn encode(self, text: &str) -> String {
        match self {
            Self::Unicode => text.to_owned(),
            Self::Ascii => text.replace(|c: char| !c.is_ascii(), "?"),
        }
    }

    pub fn display(self, display: Display) -> &'static str {
        let ascii = match display {
            Display::Error => "x",
            Display::Attention => "!",
            Display::Working => "*",
            Display::Checked => "?",
            Display::Done => "-",
        };
        self.pick(display.symbol(), ascii)
    }

    pub fn ended(self) -> &'static str {
        self.pick("·", ".")
    }

    /// The glyph of a Claude Code without becket's hooks.
    pub fn unhooked(self) -> &'static str {
        self.pick("◌", "~")
    }

    /// The line that leads to a child in a tree.
    pub fn branch(self, is_last: bool) -> &'static str {
        if is_last {
            self.pick("└", "`-")
        } else {
            self.pick("├", "|-")
        }
    }

    /// The mark at the end of a text that was cut.
    pub fn cut(self) -> &'static str {
        self.pick("…", "~")
    }
}

/// Returns the style of a state.
pub fn style(display: Display) -> Style {
    match display {
        Display::Error => BAD.bold(),
        Display::Attention => AnsiColor::Yellow.on_default().bold(),
        Display::Working => AnsiColor::Cyan.on_default(),
        Display::Checked => AnsiColor::Blue.on_default(),
        Display::Done => DIM,
    }
}
