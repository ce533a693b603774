//! A source file as built-ins look at it: which bytes are code, which are comments, which are texts.
//! No parser: a scan that knows quotes and comments, never fails, and is wrong at most for a line.

use std::path::Path;

use memchr::memmem;

/// A larger file is not looked at.
pub const LARGEST: usize = 4 << 20;

/// How a language writes comments and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// TypeScript and JavaScript: templates and regular expressions besides.
    Script,
    Rust,
    Python,
    /// `//` and `/* */`: C and what looks like it.
    Slashes,
    /// `#`.
    Hashes,
    /// `--`.
    Dashes,
}

const ENDINGS: &[(Language, &[&str])] = &[
    (
        Language::Script,
        &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"],
    ),
    (Language::Rust, &["rs"]),
    (Language::Python, &["py", "pyi"]),
    (
        Language::Slashes,
        &[
            "go", "java", "kt", "kts", "scala", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs",
            "swift", "dart", "php", "zig", "m", "mm", "groovy", "proto", "css", "scss", "less",
        ],
    ),
    (
        Language::Hashes,
        &[
            "sh", "bash", "zsh", "rb", "pl", "ex", "exs", "nix", "tf", "r", "jl",
        ],
    ),
    (Language::Dashes, &["sql", "lua", "hs", "elm"]),
];

impl Language {
    /// By the ending of the file's name; none for what is no code, or not known.
    pub fn of(path: &str) -> Option<Self> {
        let ending = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
        let row = ENDINGS
            .iter()
            .find(|(_, endings)| endings.contains(&&*ending));
        row.map(|(language, _)| *language)
    }
}

/// What a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Code,
    Comment,
    Text,
}

/// The part of each byte.
pub fn parts(text: &str, language: Language) -> Vec<Part> {
    scan(text.as_bytes(), language)
}

/// The code alone, byte for byte where it was: comments are blank, texts are empty between their
/// quotes.
pub fn code(text: &str, language: Language) -> String {
    let parts = parts(text, language);
    let blanked = |(at, c): (usize, char)| {
        let is_end = |at: usize| parts.get(at).is_none_or(|part| *part != Part::Text);
        let is_quote =
            || matches!(c, '"' | '\'' | '`') && (at == 0 || is_end(at - 1) || is_end(at + 1));
        let stays = match parts[at] {
            Part::Code => true,
            Part::Text => c == '\n' || is_quote(),
            Part::Comment => c == '\n',
        };
        let width = if stays { 0 } else { c.len_utf8() };
        stays
            .then_some(c)
            .into_iter()
            .chain(std::iter::repeat_n(' ', width))
    };
    text.char_indices().flat_map(blanked).collect()
}

/// What a line is, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Blank,
    Comment,
    Code,
}

/// The lines without the space around them, and what each is. A line with code and a comment is
/// code; a comment in braces (JSX) is a comment.
pub fn lines(text: &str, language: Language) -> Vec<(Kind, &str)> {
    let parts = parts(text, language);
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bytes = line.bytes().zip(&parts[start..]);
        let mut kind = Kind::Blank;
        let mut only_braces = true;
        for (byte, part) in bytes.filter(|(byte, _)| !byte.is_ascii_whitespace()) {
            if *part == Part::Comment {
                kind = if kind == Kind::Code {
                    kind
                } else {
                    Kind::Comment
                };
            } else {
                only_braces &= matches!(byte, b'{' | b'}');
                kind = if only_braces && kind == Kind::Comment {
                    kind
                } else {
                    Kind::Code
                };
            }
        }
        if only_braces && line.trim().starts_with("{/*") {
            kind = Kind::Comment;
        }
        found.push((kind, line.trim()));
        start += line.len();
    }
    found
}

fn scan(bytes: &[u8], language: Language) -> Vec<Part> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text with comments as `c` and texts as `t`.
    fn marked(text: &str, language: Language) -> String {
        let parts = parts(text, language);
        let mark = |(at, c): (usize, char)| match parts[at] {
            _ if c == '\n' => c,
            Part::Code => c,
            Part::Comment => 'c',
            Part::Text => 't',
        };
        text.char_indices().map(mark).collect()
    }

    #[test]
    fn script() {
        for (text, expected) in [
            ("a // b\nc", "a cccc\nc"),
            ("a /* b\n */ c", "a cccc\nccc c"),
            ("'a' + \"//\" + `b`", "ttt + tttt + ttt"),
            ("'it\nb // c", "ttt\nb cccc"),
            (r#"'\'' + a"#, "tttt + a"),
            ("`a${b + `c${d}`}e` + f", "ttttb + ttttdttttt + f"),
            ("`${ {a: {}} }` + b", "ttt {a: {}} tt + b"),
            ("x = /[/\"]'/.test(y) // n", "x = ttttttt.test(y) cccc"),
            ("a / b / 'c'", "a / b / ttt"),
            ("return /'/", "return ttt"),
            ("(a) / b; c / d", "(a) / b; c / d"),
            ("<p></p>", "<p></p>"),
        ] {
            assert_eq!(marked(text, Language::Script), expected, "{text}");
        }
    }

    #[test]
    fn rust() {
        for (text, expected) in [
            ("&'a str // x", "&'a str cccc"),
            ("'a' '\\'' '\\u{1f600}' 'é'", "ttt tttt ttttttttttt ttt"),
            ("/* a /* b */ c */ d", "ccccccccccccccccc d"),
            ("r#\"a\" // \"# + b", "ttttttttttt + b"),
            ("br\"\\\" + var\"x\"", "btttt + varttt"),
            ("\"a\n// b\" c", "tt\nttttt c"),
        ] {
            assert_eq!(marked(text, Language::Rust), expected, "{text}");
        }
    }

    #[test]
    fn other_languages() {
        for (language, text, expected) in [
            (
                Language::Python,
                "a # b\n\"\"\"c\n# d\"\"\" e",
                "a ccc\ntttt\ntttttt e",
            ),
            (Language::Hashes, "echo $# ${a#b} # c", "echo $# ${a#b} ccc"),
            (Language::Dashes, "select 1 -- a\n2", "select 1 cccc\n2"),
            (Language::Slashes, "`a\n\"` + b // c", "tt\ntt + b cccc"),
        ] {
            assert_eq!(marked(text, language), expected, "{text}");
        }
    }

    #[test]
    fn code_stays_where_it_was() {
        let text = "a = 'é // x' // é\n`b${c}d`";
        let code = code(text, Language::Script);
        assert_eq!(code, "a = '       '      \n`   c  `");
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn lines_are_what_they_are_mostly() {
        let text = "a // b\n\n  // c\n/* d\n e */\n{/* f */}\n}\n'//'";
        let kinds: Vec<Kind> = lines(text, Language::Script)
            .iter()
            .map(|line| line.0)
            .collect();
        use Kind::{Blank, Code, Comment};
        assert_eq!(
            kinds,
            [Code, Blank, Comment, Comment, Comment, Comment, Code, Code]
        );
    }

    #[test]
    fn a_language_is_known_by_its_ending() {
        assert_eq!(Language::of("/a/b.TSX"), Some(Language::Script));
        assert_eq!(Language::of("a.d.ts"), Some(Language::Script));
        assert_eq!(Language::of("a.md"), None);
        assert_eq!(Language::of(".ts"), None);
        assert_eq!(Language::of("ts"), None);
    }

    pub(crate) fn any_language() -> impl Strategy<Value = Language> {
        prop::sample::select(vec![
            Language::Script,
            Language::Rust,
            Language::Python,
            Language::Slashes,
            Language::Hashes,
            Language::Dashes,
        ])
    }

    proptest! {
        #[test]
        fn any_text_has_a_part_for_each_byte(
            text in "([a-z ]|[/*'\"`#${}r\\\\\n-]|é|\\PC){0,60}",
            language in any_language(),
        ) {
            prop_assert_eq!(parts(&text, language).len(), text.len());
            let code = code(&text, language);
            prop_assert_eq!(code.len(), text.len());
            prop_assert_eq!(code.matches('\n').count(), text.matches('\n').count());
            prop_assert_eq!(lines(&text, language).len(), text.split_inclusive('\n').count());
        }
    }
}
