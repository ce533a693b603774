//! Decides by time whether a key of the answer box acts. A key acts if it is pressed alone: the user could read
//! what it answers, and does not type a text that was meant for another window.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::answer_box::BoxState;

/// The time before a key in which nothing new was drawn and no other key was pressed.
const BEFORE: Duration = Duration::from_millis(500);
/// The time after a key in which no other key is pressed.
const AFTER: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub struct AnswerTiming {
    /// The box as it was drawn last.
    drawn: BoxState,
    /// The time of the last change of the box, or of the last key that did not act.
    quiet_since: Option<Instant>,
    /// A key that acts if no other one follows.
    waiting: Option<(KeyEvent, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressedKey {
    ActsNow,
    /// [`AnswerTiming::due`] returns it once it acts.
    Waits,
    /// It never acts, and neither does the key that waited.
    Refused,
}

impl AnswerTiming {
    /// Records that the box was drawn.
    pub fn draw(&mut self, state: BoxState, now: Instant) {
        if self.drawn != state {
            *self = Self {
                drawn: state,
                quiet_since: Some(now),
                waiting: None,
            };
        }
    }

    /// Adds a key that was pressed at `at`. Call [`due`](Self::due) with the same moment before.
    pub fn add(&mut self, key: KeyEvent, at: Instant) -> PressedKey {
        if !is_typed(key) {
            self.waiting = None;
            return PressedKey::ActsNow;
        }
        if matches!(key.code, KeyCode::Char('j' | 'k')) {
            // They scroll, which does no harm, but they may be letters of a text.
            self.refuse(at);
            return PressedKey::ActsNow;
        }
        let quiet = self
            .quiet_since
            .map(|since| at.saturating_duration_since(since));
        let is_alone = quiet.is_some_and(|quiet| quiet >= BEFORE) && self.waiting.is_none();
        if !is_alone || self.drawn == BoxState::Closed {
            self.refuse(at);
            return PressedKey::Refused;
        }
        self.waiting = Some((key, at));
        PressedKey::Waits
    }

    /// Refuses the keys of the next moment, because a text was typed or pasted.
    pub fn refuse(&mut self, at: Instant) {
        self.waiting = None;
        self.quiet_since = Some(at);
    }

    /// Returns the moment at which the waiting key acts, if nothing follows it.
    pub fn until(&self) -> Option<Instant> {
        self.waiting.map(|(_, at)| at + AFTER)
    }

    /// Returns the waiting key if no other one followed it in time.
    pub fn due(&mut self, now: Instant) -> Option<KeyEvent> {
        if self.until()? > now {
            return None;
        }
        let (key, at) = self.waiting.take()?;
        self.quiet_since = Some(at);
        Some(key)
    }
}

/// Returns true if a key may be part of a text.
fn is_typed(key: KeyEvent) -> bool {
    let control = KeyModifiers::CONTROL | KeyModifiers::ALT;
    match key.code {
        KeyCode::Char(_) => !key.modifiers.intersects(control),
        KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::tui::answer_box::AnswerStep;

    use super::*;

    const ASKS: BoxState = BoxState::Asks(AnswerStep {
        question_id: 4,
        answered: 0,
        confirms_always: false,
    });

    /// Draws a question, and presses keys, each so many milliseconds after the one before. Returns the keys that
    /// acted.
    fn acted(keys: impl IntoIterator<Item = (char, u64)>) -> String {
        let start = Instant::now();
        let (mut timing, mut at) = (AnswerTiming::default(), start);
        timing.draw(ASKS, start);
        let mut acted = String::new();
        for (c, pause) in keys {
            at += Duration::from_millis(pause);
            acted.extend(timing.due(at).and_then(|key| key.code.as_char()));
            let code = match c {
                '\n' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            timing.add(KeyEvent::new(code, KeyModifiers::NONE), at);
            // The same question is drawn again.
            timing.draw(ASKS, at);
        }
        acted.extend(timing.due(at + AFTER).and_then(|key| key.code.as_char()));
        acted
    }

    fn typed(text: &str, pause: u64) -> String {
        let pauses = std::iter::once(2_000).chain(std::iter::repeat(pause));
        acted(text.chars().zip(pauses))
    }

    #[test]
    fn a_key_that_is_pressed_alone_acts() {
        assert_eq!(acted([('y', 500)]), "y");
        assert_eq!(acted([('y', 2_000)]), "y");
        assert_eq!(acted([('1', 600), ('2', 800), ('\n', 900)]), "12");
    }

    #[test]
    fn no_key_acts_just_after_the_question_appeared() {
        assert_eq!(acted([('y', 0)]), "");
        assert_eq!(acted([('y', 499)]), "");
        // The next try needs a pause, too.
        assert_eq!(acted([('y', 400), ('y', 200)]), "");
        assert_eq!(acted([('y', 400), ('y', 500)]), "y");
    }

    #[test]
    fn no_key_of_a_text_acts_at_any_speed_of_typing() {
        for text in [
            "fix it",
            "just yes",
            "jy",
            "yk",
            "use the proxy",
            "yes, do it",
            "no\n",
            "yyyy",
            "AAAA",
            "12\n",
        ] {
            for pause in [0, 30, 100, 249] {
                assert_eq!(typed(text, pause), "", "{text} with {pause} ms");
            }
        }
    }

    #[test]
    fn a_paste_and_a_new_question_stop_the_waiting_key() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let y = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE);
        let next = BoxState::Asks(AnswerStep {
            question_id: 5,
            answered: 0,
            confirms_always: false,
        });
        let mut timing = AnswerTiming::default();
        assert_eq!(timing.add(y, start), PressedKey::Refused);
        timing.draw(ASKS, start);
        assert_eq!(timing.add(y, after(1_000)), PressedKey::Waits);
        timing.draw(next, after(1_100));
        assert_eq!(timing.due(after(2_000)), None);
        assert_eq!(timing.add(y, after(2_000)), PressedKey::Waits);
        timing.refuse(after(2_100));
        assert_eq!(timing.due(after(3_000)), None);
        assert_eq!(timing.add(y, after(2_200)), PressedKey::Refused);
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(timing.add(y, after(4_000)), PressedKey::Waits);
        assert_eq!(timing.add(escape, after(4_100)), PressedKey::ActsNow);
        assert_eq!(timing.until(), None);
    }

    proptest! {
        /// The rule itself: a key acts if and only if it has a pause before it and after it.
        #[test]
        fn exactly_the_keys_that_are_alone_act(
            keys in proptest::collection::vec(("[yn1 ]", 0..1_000u64), 0..12)
        ) {
            let keys: Vec<(char, u64)> = keys
                .iter()
                .map(|(c, pause)| (c.chars().next().unwrap(), *pause))
                .collect();
            let is_alone = |place: usize| {
                let next = keys.get(place + 1);
                keys[place].1 >= 500 && next.is_none_or(|(_, pause)| *pause >= 250)
            };
            let alone = (0..keys.len()).filter(|place| is_alone(*place));
            let expected: String = alone.map(|place| keys[place].0).collect();
            prop_assert_eq!(acted(keys), expected);
        }
    }
}
