//! Maps keys and mouse events to actions, and edits the text field of a prompt.

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use crate::tui::answer_box::AnswerKey;
use crate::tui::draw::DrawnFrame;
use crate::tui::model::{Focus, Mode, Model, key};

/// A command of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Selects a session further down by this number, or further up if it is negative.
    Step(isize),
    Page(isize),
    Fold(bool),
    /// Scrolls back in time in the events by this number, or forward if it is negative.
    Scroll(isize),
    Jump,
    NextWaiting,
    /// Opens the question of the selected session.
    OpenQuestion,
    Answer(AnswerKey),
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
    /// Ctrl-X: agrees to the question of the prompt.
    Confirm,
    Cancel,
}

/// The keys and their meaning, as the help shows them.
pub const HELP: [(&str, &str); 15] = [
    (
        "↑ ↓  k j",
        "select above or below; PgUp PgDn Home End go further",
    ),
    ("← →  h l", "hide or show its subagents"),
    ("Enter", "jump to its tmux pane"),
    ("a", "select the next session that failed or waits for you"),
    ("Space", "see its question in full, and answer it"),
    ("/", "show only what fits some words; Esc shows all"),
    ("g", "group by project, or one list"),
    ("Tab", "scroll through its events"),
    ("n", "give it a name"),
    ("r", "send a line to it; a paste acts in prompts only"),
    ("i", "interrupt it: Escape into its pane; asks if it waits"),
    ("x", "end it; its id or Ctrl-X confirms"),
    ("?  Ctrl-L", "this help; draw everything anew"),
    ("q  Ctrl-C", "leave; the sessions go on"),
    ("mouse", "click selects, double click jumps, wheel scrolls"),
];

pub fn action(mode: &Mode, focus: Focus, key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    // The terminal reports Escape and a key right after it like this. Neither was meant as Alt.
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
        Mode::End(..) | Mode::Interrupt(_) if control && key.code == KeyCode::Char('x') => {
            Some(Action::Confirm)
        }
        // Any other key may be a letter of a text that was meant for the prompt.
        Mode::Refused(_) | Mode::Interrupt(_) => {
            (key.code == KeyCode::Esc).then_some(Action::Cancel)
        }
        Mode::Filter(_) => match key.code {
            KeyCode::Up => Some(Action::Step(-1)),
            KeyCode::Down => Some(Action::Step(1)),
            code => typing(code, control),
        },
        Mode::Name(..) | Mode::Line(..) | Mode::End(..) => typing(key.code, control),
        Mode::Answer(_) if control => None,
        Mode::Answer(_) => answering(key.code),
    }
}

fn answering(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Esc | KeyCode::Char(' ' | 'q') => Action::Cancel,
        KeyCode::Char('y') => Action::Answer(AnswerKey::Yes),
        KeyCode::Char('n') => Action::Answer(AnswerKey::No),
        KeyCode::Char('A') => Action::Answer(AnswerKey::Always),
        KeyCode::Enter => Action::Answer(AnswerKey::Accept),
        KeyCode::Char(c) => Action::Answer(AnswerKey::Option(c.to_digit(10)? as usize)),
        code => return scrolling(code),
    })
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
        KeyCode::Home => Action::Step(isize::MIN),
        KeyCode::End => Action::Step(isize::MAX),
        KeyCode::Enter => Action::Jump,
        KeyCode::Tab | KeyCode::BackTab => Action::Focus,
        KeyCode::Esc => Action::Cancel,
        KeyCode::Char('a') => Action::NextWaiting,
        KeyCode::Char(' ') => Action::OpenQuestion,
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
        KeyCode::PageUp => Action::Scroll(10),
        KeyCode::PageDown => Action::Scroll(-10),
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

/// The time between the two clicks of a double click, in milliseconds.
const DOUBLE: i64 = 400;
const WHEEL: isize = 3;

/// The time of the last click and the key of its session. Rows may move between two clicks.
#[derive(Debug, Default)]
pub struct ClickTracker {
    last: Option<(i64, String)>,
}

impl ClickTracker {
    /// Selects the clicked session, and returns the action of a mouse event.
    pub fn take(
        &mut self,
        event: MouseEvent,
        drawn: &DrawnFrame,
        model: &mut Model,
        now: i64,
    ) -> Option<Action> {
        let place = Position::new(event.column, event.row);
        let in_events = drawn.events.contains(place);
        let in_events = in_events || matches!(model.mode, Mode::Answer(_));
        match event.kind {
            MouseEventKind::ScrollUp if in_events => Some(Action::Scroll(WHEEL)),
            MouseEventKind::ScrollDown if in_events => Some(Action::Scroll(-WHEEL)),
            MouseEventKind::ScrollUp => Some(Action::Step(-WHEEL)),
            MouseEventKind::ScrollDown => Some(Action::Step(WHEEL)),
            MouseEventKind::Down(MouseButton::Left) if model.mode == Mode::Help => {
                Some(Action::Cancel)
            }
            MouseEventKind::Down(_) if matches!(model.mode, Mode::Answer(_)) => None,
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

    fn click(
        &mut self,
        drawn: &DrawnFrame,
        model: &mut Model,
        row: u16,
        now: i64,
    ) -> Option<Action> {
        model.focus = Focus::List;
        let at = drawn.top + usize::from(row - drawn.list.y);
        if at >= model.tree_rows().len() || !matches!(model.mode, Mode::Normal | Mode::Filter(_)) {
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextField {
    chars: Vec<char>,
    cursor: usize,
}

/// A change of a text field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    Insert(char),
    Paste(String),
    Back,
    Delete,
    Left,
    Right,
    Begin,
    End,
    /// Deletes everything before the cursor.
    Clear,
    /// Deletes the word before the cursor.
    Word,
}

/// The number of characters in a text field.
const MAX_CHARS: usize = 4_000;

impl TextField {
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().take(MAX_CHARS).collect();
        Self {
            cursor: chars.len(),
            chars,
        }
    }

    pub fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Returns the text before the cursor and the text after it.
    pub fn halves(&self) -> (String, String) {
        let (before, after) = self.chars.split_at(self.cursor);
        (before.iter().collect(), after.iter().collect())
    }

    pub fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Insert(c) => self.insert(*c),
            // A line break in pasted text must not send half of it.
            Edit::Paste(text) => text
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .for_each(|c| self.insert(c)),
            Edit::Back if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Edit::Delete if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            Edit::Back | Edit::Delete => {}
            Edit::Left => self.cursor = self.cursor.saturating_sub(1),
            Edit::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Edit::Begin => self.cursor = 0,
            Edit::End => self.cursor = self.chars.len(),
            Edit::Clear => self.cut_from(0),
            Edit::Word => {
                let before = &self.chars[..self.cursor];
                let word = before.iter().rposition(|c| *c != ' ').unwrap_or(0);
                let space = before[..word].iter().rposition(|c| *c == ' ');
                self.cut_from(space.map_or(0, |at| at + 1));
            }
        }
    }

    fn insert(&mut self, c: char) {
        if self.chars.len() < MAX_CHARS && !c.is_control() {
            self.chars.insert(self.cursor, c);
            self.cursor += 1;
        }
    }

    fn cut_from(&mut self, from: usize) {
        self.chars.drain(from..self.cursor);
        self.cursor = from;
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyModifiers;
    use ratatui::layout::Rect;

    use crate::tui::draw::tests::{eight, model};
    use crate::tui::model::Target;

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
    fn letters_are_letters_while_something_is_typed() {
        let typing = [
            Mode::Filter(TextField::default()),
            Mode::Name(target(), TextField::default()),
            Mode::Line(target(), TextField::default()),
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
    fn a_prompt_that_types_nothing_takes_every_key_until_escape() {
        let refused = Mode::Refused("it waits".into());
        for mode in [&refused, &Mode::Interrupt(target())] {
            for c in "fix it\nuse the proxy".chars() {
                let code = if c == '\n' {
                    KeyCode::Enter
                } else {
                    KeyCode::Char(c)
                };
                assert_eq!(press(mode, Focus::List, code), None, "{c:?}");
            }
            assert_eq!(press(mode, Focus::List, KeyCode::Esc), Some(Action::Cancel));
        }
    }

    #[test]
    fn only_control_x_confirms_at_once() {
        let control_x = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::CONTROL);
        for mode in [
            Mode::End(target(), TextField::default()),
            Mode::Interrupt(target()),
        ] {
            assert_eq!(action(&mode, Focus::List, control_x), Some(Action::Confirm));
        }
        for mode in [Mode::Normal, Mode::Refused("it waits".into())] {
            assert_eq!(action(&mode, Focus::List, control_x), None);
        }
        let end = Mode::End(target(), TextField::default());
        for c in ['x', 'y'] {
            let typed = Some(Action::Edit(Edit::Insert(c)));
            assert_eq!(press(&end, Focus::List, KeyCode::Char(c)), typed);
        }
    }

    #[test]
    fn alt_is_no_letter() {
        let key = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::ALT);
        assert_eq!(action(&Mode::Normal, Focus::List, key), None);
        assert_eq!(
            action(
                &Mode::Line(target(), TextField::default()),
                Focus::List,
                key
            ),
            None
        );
    }

    fn drawn() -> DrawnFrame {
        DrawnFrame {
            list: Rect::new(0, 2, 80, 10),
            events: Rect::new(0, 12, 80, 6),
            ..DrawnFrame::default()
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
        let (mut clicks, mut model) = (ClickTracker::default(), model(eight()));
        model.act(Action::Group);
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
    fn a_question_is_not_answered_by_clicking_elsewhere() {
        let (mut clicks, mut model) = (ClickTracker::default(), model(eight()));
        model.act(Action::End);
        let before = model.mode.clone();
        let down = MouseEventKind::Down(MouseButton::Left);
        assert_eq!(clicks.take(event(down, 7), &drawn(), &mut model, 0), None);
        assert_eq!(model.selected_row(), 0);
        assert_eq!(model.mode, before);
    }

    fn after(text: &str, edits: &[Edit]) -> (String, String) {
        let mut field = TextField::new(text);
        edits.iter().for_each(|edit| field.edit(edit));
        field.halves()
    }

    #[test]
    fn edits_do_what_a_shell_does() {
        let is = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        assert_eq!(after("ab", &[Edit::Left, Edit::Insert('ü')]), is("aü", "b"));
        assert_eq!(after("one two  ", &[Edit::Word]), is("one ", ""));
        assert_eq!(after("one", &[Edit::Word, Edit::Word]), is("", ""));
        assert_eq!(after("ab", &[Edit::Left, Edit::Clear]), is("", "b"));
        assert_eq!(
            after("ab", &[Edit::Begin, Edit::Back, Edit::Delete]),
            is("", "b")
        );
        assert_eq!(after("", &[Edit::Paste("a\nb".into())]), is("a b", ""));
    }
}
