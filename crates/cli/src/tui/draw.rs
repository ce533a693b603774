//! Draws the model into a buffer: a pure function of model, theme, time and area.

mod answer_box;
mod session_list;
mod session_pane;

#[cfg(test)]
pub mod tests;

use becket_wire::session::Display;
use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use crate::session::words::question;
use crate::tui::answer_box::DrawnBox;
use crate::tui::input::{HELP, TextField};
use crate::tui::model::{self, Focus, Mode, Model};
use crate::tui::theme::{Theme, Tone, tone};
use crate::ui::style::Glyphs;
use crate::ui::text::{dollars, fit, screen_line, short_id, tokens, width, wrap_to};
use crate::ui::time::lasted;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The width from which the events are beside the list, not below it.
const WIDE: u16 = 150;

/// The layout of a drawn frame, and the time of its next change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrawnFrame {
    pub list: Rect,
    pub events: Rect,
    /// The first visible row of the list.
    pub top: usize,
    /// True if something visible moves.
    pub moves: bool,
    /// The milliseconds until a visible duration changes.
    pub next_in: Option<i64>,
    pub answer_box: DrawnBox,
}

impl DrawnFrame {
    /// Records that a duration is visible. It is shown in seconds below `exact_below` milliseconds, else
    /// in minutes.
    fn ticks(&mut self, span_ms: i64, exact_below: i64) {
        let unit = if span_ms < exact_below { 1_000 } else { MINUTE };
        self.changes_in(unit - span_ms.max(0).rem_euclid(unit));
    }

    /// Records that something visible changes after a time in milliseconds.
    fn changes_in(&mut self, left: i64) {
        self.next_in = Some(self.next_in.map_or(left, |next| next.min(left)));
    }
}

/// The input of every part of the drawing.
#[derive(Debug, Clone, Copy)]
struct DrawContext<'a> {
    model: &'a Model,
    theme: &'a Theme,
    now: i64,
}

/// Draws a settled model.
pub fn draw(model: &Model, theme: &Theme, now: i64, area: Rect, buffer: &mut Buffer) -> DrawnFrame {
    let mut drawn = DrawnFrame {
        top: model.top,
        ..DrawnFrame::default()
    };
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return drawn;
    }
    let ctx = DrawContext { model, theme, now };
    let troubled = ctx.trouble().is_some() && area.height > 3;
    let head_height = 1 + u16::from(troubled);
    let foot_height = u16::from(area.height > head_height + 1);
    let body_height = area.height - head_height - foot_height;
    let head = Rect::new(area.x, area.y, area.width, head_height);
    let body = Rect::new(area.x, head.bottom(), area.width, body_height);
    let foot = Rect::new(area.x, body.bottom(), area.width, foot_height);
    draw_head(ctx, head, buffer, &mut drawn);
    let (list, pane) = split(body, model.focus, model.rows().is_empty());
    session_list::draw(ctx, list, buffer, &mut drawn);
    if !pane.is_empty() {
        session_pane::draw(ctx, pane, buffer, &mut drawn);
    }
    draw_foot(ctx, foot, buffer, &mut drawn);
    if let Mode::Answer(open) = &model.mode {
        drawn.answer_box = answer_box::draw(ctx, open, area, buffer);
    }
    if let Some((title, lines)) = sheet(ctx, area) {
        draw_framed_lines(theme, area, buffer, &title, &lines);
    }
    drawn
}

/// Splits the body into the list and the pane of the selected session, if there is room for it.
fn split(body: Rect, focus: Focus, empty: bool) -> (Rect, Rect) {
    let none = Rect::default();
    if empty {
        return (body, none);
    }
    if body.width >= WIDE {
        let width = body.width * 3 / 5;
        let list = Rect { width, ..body };
        let pane = Rect::new(list.right(), body.y, body.width - width, body.height);
        return (list, pane);
    }
    if body.height < 9 {
        return match focus {
            Focus::List => (body, none),
            Focus::Events => (none, body),
        };
    }
    let height = match focus {
        Focus::List => (body.height * 2 / 5).min(24),
        Focus::Events => body.height * 3 / 5,
    };
    let list = Rect::new(body.x, body.y, body.width, body.height - height);
    let pane = Rect::new(body.x, list.bottom(), body.width, height);
    (list, pane)
}

/// Writes cells into one row of the buffer, from left to right.
pub(super) struct RowWriter<'a> {
    buffer: &'a mut Buffer,
    theme: &'a Theme,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> RowWriter<'a> {
    /// Makes a writer for the row `y` of an area. Outside of the area it writes nothing.
    pub fn new(buffer: &'a mut Buffer, theme: &'a Theme, area: Rect, y: u16) -> Self {
        let inside = (area.top()..area.bottom()).contains(&y);
        Self {
            buffer,
            theme,
            x: area.x,
            y,
            end: if inside { area.right() } else { area.x },
        }
    }

    pub fn room(&self) -> usize {
        usize::from(self.end.saturating_sub(self.x))
    }

    /// Writes becket's own text, and cuts it at the end of the row.
    pub fn own(&mut self, text: &str, tone: Tone) -> &mut Self {
        let style = self.theme.style(tone);
        self.styled(text, style)
    }

    pub fn styled(&mut self, text: &str, style: Style) -> &mut Self {
        let room = self.room();
        if room > 0 {
            let (x, _) = self.buffer.set_stringn(self.x, self.y, text, room, style);
            self.x = x;
        }
        self
    }

    /// Writes foreign text in at most `most` cells.
    pub fn foreign(&mut self, text: &str, most: usize, tone: Tone) -> &mut Self {
        let text = screen_line(text, self.theme.glyphs);
        let text = fit(&text, most.min(self.room()), self.theme.glyphs);
        self.own(&text, tone)
    }

    /// Writes foreign text in a column of `cells` cells, and a space after it.
    pub fn column(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let from = self.x;
        self.foreign(text, cells, tone);
        self.skip_to(from.saturating_add(cells as u16 + 1))
    }

    /// Writes becket's own text at the right end of a column of `cells` cells, and a space before it.
    pub fn right(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let text = fit(text, cells, self.theme.glyphs);
        let end = self.x.saturating_add(cells as u16 + 1);
        let begin = end.saturating_sub(width(&text) as u16);
        self.skip_to(begin).own(&text, tone).skip_to(end)
    }

    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.skip_to(self.x.saturating_add(cells))
    }

    fn skip_to(&mut self, x: u16) -> &mut Self {
        self.x = x.max(self.x);
        self
    }

    /// Repeats a sign up to the end of the row.
    pub fn fill(&mut self, sign: &str, tone: Tone) {
        let text = sign.repeat(self.room());
        self.own(&text, tone);
    }
}

impl DrawContext<'_> {
    /// Returns the problem of becket itself that is shown in the head.
    pub(super) fn trouble(self) -> Option<String> {
        let model = self.model;
        if let Some(why) = &model.connection_error {
            return Some(why.clone());
        }
        let mut troubles = model.coverage_warning.iter().chain(&model.troubles);
        let first = troubles.next()?;
        Some(match troubles.count() {
            0 => first.clone(),
            more => format!("{first} (and {more} more; try becket doctor)"),
        })
    }
}

fn draw_head(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut DrawnFrame) {
    let DrawContext { model, theme, now } = ctx;
    let totals = &model.totals;
    let mut writer = RowWriter::new(buffer, theme, area, area.y);
    writer.own(" becket", Tone::Accent).skip(2);
    for display in Display::ALL {
        let count = totals.count(display);
        let always = matches!(
            display,
            Display::Attention | Display::Working | Display::Done
        );
        if count == 0 && !always {
            continue;
        }
        let (glyph, label) = (theme.glyphs.display(display), display.label());
        let mut text = format!("{glyph} {count} {label}");
        if let (Display::Attention, Some(since)) = (display, totals.waits_since) {
            let span = now.saturating_sub(since);
            text = format!("{text} {}", lasted(span));
            drawn.ticks(span, HOUR);
        }
        if width(&text) > writer.room() {
            break;
        }
        let tone = if count == 0 { Tone::Dim } else { tone(display) };
        writer.own(&text, tone).skip(2);
    }
    let sums = totals_text(ctx);
    if let Some(gap) = writer.room().checked_sub(width(&sums) + 1) {
        writer.skip(gap as u16).own(&sums, Tone::Dim);
    }
    if let Some(trouble) = ctx.trouble() {
        let tone = match model.connection_error {
            Some(_) => Tone::Error,
            None => Tone::Attention,
        };
        let mut writer = RowWriter::new(buffer, theme, area, area.y + 1);
        writer
            .own(theme.sign(" ⚠ ", " ! "), tone)
            .foreign(&trouble, usize::MAX, tone);
    }
}

fn totals_text(ctx: DrawContext<'_>) -> String {
    let totals = &ctx.model.totals;
    let mut parts = Vec::new();
    if totals.tokens > 0 {
        parts.push(format!("{} in context", tokens(totals.tokens)));
    }
    if totals.cost > 0.0 {
        parts.push(dollars(totals.cost));
    }
    parts.join(ctx.theme.sign(" · ", ", "))
}

/// A key as Unicode sign and ASCII sign, and its label.
type KeyHint = (&'static str, &'static str, &'static str);

/// The key of a session that has a question. Such a session takes no line.
const ANSWER_KEY: KeyHint = ("Space", "Space", "answer");
const LINE_KEY: KeyHint = ("r", "r", "send");
/// The keys that act on sessions. Terminals with 80 columns show all of them.
const ACTING_KEYS: [KeyHint; 6] = [
    ("⏎", "Enter", "jump"),
    ("a", "a", "next"),
    ("n", "n", "name"),
    ("i", "i", "interrupt"),
    ("x", "x", "end"),
    ("g", "g", "group"),
];
/// The keys that are left out if there is no room.
const MORE_KEYS: [KeyHint; 3] = [
    ("/", "/", "filter"),
    ("⇥", "Tab", "events"),
    ("←→", "h l", "fold"),
];
const EVENT_KEYS: [KeyHint; 3] = [
    ("↑↓", "k j", "scroll"),
    ("⇥", "Tab", "back to the list"),
    ("⏎", "Enter", "jump"),
];
const ALWAYS: [KeyHint; 2] = [("?", "?", "help"), ("q", "q", "quit")];

fn draw_foot(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut DrawnFrame) {
    let model = ctx.model;
    let mut writer = RowWriter::new(buffer, ctx.theme, area, area.y);
    writer.skip(1);
    match (&model.mode, &model.status_message) {
        (Mode::Filter(field), _) => draw_text_field(ctx, writer, "/", field),
        (Mode::Name(_, field), _) => draw_text_field(ctx, writer, "name: ", field),
        (Mode::Line(target, field), _) => {
            let title = short_title(ctx.theme, &target.title, 24);
            draw_text_field(ctx, writer, &format!("send to {title}: "), field);
        }
        (Mode::Refused(_), _) => {
            writer.own("Esc closes this, other keys do nothing", Tone::Strong);
        }
        (Mode::Interrupt(_), _) => {
            writer.own("Ctrl-X interrupts it, Esc leaves it", Tone::Strong);
        }
        (Mode::End(target, field), _) => match target.short_id() {
            Some(id) => {
                let id = screen_line(id, ctx.theme.glyphs);
                draw_text_field(ctx, writer, &format!("to end it, type {id}: "), field);
            }
            None => draw_text_field(ctx, writer, "Ctrl-X ends it: ", field),
        },
        (Mode::Answer(_), None) => {
            writer.own("the keys of the box act, Esc closes it", Tone::Strong);
        }
        (_, Some(message)) => {
            if let Some(until) = message.until {
                drawn.changes_in(until.saturating_sub(ctx.now));
            }
            let tone = if message.is_error {
                Tone::Error
            } else {
                Tone::Good
            };
            writer.foreign(&message.text, usize::MAX, tone);
        }
        (Mode::Normal | Mode::Help, None) => draw_keys(ctx, writer),
    }
}

fn draw_keys(ctx: DrawContext<'_>, mut writer: RowWriter<'_>) {
    let model = ctx.model;
    if !model.options.filter.is_empty() {
        let filter = format!("only: {}", model.options.filter);
        writer
            .foreign(&filter, 24, Tone::Attention)
            .own(" (Esc)", Tone::Dim)
            .skip(2);
    }
    let mut hints: Vec<KeyHint> = Vec::new();
    let mut more: &[KeyHint] = &[];
    match (model.current(), model.focus) {
        _ if model.rows().is_empty() => {}
        (row, Focus::List) => {
            let asks = row.is_some_and(|row| row.question.is_some());
            hints.extend(ACTING_KEYS);
            if asks {
                hints.insert(0, ANSWER_KEY);
            } else {
                hints.insert(2, LINE_KEY);
            }
            more = &MORE_KEYS;
        }
        (_, Focus::Events) => hints.extend(EVENT_KEYS),
    }
    let room = writer.room();
    let fits = |hints: &[KeyHint], gap| {
        let all = hints.iter().chain(&ALWAYS);
        let widths = all.map(|hint| hint_width(ctx.theme, hint) + gap);
        widths.sum::<usize>() <= room + gap
    };
    let gap = if fits(&hints, 2) { 2 } else { 1 };
    for hint in more {
        hints.push(*hint);
        if !fits(&hints, gap) {
            hints.pop();
            break;
        }
    }
    while !hints.is_empty() && !fits(&hints, gap) {
        hints.pop();
    }
    for hint in hints.iter().chain(&ALWAYS) {
        draw_hint(&mut writer, hint, gap);
    }
}

fn hint_width(theme: &Theme, (unicode, ascii, label): &KeyHint) -> usize {
    width(theme.sign(unicode, ascii)) + 1 + width(label)
}

fn draw_hint(writer: &mut RowWriter<'_>, (unicode, ascii, label): &KeyHint, gap: usize) {
    let sign = writer.theme.sign(unicode, ascii);
    writer
        .own(sign, Tone::Strong)
        .skip(1)
        .own(label, Tone::Dim)
        .skip(gap as u16);
}

fn short_title(theme: &Theme, title: &str, most: usize) -> String {
    fit(&screen_line(title, theme.glyphs), most, theme.glyphs)
}

/// Draws a line that is being typed: the end of the text before the cursor, the cursor, and as much
/// after it as fits.
fn draw_text_field(
    ctx: DrawContext<'_>,
    mut writer: RowWriter<'_>,
    label: &str,
    field: &TextField,
) {
    let glyphs = ctx.theme.glyphs;
    writer.own(label, Tone::Strong);
    let (before, after) = field.halves();
    let (mut before, after) = (glyphs.encode(&before), glyphs.encode(&after));
    let room = writer.room().saturating_sub(2);
    while width(&before) > room {
        before.remove(0);
    }
    let mut rest = after.chars();
    let under = rest.next().map_or(" ".to_owned(), String::from);
    let cursor = ctx
        .theme
        .style(Tone::Plain)
        .add_modifier(Modifier::REVERSED);
    writer.own(&before, Tone::Plain).styled(&under, cursor);
    let room = writer.room();
    writer.own(&fit(rest.as_str(), room, glyphs), Tone::Plain);
}

/// The meaning of each state, in the order of [`Display::ALL`].
const STATES: [&str; 5] = [
    "its last turn failed",
    "it waits for you",
    "it waits for you, and you looked at it",
    "it works",
    "it is your turn",
];
const ENDED: &str = "killed or a finished `claude -p`, for ten minutes";

/// Returns the title and the lines of the sheet that the mode opens, if it opens one.
fn sheet(ctx: DrawContext<'_>, area: Rect) -> Option<(String, Vec<SheetLine>)> {
    let theme = ctx.theme;
    Some(match &ctx.model.mode {
        Mode::Help => ("keys and states".to_owned(), help(theme)),
        Mode::Refused(why) => {
            let mut lines = sentence(theme, area, why);
            lines.extend(keys([("Esc", "close this")]));
            ("not now".to_owned(), lines)
        }
        Mode::Interrupt(target) => {
            let question = ctx.model.row(&target.key).and_then(question);
            let asks = match question {
                Some(question) => format!("It waits for an answer: {question}."),
                None => "It waited for an answer.".to_owned(),
            };
            let mut lines = sentence(theme, area, &asks);
            lines.extend(sentence(theme, area, "Escape would cancel that dialog."));
            lines.extend(keys([
                ("Ctrl-X", "interrupt it all the same"),
                ("Esc", "leave it"),
            ]));
            let title = short_title(theme, &target.title, 50);
            (format!("interrupt {title}?"), lines)
        }
        Mode::End(target, _) => {
            let row = ctx.model.row(&target.key);
            let pane = row.and_then(|row| row.tmux_pane.as_ref());
            let facts = [
                row.and_then(model::project).map(|path| theme.path(path)),
                Some(format!("session {}", short_id(&target.session_id))),
                row.and_then(|row| row.pid).map(|pid| format!("pid {pid}")),
                pane.map(|pane| format!("pane {pane}")),
            ];
            let facts: Vec<String> = facts.into_iter().flatten().collect();
            let facts = screen_line(&facts.join(", "), theme.glyphs);
            let mut lines = vec![(String::new(), facts)];
            if let Some(id) = target.short_id() {
                let id = screen_line(id, theme.glyphs);
                lines.push((id, "and Enter: end it".to_owned()));
            }
            lines.extend(keys([("Ctrl-X", "end it"), ("Esc", "leave it")]));
            let title = short_title(theme, &target.title, 50);
            (format!("end {title}?"), lines)
        }
        _ => return None,
    })
}

/// A key and its meaning. A sentence has no key.
type SheetLine = (String, String);

fn keys<const N: usize>(keys: [(&str, &str); N]) -> [SheetLine; N] {
    keys.map(|(key, what)| (key.to_owned(), what.to_owned()))
}

fn help(theme: &Theme) -> Vec<SheetLine> {
    let keys = HELP.map(|(key, what)| (key_name(theme, key), what.to_owned()));
    let states = Display::ALL.into_iter().zip(STATES);
    let states = states.map(|(display, what)| {
        let glyph = theme.glyphs.display(display);
        (format!("{glyph} {}", display.label()), what.to_owned())
    });
    let ended = (format!("{} ended", theme.glyphs.ended()), ENDED.to_owned());
    keys.into_iter().chain(states).chain([ended]).collect()
}

/// The width of a sentence in a sheet.
const SENTENCE_WIDTH: usize = 60;
/// The number of lines of a sentence in a sheet.
const SENTENCE_LINES: usize = 6;

/// Wraps a text of any length into lines of a sheet that fits this area.
fn sentence(theme: &Theme, area: Rect, text: &str) -> Vec<SheetLine> {
    let room = SENTENCE_WIDTH.min(usize::from(area.width.saturating_sub(4)));
    let lines = wrapped(theme, text, room, SENTENCE_LINES).into_iter();
    lines.map(|line| (String::new(), line)).collect()
}

/// Wraps foreign text into at most `most` lines.
fn wrapped(theme: &Theme, text: &str, room: usize, most: usize) -> Vec<String> {
    wrap_to(&screen_line(text, theme.glyphs), room, most, theme.glyphs)
}

fn key_name(theme: &Theme, key: &str) -> String {
    match theme.glyphs {
        Glyphs::Unicode => key.to_owned(),
        Glyphs::Ascii => key.replace("↑ ↓ ", "Up Down").replace("← → ", "Left Right"),
    }
}

const ASCII_BORDER: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// Draws a framed sheet in the middle, as large as its lines.
fn draw_framed_lines(
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
    title: &str,
    lines: &[SheetLine],
) {
    let keys = lines.iter().map(|(key, _)| width(key)).max().unwrap_or(0);
    let widths = lines.iter().map(|(key, what)| match key.as_str() {
        "" => width(what),
        _ => keys + 2 + width(what),
    });
    let inner = widths.max().unwrap_or(0).max(width(title) + 2);
    let size = (inner + 4, lines.len() + 2);
    let inside = draw_frame(theme, area, buffer, size, title, "");
    for ((key, what), y) in lines.iter().zip(inside.y..) {
        let mut writer = RowWriter::new(buffer, theme, inside, y);
        writer.skip(1);
        if !key.is_empty() {
            writer.column(key, keys, Tone::Strong).skip(1);
        }
        writer.own(what, Tone::Plain);
    }
}

/// Draws a frame of this width and height in the middle, with a title and a note at its lower edge. Returns its
/// inside.
fn draw_frame(
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
    (wide, high): (usize, usize),
    title: &str,
    note: &str,
) -> Rect {
    let wide = (wide as u16).min(area.width);
    let high = (high as u16).min(area.height);
    let (x, y) = ((area.width - wide) / 2, (area.height - high) / 2);
    let sheet = Rect::new(area.x + x, area.y + y, wide, high);
    // A wide character that reaches under the sheet would hide its edge.
    if let Some(x) = sheet.x.checked_sub(1).filter(|x| *x >= area.x) {
        for y in sheet.top()..sheet.bottom() {
            if width(buffer[(x, y)].symbol()) > 1 {
                buffer[(x, y)].set_symbol(" ");
            }
        }
    }
    Clear.render(sheet, buffer);
    let title = Line::from(vec![
        Span::styled(theme.sign("─", "-"), theme.style(Tone::Accent)),
        Span::styled(format!(" {title} "), theme.style(Tone::Strong)),
    ]);
    let border = match theme.glyphs {
        Glyphs::Unicode => border::ROUNDED,
        Glyphs::Ascii => ASCII_BORDER,
    };
    let mut block = Block::bordered()
        .border_set(border)
        .border_style(theme.style(Tone::Accent))
        .title_top(title);
    if !note.is_empty() {
        let note = Span::styled(format!(" {note} "), theme.style(Tone::Attention));
        block = block.title_bottom(Line::from(note).right_aligned());
    }
    block.render(sheet, buffer);
    sheet.inner(Margin::new(1, 1))
}
