//! Formats tables. Columns are as wide as they need, and are cut, wrapped or left out if the terminal
//! is too narrow.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::ui::style::{DIM, Look};
use crate::ui::text;

/// The number of cells between two columns.
const GAP: usize = 2;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub head: &'static str,
    pub is_right: bool,
    /// The minimal width of a column that may be cut. None if it may not.
    pub least: Option<usize>,
    /// True if the text continues in the next line, or below the row if the column is left out.
    pub wraps: bool,
    /// The rank by which columns are left out, the highest first. A column of rank 0 stays.
    pub rank: u8,
}

impl Column {
    pub const fn left(head: &'static str, rank: u8) -> Self {
        Self {
            head,
            is_right: false,
            least: None,
            wraps: false,
            rank,
        }
    }

    pub const fn right(head: &'static str, rank: u8) -> Self {
        Self {
            is_right: true,
            ..Self::left(head, rank)
        }
    }

    pub const fn cut_to(self, least: usize) -> Self {
        Self {
            least: Some(least),
            ..self
        }
    }

    /// Makes a column that is wrapped instead of cut.
    pub const fn wrapped(self, least: usize) -> Self {
        Self {
            wraps: true,
            ..self.cut_to(least)
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
    /// True if the cell takes the width of the next column too.
    is_wide: bool,
}

impl Cell {
    /// Makes a cell of foreign text, without hidden characters.
    pub fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self::own(text::one_line(text.as_ref()), style)
    }

    /// Makes a cell of becket's own text, which may begin with blanks.
    pub fn own(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
            is_wide: false,
        }
    }

    pub fn wide(self) -> Self {
        Self {
            is_wide: true,
            ..self
        }
    }

    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Style::new())
    }
}

/// Formats a table with its head. Empty columns are left out.
pub fn grid<const N: usize>(columns: [Column; N], rows: &[[Cell; N]], look: &Look) -> String {
    let widths = widths(&columns, rows, look.width);
    let heads = columns.map(|column| Cell::new(column.head, DIM));
    line(&columns, &heads, &widths, look) + &bare(columns, rows, look)
}

/// Formats the rows of a table.
pub fn bare<const N: usize>(columns: [Column; N], rows: &[[Cell; N]], look: &Look) -> String {
    let widths = widths(&columns, rows, look.width);
    rows.iter()
        .map(|cells| row(&columns, cells, &widths, look))
        .collect()
}

/// Formats one row, in as many lines as its wrapped cells need.
fn row<const N: usize>(
    columns: &[Column; N],
    cells: &[Cell; N],
    widths: &[usize; N],
    look: &Look,
) -> String {
    let wrapped: [Vec<String>; N] = std::array::from_fn(|nth| match widths[nth] {
        width if width > 0 && columns[nth].wraps => text::wrap(&cells[nth].text, width),
        _ => vec![cells[nth].text.clone()],
    });
    let tall = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for at in 0..tall {
        let cells = std::array::from_fn(|nth| Cell {
            text: wrapped[nth].get(at).cloned().unwrap_or_default(),
            ..cells[nth].clone()
        });
        out += &line(columns, &cells, widths, look);
    }
    let left_out = (0..N).filter(|nth| columns[*nth].wraps && widths[*nth] == 0);
    for Cell { text, style, .. } in left_out.map(|nth| &cells[nth]) {
        for text in text::wrap(text, look.width.saturating_sub(GAP)) {
            out += &format!("{:GAP$}{style}{text}{style:#}\n", "");
        }
    }
    out
}

/// Returns the lowest rank of the columns that have to be left out, or None if all fit.
pub fn lowest_rank_left_out<const N: usize>(
    columns: &[Column; N],
    rows: &[[Cell; N]],
    room: usize,
) -> Option<u8> {
    let all = widths(columns, rows, usize::MAX);
    let left = widths(columns, rows, room);
    let left_out = (0..N).filter(|nth| all[*nth] > 0 && left[*nth] == 0);
    left_out.map(|nth| columns[nth].rank).min()
}

/// Computes the width of each column, 0 if it is left out. Cuts the widest columns first. If that is
/// not enough, leaves a column out.
fn widths<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], room: usize) -> [usize; N] {
    let mut natural = std::array::from_fn(|nth| {
        let cells = rows.iter().filter(|row| !row[nth].is_wide);
        let cells = cells.map(|row| row[nth].text.width());
        match cells.max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(columns[nth].head.width()),
        }
    });
    loop {
        let widths = cut(columns, natural, room);
        let may_be_left_out = |nth: &usize| natural[*nth] > 0 && columns[*nth].rank > 0;
        let next = (0..N)
            .filter(may_be_left_out)
            .max_by_key(|nth| columns[*nth].rank);
        match next {
            Some(nth) if total(&widths) > room => natural[nth] = 0,
            _ => return widths,
        }
    }
}

fn cut<const N: usize>(columns: &[Column; N], mut widths: [usize; N], room: usize) -> [usize; N] {
    let mut over = total(&widths).saturating_sub(room);
    while over > 0 {
        let may_be_cut = (0..N).filter(|&nth| {
            let least = columns[nth].least;
            least.is_some_and(|least| widths[nth] > least)
        });
        let Some(widest) = may_be_cut.max_by_key(|nth| widths[*nth]) else {
            break;
        };
        widths[widest] -= 1;
        over -= 1;
    }
    widths
}

fn total(widths: &[usize]) -> usize {
    let there = widths.iter().filter(|width| **width > 0);
    let total: usize = there.map(|width| width + GAP).sum();
    total.saturating_sub(GAP)
}

fn line<const N: usize>(
    columns: &[Column; N],
    cells: &[Cell; N],
    widths: &[usize; N],
    look: &Look,
) -> String {
    let mut out = String::new();
    let mut gap = 0;
    let mut room = 0;
    for (nth, cell) in cells.iter().enumerate().filter(|(nth, _)| widths[*nth] > 0) {
        // The wide cell before this one takes its width.
        if std::mem::take(&mut room) > 0 {
            continue;
        }
        let next = widths.get(nth + 1).copied().unwrap_or(0);
        let mut width = widths[nth];
        if cell.is_wide && next > 0 {
            room = GAP + next;
            width += room;
        }
        let text = text::fit(&cell.text, width, look.glyphs);
        let pad = width.saturating_sub(text.width());
        let (before, after) = if columns[nth].is_right {
            (pad, 0)
        } else {
            (0, pad)
        };
        if text.is_empty() {
            gap += width + GAP;
        } else {
            let style = cell.style;
            out += &" ".repeat(gap + before);
            out += &format!("{style}{text}{style:#}");
            gap = after + GAP;
        }
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::session::tests::look;

    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::left("NAME", 0).cut_to(6),
        Column::right("TIME", 2),
        Column::left("NOTE", 1).cut_to(4),
    ];

    fn plain(rows: &[[&str; 3]], width: usize) -> String {
        let rows: Vec<_> = rows.iter().map(|row| row.map(Cell::plain)).collect();
        let out = grid(COLUMNS, &rows, &look(width));
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn columns_are_cut_and_then_go() {
        let rows = [
            ["typecheck-changed", "1.2 s", "no end after 30s"],
            ["lint", "8 ms", ""],
        ];
        insta::assert_snapshot!(plain(&rows, 80), @r"
        NAME                TIME  NOTE
        typecheck-changed  1.2 s  no end after 30s
        lint                8 ms
        ");
        insta::assert_snapshot!(plain(&rows, 30), @r"
        NAME          TIME  NOTE
        typecheck-…  1.2 s  no end af…
        lint          8 ms
        ");
        insta::assert_snapshot!(plain(&rows, 12), @r"
        NAME    NOTE
        typec…  no…
        lint
        ");
        insta::assert_snapshot!(plain(&[["lint", "8 ms", ""]], 80), @r"
        NAME  TIME
        lint  8 ms
        ");
    }

    #[test]
    fn what_is_wrapped_is_never_cut() {
        let columns = [COLUMNS[0], COLUMNS[1], COLUMNS[2].wrapped(12)];
        let rows = [
            [
                "typecheck-changed",
                "1.2 s",
                "no end after 30s, so it was ended",
            ],
            ["lint", "8 ms", ""],
        ];
        let rows = rows.map(|row| row.map(Cell::plain));
        let shown = |width| {
            let text = grid(columns, &rows, &look(width));
            anstream::adapter::strip_str(&text).to_string()
        };
        let all = [usize::MAX, 45, 26, 16].map(shown).join("\n");
        insta::assert_snapshot!("wrapped", all);
        let bare = bare(columns, &rows[1..], &look(80));
        assert_eq!(
            anstream::adapter::strip_str(&bare).to_string(),
            "lint  8 ms\n"
        );
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_text_moves_the_cursor(
            rows in prop::collection::vec(["\\PC{0,30}", "[0-9 ms]{0,9}", "(?s).{0,30}"], 1..6),
            width in 6_usize..60,
        ) {
            let rows: Vec<_> = rows.iter().map(|row| [Cell::plain(&row[0]), Cell::plain(&row[1]), Cell::plain(&row[2])]).collect();
            let out = anstream::adapter::strip_str(&grid(COLUMNS, &rows, &look(width))).to_string();
            prop_assert_eq!(out.lines().count(), rows.len() + 1);
            for line in out.lines() {
                prop_assert!(line.width() <= width, "{line:?}");
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
