//! A line that is being typed.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    chars: Vec<char>,
    cursor: usize,
}

/// What a key does to it.
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
    /// Everything before the cursor.
    Clear,
    /// The word before the cursor.
    Word,
}

/// Longer lines are not typed.
const MOST: usize = 4_000;

impl Field {
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().take(MOST).collect();
        Self {
            cursor: chars.len(),
            chars,
        }
    }

    pub fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// What stands before the cursor, and what after it.
    pub fn halves(&self) -> (String, String) {
        let (before, after) = self.chars.split_at(self.cursor);
        (before.iter().collect(), after.iter().collect())
    }

    pub fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Insert(c) => self.insert(*c),
            // A line break in what is pasted must not send half of it.
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
        if self.chars.len() < MOST && !c.is_control() {
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
    use super::*;

    fn after(text: &str, edits: &[Edit]) -> (String, String) {
        let mut field = Field::new(text);
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
