//! The last row: what is being typed, what the last deed gave, or the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::super::field::Field;
use super::super::look::Tone;
use super::super::model::{Focus, Mode};
use super::super::text::{fit, visible, width};
use super::Scene;
use super::strip::Strip;

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

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let model = scene.model;
    let mut strip = Strip::new(buffer, scene.look, area, area.y);
    strip.skip(1);
    match (&model.mode, &model.said) {
        (Mode::Filter(field), _) => typed(scene, strip, "/", field),
        (Mode::Name(_, field), _) => typed(scene, strip, "name: ", field),
        (Mode::Line(target, field), _) => {
            let title = fit(
                &visible(&target.title, scene.look.unicode),
                24,
                scene.look.unicode,
            );
            typed(scene, strip, &format!("send to {title}: "), field);
        }
        (Mode::End(_), _) => {
            strip.own("y ends it, any other key leaves it", Tone::Strong);
        }
        (_, Some(said)) => {
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
