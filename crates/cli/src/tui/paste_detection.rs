//! Tells pasted text from typed keys if the terminal does not announce a paste. Text that arrives as
//! keys would run a command for each of its letters.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The pause after which a key no longer belongs to the keys before it.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of printable keys that make a paste, unless all of them are the same: a held key.
const PASTE: usize = 4;

/// Keys that follow each other without a pause. A printable key waits here until a pause shows that
/// no more follow, or until the others show what it belongs to.
#[derive(Debug, Default)]
pub struct KeyBurst {
    waiting: Vec<KeyEvent>,
    /// The time of the last key.
    last: Option<Instant>,
    first: Option<char>,
    printable: usize,
    differs: bool,
}

/// The effect of one more key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AddedKey {
    /// The keys that act now, in order.
    pub act: Vec<KeyEvent>,
    /// The key belongs to a paste and never acts.
    pub pasted: bool,
}

impl KeyBurst {
    /// Adds a key that was pressed at `at`. Call [`due`](Self::due) with the same moment before.
    pub fn add(&mut self, key: KeyEvent, at: Instant) -> AddedKey {
        let character = printable(key);
        let ends_line = matches!(key.code, KeyCode::Enter | KeyCode::Tab) && self.printable > 0;
        if character.is_none() && !ends_line {
            // Arrows, Escape, Ctrl-C: they act at once, after the keys that were pressed before.
            let mut act = self.flush();
            act.push(key);
            return AddedKey { act, pasted: false };
        }
        self.last = Some(at);
        if let Some(c) = character {
            self.printable += 1;
            self.differs |= *self.first.get_or_insert(c) != c;
        }
        let many = self.printable >= PASTE;
        if many && self.differs {
            self.waiting.clear();
            return AddedKey {
                act: Vec::new(),
                pasted: true,
            };
        }
        self.waiting.push(key);
        let act = if many { self.flush() } else { Vec::new() };
        AddedKey { act, pasted: false }
    }

    /// The moment at which the waiting keys act, if nothing follows them.
    pub fn until(&self) -> Option<Instant> {
        let last = self.last.filter(|_| !self.waiting.is_empty());
        last.map(|last| last + PAUSE)
    }

    /// Ends the run if a pause followed its last key. Returns the keys that act now.
    pub fn due(&mut self, now: Instant) -> Vec<KeyEvent> {
        let paused = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) >= PAUSE);
        if !paused {
            return Vec::new();
        }
        std::mem::take(self).waiting
    }

    /// Returns all waiting keys without a pause: something else was done after them.
    pub fn flush(&mut self) -> Vec<KeyEvent> {
        std::mem::take(&mut self.waiting)
    }
}

/// The character that a key would type.
fn printable(key: KeyEvent) -> Option<char> {
    let plain = !key
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Char(c) if plain => Some(c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn press(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn codes(text: &str) -> impl Iterator<Item = KeyCode> {
        text.chars().map(|c| match c {
            '\n' => KeyCode::Enter,
            '↓' => KeyCode::Down,
            c => KeyCode::Char(c),
        })
    }

    /// Plays keys, each so many milliseconds after the one before it, until all is quiet. Returns
    /// the keys that acted, with their delay, and how many were taken for a paste.
    fn play(keys: &[(KeyCode, u64)]) -> (Vec<(KeyCode, u64)>, usize) {
        let (mut run, start) = (KeyBurst::default(), Instant::now());
        let (mut acted, mut pasted, mut at) = (Vec::new(), 0, start);
        let mut pressed: Vec<(KeyEvent, Instant)> = Vec::new();
        let mut act =
            |keys: Vec<KeyEvent>, pressed: &mut Vec<(KeyEvent, Instant)>, now: Instant| {
                for key in keys {
                    let place = pressed.iter().position(|(one, _)| *one == key).unwrap();
                    let (_, since) = pressed.remove(place);
                    let delay = now.saturating_duration_since(since).as_millis() as u64;
                    acted.push((key.code, delay));
                }
            };
        for (code, pause) in keys {
            at += Duration::from_millis(*pause);
            if let Some(until) = run.until().filter(|until| *until <= at) {
                act(run.due(until), &mut pressed, until);
            }
            act(run.due(at), &mut pressed, at);
            pressed.push((press(*code), at));
            let taken = run.add(press(*code), at);
            if taken.pasted {
                pressed.clear();
                pasted += 1;
            }
            act(taken.act, &mut pressed, at);
        }
        if let Some(until) = run.until() {
            act(run.due(until), &mut pressed, until);
        }
        (acted, pasted)
    }

    fn acted(text: &str, pause: u64) -> (String, usize) {
        let keys: Vec<_> = codes(text).map(|code| (code, pause)).collect();
        let (acted, pasted) = play(&keys);
        let text = acted.iter().map(|(code, _)| match code {
            KeyCode::Char(c) => *c,
            KeyCode::Enter => '\n',
            _ => '↓',
        });
        (text.collect(), pasted)
    }

    #[test]
    fn no_key_of_a_paste_acts() {
        for text in [
            "fix it",
            "use the proxy",
            "abcd",
            "x y\nz q\n",
            "jjjx",
            "日本語で",
        ] {
            for pause in [0, 5, 19] {
                let (acted, pasted) = acted(text, pause);
                assert_eq!(acted, "", "{text} with {pause} ms");
                assert!(pasted > 0, "{text}");
            }
        }
    }

    #[test]
    fn what_is_typed_acts() {
        assert_eq!(acted("fix it", 20), ("fix it".into(), 0));
        assert_eq!(acted("xy", 1), ("xy".into(), 0));
        assert_eq!(acted("ab\n", 5), ("ab\n".into(), 0));
        assert_eq!(acted("jjjjjjjj", 8), ("jjjjjjjj".into(), 0));
        assert_eq!(acted("\n\n\n\n\n", 0), ("\n\n\n\n\n".into(), 0));
        assert_eq!(acted("↓↓↓↓↓", 0), ("↓↓↓↓↓".into(), 0));
    }

    #[test]
    fn an_arrow_comes_after_the_letter_before_it() {
        assert_eq!(acted("x↓", 3), ("x↓".into(), 0));
    }

    proptest! {
        /// The rule itself, over runs of keys and the pauses between them.
        #[test]
        fn exactly_the_runs_that_are_a_paste_do_nothing(
            runs in proptest::collection::vec(
                proptest::collection::vec(("[abx]", 0..20u64), 1..9), 0..6)
        ) {
            let mut keys = Vec::new();
            let mut expected = Vec::new();
            for run in &runs {
                let first = run[0].0.clone();
                let held = run.iter().take_while(|(c, _)| *c == first).count();
                let differs = held < run.len();
                // A held key has acted before another key can show that it was none.
                let acts = match run.len() >= PASTE && differs {
                    true if held >= PASTE => held,
                    true => 0,
                    false => run.len(),
                };
                for (number, (c, pause)) in run.iter().enumerate() {
                    let code = KeyCode::Char(c.chars().next().unwrap());
                    keys.push((code, if number == 0 { 20 } else { *pause }));
                    if number < acts {
                        expected.push(code);
                    }
                }
            }
            let (acted, _) = play(&keys);
            let acted_codes: Vec<KeyCode> = acted.iter().map(|(code, _)| *code).collect();
            prop_assert_eq!(acted_codes, expected);
            // At most three pauses, of the keys before the fourth, and one of its own.
            prop_assert!(acted.iter().all(|(_, delay)| *delay < 80), "{:?}", acted);
        }

        #[test]
        fn arrows_never_wait(keys in proptest::collection::vec(("[ab↓]", 0..40u64), 0..30)) {
            let keys: Vec<_> = keys
                .iter()
                .map(|(c, pause)| (codes(c).next().unwrap(), *pause))
                .collect();
            let (acted, _) = play(&keys);
            let arrows = |code: &KeyCode| *code == KeyCode::Down;
            let pressed = keys.iter().filter(|(code, _)| arrows(code)).count();
            let came: Vec<_> = acted.iter().filter(|(code, _)| arrows(code)).collect();
            prop_assert_eq!(came.len(), pressed);
            prop_assert!(came.iter().all(|(_, delay)| *delay == 0), "{:?}", came);
        }
    }
}
