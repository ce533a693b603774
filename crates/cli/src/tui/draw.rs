//! Draws the model: pure, from model, look, moment and area to a buffer.

mod list;
mod pane;

#[cfg(test)]
pub mod tests;

use becket_wire::session::Display;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use crate::session::words::question;
use crate::tui::input::{Field, HELP};
use crate::tui::look::{Look, Tone, fit, tone, visible, width, wrap};
use crate::tui::model::{self, Focus, Mode, Model, short_id};
use crate::ui::text::{dollars, tokens};
use crate::ui::time::lasted;

/// From here on the events stand beside the list, not below it.
const WIDE: u16 = 150;

/// What was drawn where, and when it will look different by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    pub list: Rect,
    pub events: Rect,
    /// The first row of the list in sight.
    pub top: usize,
    /// Something in sight moves.
    pub moves: bool,
    /// In so many milliseconds some time in sight reads differently.
    pub next_in: Option<i64>,
}

impl Drawn {
    /// A span of time is in sight that is told to the second, or to the minute.
    fn ticks(&mut self, span_ms: i64, unit: i64) {
        let left = unit - span_ms.max(0).rem_euclid(unit);
        self.next_in = Some(self.next_in.map_or(left, |next| next.min(left)));
    }
}

/// What every part of the drawing needs.
#[derive(Debug, Clone, Copy)]
struct Scene<'a> {
    model: &'a Model,
    look: &'a Look,
    now: i64,
}

/// The model has to be settled.
pub fn draw(model: &Model, look: &Look, now: i64, area: Rect, buffer: &mut Buffer) -> Drawn {
    let mut drawn = Drawn {
        top: model.top,
        ..Drawn::default()
    };
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return drawn;
    }
    let scene = Scene { model, look, now };
    let troubled = scene.trouble().is_some() && area.height > 3;
    let head = Rect {
        height: 1 + u16::from(troubled),
        ..area
    };
    draw_head(scene, head, buffer, &mut drawn);
    let foot_height = u16::from(area.height > head.height + 1);
    let foot = Rect {
        y: area.bottom() - foot_height,
        height: foot_height,
        ..area
    };
    let body = Rect {
        y: head.bottom(),
        height: area.height - head.height - foot_height,
        ..area
    };
    let (list, pane) = split(body, model.focus, model.rows().is_empty());
    list::draw(scene, list, buffer, &mut drawn);
    if !pane.is_empty() {
        pane::draw(scene, pane, buffer, &mut drawn);
    }
    draw_foot(scene, foot, buffer, &mut drawn);
    draw_over(scene, area, buffer);
    drawn
}

/// The list, and the pane of the selected session where there is room for it.
fn split(body: Rect, focus: Focus, empty: bool) -> (Rect, Rect) {
    let none = Rect::default();
    if empty {
        return (body, none);
    }
    if body.width >= WIDE {
        let list = Rect {
            width: body.width * 3 / 5,
            ..body
        };
        let pane = Rect {
            x: list.right(),
            width: body.width - list.width,
            ..body
        };
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
    let list = Rect {
        height: body.height - height,
        ..body
    };
    let pane = Rect {
        y: list.bottom(),
        height,
        ..body
    };
    (list, pane)
}

pub(super) struct Strip<'a> {
    buffer: &'a mut Buffer,
    look: &'a Look,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> Strip<'a> {
    /// The row `y` of an area; one that it does not have takes nothing.
    pub fn new(buffer: &'a mut Buffer, look: &'a Look, area: Rect, y: u16) -> Self {
        let inside = (area.top()..area.bottom()).contains(&y);
        Self {
            buffer,
            look,
            x: area.x,
            y,
            end: if inside { area.right() } else { area.x },
        }
    }

    pub fn room(&self) -> usize {
        usize::from(self.end.saturating_sub(self.x))
    }

    /// Our own text, as it is; cut where the room ends.
    pub fn own(&mut self, text: &str, tone: Tone) -> &mut Self {
        let style = self.look.style(tone);
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

    /// Foreign text, in at most so many cells.
    pub fn foreign(&mut self, text: &str, most: usize, tone: Tone) -> &mut Self {
        let text = visible(text, self.look.unicode);
        let text = fit(&text, most.min(self.room()), self.look.unicode);
        self.own(&text, tone)
    }

    /// Foreign text in a column of so many cells, and a space.
    pub fn column(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let from = self.x;
        self.foreign(text, cells, tone);
        self.skip_to(from.saturating_add(cells as u16 + 1))
    }

    /// Our own text at the right end of a column of so many cells, and a space before it.
    pub fn right(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let text = fit(text, cells, self.look.unicode);
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

    /// The same sign up to the end.
    pub fn fill(&mut self, sign: &str, tone: Tone) {
        let text = sign.repeat(self.room());
        self.own(&text, tone);
    }
}

impl Scene<'_> {
    /// What is wrong with becket itself.
    pub(super) fn trouble(self) -> Option<String> {
        let model = self.model;
        if let Some(why) = &model.lost {
            return Some(why.clone());
        }
        let mut troubles = model.unseen.iter().chain(&model.troubles);
        let first = troubles.next()?;
        Some(match troubles.count() {
            0 => first.clone(),
            more => format!("{first} (and {more} more; try becket doctor)"),
        })
    }
}

fn draw_head(scene: Scene<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut Drawn) {
    let Scene { model, look, now } = scene;
    let totals = &model.totals;
    let mut parts: Vec<(String, Tone)> = Vec::new();
    for display in Display::ALL {
        let count = totals.count(display);
        let always = matches!(
            display,
            Display::Attention | Display::Working | Display::Done
        );
        if count == 0 && !always {
            continue;
        }
        let (glyph, label) = (look.glyphs().display(display), display.label());
        let mut text = format!("{glyph} {count} {label}");
        if let (Display::Attention, Some(since)) = (display, totals.waits_since) {
            text = format!("{text} {}", lasted(now.saturating_sub(since)));
            let unit = if now.saturating_sub(since) < 3_600_000 {
                1_000
            } else {
                60_000
            };
            drawn.ticks(now.saturating_sub(since), unit);
        }
        let tone = if count == 0 { Tone::Dim } else { tone(display) };
        parts.push((text, tone));
    }
    let mut strip = Strip::new(buffer, look, area, area.y);
    strip.own(" becket", Tone::Accent).skip(2);
    for (text, tone) in &parts {
        if width(text) > strip.room() {
            break;
        }
        strip.own(text, *tone).skip(2);
    }
    let sums = sums(scene);
    let room = strip.room();
    if let Some(gap) = room.checked_sub(width(&sums) + 1) {
        strip.skip(gap as u16).own(&sums, Tone::Dim);
    }
    if let Some(trouble) = scene.trouble() {
        let tone = match model.lost {
            Some(_) => Tone::Error,
            None => Tone::Attention,
        };
        let mut strip = Strip::new(buffer, look, area, area.y + 1);
        strip.own(look.sign(" ⚠ ", " ! "), tone);
        let room = strip.room();
        strip.foreign(&trouble, room, tone);
    }
}

fn sums(scene: Scene<'_>) -> String {
    let totals = &scene.model.totals;
    let mut parts = Vec::new();
    if totals.tokens > 0 {
        parts.push(format!("{} tokens", tokens(totals.tokens)));
    }
    if totals.cost > 0.0 {
        parts.push(dollars(totals.cost));
    }
    parts.join(scene.look.sign(" · ", ", "))
}

/// The keys in the order of their use; those that do not fit are left out, from the end.
const KEYS: [(&str, &str, &str); 10] = [
    ("⏎", "Enter", "jump"),
    ("a", "a", "next waiting"),
    ("/", "/", "filter"),
    ("⇥", "Tab", "events"),
    ("r", "r", "send a line"),
    ("n", "n", "name"),
    ("i", "i", "interrupt"),
    ("x", "x", "end"),
    ("g", "g", "group"),
    ("←→", "h l", "fold"),
];
const EVENT_KEYS: [(&str, &str, &str); 3] = [
    ("↑↓", "k j", "scroll"),
    ("⇥", "Tab", "back to the list"),
    ("⏎", "Enter", "jump"),
];
const ALWAYS: [(&str, &str, &str); 2] = [("?", "?", "help"), ("q", "q", "quit")];

fn draw_foot(scene: Scene<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut Drawn) {
    let model = scene.model;
    let short = |title: &str, most: usize| {
        let unicode = scene.look.unicode;
        fit(&visible(title, unicode), most, unicode)
    };
    let mut strip = Strip::new(buffer, scene.look, area, area.y);
    strip.skip(1);
    match (&model.mode, &model.said) {
        (Mode::Filter(field), _) => typed(scene, strip, "/", field),
        (Mode::Name(_, field), _) => typed(scene, strip, "name: ", field),
        (Mode::Line(target, field), _) => {
            let title = short(&target.title, 24);
            typed(scene, strip, &format!("send to {title}: "), field);
        }
        (Mode::Refused(_), _) => {
            strip.own("Esc closes this, other keys do nothing", Tone::Strong);
        }
        (Mode::Interrupt(_), _) => {
            strip.own("Ctrl-X interrupts it, Esc leaves it", Tone::Strong);
        }
        (Mode::End(target, field), _) => match target.short_id() {
            Some(id) => {
                let id = visible(id, scene.look.unicode);
                typed(scene, strip, &format!("to end it, type {id}: "), field);
            }
            None => typed(scene, strip, "Ctrl-X ends it: ", field),
        },
        (_, Some(said)) => {
            if let Some(until) = said.until {
                let left = until.saturating_sub(scene.now);
                drawn.next_in = Some(drawn.next_in.map_or(left, |next| next.min(left)));
            }
            let tone = if said.bad { Tone::Error } else { Tone::Good };
            let room = strip.room();
            strip.foreign(&said.text, room, tone);
        }
        (Mode::Normal | Mode::Help, None) => keys(scene, strip),
    }
}

fn keys(scene: Scene<'_>, mut strip: Strip<'_>) {
    let model = scene.model;
    if !model.wish.filter.is_empty() {
        let filter = format!("only: {}", model.wish.filter);
        strip
            .foreign(&filter, 24, Tone::Attention)
            .own(" (Esc)", Tone::Dim)
            .skip(2);
    }
    let sign = |(unicode, ascii, what): (&'static str, &'static str, &'static str)| {
        (scene.look.sign(unicode, ascii), what)
    };
    let cells = |(key, what): (&str, &str)| width(key) + width(what) + 3;
    let kept: usize = ALWAYS.map(sign).map(cells).iter().sum();
    let some = match model.focus {
        _ if model.rows().is_empty() => &[],
        Focus::List => &KEYS[..],
        Focus::Events => &EVENT_KEYS[..],
    };
    for key in some.iter().copied().map(sign) {
        if cells(key) + kept > strip.room() + 2 {
            break;
        }
        strip
            .own(key.0, Tone::Strong)
            .skip(1)
            .own(key.1, Tone::Dim)
            .skip(2);
    }
    for key in ALWAYS.map(sign) {
        strip
            .own(key.0, Tone::Strong)
            .skip(1)
            .own(key.1, Tone::Dim)
            .skip(2);
    }
}

/// A line that is being typed: its end, if it is longer than the room, and always the cursor.
fn typed(scene: Scene<'_>, mut strip: Strip<'_>, label: &str, field: &Field) {
    let unicode = scene.look.unicode;
    strip.own(label, Tone::Strong);
    let (before, after) = field.halves();
    let shown = |text: &str| match unicode {
        true => text.to_owned(),
        false => text
            .chars()
            .map(|c| if c.is_ascii() { c } else { '?' })
            .collect(),
    };
    let (mut before, after) = (shown(&before), shown(&after));
    let room = strip.room().saturating_sub(2);
    while width(&before) > room {
        before.remove(0);
    }
    let mut rest = after.chars();
    let under = rest.next().map_or(" ".to_owned(), String::from);
    let cursor = scene
        .look
        .style(Tone::Plain)
        .add_modifier(Modifier::REVERSED);
    strip.own(&before, Tone::Plain).styled(&under, cursor);
    let room = strip.room();
    strip.own(&fit(rest.as_str(), room, unicode), Tone::Plain);
}

/// What the states mean, in the order of [`Display::ALL`].
const STATES: [&str; 5] = [
    "its last turn failed",
    "it waits for you",
    "it waits for you, and you looked at it",
    "it works",
    "it is your turn",
];
const ENDED: &str = "killed or a finished `claude -p`, for ten minutes";

fn draw_over(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let look = scene.look;
    match &scene.model.mode {
        Mode::Help => {
            let keys = HELP.map(|(key, what)| (ascii(look, key), what.to_owned()));
            let states = Display::ALL.into_iter().zip(STATES);
            let states = states.map(|(display, what)| {
                let glyph = look.glyphs().display(display);
                (format!("{glyph} {}", display.label()), what.to_owned())
            });
            let ended = (format!("{} ended", look.glyphs().ended()), ENDED.to_owned());
            let lines: Vec<_> = keys.into_iter().chain(states).chain([ended]).collect();
            sheet(look, area, buffer, "keys and states", &lines);
        }
        Mode::Refused(why) => {
            let mut lines = wrapped(look, area, why);
            lines.push(("Esc".to_owned(), "close this".to_owned()));
            sheet(look, area, buffer, "not now", &lines);
        }
        Mode::Interrupt(target) => {
            let question = scene.model.row(&target.key).and_then(question);
            let asks = match question {
                Some(question) => format!("It waits for an answer: {question}."),
                None => "It waited for an answer.".to_owned(),
            };
            let mut lines = wrapped(look, area, &asks);
            lines.extend(wrapped(look, area, "Escape would cancel that dialog."));
            lines.extend([
                ("Ctrl-X".to_owned(), "interrupt it all the same".to_owned()),
                ("Esc".to_owned(), "leave it".to_owned()),
            ]);
            let title = fit(&visible(&target.title, look.unicode), 50, look.unicode);
            sheet(look, area, buffer, &format!("interrupt {title}?"), &lines);
        }
        Mode::End(target, _) => {
            let row = scene.model.row(&target.key);
            let mut where_ = Vec::new();
            where_.extend(row.and_then(model::project).map(|path| look.path(path)));
            where_.push(format!("session {}", short_id(&target.session_id)));
            where_.extend(row.and_then(|row| row.pid).map(|pid| format!("pid {pid}")));
            where_.extend(
                row.and_then(|row| row.tmux_pane.as_ref())
                    .map(|pane| format!("pane {pane}")),
            );
            let title = fit(&visible(&target.title, look.unicode), 50, look.unicode);
            let mut lines = vec![(String::new(), visible(&where_.join(", "), look.unicode))];
            if let Some(id) = target.short_id() {
                lines.push((visible(id, look.unicode), "and Enter: end it".to_owned()));
            }
            lines.extend([
                ("Ctrl-X".to_owned(), "end it".to_owned()),
                ("Esc".to_owned(), "leave it".to_owned()),
            ]);
            sheet(look, area, buffer, &format!("end {title}?"), &lines);
        }
        _ => {}
    }
}

/// The width of a sentence in a sheet, and the most lines of it.
const SENTENCE: (usize, usize) = (60, 6);

/// A text of any length as lines of a sheet that fits this area.
fn wrapped(look: &Look, area: Rect, text: &str) -> Vec<(String, String)> {
    let text = visible(text, look.unicode);
    let room = SENTENCE.0.min(usize::from(area.width.saturating_sub(4)));
    let lines = wrap(&text, room, SENTENCE.1, look.unicode);
    lines
        .into_iter()
        .map(|line| (String::new(), line))
        .collect()
}

fn ascii(look: &Look, key: &str) -> String {
    let plain = || match key {
        "↑ ↓  k j" => "Up Down k j",
        "← →  h l" => "Left Right h l",
        key => key,
    };
    if look.unicode { key } else { plain() }.to_owned()
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

/// A framed sheet in the middle, as large as its lines.
fn sheet(look: &Look, area: Rect, buffer: &mut Buffer, title: &str, lines: &[(String, String)]) {
    let widest =
        |cells: &dyn Fn(&(String, String)) -> usize| lines.iter().map(cells).max().unwrap_or(0);
    let keys = widest(&|(key, _)| width(key));
    let inner = widest(&|(key, what)| match key.as_str() {
        "" => width(what),
        _ => keys + 2 + width(what),
    })
    .max(width(title) + 2);
    let size = |cells: usize, most: u16| (cells as u16).min(most);
    let (wide, high) = (
        size(inner + 4, area.width),
        size(lines.len() + 2, area.height),
    );
    let sheet = Rect {
        x: area.x + (area.width - wide) / 2,
        y: area.y + (area.height - high) / 2,
        width: wide,
        height: high,
    };
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
        Span::styled(look.sign("─", "-"), look.style(Tone::Accent)),
        Span::styled(format!(" {title} "), look.style(Tone::Strong)),
    ]);
    let mut block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(look.style(Tone::Accent))
        .title_top(title);
    if !look.unicode {
        block = block.border_set(ASCII_BORDER);
    }
    block.render(sheet, buffer);
    let inside = Rect {
        x: sheet.x + 1,
        width: sheet.width.saturating_sub(2),
        height: sheet.height.saturating_sub(1),
        ..sheet
    };
    for ((key, what), y) in lines.iter().zip(sheet.y + 1..) {
        let mut strip = Strip::new(buffer, look, inside, y);
        strip.skip(1);
        if !key.is_empty() {
            strip.column(key, keys, Tone::Strong).skip(1);
        }
        strip.own(what, Tone::Plain);
    }
}
