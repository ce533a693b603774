//! What the mouse means: a click selects, a double click jumps, the wheel scrolls.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::draw::Drawn;
use super::keys::Action;
use super::model::{Focus, Mode, Model};
use super::tree::key;

/// Two clicks within so many milliseconds are one double click.
const DOUBLE: i64 = 400;
const WHEEL: isize = 3;

/// The last click: when, and on which line. Rows may move between two clicks.
#[derive(Debug, Default)]
pub struct Clicks {
    last: Option<(i64, String)>,
}

impl Clicks {
    /// Selects at once; what else is wanted comes back.
    pub fn take(
        &mut self,
        event: MouseEvent,
        drawn: &Drawn,
        model: &mut Model,
        now: i64,
    ) -> Option<Action> {
        let place = Position::new(event.column, event.row);
        let in_events = drawn.events.contains(place);
        match event.kind {
            MouseEventKind::ScrollUp if in_events => Some(Action::Scroll(WHEEL)),
            MouseEventKind::ScrollDown if in_events => Some(Action::Scroll(-WHEEL)),
            MouseEventKind::ScrollUp => Some(Action::Step(-WHEEL)),
            MouseEventKind::ScrollDown => Some(Action::Step(WHEEL)),
            MouseEventKind::Down(MouseButton::Left) if model.mode == Mode::Help => {
                Some(Action::Cancel)
            }
            MouseEventKind::Down(MouseButton::Left) if in_events => {
                model.focus = Focus::Events;
                None
            }
            MouseEventKind::Down(MouseButton::Left) if drawn.list.contains(place) => {
                self.click(drawn, model, event.row, now)
            }
            _ => None,
        }
    }

    fn click(&mut self, drawn: &Drawn, model: &mut Model, row: u16, now: i64) -> Option<Action> {
        model.focus = Focus::List;
        let at = drawn.top + usize::from(row - drawn.list.y);
        if at >= model.twigs().len() || !matches!(model.mode, Mode::Normal | Mode::Filter(_)) {
            return None;
        }
        model.select_at(at);
        let chosen = key(model.current()?).to_owned();
        let double = self
            .last
            .take()
            .is_some_and(|(when, what)| what == chosen && (0..DOUBLE).contains(&(now - when)));
        if double {
            return Some(Action::Jump);
        }
        self.last = Some((now, chosen));
        None
    }
}
