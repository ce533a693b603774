//! Draws the model: pure, from model, look, moment and area to a buffer.

mod foot;
mod head;
mod list;
mod over;
mod pane;
mod strip;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::look::Look;
use super::model::{Focus, Model};

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
    head::draw(scene, head, buffer, &mut drawn);
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
    foot::draw(scene, foot, buffer);
    over::draw(scene, area, buffer);
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

#[cfg(test)]
mod any;
#[cfg(test)]
pub mod made_up;
#[cfg(test)]
mod tests;
