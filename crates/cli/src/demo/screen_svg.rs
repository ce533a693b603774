//! Draws the cells of a screen as SVG. The same cells give the same bytes.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use ratatui::text::Span;

/// The width of a cell in pixels.
const WIDE: f64 = 8.4;
/// The height of a cell in pixels.
const HIGH: f64 = 19.0;
/// The margin around the cells in pixels.
const EDGE: f64 = 14.0;
/// The base line of the letters below the top of their cell, in pixels.
const BASE: f64 = 14.0;

const PAPER: &str = "#15181e";
const INK: &str = "#d5dae3";

/// The appearance of a run of cells.
#[derive(Debug, Clone, PartialEq)]
struct Ink {
    text: &'static str,
    paper: Option<&'static str>,
    bold: bool,
    dim: bool,
}

impl Ink {
    fn of(cell: &Cell) -> Self {
        let has = |modifier| cell.modifier.contains(modifier);
        let mut text = colour(cell.fg);
        let mut paper = (cell.bg != Color::Reset).then(|| colour(cell.bg));
        if has(Modifier::REVERSED) {
            (text, paper) = (paper.unwrap_or(PAPER), Some(text));
        }
        Self {
            text,
            paper,
            bold: has(Modifier::BOLD),
            dim: has(Modifier::DIM),
        }
    }
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Red => "#f2777a",
        Color::Yellow => "#f0c674",
        Color::Green => "#8fc98b",
        Color::Cyan => "#70c0ba",
        Color::Magenta => "#c397d8",
        Color::Blue => "#7aa6da",
        _ => INK,
    }
}

pub fn svg(buffer: &Buffer, title: &str) -> String {
    let area = buffer.area;
    let (width, height) = (f64::from(area.width) * WIDE, f64::from(area.height) * HIGH);
    let (all_wide, all_high) = (width + 2.0 * EDGE, height + 2.0 * EDGE);
    let mut out = String::new();
    // Writing to a string does not fail.
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").unwrap_or_default();
    line(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {all_wide:.1} {all_high:.1}" width="{all_wide:.0}" height="{all_high:.0}" role="img">"#
    ));
    line(format_args!("<title>{}</title>", escaped(title)));
    line(format_args!(
        r#"<rect width="100%" height="100%" rx="10" fill="{PAPER}"/>"#
    ));
    line(format_args!(
        r#"<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">"#
    ));
    for y in area.rows() {
        for run in runs(buffer, y.y) {
            let (x, top) = (EDGE + f64::from(run.x) * WIDE, EDGE + f64::from(y.y) * HIGH);
            let wide = f64::from(run.cells) * WIDE;
            if let Some(paper) = run.ink.paper {
                line(format_args!(
                    r#"<rect x="{x:.1}" y="{top:.1}" width="{wide:.1}" height="{HIGH:.1}" fill="{paper}"/>"#
                ));
            }
            if run.text.trim().is_empty() {
                continue;
            }
            let bold = if run.ink.bold {
                r#" font-weight="bold""#
            } else {
                ""
            };
            let dim = if run.ink.dim {
                r#" fill-opacity="0.55""#
            } else {
                ""
            };
            let (ink, base, text) = (run.ink.text, top + BASE, escaped(&run.text));
            // With an explicit length every font keeps the columns.
            line(format_args!(
                r#"<text x="{x:.1}" y="{base:.1}" textLength="{wide:.1}" lengthAdjust="spacingAndGlyphs" fill="{ink}"{bold}{dim}>{text}</text>"#
            ));
        }
    }
    line(format_args!("</g>\n</svg>"));
    out
}

/// Adjacent cells of the same appearance.
struct Run {
    x: u16,
    cells: u16,
    text: String,
    ink: Ink,
}

fn runs(buffer: &Buffer, y: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut x = buffer.area.left();
    while x < buffer.area.right() {
        let cell = &buffer[(x, y)];
        let cells = (Span::raw(cell.symbol()).width() as u16).max(1);
        let ink = Ink::of(cell);
        // Two spaces separate columns. A run ends there, so that no font can shift the next column.
        let parted = |run: &Run| run.text.ends_with("  ") && cell.symbol() != " ";
        match runs.last_mut() {
            Some(run) if run.ink == ink && !parted(run) => {
                run.text.push_str(cell.symbol());
                run.cells += cells;
            }
            _ => runs.push(Run {
                x: x - buffer.area.left(),
                cells,
                text: cell.symbol().to_owned(),
                ink,
            }),
        }
        x += cells;
    }
    for run in &mut runs {
        if run.ink.paper.is_none() {
            let kept = run.text.trim_end().len();
            run.cells -= (run.text.len() - kept) as u16;
            run.text.truncate(kept);
        }
    }
    runs
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Every viewer keeps a run of non-breaking spaces.
            ' ' => out.push('\u{a0}'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
