//! The tree of sessions and their subagents. Only what is in sight is drawn.

use becket_wire::session::{AgentRow, Display, SessionRow};
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use crate::session::table::glyph;
use crate::session::words;
use crate::tui::draw::{Drawn, Scene, Strip};
use crate::tui::look::{Look, Tone, tone, width as text_width, wrap};
use crate::tui::model::{self, Focus, Twig, title};
use crate::ui::text::dollars;
use crate::ui::time::{about, lasted, span as shortly};

/// Below this height every row is needed for sessions.
const ROOM_FOR_LABELS: u16 = 12;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut Drawn) {
    let model = scene.model;
    if model.twigs().is_empty() {
        drawn.list = area;
        empty(scene, area, buffer);
        return;
    }
    let columns = Columns::new(area.width, model.rows(), model.wish.grouped);
    let mut area = area;
    if area.height >= ROOM_FOR_LABELS {
        columns.labels(Strip::new(buffer, scene.look, area, area.y));
        area.y += 1;
        area.height -= 1;
    }
    drawn.list = area;
    let height = usize::from(area.height);
    drawn.top = first_in_sight(model.top, model.at(), height, model.twigs());
    let in_sight = model
        .twigs()
        .iter()
        .enumerate()
        .skip(drawn.top)
        .take(height);
    for ((at, twig), y) in in_sight.zip(area.y..) {
        let strip = Strip::new(buffer, scene.look, area, y);
        match twig {
            Twig::Group(project) => group(scene, strip, project.as_deref()),
            Twig::Session(place) => {
                let row = &model.rows()[*place];
                session(scene, strip, row, &columns, drawn);
            }
            Twig::Agent {
                session,
                agent: at,
                depth,
                last,
            } => {
                let row = &model.rows()[*session];
                agent(
                    scene,
                    strip,
                    &row.agents[*at],
                    (*depth, *last),
                    &columns,
                    drawn,
                );
            }
        }
        if at == model.at() {
            let line = Rect {
                y,
                height: 1,
                ..area
            };
            buffer.set_style(line, selected(scene));
        }
    }
}

/// The selected row is turned around as a whole: in its colour if it needs the person.
fn selected(scene: Scene<'_>) -> Style {
    let display = scene.model.current().map(|row| row.display);
    let urgent = display.filter(|display| *display <= Display::Attention);
    let style = match urgent {
        Some(display) => scene.look.style(tone(display)),
        None => Style::new(),
    };
    let style = Style::new()
        .fg(style.fg.unwrap_or(Color::Reset))
        .remove_modifier(Modifier::DIM)
        .add_modifier(Modifier::REVERSED);
    match scene.model.focus {
        Focus::List => style.add_modifier(Modifier::BOLD),
        Focus::Events => style.remove_modifier(Modifier::BOLD),
    }
}

/// Scrolls no further than it takes for the selection to be in sight, with its group's name.
fn first_in_sight(top: usize, at: usize, height: usize, twigs: &[Twig]) -> usize {
    let named = at
        .checked_sub(1)
        .filter(|&above| matches!(twigs[above], Twig::Group(_)));
    let first = if height > 1 { named.unwrap_or(at) } else { at };
    let lowest = (at + 1).saturating_sub(height);
    let most = twigs.len().saturating_sub(height);
    top.min(first).max(lowest).min(most.max(lowest))
}

fn empty(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let model = scene.model;
    let dash = scene.look.sign("…", "...");
    let lines: Vec<String> = match (&model.lost, model.heard) {
        _ if !model.wish.filter.is_empty() && !model.rows().is_empty() => {
            vec!["No session fits.".into(), "Esc shows all.".into()]
        }
        (Some(_), _) => vec!["Nothing is known without the daemon.".into()],
        (None, false) => vec![format!("Asking the daemon{dash}")],
        (None, true) => {
            let why = model.why_none.as_deref().unwrap_or("No sessions.");
            let room = usize::from(area.width.saturating_sub(4));
            wrap(why, room, usize::from(area.height), scene.look.unicode)
        }
    };
    let above = area.height.saturating_sub(lines.len() as u16) / 2;
    for (line, y) in lines.iter().zip(area.y + above..area.bottom()) {
        let line = Line::styled(line.as_str(), scene.look.style(Tone::Dim));
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        line.alignment(Alignment::Center).render(row, buffer);
    }
}

fn group(scene: Scene<'_>, mut strip: Strip<'_>, project: Option<&str>) {
    let path = project.map(|path| scene.look.path(path));
    let path = path.as_deref().unwrap_or("no project");
    let name = path.rsplit('/').find(|name| !name.is_empty());
    let room = strip.room();
    strip
        .skip(1)
        .foreign(name.unwrap_or(path), room, Tone::Strong);
    if name != Some(path) {
        let room = strip.room();
        strip
            .skip(2)
            .foreign(path, room.saturating_sub(2), Tone::Dim);
    }
}

fn session(
    scene: Scene<'_>,
    mut strip: Strip<'_>,
    row: &SessionRow,
    columns: &Columns,
    drawn: &mut Drawn,
) {
    let Scene { look, now, .. } = scene;
    let tone = tone(row.display);
    drawn.moves |= matches!(row.display, Display::Working | Display::Attention);
    strip
        .skip(columns.indent)
        .styled(glyph(row, look.glyphs()), look.pulse(row.display, now))
        .skip(1);
    let title_tone = match row.display {
        Display::Error | Display::Attention => Tone::Strong,
        Display::Working | Display::Checked => Tone::Plain,
        Display::Done => Tone::Dim,
    };
    strip.column(title(row), columns.title, title_tone);
    if columns.project > 0 {
        strip.column(project_name(row), columns.project, Tone::Dim);
    }
    strip.column(&doing(row), columns.doing, tone);
    since(
        &mut strip,
        now.saturating_sub(words::since(row)),
        row.display,
        columns,
        drawn,
    );
    context(&mut strip, look, row.figures.context_pct, columns);
    let cost = row.figures.cost_usd.map(dollars).unwrap_or_default();
    strip.right(&cost, columns.cost, Tone::Plain);
    let age = (columns.age > 0).then(|| {
        let span = now.saturating_sub(row.started_at);
        drawn.ticks(span, if span < 60_000 { 1_000 } else { 60_000 });
        about(span)
    });
    strip.right(&age.unwrap_or_default(), columns.age, Tone::Dim);
    if columns.model > 0 {
        strip
            .skip(2)
            .column(&words::model(row), columns.model, Tone::Dim);
    }
}

fn project_name(row: &SessionRow) -> &str {
    let project = model::project(row).unwrap_or_default();
    project.rsplit('/').next().unwrap_or_default()
}

/// What a session does, or what it wants; a subagent that wants it is named.
fn doing(row: &SessionRow) -> String {
    let doing = words::doing(row);
    match words::waiting_agent(row) {
        _ if doing.is_empty() => words::state(row).to_owned(),
        Some(agent) => format!("{doing} ({})", words::agent_name(agent)),
        None => doing,
    }
}

fn agent(
    scene: Scene<'_>,
    mut strip: Strip<'_>,
    row: &AgentRow,
    (depth, last): (usize, bool),
    columns: &Columns,
    drawn: &mut Drawn,
) {
    let Scene { look, now, .. } = scene;
    let display = row.display();
    let tone = tone(display);
    drawn.moves |= display != Display::Done;
    let depth = depth.min(6);
    let branch = match last {
        true => look.sign("└ ", "`-"),
        false => look.sign("├ ", "|-"),
    };
    strip
        .skip(columns.indent + 2 + 2 * depth as u16)
        .own(branch, Tone::Dim);
    let glyph = look.glyphs().display(display);
    strip.styled(glyph, look.pulse(display, now)).skip(1);
    let name = row.agent_type.as_deref().filter(|name| !name.is_empty());
    let named = columns.title.saturating_sub(2 * depth + 4);
    strip.column(name.unwrap_or("agent"), named, Tone::Dim);
    if columns.project > 0 {
        strip.skip(columns.project as u16 + 1);
    }
    strip.column(&words::agent_doing(row), columns.doing, tone);
    since(
        &mut strip,
        now.saturating_sub(row.status_since),
        display,
        columns,
        drawn,
    );
}

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
    /// What no row has gets no column.
    pub fn new(width: u16, rows: &[SessionRow], grouped: bool) -> Self {
        let width = usize::from(width);
        let named = rows.iter().map(|row| text_width(project_name(row)));
        let project = named.max().unwrap_or(0).clamp(7, 12);
        let has_cost = rows.iter().any(|row| row.figures.cost_usd.is_some());
        let has_context = rows.iter().any(|row| row.figures.context_pct.is_some());
        let from = |least: usize, cells: usize| if width >= least { cells } else { 0 };
        let mut columns = Self {
            indent: if grouped { 2 } else { 1 },
            title: 0,
            project: if grouped { 0 } else { from(72, project) },
            doing: 0,
            since: from(24, 6),
            bar: if has_context { from(100, 8) } else { 0 },
            percent: if has_context { from(48, 4) } else { 0 },
            cost: if has_cost { from(66, 7) } else { 0 },
            age: from(92, 4),
            model: from(130, 11),
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

/// How long it has been so: to the second where a session waits or works, else without seconds.
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
    let exact = display <= Display::Working && display != Display::Checked;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_scrolls_no_further_than_it_must() {
        let mut twigs = vec![Twig::Session(0); 20];
        twigs[10] = Twig::Group(None);
        assert_eq!(first_in_sight(0, 3, 5, &twigs), 0);
        assert_eq!(first_in_sight(0, 7, 5, &twigs), 3);
        // A group's name comes into sight with its first session.
        assert_eq!(first_in_sight(15, 11, 5, &twigs), 10);
        assert_eq!(first_in_sight(15, 11, 1, &twigs), 11);
        // Rows have gone: no empty space below while there is something above.
        assert_eq!(first_in_sight(18, 19, 5, &twigs), 15);
        assert_eq!(first_in_sight(3, 2, 50, &twigs), 0);
    }
}
