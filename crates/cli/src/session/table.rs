//! Formats the table of `becket sessions`.

use std::collections::HashMap;

use anstyle::Style;
use becket_wire::session::{Display, SessionRow};

use crate::session::words;
use crate::session::{Branch, branches};
use crate::ui::style::{BAD, BOLD, DIM, Glyphs, Look, WARN, style};
use crate::ui::table::{Cell, Column, grid, lowest_rank_left_out};
use crate::ui::text;

/// The number of agents of one session that are shown. `becket show` has all of them.
const AGENTS: usize = 6;
/// The percentage from which a context window is nearly full.
pub const CONTEXT_HIGH: f64 = 75.0;
/// The percentage from which a context window is full.
pub const CONTEXT_FULL: f64 = 90.0;

/// The columns. The one with the highest number is left out first.
const COLUMNS: [Column; 9] = [
    Column::left("STATE", 0),
    Column::left("PROJECT", 3).cut_to(8),
    Column::left("SESSION", 4).cut_to(16),
    // Enough for the beginning of a command.
    Column::left("DOING", 0).cut_to(23),
    Column::right("FOR", 1),
    Column::right("CTX", 5),
    Column::right("COST", 6),
    Column::left("MODEL", 7),
    Column::left("ID", 2),
];
// The maximal widths of columns.
const PROJECT: usize = 24;
const SESSION: usize = 64;
const DOING: usize = 48;
const MODEL: usize = 16;

type Cells = [Cell; COLUMNS.len()];

/// Formats the sessions in the given order, each with its live agents below it, then the totals.
pub fn table(rows: &[SessionRow], look: &Look) -> String {
    let projects = rows.iter().filter_map(|row| row.project.as_deref());
    let mut sheet = Sheet {
        look,
        ids: words::ids(rows),
        projects: words::projects(projects),
        has_word: true,
    };
    // In a narrow terminal cost and model are left out first, then the state's word; then columns become
    // narrower; then more are left out.
    let mut columns = COLUMNS;
    let mut cells = sheet.lines(rows);
    if !fits(&columns, &cells, look.width) {
        columns[0].head = "";
        sheet.has_word = false;
        cells = sheet.lines(rows);
    }
    if !fits(&columns, &cells, look.width) {
        columns[1].least = Some(6);
        columns[2].least = Some(10);
        columns[3].least = Some(19);
    }
    grid(columns, &cells, look) + &totals(rows, look)
}

/// Returns true if at most cost and model are left out.
fn fits(columns: &[Column; COLUMNS.len()], lines: &[Cells], width: usize) -> bool {
    lowest_rank_left_out(columns, lines, width).is_none_or(|rank| rank > 5)
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

/// Makes the lines of the table.
struct Sheet<'a> {
    look: &'a Look,
    ids: HashMap<&'a str, String>,
    projects: HashMap<&'a str, String>,
    /// True if each state has its word beside its glyph, and there is room for cost and model.
    has_word: bool,
}

impl Sheet<'_> {
    fn lines(&self, rows: &[SessionRow]) -> Vec<Cells> {
        let mut lines = Vec::new();
        for row in rows {
            lines.push(self.session(row));
            lines.extend(self.agents(row));
        }
        lines
    }

    fn session(&self, row: &SessionRow) -> Cells {
        let glyph = glyph(row, self.look.glyphs);
        let state = state_style(row);
        let is_over = row.ended_at.is_some() || !row.hooked;
        let text = if is_over { DIM } else { Style::new() };
        let needs_you = matches!(row.display, Display::Error | Display::Attention) && !is_over;
        let project = row.project.as_deref().or(row.cwd.as_deref());
        let project = project.map(|path| {
            let known = self.projects.get(path).cloned();
            known.unwrap_or_else(|| text::one_line(path))
        });
        let titled = if row.title.is_some() && !is_over {
            BOLD
        } else {
            text
        };
        let id = match row.pid {
            Some(pid) if !row.hooked => format!("pid {pid}"),
            _ => self.ids.get(&*row.session_id).cloned().unwrap_or_default(),
        };
        let since = self.look.since(words::since(row));
        let word = words::state(row);
        let state_text = if self.has_word {
            format!("{glyph} {word}")
        } else {
            glyph.to_owned()
        };
        let mut doing = words::doing(row);
        let mut doing_style = if needs_you { state } else { text };
        if !self.has_word && doing.is_empty() {
            // Else the state's word would not be shown at all.
            doing = word.to_owned();
            doing_style = DIM;
        }
        let cost = row.figures.cost_usd.filter(|_| self.has_word);
        let model = self.has_word.then(|| words::model(row));
        let fit = |text: &str, width| text::fit(text, width, self.look.glyphs);
        [
            Cell::new(state_text, state),
            Cell::new(fit(&project.unwrap_or_default(), PROJECT), text),
            Cell::new(fit(&words::about(row), SESSION), titled),
            Cell::new(fit(&doing, DOING), doing_style),
            Cell::new(
                since.unwrap_or_default(),
                if needs_you { state } else { text },
            ),
            context(row),
            Cell::plain(cost.map(text::dollars).unwrap_or_default()),
            Cell::new(fit(&model.unwrap_or_default(), MODEL), DIM),
            Cell::new(id, DIM),
        ]
    }

    /// Formats the live agents. Their names take the columns of project and session.
    fn agents(&self, row: &SessionRow) -> Vec<Cells> {
        if row.ended_at.is_some() {
            return Vec::new();
        }
        let all = branches(&row.agents, self.look.glyphs);
        let mut lines: Vec<Cells> = all.iter().take(AGENTS).map(|one| self.agent(one)).collect();
        if all.len() > AGENTS {
            let text = format!("{} {} more", self.look.glyphs.cut(), all.len() - AGENTS);
            let mut more = Cells::default();
            more[1] = Cell::new(text, DIM).wide();
            lines.push(more);
        }
        lines
    }

    fn agent(&self, branch: &Branch<'_>) -> Cells {
        let display = branch.agent.display();
        let waits = display == Display::Attention;
        let doing = if waits { style(display) } else { DIM };
        let indent = if self.has_word { "  " } else { "" };
        let since = self.look.since(branch.agent.status_since);
        let glyph = format!("{indent}{}", self.look.glyphs.display(display));
        let name = format!("{}{}", branch.lead, words::agent_name(branch.agent));
        let mut cells = Cells::default();
        cells[0] = Cell::own(glyph, style(display));
        cells[1] = Cell::own(name, DIM).wide();
        cells[3] = Cell::new(
            text::fit(&words::agent_doing(branch.agent), DOING, self.look.glyphs),
            doing,
        );
        cells[4] = Cell::new(since.unwrap_or_default(), doing);
        cells
    }
}

/// Formats the number of sessions in each state, and their total cost.
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
        parts.push(text::dollars(cost));
    }
    let all = text::count(rows.len(), "session", "sessions");
    let line = format!("{all}: {}", parts.join(", "));
    let line = text::fit(&line, look.width, look.glyphs);
    format!("{DIM}{line}{DIM:#}\n")
}
