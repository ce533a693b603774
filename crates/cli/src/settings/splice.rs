//! Small edits of a text, collected first and made all at once.

use std::ops::Range;

#[derive(Debug, Default)]
pub struct Splices {
    list: Vec<(Range<usize>, String)>,
}

impl Splices {
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub fn delete(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Edits must not overlap; at one place they come in the order they were asked for.
    pub fn apply(mut self, text: &str) -> String {
        self.list.sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for (range, new) in &self.list {
            result.push_str(&text[done..range.start]);
            result.push_str(new);
            done = range.end;
        }
        result.push_str(&text[done..]);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_made_where_they_were_asked_for() {
        let mut splices = Splices::default();
        splices.delete(4..6);
        splices.insert(1, ",");
        splices.insert(1, "x");
        splices.replace(2..4, "CD");
        assert_eq!(splices.apply("abcdef"), "a,xbCD");
    }
}
