//! How things look to a person: colours, marks, names and values in columns.

use anstyle::{AnsiColor, Style};
use becket_engine::local_time;
use becket_wire::rpc::Counts;
use becket_wire::session::Display;

use crate::event_line;

pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

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

/// What a rendering depends on besides the sessions.
#[derive(Debug, Clone)]
pub struct Look {
    pub now: jiff::Zoned,
    /// Columns; `usize::MAX` for no limit.
    pub width: usize,
    pub glyphs: Glyphs,
}

impl Look {
    /// How this call's stdout looks.
    pub fn of_stdout() -> Self {
        Self {
            now: local_time::now(),
            width: event_line::width(),
            glyphs: Glyphs::of_the_locale(),
        }
    }

    pub fn now_ms(&self) -> i64 {
        self.now.timestamp().as_millisecond()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    Unicode,
    Ascii,
}

impl Glyphs {
    /// Those that this call's locale can show.
    pub fn of_the_locale() -> Self {
        Self::chosen_by(|name| std::env::var(name).ok())
    }

    /// The first variable that is set decides, as for every program.
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

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
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

    /// A Claude Code that nothing is heard of.
    pub fn unhooked(self) -> &'static str {
        self.pick("◌", "~")
    }

    /// What leads to a child.
    pub fn branch(self, is_last: bool) -> &'static str {
        match is_last {
            true => self.pick("└", "`-"),
            false => self.pick("├", "|-"),
        }
    }

    /// What stands where text was cut off.
    pub fn cut(self) -> &'static str {
        self.pick("…", "~")
    }
}

/// The colour of a display state.
pub fn style(display: Display) -> Style {
    match display {
        Display::Error => BAD.bold(),
        Display::Attention => AnsiColor::Yellow.on_default().bold(),
        Display::Working => AnsiColor::Cyan.on_default(),
        Display::Checked => AnsiColor::Blue.on_default(),
        Display::Done => DIM,
    }
}
