//! The scan itself: one pass over the bytes.

use memchr::memmem;

use super::{Language, Part};

pub(super) fn parts(bytes: &[u8], language: Language) -> Vec<Part> {
    let mut scan = Scan {
        bytes,
        language,
        at: 0,
        parts: Vec::with_capacity(bytes.len()),
        last: None,
        open: Vec::new(),
    };
    while scan.at < bytes.len() {
        scan.step();
    }
    scan.parts
}

struct Scan<'a> {
    bytes: &'a [u8],
    language: Language,
    at: usize,
    parts: Vec<Part>,
    /// Where the last byte of code stands that is no space.
    last: Option<usize>,
    /// Templates whose `${` is open, each with the braces that are open in it.
    open: Vec<usize>,
}

impl Scan<'_> {
    fn step(&mut self) {
        if let Some(length) = self.comment() {
            self.take(Part::Comment, length);
        } else if let Some(length) = self.raw() {
            self.take(Part::Text, length);
        } else {
            self.quote_or_code();
        }
    }

    fn take(&mut self, part: Part, length: usize) {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        if part == Part::Text {
            self.last = end.checked_sub(1);
        }
        self.parts.resize(end, part);
        self.at = end;
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn before(&self) -> Option<u8> {
        self.bytes.get(self.at.checked_sub(1)?).copied()
    }

    fn slashes(&self) -> bool {
        matches!(
            self.language,
            Language::Script | Language::Rust | Language::Slashes
        )
    }

    /// The length of the comment that begins here.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        let begins = match self.language {
            Language::Python => rest.starts_with(b"#"),
            // `$#` and `${x#y}` are no comments.
            Language::Hashes => {
                rest.starts_with(b"#")
                    && self.before().is_none_or(|byte| byte.is_ascii_whitespace())
            }
            Language::Dashes => rest.starts_with(b"--"),
            _ => rest.starts_with(b"//"),
        };
        if begins {
            return Some(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
        }
        (self.slashes() && rest.starts_with(b"/*")).then(|| self.block(rest))
    }

    /// Rust's comments nest.
    fn block(&self, rest: &[u8]) -> usize {
        let mut at = 2;
        let mut depth = 1;
        while depth > 0 {
            let Some(end) = memmem::find(&rest[at..], b"*/") else {
                return rest.len();
            };
            let inner = memmem::find(&rest[at..at + end], b"/*");
            match inner.filter(|_| self.language == Language::Rust) {
                Some(inner) => (at, depth) = (at + inner + 2, depth + 1),
                None => (at, depth) = (at + end + 2, depth - 1),
            }
        }
        at
    }

    /// Texts in which nothing is escaped, or that go over lines.
    fn raw(&self) -> Option<usize> {
        let rest = self.rest();
        match self.language {
            Language::Python => {
                let quote = [&b"\"\"\""[..], b"'''"].into_iter();
                let quote = quote.into_iter().find(|quote| rest.starts_with(quote))?;
                Some(until(rest, 3, quote))
            }
            Language::Rust => self.raw_rust(),
            Language::Slashes if rest.starts_with(b"`") => Some(until(rest, 1, b"`")),
            _ => None,
        }
    }

    fn raw_rust(&self) -> Option<usize> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let prefixed = match self.before() {
            Some(b'b' | b'c') => self.at < 2 || !is_word(self.bytes[self.at - 2]),
            Some(byte) => !is_word(byte),
            None => true,
        };
        let after = self.rest().strip_prefix(b"r").filter(|_| prefixed)?;
        let hashes = after.iter().take_while(|byte| **byte == b'#').count();
        if after.get(hashes) != Some(&b'"') {
            return None;
        }
        let close: Vec<u8> = [b'"']
            .into_iter()
            .chain(std::iter::repeat_n(b'#', hashes))
            .collect();
        Some(until(self.rest(), hashes + 2, &close))
    }

    fn quote_or_code(&mut self) {
        let byte = self.bytes[self.at];
        let script = self.language == Language::Script;
        match byte {
            b'"' => self.take(Part::Text, self.quoted(b'"')),
            b'\'' if self.language == Language::Rust => self.character(),
            b'\'' => self.take(Part::Text, self.quoted(b'\'')),
            b'`' if script => {
                self.take(Part::Text, 1);
                self.template();
            }
            b'/' if script && self.may_be_a_pattern() => match self.pattern() {
                Some(length) => self.take(Part::Text, length),
                None => self.code(),
            },
            b'}' if self.open.last() == Some(&0) => {
                self.open.pop();
                self.take(Part::Text, 1);
                self.template();
            }
            _ => self.code(),
        }
    }

    fn code(&mut self) {
        let byte = self.bytes[self.at];
        if let Some(depth) = self.open.last_mut() {
            match byte {
                b'{' => *depth += 1,
                b'}' => *depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if !byte.is_ascii_whitespace() {
            self.last = Some(self.at);
        }
        self.take(Part::Code, 1);
    }

    /// The length of a text in quotes. One that is not closed ends with its line, except in Rust.
    fn quoted(&self, quote: u8) -> usize {
        let rest = self.rest();
        let mut at = 1;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' if self.language != Language::Rust => return at,
                _ if byte == quote => return at + 1,
                _ => {}
            }
            at += 1;
        }
        rest.len()
    }

    /// A character, or the tick of a lifetime.
    fn character(&mut self) {
        let rest = self.rest();
        let escaped = rest.get(1) == Some(&b'\\');
        let from = if escaped { 3 } else { 2 };
        // The longest are `'\u{10ffff}'`, and four bytes of UTF-8.
        let near = rest.get(from..rest.len().min(13)).unwrap_or_default();
        let close = near.iter().position(|byte| *byte == b'\'');
        let is_one = |close: &usize| {
            escaped || str::from_utf8(&rest[1..from + close]).is_ok_and(|c| c.chars().count() == 1)
        };
        match close.filter(is_one) {
            Some(close) => self.take(Part::Text, from + close + 1),
            None => self.code(),
        }
    }

    /// The text of a template, to its end or to the next `${`.
    fn template(&mut self) {
        let rest = self.rest();
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' => at += 1,
                b'`' => return self.take(Part::Text, at + 1),
                b'$' if rest.get(at + 1) == Some(&b'{') => {
                    self.take(Part::Text, at + 2);
                    self.open.push(0);
                    return;
                }
                _ => {}
            }
            at += 1;
        }
        self.take(Part::Text, at);
    }

    /// After a value a slash divides; elsewhere it begins a regular expression.
    fn may_be_a_pattern(&self) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let byte = self.bytes[last];
        if !is_word(&byte) {
            // `</p>` is no pattern.
            return !matches!(byte, b')' | b']' | b'}' | b'"' | b'\'' | b'`' | b'<');
        }
        let code = &self.bytes[..=last];
        let start = code.iter().rposition(|byte| !is_word(byte));
        let word = &code[start.map_or(0, |at| at + 1)..];
        matches!(
            word,
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"do" | b"else" | b"await" | b"yield"
        )
    }

    /// The length of a regular expression; none if it is not closed on its line.
    fn pattern(&self) -> Option<usize> {
        let rest = self.rest();
        let mut in_class = false;
        let mut at = 1;
        loop {
            match rest.get(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
    }
}

/// To the end of what closes it, which is looked for from `from` on.
fn until(rest: &[u8], from: usize, close: &[u8]) -> usize {
    memmem::find(&rest[from..], close).map_or(rest.len(), |end| from + end + close.len())
}
