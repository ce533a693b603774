//! The parts of a status line: what each shows, how it looks, and which goes first when there is
//! too little room.

use anstyle::{AnsiColor, Style};
use becket_wire::session::Figures;

use super::Line;

/// How many columns a text of somebody else's may have.
const LONGEST: usize = 40;

/// Something that a line can show. The order is that of importance: what stands first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Duration,
    Lines,
    Bar,
    Cost,
    Model,
    Off,
    Waiting,
    Context,
    Project,
    Wrong,
}

impl Part {
    pub const ALL: [Self; 10] = [
        Self::Project,
        Self::Model,
        Self::Bar,
        Self::Context,
        Self::Cost,
        Self::Lines,
        Self::Duration,
        Self::Waiting,
        Self::Off,
        Self::Wrong,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Model => "model",
            Self::Bar => "bar",
            Self::Context => "context",
            Self::Cost => "cost",
            Self::Lines => "lines",
            Self::Duration => "duration",
            Self::Waiting => "waiting",
            Self::Off => "off",
            Self::Wrong => "wrong",
        }
    }

    /// What it shows of a line; empty if there is nothing to show.
    pub fn text(self, line: &Line, bar_width: usize) -> String {
        let figures = &line.figures;
        let shown = match self {
            Self::Project => line.project.as_deref().map(brief),
            Self::Model => figures
                .model_name
                .as_deref()
                .or(figures.model_id.as_deref())
                .map(brief),
            Self::Bar => figures.context_pct.map(|used| bar(used, bar_width)),
            Self::Context => figures.context_pct.map(|used| format!("{used:.0}%")),
            Self::Cost => figures.cost_usd.and_then(cost),
            Self::Lines => lines(figures),
            Self::Duration => figures.duration_ms.map(duration),
            Self::Waiting => (line.waiting > 0).then(|| format!("{} waiting", line.waiting)),
            Self::Off => list("off: ", &line.off),
            Self::Wrong => wrong(&line.wrong),
        };
        shown.unwrap_or_default()
    }

    pub fn style(self, line: &Line) -> Style {
        let plain = Style::new();
        match self {
            Self::Project => plain.bold(),
            Self::Bar | Self::Context => match line.figures.context_pct.unwrap_or_default() {
                ..60.0 => AnsiColor::Green.on_default(),
                ..80.0 => AnsiColor::Yellow.on_default(),
                _ => AnsiColor::Red.on_default(),
            },
            Self::Waiting => AnsiColor::Yellow.on_default().bold(),
            Self::Wrong => AnsiColor::Red.on_default(),
            Self::Lines | Self::Duration | Self::Off => plain.dimmed(),
            Self::Model | Self::Cost => plain,
        }
    }
}

/// Takes out what must not reach a terminal: control characters, and what turns the direction of
/// the text around.
pub fn clean(text: &str) -> String {
    let bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(|c| !bad(*c)).collect()
}

/// The beginning of a text, no wider than that.
pub fn cut(text: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if width > 0 {
        kept.push('…');
    }
    kept
}

fn brief(text: &str) -> String {
    cut(clean(text).trim(), LONGEST)
}

fn list(before: &str, names: &[String]) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| brief(name)).collect();
    (!names.is_empty()).then(|| format!("{before}{}", cut(&names.join(", "), LONGEST)))
}

/// The worst trouble, and how many more there are.
fn wrong(troubles: &[String]) -> Option<String> {
    let (worst, more) = troubles.split_first()?;
    let worst = cut(clean(worst).trim(), LONGEST + LONGEST / 2);
    Some(match more.len() {
        0 => format!("⚠ {worst}"),
        more => format!("⚠ {worst} (+{more})"),
    })
}

fn bar(used: f64, width: usize) -> String {
    let full = ((used / 100.0).clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

fn cost(dollars: f64) -> Option<String> {
    (dollars >= 0.005).then(|| format!("${dollars:.2}"))
}

fn lines(figures: &Figures) -> Option<String> {
    let added = figures.lines_added.unwrap_or(0);
    let removed = figures.lines_removed.unwrap_or(0);
    (added > 0 || removed > 0).then(|| format!("+{added} -{removed}"))
}

fn duration(ms: u64) -> String {
    match (ms / 1000, ms / 60_000) {
        (seconds @ ..60, _) => format!("{seconds}s"),
        (_, minutes @ ..60) => format!("{minutes}m"),
        (_, minutes) => format!("{}h{:02}m", minutes / 60, minutes % 60),
    }
}
