//! A source file as built-ins look at it: which bytes are code, which are comments, which are texts.
//! No parser: a scan that knows quotes and comments, never fails, and is wrong at most for a line.

mod scan;
#[cfg(test)]
mod tests;

use std::path::Path;

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
    scan::parts(text.as_bytes(), language)
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
