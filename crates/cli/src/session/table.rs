//! The table of `becket sessions`.

use std::collections::HashMap;

use anstyle::Style;
use becket_wire::session::{Display, SessionRow};
use unicode_width::UnicodeWidthStr;

use super::layout::{COLUMNS, Column, GAP, Layout};
use super::tree::{Branch, branches};
use super::{Look, names, words};
use crate::glyph::{Glyphs, style};
use crate::tell::{BAD, BOLD, DIM, WARN};

/// So many agents of one session are shown; `becket show` has them all.
const AGENTS: usize = 6;
/// From here on a context window is nearly full, and full.
pub const CONTEXT_HIGH: f64 = 75.0;
pub const CONTEXT_FULL: f64 = 90.0;

/// One cell: what stands in it, and how.
#[derive(Debug, Clone, Default)]
struct Cell {
    text: String,
    style: Style,
    /// It has the room of the next column too.
    is_wide: bool,
}

impl Cell {
    fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
            is_wide: false,
        }
    }

    fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::new())
    }
}

/// One session's line; its agents follow.
struct Line<'a> {
    glyph: &'static str,
    cells: [Cell; COLUMNS.len()],
    agents: Vec<Branch<'a>>,
}

/// The sessions in the order given, each with its live agents below it, then how many there are.
pub fn table(rows: &[SessionRow], look: &Look) -> String {
    let ids = names::ids(rows);
    let projects = names::projects(rows.iter().filter_map(|row| row.project.as_deref()));
    let lines: Vec<Line<'_>> = rows
        .iter()
        .map(|row| line(row, &ids, &projects, look))
        .collect();
    let layout = Layout::new(natural(&lines), words_width(&lines), look.width);
    let sheet = Sheet { layout, look };
    let mut out = sheet.head();
    for line in &lines {
        out += &sheet.session(line);
        for branch in line.agents.iter().take(AGENTS) {
            out += &sheet.agent(branch);
        }
        let more = line.agents.len().saturating_sub(AGENTS);
        if more > 0 {
            out += &sheet.more(more);
        }
    }
    out + &totals(rows, look)
}

fn line<'a>(
    row: &'a SessionRow,
    ids: &HashMap<&str, String>,
    projects: &HashMap<&str, String>,
    look: &Look,
) -> Line<'a> {
    let glyph = glyph(row, look.glyphs);
    let state = state_style(row);
    let is_over = row.ended_at.is_some() || !row.hooked;
    let text = if is_over { DIM } else { Style::new() };
    let needs_you = matches!(row.display, Display::Error | Display::Attention) && !is_over;
    let project = row.project.as_deref().or(row.cwd.as_deref());
    let project = project.map(|path| {
        let known = projects.get(path).cloned();
        known.unwrap_or_else(|| words::one_line(path))
    });
    let titled = if row.title.is_some() && !is_over {
        BOLD
    } else {
        text
    };
    let id = match row.pid {
        Some(pid) if !row.hooked => format!("pid {pid}"),
        _ => ids.get(&*row.session_id).cloned().unwrap_or_default(),
    };
    let since = words::since(row);
    let since = (since != 0).then(|| words::span(look.now_ms().saturating_sub(since)));
    Line {
        glyph,
        cells: [
            Cell::new(words::state(row), state),
            Cell::new(project.unwrap_or_default(), text),
            Cell::new(words::about(row), titled),
            Cell::new(words::doing(row), if needs_you { state } else { text }),
            Cell::new(
                since.unwrap_or_default(),
                if needs_you { state } else { text },
            ),
            context(row),
            row.figures
                .cost_usd
                .map_or_else(Cell::default, |cost| Cell::plain(words::dollars(cost))),
            Cell::new(words::model(row), DIM),
            Cell::new(id, DIM),
        ],
        agents: match row.ended_at {
            Some(_) => Vec::new(),
            None => branches(words::live_agents(row), look.glyphs),
        },
    }
}

pub fn glyph(row: &SessionRow, glyphs: Glyphs) -> &'static str {
    match row {
        row if row.ended_at.is_some() => glyphs.ended(),
        row if !row.hooked => glyphs.unhooked(),
        row => glyphs.display(row.display),
    }
}

pub fn state_style(row: &SessionRow) -> Style {
    if row.ended_at.is_some() || !row.hooked {
        DIM
    } else {
        style(row.display)
    }
}

fn context(row: &SessionRow) -> Cell {
    let Some(percent) = row.figures.context_pct else {
        return Cell::default();
    };
    Cell::new(format!("{percent:.0}%"), context_style(percent))
}

pub fn context_style(percent: f64) -> Style {
    match percent {
        CONTEXT_FULL.. => BAD,
        CONTEXT_HIGH.. => WARN,
        _ => Style::new(),
    }
}

/// How wide each column would be; 0 for one that has nothing to show.
fn natural(lines: &[Line<'_>]) -> [usize; COLUMNS.len()] {
    let mut widths = COLUMNS.map(|column| {
        let cells = lines
            .iter()
            .map(|line| line.cells[column as usize].text.width());
        match cells.max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(column.head().len()),
        }
    });
    widths[Column::State as usize] = 2 + words_width(lines) - 1;
    // What agents do counts too.
    let agents = lines
        .iter()
        .flat_map(|line| line.agents.iter().take(AGENTS));
    for branch in agents {
        let doing = &mut widths[Column::Doing as usize];
        *doing = words::agent_doing(branch.agent).width().max(*doing);
    }
    widths
}

/// What the words of the states take, with the space before them.
fn words_width(lines: &[Line<'_>]) -> usize {
    let words = lines.iter().map(|line| line.cells[0].text.width());
    words.max().unwrap_or(0).max(Column::State.head().len() - 2) + 1
}

/// Renders lines in one layout.
struct Sheet<'a> {
    layout: Layout,
    look: &'a Look,
}

impl Sheet<'_> {
    fn head(&self) -> String {
        let cells = COLUMNS.map(|column| match column {
            Column::State if !self.layout.has_word => Cell::default(),
            column => Cell::new(column.head(), DIM),
        });
        self.row(&cells)
    }

    fn session(&self, line: &Line<'_>) -> String {
        let mut cells = line.cells.clone();
        let state = &mut cells[0];
        if self.layout.has_word {
            state.text = format!("{} {}", line.glyph, state.text);
        } else {
            // The word has to stand somewhere.
            let word = std::mem::replace(&mut state.text, line.glyph.to_owned());
            let doing = &mut cells[Column::Doing as usize];
            if doing.text.is_empty() {
                doing.text = word;
                doing.style = DIM;
            }
        }
        self.row(&cells)
    }

    fn agent(&self, branch: &Branch<'_>) -> String {
        let display = words::agent_display(branch.agent);
        let waits = display == Display::Attention;
        let doing = if waits { style(display) } else { DIM };
        let indent = if self.layout.has_word { "  " } else { "" };
        let since = match branch.agent.status_since {
            0 => String::new(),
            at => words::span(self.look.now_ms().saturating_sub(at)),
        };
        let glyph = format!("{indent}{}", self.look.glyphs.display(display));
        let name = format!("{}{}", branch.lead, words::agent_name(branch.agent));
        self.below(
            Cell::new(glyph, style(display)),
            Cell::new(name, DIM),
            Cell::new(words::agent_doing(branch.agent), doing),
            Cell::new(since, doing),
        )
    }

    fn more(&self, more: usize) -> String {
        let text = format!("{} {more} more", self.look.glyphs.cut());
        let nothing = Cell::default;
        self.below(nothing(), Cell::new(text, DIM), nothing(), nothing())
    }

    /// A line below a session: its name has the room of project and session together.
    fn below(&self, state: Cell, name: Cell, doing: Cell, since: Cell) -> String {
        let mut cells: [Cell; COLUMNS.len()] = Default::default();
        cells[Column::State as usize] = state;
        cells[Column::Project as usize] = Cell {
            is_wide: true,
            ..name
        };
        cells[Column::Doing as usize] = doing;
        cells[Column::Since as usize] = since;
        self.row(&cells)
    }

    fn row(&self, cells: &[Cell; COLUMNS.len()]) -> String {
        let mut out = String::new();
        let mut gap = 0;
        let widths = COLUMNS.map(|column| self.layout.width(column));
        let mut nth = 0;
        while nth < COLUMNS.len() {
            let cell = &cells[nth];
            let next = widths.get(nth + 1).copied().flatten();
            let width = match widths[nth] {
                Some(width) if cell.is_wide => width + next.map_or(0, |next| GAP + next),
                Some(width) => width,
                None => {
                    nth += 1;
                    continue;
                }
            };
            let text = words::fit(&cell.text, width, self.look.glyphs);
            let pad = width - text.width();
            let (before, after) = if COLUMNS[nth].is_right() {
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
            nth += if cell.is_wide { 2 } else { 1 };
        }
        out.push('\n');
        out
    }
}

/// How many there are of each state, and what they cost together.
fn totals(rows: &[SessionRow], look: &Look) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let mut states: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        let word = words::state(row);
        match states.iter_mut().find(|state| state.0 == word) {
            Some(state) => state.1 += 1,
            None => states.push((word, 1)),
        }
    }
    let mut parts: Vec<String> = states
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let cost: f64 = rows.iter().filter_map(|row| row.figures.cost_usd).sum();
    if cost > 0.0 {
        parts.push(words::dollars(cost));
    }
    let all = words::count(rows.len(), "session", "sessions");
    let line = format!("{all}: {}", parts.join(", "));
    let line = words::fit(&line, look.width, look.glyphs);
    format!("{DIM}{line}{DIM:#}\n")
}
