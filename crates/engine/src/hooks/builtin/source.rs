//! Splits a source file into code, comments and strings. This is not a parser but a search for quotes and
//! comments: it never fails, and is wrong for one line at most.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

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

/// The extensions of files, by their syntax.
const EXTENSIONS: [(Syntax, &str); 6] = [
    (Syntax::Script, "ts tsx mts cts js jsx mjs cjs"),
    (Syntax::Rust, "rs"),
    (Syntax::Python, "py pyi"),
    (
        Syntax::Slashes,
        "go java kt kts scala c h cc cpp cxx hpp hh cs swift dart php zig m mm groovy proto css scss less",
    ),
    (Syntax::Hashes, "sh bash zsh rb pl ex exs nix tf r jl"),
    (Syntax::Dashes, "sql lua hs elm"),
];

/// A pattern of line comments and block comments in C and similar languages.
const SLASHES: &str = r"(?<comment>//.*|/\*(?s:.*?)(?:\*/|\z))";
/// A pattern of strings. One that is not closed ends with its line.
const QUOTED: &str = r#""(?:\\(?s:.)|[^"\\\n])*"?|'(?:\\(?s:.)|[^'\\\n])*'?"#;

impl Syntax {
    /// Returns the syntax of a file by its extension; none if it is not code, or not known.
    pub fn of(path: &str) -> Option<Self> {
        let extension = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
        let mut rows = EXTENSIONS.iter();
        let row = rows.find(|(_, all)| all.split(' ').any(|it| it == extension));
        row.map(|(syntax, _)| *syntax)
    }

    /// Returns the pattern of comments, which are in a group, and of strings. That of scripts also finds each byte
    /// that may begin or end something else.
    fn tokens(self) -> Regex {
        let pattern = match self {
            Self::Script => format!("{SLASHES}|{QUOTED}|[`{{}}/]"),
            // A block comment may contain another one. A string may have several lines. A tick alone begins a
            // lifetime.
            Self::Rust => concat!(
                r"(?<comment>//.*|/\*(?s:/\*.*?\*/|.)*?(?:\*/|\z))",
                r###"|(?-u:\b)[bc]?r(?:"[^"]*"?|#"(?s:.*?)(?:"#|\z)|##"(?s:.*?)(?:"##|\z)"###,
                r####"|###"(?s:.*?)(?:"###|\z))"####,
                r#"|"(?:\\(?s:.)|[^"\\])*"?"#,
                r"|'(?:\\.[^'\n]{0,8}|[^'\\])'",
            )
            .to_owned(),
            Self::Python => {
                let long = r#""""(?s:.*?)(?:"""|\z)|'''(?s:.*?)(?:'''|\z)"#;
                format!("(?<comment>#.*)|{long}|{QUOTED}")
            }
            Self::Slashes => format!("{SLASHES}|`[^`]*`?|{QUOTED}"),
            // `$#` and `${x#y}` are not comments.
            Self::Hashes => format!(r"(?:^|[ \t\r\n])(?<comment>#.*)|{QUOTED}"),
            Self::Dashes => format!("(?<comment>--.*)|{QUOTED}"),
        };
        Regex::new(&pattern).expect("a valid pattern")
    }
}

/// A piece of a template, from its quote or the end of a `${}`, to its quote or the next `${`.
static TEMPLATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^.(?s:\\.|[^`\\])*?(?:`|\$\{|\\?\z)").expect("a valid pattern"));

/// A regular expression, which ends on its line.
static EXPRESSION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\[\\\n])+/").expect("a valid pattern")
});

/// The part of the source that a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourcePart {
    Code,
    Comment,
    Text,
}

/// Returns the part of each byte.
fn parts(text: &str, syntax: Syntax) -> Vec<SourcePart> {
    let tokens = syntax.tokens();
    let mut parts = vec![SourcePart::Code; text.len()];
    // The templates whose `${` is open, each with the number of braces that are open in it.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.captures_at(text, at) {
        let found = token.get_match();
        let start = found.start();
        at = found.end();
        if let Some(comment) = token.name("comment") {
            parts[comment.range()].fill(SourcePart::Comment);
            continue;
        }
        match (found.as_str(), open.last_mut()) {
            ("{", Some(depth)) => *depth += 1,
            ("}", Some(depth)) if *depth > 0 => *depth -= 1,
            ("{", None) | ("}", None) => {}
            ("/", _) => {
                let expression = EXPRESSION.find(&text[start..]);
                if let Some(expression) = expression.filter(|_| !divides(&text[..start], &parts)) {
                    at = start + expression.end();
                    parts[start..at].fill(SourcePart::Text);
                }
            }
            (edge @ ("`" | "}"), _) => {
                if edge == "}" {
                    open.pop();
                }
                at = start + TEMPLATE.find(&text[start..]).map_or(1, |piece| piece.end());
                if text[start..at].ends_with("${") {
                    open.push(0);
                }
                parts[start..at].fill(SourcePart::Text);
            }
            _ => parts[start..at].fill(SourcePart::Text),
        }
    }
    parts
}

/// Returns true if a slash after this code divides, as it does after a value. Otherwise it begins a regular
/// expression.
fn divides(before: &str, parts: &[SourcePart]) -> bool {
    let code = before.bytes().zip(parts).enumerate().rev();
    let mut code = code
        .filter(|(_, (byte, part))| !byte.is_ascii_whitespace() && **part != SourcePart::Comment);
    let Some((last, (byte, _))) = code.next() else {
        return false;
    };
    if !is_word(byte) {
        // `</p>` is not a regular expression.
        return b")]}\"'`<".contains(&byte);
    }
    let code = &before.as_bytes()[..=last];
    let start = code.iter().rposition(|byte| !is_word(*byte));
    let word = &before[start.map_or(0, |at| at + 1)..=last];
    !matches!(
        word,
        "return" | "typeof" | "case" | "in" | "of" | "do" | "else" | "await" | "yield"
    )
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
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
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let parts = &parts[start..];
        start += line.len();
        (kind_of(line, parts), line.trim())
    });
    lines.collect()
}

fn kind_of(line: &str, parts: &[SourcePart]) -> LineKind {
    let bytes = line.bytes().zip(parts);
    let (comment, code): (Vec<_>, Vec<_>) = bytes
        .filter(|(byte, _)| !byte.is_ascii_whitespace())
        .partition(|(_, part)| **part == SourcePart::Comment);
    let only_braces = code.iter().all(|(byte, _)| matches!(byte, b'{' | b'}'));
    let is_jsx = line.trim().starts_with("{/*") || line.trim().ends_with("*/}");
    if code.is_empty() && comment.is_empty() {
        LineKind::Blank
    } else if code.is_empty() || only_braces && is_jsx {
        LineKind::Comment
    } else {
        LineKind::Code
    }
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
            ("br\"\\\" + var\"x\"", "ttttt + varttt"),
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
