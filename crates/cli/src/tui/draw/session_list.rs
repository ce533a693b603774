//! Draws the visible part of the tree of sessions and their subagents.

use becket_wire::session::{AgentRow, Display, SessionRow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::Widget;

use crate::session::AgentNode;
use crate::session::table::{CONTEXT_FULL, CONTEXT_HIGH, glyph};
use crate::session::words;
use crate::tui::draw::{DrawContext, DrawnFrame, HOUR, MINUTE, RowWriter};
use crate::tui::model::{self, Focus, TreeRow, title};
use crate::tui::theme::{Tone, tone};
use crate::ui::text::{dollars, width as text_width, wrap_to};
use crate::ui::time::{about, lasted, span as shortly};

/// The height from which the list has column labels. Below it every row is needed for sessions.
const ROOM_FOR_LABELS: u16 = 12;

pub(super) fn draw(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut DrawnFrame) {
    let model = ctx.model;
    if model.tree_rows().is_empty() {
        drawn.list = area;
        draw_empty(ctx, area, buffer);
        return;
    }
    let columns = Columns::new(area.width, model.rows(), model.options.grouped);
    let mut area = area;
    if area.height >= ROOM_FOR_LABELS {
        columns.labels(RowWriter::new(buffer, ctx.theme, area, area.y));
        area.y += 1;
        area.height -= 1;
    }
    drawn.list = area;
    let height = usize::from(area.height);
    drawn.top = first_visible(model.top, model.selected_row(), height, model.tree_rows());
    let in_sight = model
        .tree_rows()
        .iter()
        .enumerate()
        .skip(drawn.top)
        .take(height);
    for ((at, tree_row), y) in in_sight.zip(area.y..) {
        let line = ListRow {
            ctx,
            writer: RowWriter::new(buffer, ctx.theme, area, y),
            columns: &columns,
            drawn,
        };
        match tree_row {
            TreeRow::Group(project) => line.group(project.as_deref()),
            TreeRow::Session(place) => line.session(&model.rows()[*place]),
            TreeRow::Agent { session, agent } => {
                let agents = &model.rows()[*session].agents;
                line.agent(&agents[agent.index], *agent);
            }
        }
        if at == model.selected_row() {
            let line = Rect::new(area.x, y, area.width, 1);
            buffer.set_style(line, selection_style(ctx));
        }
    }
}

/// Returns the style of the selected row: reversed, in its own colour if it needs the user.
fn selection_style(ctx: DrawContext<'_>) -> Style {
    let display = ctx.model.current().map(|row| row.display);
    let urgent = display.filter(|display| *display <= Display::Attention);
    let style = match urgent {
        Some(display) => ctx.theme.style(tone(display)),
        None => Style::new(),
    };
    let style = Style::new()
        .fg(style.fg.unwrap_or(Color::Reset))
        .remove_modifier(Modifier::DIM)
        .add_modifier(Modifier::REVERSED);
    match ctx.model.focus {
        Focus::List => style.add_modifier(Modifier::BOLD),
        Focus::Events => style.remove_modifier(Modifier::BOLD),
    }
}

/// Returns the first visible row. Scrolls only as far as the selection and the name of its group
/// need.
fn first_visible(top: usize, at: usize, height: usize, tree_rows: &[TreeRow]) -> usize {
    let named = at
        .checked_sub(1)
        .filter(|&above| matches!(tree_rows[above], TreeRow::Group(_)));
    let first = if height > 1 { named.unwrap_or(at) } else { at };
    let lowest = (at + 1).saturating_sub(height);
    let most = tree_rows.len().saturating_sub(height);
    top.min(first).max(lowest).min(most.max(lowest))
}

fn draw_empty(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer) {
    let model = ctx.model;
    let dash = ctx.theme.sign("…", "...");
    let lines: Vec<String> = match (&model.connection_error, model.has_sessions) {
        _ if !model.options.filter.is_empty() && !model.rows().is_empty() => {
            vec!["No session fits.".into(), "Esc shows all.".into()]
        }
        (Some(_), _) => vec!["Nothing is known without the daemon.".into()],
        (None, false) => vec![format!("Asking the daemon{dash}")],
        (None, true) => {
            let why = model.empty_reason.as_deref().unwrap_or("No sessions.");
            let room = usize::from(area.width.saturating_sub(4));
            wrap_to(why, room, usize::from(area.height), ctx.theme.glyphs)
        }
    };
    let above = area.height.saturating_sub(lines.len() as u16) / 2;
    let middle = Rect::new(area.x, area.y + above, area.width, area.height - above);
    Text::from(lines.join("\n"))
        .style(ctx.theme.style(Tone::Dim))
        .centered()
        .render(middle, buffer);
}

fn project_name(row: &SessionRow) -> &str {
    let project = model::project(row).unwrap_or_default();
    project.rsplit('/').next().unwrap_or_default()
}

/// Writes a request to run a command as the command, which needs the room.
fn as_command(doing: String) -> String {
    match doing.strip_prefix("wants to run: ") {
        Some(command) => format!("$ {command}"),
        None => doing,
    }
}

/// One row of the list while it is drawn.
struct ListRow<'a> {
    ctx: DrawContext<'a>,
    writer: RowWriter<'a>,
    columns: &'a Columns,
    drawn: &'a mut DrawnFrame,
}

impl ListRow<'_> {
    fn group(mut self, project: Option<&str>) {
        let path = project.map(|path| self.ctx.theme.path(path));
        let path = path.as_deref().unwrap_or("no project");
        let name = path.rsplit('/').find(|name| !name.is_empty());
        self.writer
            .skip(1)
            .foreign(name.unwrap_or(path), usize::MAX, Tone::Strong);
        if name != Some(path) {
            self.writer.skip(2).foreign(path, usize::MAX, Tone::Dim);
        }
    }

    fn session(mut self, row: &SessionRow) {
        let (display, columns) = (row.display, self.columns);
        self.drawn.moves |= matches!(display, Display::Working | Display::Attention);
        self.writer.skip(columns.indent);
        self.glyph(glyph(row, self.ctx.theme.glyphs), display);
        let title_tone = match display {
            Display::Error | Display::Attention => Tone::Strong,
            Display::Working | Display::Checked => Tone::Plain,
            Display::Done => Tone::Dim,
        };
        self.writer
            .column(title(row), columns.title, title_tone)
            .column(project_name(row), columns.project, Tone::Dim)
            .column(
                &as_command(words::activity(row)),
                columns.doing,
                tone(display),
            );
        self.since(words::since(row), display);
        self.context(row.figures.context_pct);
        let cost = row.figures.cost_usd.map(dollars).unwrap_or_default();
        self.writer.right(&cost, columns.cost, Tone::Plain);
        if columns.age > 0 {
            let age = self.ctx.now.saturating_sub(row.started_at);
            self.drawn.ticks(age, MINUTE);
            self.writer.right(&about(age), columns.age, Tone::Dim);
        }
        if columns.model > 0 {
            let model = words::model(row);
            self.writer.skip(2).column(&model, columns.model, Tone::Dim);
        }
    }

    fn agent(mut self, row: &AgentRow, node: AgentNode) {
        let (display, columns, theme) = (row.display(), self.columns, self.ctx.theme);
        self.drawn.moves |= display != Display::Done;
        let depth = node.depth.min(6);
        let branch = if node.last {
            theme.sign("└ ", "`-")
        } else {
            theme.sign("├ ", "|-")
        };
        self.writer
            .skip(columns.indent + 2 + 2 * depth as u16)
            .own(branch, Tone::Dim);
        self.glyph(theme.glyphs.display(display), display);
        let name = row.agent_type.as_deref().filter(|name| !name.is_empty());
        let named = columns.title.saturating_sub(2 * depth + 4);
        self.writer
            .column(name.unwrap_or("agent"), named, Tone::Dim)
            .column("", columns.project, Tone::Dim)
            .column(
                &as_command(words::agent_doing(row)),
                columns.doing,
                tone(display),
            );
        self.since(row.status_since, display);
    }

    fn glyph(&mut self, glyph: &str, display: Display) {
        let style = self.ctx.theme.pulse(display, self.ctx.now);
        self.writer.styled(glyph, style).skip(1);
    }

    /// Writes the duration of a state: to the second if a session waits or works, else to the minute.
    fn since(&mut self, at: i64, display: Display) {
        if self.columns.since == 0 {
            return;
        }
        let span = self.ctx.now.saturating_sub(at);
        let exact = display <= Display::Working && display != Display::Checked;
        self.drawn.ticks(span, if exact { HOUR } else { MINUTE });
        let text = if exact { lasted(span) } else { shortly(span) };
        self.writer.right(&text, self.columns.since, tone(display));
    }

    /// Writes the use of the context window as a bar and a number, if there is room for both.
    fn context(&mut self, percent: Option<f64>) {
        let (cells, theme) = (self.columns.context, self.ctx.theme);
        let Some(percent) = percent.filter(|percent| percent.is_finite()) else {
            self.writer.right("", cells, Tone::Plain);
            return;
        };
        let tone = match percent {
            CONTEXT_FULL.. => Tone::Error,
            CONTEXT_HIGH.. => Tone::Attention,
            _ => Tone::Plain,
        };
        if cells > PERCENT {
            let full = ((percent / 100.0 * BAR as f64).round() as usize).min(BAR);
            self.writer
                .skip(1)
                .own(&theme.sign("━", "#").repeat(full), tone)
                .own(&theme.sign("─", ".").repeat(BAR - full), Tone::Dim);
        }
        let number = format!("{:.0}%", percent.clamp(0.0, 999.0));
        self.writer.right(&number, cells.min(PERCENT), tone);
    }
}

/// The widths of the parts of the column for the context window.
const BAR: usize = 8;
const PERCENT: usize = 4;

/// The width of each column, or 0 for a column that is left out. One cell separates two columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The cells before the glyph of a session.
    pub indent: u16,
    pub title: usize,
    pub project: usize,
    pub doing: usize,
    pub since: usize,
    /// The use of the context window: a bar and its percentage, or only the percentage.
    pub context: usize,
    pub cost: usize,
    pub age: usize,
    pub model: usize,
}

impl Columns {
    /// Makes the columns for a list of this width. A value that no row has gets no column.
    pub fn new(width: u16, rows: &[SessionRow], grouped: bool) -> Self {
        let width = usize::from(width);
        let named = rows.iter().map(|row| text_width(project_name(row)));
        let project = named.max().unwrap_or(0).clamp(7, 12);
        let has_cost = rows.iter().any(|row| row.figures.cost_usd.is_some());
        let has_context = rows.iter().any(|row| row.figures.context_pct.is_some());
        let if_fits = |least: usize, cells: usize| if width >= least { cells } else { 0 };
        let mut columns = Self {
            indent: if grouped { 2 } else { 1 },
            title: 0,
            project: if grouped { 0 } else { if_fits(72, project) },
            doing: 0,
            since: if_fits(24, 6),
            context: match width {
                _ if !has_context => 0,
                ..48 => 0,
                48..100 => PERCENT,
                100.. => BAR + 1 + PERCENT,
            },
            cost: if has_cost { if_fits(66, 7) } else { 0 },
            age: if_fits(92, 4),
            model: if_fits(130, 11),
        };
        let rest = [
            columns.project,
            columns.since,
            columns.context,
            columns.cost,
            columns.age,
        ];
        let mut taken: usize = rest
            .iter()
            .filter(|cells| **cells > 0)
            .map(|cells| cells + 1)
            .sum();
        if columns.model > 0 {
            taken += columns.model + 3;
        }
        // Four cells: the glyph, a space after it, and one after each of title and doing.
        taken += usize::from(columns.indent);
        let left = width.saturating_sub(taken + 4);
        // A question needs more words than a title.
        columns.doing = if left < 24 { 0 } else { left * 11 / 20 };
        if columns.doing == 0 {
            columns.title = width.saturating_sub(taken + 3);
        } else {
            columns.title = (left - columns.doing).min(64);
            columns.doing = left - columns.title;
        }
        columns
    }

    fn labels(&self, mut writer: RowWriter<'_>) {
        let context = if self.context > PERCENT {
            "context"
        } else {
            "ctx"
        };
        writer
            .skip(self.indent + 2)
            .column("session", self.title, Tone::Dim)
            .column("project", self.project, Tone::Dim)
            .column("doing", self.doing, Tone::Dim)
            .right("since", self.since, Tone::Dim)
            .right(context, self.context, Tone::Dim)
            .right("cost", self.cost, Tone::Dim)
            .right("age", self.age, Tone::Dim);
        if self.model > 0 {
            writer.skip(2).column("model", self.model, Tone::Dim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_scrolls_no_further_than_it_must() {
        let mut tree_rows = vec![TreeRow::Session(0); 20];
        tree_rows[10] = TreeRow::Group(None);
        assert_eq!(first_visible(0, 3, 5, &tree_rows), 0);
        assert_eq!(first_visible(0, 7, 5, &tree_rows), 3);
        // A group's name comes into sight with its first session.
        assert_eq!(first_visible(15, 11, 5, &tree_rows), 10);
        assert_eq!(first_visible(15, 11, 1, &tree_rows), 11);
        // Rows have gone: no empty space below while there is something above.
        assert_eq!(first_visible(18, 19, 5, &tree_rows), 15);
        assert_eq!(first_visible(3, 2, 50, &tree_rows), 0);
    }
}
