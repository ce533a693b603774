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

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyModifiers;
    use ratatui::layout::Rect;

    use super::super::draw::made_up::{eight, model};
    use super::*;

    fn drawn() -> Drawn {
        Drawn {
            list: Rect::new(0, 2, 80, 10),
            events: Rect::new(0, 12, 80, 6),
            ..Drawn::default()
        }
    }

    fn event(kind: MouseEventKind, row: u16) -> MouseEvent {
        MouseEvent {
            kind,
            column: 5,
            row,
            modifiers: KeyModifiers::NONE,
        }
    }

    #[test]
    fn a_click_selects_and_a_second_one_jumps() {
        let (mut clicks, mut model) = (Clicks::default(), model(eight()));
        let down = MouseEventKind::Down(MouseButton::Left);
        let mut click = |row, now| clicks.take(event(down, row), &drawn(), &mut model, now);
        // The group's name stands for its first session; a subagent for its own.
        assert_eq!(click(5, 0), None);
        assert_eq!(click(6, 300), Some(Action::Jump));
        assert_eq!(click(9, 400), None);
        assert_eq!(click(7, 900), None);
        assert_eq!(click(6, 1_000), None);
        assert_eq!(click(3, 5_000), None);
        assert_eq!(
            model.current().unwrap().title.as_deref(),
            Some("Move the runners to arm64")
        );
    }

    #[test]
    fn the_wheel_scrolls_what_is_below_it() {
        let (mut clicks, mut model) = (Clicks::default(), model(eight()));
        let mut turn = |kind, row| clicks.take(event(kind, row), &drawn(), &mut model, 0);
        assert_eq!(turn(MouseEventKind::ScrollUp, 14), Some(Action::Scroll(3)));
        assert_eq!(turn(MouseEventKind::ScrollDown, 4), Some(Action::Step(3)));
    }

    #[test]
    fn a_question_is_not_answered_by_clicking_elsewhere() {
        let (mut clicks, mut model) = (Clicks::default(), model(eight()));
        model.act(Action::End);
        let before = model.mode.clone();
        let down = MouseEventKind::Down(MouseButton::Left);
        assert_eq!(clicks.take(event(down, 7), &drawn(), &mut model, 0), None);
        assert_eq!(model.at(), 1);
        assert_eq!(model.mode, before);
    }
}
