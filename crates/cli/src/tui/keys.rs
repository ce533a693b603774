//! Which key means what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::field::Edit;
use super::model::{Focus, Mode};

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Step(isize),
    Page(isize),
    First,
    Last,
    Fold(bool),
    /// Back in time in the events by so many, or forward.
    Scroll(isize),
    /// The same by pages.
    ScrollPage(isize),
    Jump,
    NextWaiting,
    Filter,
    Group,
    Focus,
    Name,
    Interrupt,
    End,
    Line,
    Help,
    Redraw,
    Quit,
    Edit(Edit),
    Accept,
    Cancel,
}

/// The keys, as the help tells them.
pub const HELP: [(&str, &str); 16] = [
    ("↑ ↓  k j", "go to the session above or below"),
    ("← →  h l", "hide or show its subagents"),
    ("PgUp PgDn", "go by pages; Home and End to the ends"),
    ("Enter", "jump to its tmux pane"),
    ("a", "go to the next session that needs you"),
    ("/", "show only what fits some words; Esc shows all"),
    ("g", "group by project, or one list"),
    ("Tab", "scroll through its events"),
    ("n", "give it a name"),
    ("r", "send a line to it"),
    ("i", "interrupt it: Escape into its pane"),
    ("x", "end it (asks first)"),
    ("Ctrl-L", "draw everything anew"),
    ("?", "this help"),
    ("q  Ctrl-C", "leave; the sessions go on"),
    ("mouse", "click selects, double click jumps, wheel scrolls"),
];

pub fn action(mode: &Mode, focus: Focus, key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    // Escape and a key right after it look like this: neither is what was meant.
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return Some(Action::Quit);
    }
    if control && key.code == KeyCode::Char('l') {
        return Some(Action::Redraw);
    }
    match mode {
        Mode::Normal if !control => normal(focus, key.code),
        Mode::Normal => None,
        Mode::Help => Some(Action::Cancel),
        Mode::End(_) => Some(match key.code {
            KeyCode::Char('y' | 'Y') => Action::Accept,
            _ => Action::Cancel,
        }),
        Mode::Filter(_) => match key.code {
            KeyCode::Up => Some(Action::Step(-1)),
            KeyCode::Down => Some(Action::Step(1)),
            code => typing(code, control),
        },
        Mode::Name(..) | Mode::Line(..) => typing(key.code, control),
    }
}

fn normal(focus: Focus, code: KeyCode) -> Option<Action> {
    if focus == Focus::Events
        && let Some(action) = scrolling(code)
    {
        return Some(action);
    }
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Action::Step(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Step(1),
        KeyCode::Left | KeyCode::Char('h') => Action::Fold(true),
        KeyCode::Right | KeyCode::Char('l') => Action::Fold(false),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        KeyCode::Enter => Action::Jump,
        KeyCode::Tab | KeyCode::BackTab => Action::Focus,
        KeyCode::Esc => Action::Cancel,
        KeyCode::Char('a') => Action::NextWaiting,
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('g') => Action::Group,
        KeyCode::Char('n') => Action::Name,
        KeyCode::Char('i') => Action::Interrupt,
        KeyCode::Char('x') => Action::End,
        KeyCode::Char('r') => Action::Line,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    })
}

fn scrolling(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Action::Scroll(1),
        KeyCode::Down | KeyCode::Char('j') => Action::Scroll(-1),
        KeyCode::PageUp => Action::ScrollPage(1),
        KeyCode::PageDown => Action::ScrollPage(-1),
        KeyCode::Home => Action::Scroll(isize::MAX),
        KeyCode::End => Action::Scroll(isize::MIN),
        _ => return None,
    })
}

fn typing(code: KeyCode, control: bool) -> Option<Action> {
    Some(Action::Edit(match (code, control) {
        (KeyCode::Enter, _) => return Some(Action::Accept),
        (KeyCode::Esc, _) => return Some(Action::Cancel),
        (KeyCode::Char('a'), true) | (KeyCode::Home, _) => Edit::Begin,
        (KeyCode::Char('e'), true) | (KeyCode::End, _) => Edit::End,
        (KeyCode::Char('u'), true) => Edit::Clear,
        (KeyCode::Char('w'), true) => Edit::Word,
        (KeyCode::Char('h'), true) | (KeyCode::Backspace, _) => Edit::Back,
        (KeyCode::Delete, _) => Edit::Delete,
        (KeyCode::Left, _) => Edit::Left,
        (KeyCode::Right, _) => Edit::Right,
        (KeyCode::Char(c), false) => Edit::Insert(c),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::field::Field;
    use super::super::model::Target;
    use super::*;

    fn press(mode: &Mode, focus: Focus, code: KeyCode) -> Option<Action> {
        action(mode, focus, KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn target() -> Target {
        Target {
            key: "k".into(),
            session_id: "s".into(),
            title: "t".into(),
        }
    }

    #[test]
    fn every_key_of_the_issue_does_something() {
        let keys = "hjkla/gnixr?q".chars().map(KeyCode::Char);
        let others = [
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Enter,
            KeyCode::Tab,
        ];
        for code in keys.chain(others) {
            assert!(
                press(&Mode::Normal, Focus::List, code).is_some(),
                "{code:?}"
            );
        }
        assert_eq!(press(&Mode::Normal, Focus::List, KeyCode::Char('z')), None);
    }

    #[test]
    fn letters_are_letters_while_something_is_typed() {
        let typing = [
            Mode::Filter(Field::default()),
            Mode::Name(target(), Field::default()),
            Mode::Line(target(), Field::default()),
        ];
        for mode in typing {
            for c in "qx?/ yß".chars() {
                let wanted = Some(Action::Edit(Edit::Insert(c)));
                assert_eq!(press(&mode, Focus::List, KeyCode::Char(c)), wanted);
            }
            let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
            assert_eq!(action(&mode, Focus::List, control_c), Some(Action::Quit));
        }
    }

    #[test]
    fn only_yes_is_yes() {
        let ask = Mode::End(target());
        assert_eq!(
            press(&ask, Focus::List, KeyCode::Char('y')),
            Some(Action::Accept)
        );
        for code in [
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Char('x'),
            KeyCode::Char(' '),
        ] {
            assert_eq!(press(&ask, Focus::List, code), Some(Action::Cancel));
        }
    }

    #[test]
    fn arrows_scroll_the_events_that_have_the_focus() {
        let scrolled = press(&Mode::Normal, Focus::Events, KeyCode::Char('k'));
        assert_eq!(scrolled, Some(Action::Scroll(1)));
        let jumped = press(&Mode::Normal, Focus::Events, KeyCode::Enter);
        assert_eq!(jumped, Some(Action::Jump));
    }

    #[test]
    fn alt_is_no_letter() {
        let key = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::ALT);
        assert_eq!(action(&Mode::Normal, Focus::List, key), None);
        assert_eq!(
            action(&Mode::Line(target(), Field::default()), Focus::List, key),
            None
        );
    }

    #[test]
    fn a_key_that_is_let_go_does_nothing() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(action(&Mode::Normal, Focus::List, key), None);
    }
}
