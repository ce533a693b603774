//! The columns of the list, by the room there is, and what stands in them.

use becket_wire::session::{Display, SessionRow};

use super::super::super::look::{Look, Tone, tone};
use super::super::Drawn;
use super::super::strip::Strip;
use crate::ui::time::{lasted, span as shortly};

/// How wide each column is; none if 0. A column is parted from the next by one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// What stands before a session's glyph.
    pub indent: u16,
    pub title: usize,
    pub project: usize,
    pub doing: usize,
    pub since: usize,
    pub bar: usize,
    pub percent: usize,
    pub cost: usize,
    pub age: usize,
    pub model: usize,
}

impl Columns {
    pub fn new(width: u16, with_project: bool) -> Self {
        let width = usize::from(width);
        let from = |least: usize, cells: usize| if width >= least { cells } else { 0 };
        let mut columns = Self {
            indent: if with_project { 1 } else { 2 },
            title: 0,
            project: if with_project { from(56, 12) } else { 0 },
            doing: 0,
            since: from(24, 6),
            bar: from(76, 8),
            percent: from(48, 4),
            cost: from(66, 7),
            age: from(92, 4),
            model: from(106, 11),
        };
        let rest = [
            columns.project,
            columns.since,
            columns.bar,
            columns.percent,
            columns.cost,
            columns.age,
        ];
        let mut taken: usize = rest
            .iter()
            .filter(|cells| **cells > 0)
            .map(|cells| cells + 1)
            .sum();
        taken += if columns.model > 0 {
            columns.model + 3
        } else {
            0
        };
        // The glyph, a space after it, and one after each of the two.
        taken += usize::from(columns.indent);
        let left = width.saturating_sub(taken + 4);
        columns.doing = if left < 24 { 0 } else { left / 2 };
        if columns.doing == 0 {
            columns.title = width.saturating_sub(taken + 3);
        } else {
            columns.title = (left - columns.doing).min(64);
            columns.doing = left - columns.title;
        }
        columns
    }

    pub fn labels(&self, mut strip: Strip<'_>) {
        strip.skip(self.indent + 2);
        strip.column("session", self.title, Tone::Dim);
        strip.column("project", self.project, Tone::Dim);
        strip.column("doing", self.doing, Tone::Dim);
        strip.right("since", self.since, Tone::Dim);
        let context = match (self.bar, self.percent) {
            (0, 0) => 0,
            (0, percent) => percent,
            (bar, percent) => bar + percent + 1,
        };
        strip.right(
            if self.bar > 0 { "context" } else { "ctx" },
            context,
            Tone::Dim,
        );
        strip.right("cost", self.cost, Tone::Dim);
        strip.right("age", self.age, Tone::Dim);
        if self.model > 0 {
            strip.skip(2).column("model", self.model, Tone::Dim);
        }
    }
}

/// How long it has been so: to the second where somebody waits or works, else without seconds.
pub fn since(
    strip: &mut Strip<'_>,
    span: i64,
    display: Display,
    columns: &Columns,
    drawn: &mut Drawn,
) {
    if columns.since == 0 {
        return;
    }
    let exact = display <= Display::Working;
    let seconds = span < if exact { 3_600_000 } else { 60_000 };
    drawn.ticks(span, if seconds { 1_000 } else { 60_000 });
    let text = if exact { lasted(span) } else { shortly(span) };
    strip.right(&text, columns.since, tone(display));
}

/// How full the context window is: a bar and a number.
pub fn context(strip: &mut Strip<'_>, look: &Look, percent: Option<f64>, columns: &Columns) {
    let percent = percent
        .filter(|percent| percent.is_finite())
        .map(|percent| percent.clamp(0.0, 999.0));
    let tone = match percent {
        Some(90.0..) => Tone::Error,
        Some(75.0..) => Tone::Attention,
        _ => Tone::Plain,
    };
    if columns.bar > 0 {
        strip.skip(1);
        match percent {
            Some(percent) => {
                let full = (percent / 100.0 * columns.bar as f64).round() as usize;
                let full = full.min(columns.bar);
                strip.own(&look.sign("━", "#").repeat(full), tone);
                strip.own(&look.sign("─", ".").repeat(columns.bar - full), Tone::Dim);
            }
            None => {
                strip.skip(columns.bar as u16);
            }
        }
    }
    let number = percent.map(|percent| format!("{percent:.0}%"));
    strip.right(&number.unwrap_or_default(), columns.percent, tone);
}

/// The model as a person calls it.
pub fn model_name(row: &SessionRow) -> String {
    let figures = &row.figures;
    let said = figures
        .model_name
        .as_ref()
        .or(row.model.as_ref())
        .or(figures.model_id.as_ref());
    let said = said.map(String::as_str).unwrap_or_default();
    said.strip_prefix("claude-").unwrap_or(said).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_never_take_more_than_there_is() {
        for width in 0..300 {
            for with_project in [false, true] {
                let columns = Columns::new(width, with_project);
                let parted = |cells: usize| if cells > 0 { cells + 1 } else { 0 };
                let model = if columns.model > 0 {
                    columns.model + 3
                } else {
                    0
                };
                let rest = [
                    columns.title,
                    columns.project,
                    columns.doing,
                    columns.since,
                    columns.bar,
                    columns.percent,
                    columns.cost,
                    columns.age,
                ];
                let taken = usize::from(columns.indent)
                    + 2
                    + model
                    + rest.map(parted).iter().sum::<usize>();
                assert!(taken <= usize::from(width).max(5), "{width}: {columns:?}");
                assert!(width < 20 || columns.title >= 10, "{width}: {columns:?}");
            }
        }
    }

    #[test]
    fn a_narrow_list_keeps_what_matters() {
        let columns = Columns::new(60, false);
        assert!(columns.title >= 20 && columns.doing >= 20, "{columns:?}");
        assert_eq!((columns.since, columns.percent, columns.model), (6, 4, 0));
    }
}
