//! Splits a source file into code, comments and strings. This is not a parser but a scan that knows quotes and
//! comments: it never fails, and is wrong for one line at most.

use std::path::Path;

use memchr::memmem;

/// The size in bytes up to which a file is read.
pub const LARGEST: usize = 4 << 20;

/// The syntax of comments and strings in a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TypeScript and JavaScript, with templates and regular expressions.
    Script,
    Rust,
    Python,
    /// `//` and `/* */`: C and similar languages.
    Slashes,
    /// `#`.
    Hashes,
    /// `--`.
    Dashes,
}

const ENDINGS: &[(Syntax, &[&str])] = &[
    (
        Syntax::Script,
        &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"],
    ),
    (Syntax::Rust, &["rs"]),
    (Syntax::Python, &["py", "pyi"]),
    (
        Syntax::Slashes,
        &[
            "go", "java", "kt", "kts", "scala", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs",
            "swift", "dart", "php", "zig", "m", "mm", "groovy", "proto", "css", "scss", "less",
        ],
    ),
    (
        Syntax::Hashes,
        &[
            "sh", "bash", "zsh", "rb", "pl", "ex", "exs", "nix", "tf", "r", "jl",
        ],
    ),
    (Syntax::Dashes, &["sql", "lua", "hs", "elm"]),
];

impl Syntax {
    /// Returns the syntax of a file by its extension; none if it is not code, or not known.
    pub fn of(path: &str) -> Option<Self> {
        let ending = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
        let row = ENDINGS
            .iter()
            .find(|(_, endings)| endings.contains(&&*ending));
        row.map(|(syntax, _)| *syntax)
    }
}

/// The part of the source that a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePart {
    Code,
    Comment,
    Text,
}

/// Returns the part of each byte.
pub fn parts(text: &str, syntax: Syntax) -> Vec<SourcePart> {
    scan(text.as_bytes(), syntax)
}

/// Returns the code alone, each byte at its place: comments are blank, strings are empty between their quotes.
pub fn code(text: &str, syntax: Syntax) -> String {
    let parts = parts(text, syntax);
    let is_text = |at: usize| parts.get(at) == Some(&SourcePart::Text);
    let mut code = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_edge = at == 0 || !is_text(at - 1) || !is_text(at + 1);
        let stays = match parts[at] {
            _ if c == '\n' => true,
            SourcePart::Code => true,
            SourcePart::Text => matches!(c, '"' | '\'' | '`') && is_edge,
            SourcePart::Comment => false,
        };
        if stays {
            code.push(c);
        } else {
            code.extend(std::iter::repeat_n(' ', c.len_utf8()));
        }
    }
    code
}

/// The content of a line as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Blank,
    Comment,
    Code,
}

/// Returns the lines without surrounding space, each with its kind. A line with code and a comment is code; a
/// comment in braces (JSX) is a comment.
pub fn lines(text: &str, syntax: Syntax) -> Vec<(LineKind, &str)> {
    let parts = parts(text, syntax);
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bytes = line.bytes().zip(&parts[start..]);
        let mut kind = LineKind::Blank;
        let mut only_braces = true;
        for (byte, part) in bytes.filter(|(byte, _)| !byte.is_ascii_whitespace()) {
            if *part == SourcePart::Comment {
                if kind == LineKind::Blank {
                    kind = LineKind::Comment;
                }
            } else {
                only_braces &= matches!(byte, b'{' | b'}');
                if !only_braces || kind == LineKind::Blank {
                    kind = LineKind::Code;
                }
            }
        }
        if only_braces && line.trim().starts_with("{/*") {
            kind = LineKind::Comment;
        }
        found.push((kind, line.trim()));
        start += line.len();
    }
    found
}

fn scan(bytes: &[u8], syntax: Syntax) -> Vec<SourcePart> {
    let mut scan = Scan {
        bytes,
        syntax,
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
    syntax: Syntax,
    at: usize,
    parts: Vec<SourcePart>,
    /// The place of the last byte of code that is not a space.
    last: Option<usize>,
    /// The templates whose `${` is open, each with the number of braces that are open in it.
    open: Vec<usize>,
}

impl Scan<'_> {
    fn step(&mut self) {
        if let Some(length) = self.comment() {
            self.take(SourcePart::Comment, length);
        } else if let Some(length) = self.raw() {
            self.take(SourcePart::Text, length);
        } else {
            self.quote_or_code();
        }
    }

    fn take(&mut self, part: SourcePart, length: usize) {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        if part == SourcePart::Text {
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
        matches!(self.syntax, Syntax::Script | Syntax::Rust | Syntax::Slashes)
    }

    /// Returns the length of the comment that begins here.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        let begins = match self.syntax {
            Syntax::Python => rest.starts_with(b"#"),
            // `$#` and `${x#y}` are not comments.
            Syntax::Hashes => {
                rest.starts_with(b"#")
                    && self.before().is_none_or(|byte| byte.is_ascii_whitespace())
            }
            Syntax::Dashes => rest.starts_with(b"--"),
            _ => rest.starts_with(b"//"),
        };
        if begins {
            return Some(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
        }
        (self.slashes() && rest.starts_with(b"/*")).then(|| self.block(rest))
    }

    /// Returns the length of a block comment. Rust's block comments nest.
    fn block(&self, rest: &[u8]) -> usize {
        let mut at = 2;
        let mut depth = 1;
        while depth > 0 {
            let Some(end) = memmem::find(&rest[at..], b"*/") else {
                return rest.len();
            };
            let inner = memmem::find(&rest[at..at + end], b"/*");
            match inner.filter(|_| self.syntax == Syntax::Rust) {
                Some(inner) => (at, depth) = (at + inner + 2, depth + 1),
                None => (at, depth) = (at + end + 2, depth - 1),
            }
        }
        at
    }

    /// Returns the length of a string in which nothing is escaped, or that goes over several lines.
    fn raw(&self) -> Option<usize> {
        let rest = self.rest();
        match self.syntax {
            Syntax::Python => {
                let quote = [&b"\"\"\""[..], b"'''"].into_iter();
                let quote = quote.into_iter().find(|quote| rest.starts_with(quote))?;
                Some(until(rest, 3, quote))
            }
            Syntax::Rust => self.raw_rust(),
            Syntax::Slashes if rest.starts_with(b"`") => Some(until(rest, 1, b"`")),
            _ => None,
        }
    }

    fn raw_rust(&self) -> Option<usize> {
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
        let script = self.syntax == Syntax::Script;
        match byte {
            b'"' => self.take(SourcePart::Text, self.quoted(b'"')),
            b'\'' if self.syntax == Syntax::Rust => self.character(),
            b'\'' => self.take(SourcePart::Text, self.quoted(b'\'')),
            b'`' if script => {
                self.take(SourcePart::Text, 1);
                self.template();
            }
            b'/' if script && self.may_be_a_pattern() => match self.pattern() {
                Some(length) => self.take(SourcePart::Text, length),
                None => self.code(),
            },
            b'}' if self.open.last() == Some(&0) => {
                self.open.pop();
                self.take(SourcePart::Text, 1);
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
        self.take(SourcePart::Code, 1);
    }

    /// Returns the length of a quoted string. If it is not closed, it ends with its line, except in Rust.
    fn quoted(&self, quote: u8) -> usize {
        let rest = self.rest();
        let mut at = 1;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' if self.syntax != Syntax::Rust => return at,
                _ if byte == quote => return at + 1,
                _ => {}
            }
            at += 1;
        }
        rest.len()
    }

    /// Takes a character, or the tick of a lifetime.
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
            Some(close) => self.take(SourcePart::Text, from + close + 1),
            None => self.code(),
        }
    }

    /// Takes the text of a template, to its end or to the next `${`.
    fn template(&mut self) {
        let rest = self.rest();
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' => at += 1,
                b'`' => return self.take(SourcePart::Text, at + 1),
                b'$' if rest.get(at + 1) == Some(&b'{') => {
                    self.take(SourcePart::Text, at + 2);
                    self.open.push(0);
                    return;
                }
                _ => {}
            }
            at += 1;
        }
        self.take(SourcePart::Text, at);
    }

    /// Returns true if a slash may begin a regular expression: after a value it divides.
    fn may_be_a_pattern(&self) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let byte = self.bytes[last];
        if !is_script_word(byte) {
            // `</p>` is not a regular expression.
            return !matches!(byte, b')' | b']' | b'}' | b'"' | b'\'' | b'`' | b'<');
        }
        let code = &self.bytes[..=last];
        let start = code.iter().rposition(|byte| !is_script_word(*byte));
        let word = &code[start.map_or(0, |at| at + 1)..];
        matches!(
            word,
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"do" | b"else" | b"await" | b"yield"
        )
    }

    /// Returns the length of a regular expression; none if it is not closed on its line.
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

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_script_word(byte: u8) -> bool {
    is_word(byte) || byte == b'$'
}

/// Returns the length of a text up to the end of `close`, which is searched from `from` on.
fn until(rest: &[u8], from: usize, close: &[u8]) -> usize {
    memmem::find(&rest[from..], close).map_or(rest.len(), |end| from + end + close.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text with comments as `c` and texts as `t`.
    fn marked(text: &str, syntax: Syntax) -> String {
        let parts = parts(text, syntax);
        let mark = |(at, c): (usize, char)| match parts[at] {
            _ if c == '\n' => c,
            SourcePart::Code => c,
            SourcePart::Comment => 'c',
            SourcePart::Text => 't',
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
            assert_eq!(marked(text, Syntax::Script), expected, "{text}");
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
            assert_eq!(marked(text, Syntax::Rust), expected, "{text}");
        }
    }

    #[test]
    fn other_languages() {
        for (syntax, text, expected) in [
            (
                Syntax::Python,
                "a # b\n\"\"\"c\n# d\"\"\" e",
                "a ccc\ntttt\ntttttt e",
            ),
            (Syntax::Hashes, "echo $# ${a#b} # c", "echo $# ${a#b} ccc"),
            (Syntax::Dashes, "select 1 -- a\n2", "select 1 cccc\n2"),
            (Syntax::Slashes, "`a\n\"` + b // c", "tt\ntt + b cccc"),
        ] {
            assert_eq!(marked(text, syntax), expected, "{text}");
        }
    }

    #[test]
    fn code_stays_where_it_was() {
        let text = "a = 'é // x' // é\n`b${c}d`";
        let code = code(text, Syntax::Script);
        assert_eq!(code, "a = '       '      \n`   c  `");
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn lines_are_what_they_are_mostly() {
        let text = "a // b\n\n  // c\n/* d\n e */\n{/* f */}\n}\n'//'";
        let kinds: Vec<LineKind> = lines(text, Syntax::Script)
            .iter()
            .map(|line| line.0)
            .collect();
        use LineKind::{Blank, Code, Comment};
        assert_eq!(
            kinds,
            [Code, Blank, Comment, Comment, Comment, Comment, Code, Code]
        );
    }

    #[test]
    fn a_language_is_known_by_its_ending() {
        assert_eq!(Syntax::of("/a/b.TSX"), Some(Syntax::Script));
        assert_eq!(Syntax::of("a.d.ts"), Some(Syntax::Script));
        assert_eq!(Syntax::of("a.md"), None);
        assert_eq!(Syntax::of(".ts"), None);
        assert_eq!(Syntax::of("ts"), None);
    }

    pub(crate) fn any_syntax() -> impl Strategy<Value = Syntax> {
        prop::sample::select(vec![
            Syntax::Script,
            Syntax::Rust,
            Syntax::Python,
            Syntax::Slashes,
            Syntax::Hashes,
            Syntax::Dashes,
        ])
    }

    proptest! {
        #[test]
        fn any_text_has_a_part_for_each_byte(
            text in "([a-z ]|[/*'\"`#${}r\\\\\n-]|é|\\PC){0,60}",
            syntax in any_syntax(),
        ) {
            prop_assert_eq!(parts(&text, syntax).len(), text.len());
            let code = code(&text, syntax);
            prop_assert_eq!(code.len(), text.len());
            prop_assert_eq!(code.matches('\n').count(), text.matches('\n').count());
            prop_assert_eq!(lines(&text, syntax).len(), text.split_inclusive('\n').count());
        }
    }
}
