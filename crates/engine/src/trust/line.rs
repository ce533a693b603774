//! A line for a shell, cut where a shell would cut it, without running anything. Whoever asks what a
//! program names, starts or leaves open comes through here.

use std::collections::BTreeSet;

use crate::run::Program;

/// How Claude Code's own hooks name the project.
pub(super) const PROJECT: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"];
/// How a line names the folder that it is in.
pub(super) const HERE: [&str; 2] = ["${PWD}", "$PWD"];
/// So many lines may stand in each other: `sh -c "sh -c '…'"`.
const DEEPEST: usize = 6;
/// Nobody looks further for the end of a `{`.
const LONGEST_BRACE: usize = 256;
/// What is said of more lines in each other.
pub(super) const TOO_DEEP: &str = "quotes in quotes";
/// Programs that take a line after `-c`.
const SHELLS: [&str; 17] = [
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox", "su",
    "runuser", "script", "flock", "env", "sudo",
];
/// Words whose every argument is a line.
const FOR_LINES: [&str; 3] = ["eval", "trap", "watch"];

/// One word, without its quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) role: Role,
    /// A shell runs a part of it to know the word: `"$(x)"`.
    runs: bool,
}

/// What a shell takes a word for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// The command, or what it gets.
    #[default]
    Said,
    /// A file that is read: `< x`.
    Read,
    /// A file that is written: `> x`.
    Written,
}

/// The words of one command.
pub(super) type Command = Vec<Word>;

/// A line, or the list of a program as if it were one.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) commands: Vec<Command>,
    /// What stands in it for words that nobody knows before it runs.
    pub(super) unknown: BTreeSet<&'static str>,
}

impl Line {
    pub(super) fn of(line: &str) -> Self {
        let mut scan = Scan::new(line);
        while let Some(c) = scan.next() {
            scan.take(c);
        }
        scan.end_word();
        scan.line.commands.retain(|command| !command.is_empty());
        scan.line
    }

    /// The commands of a program, and those of every line that one of them gives to a shell.
    pub(super) fn all_of(program: &Program) -> Self {
        let mut all = match program {
            Program::Shell(line) => Self::of(line),
            Program::List(words) => {
                let words = words.iter().map(|text| Word {
                    text: text.clone(),
                    ..Word::default()
                });
                Self {
                    commands: vec![words.collect()],
                    unknown: BTreeSet::new(),
                }
            }
        };
        let mut first = 0;
        for depth in 0.. {
            let inner: Vec<String> = all.commands[first..].iter().flat_map(lines_in).collect();
            if inner.is_empty() {
                break;
            }
            if depth == DEEPEST {
                all.unknown.insert(TOO_DEEP);
                break;
            }
            first = all.commands.len();
            for line in inner {
                let line = Self::of(&line);
                all.commands.extend(line.commands);
                all.unknown.extend(line.unknown);
            }
        }
        all
    }
}

/// The words of a command that a shell gets as lines, or runs before it knows the word.
fn lines_in(command: &Command) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut has_shell, mut awaits, mut all) = (false, false, false);
    for Word { text, runs, .. } in command {
        let is_option = text.starts_with(['-', '+']);
        if all || awaits || *runs {
            lines.push(text.clone());
        }
        awaits = match has_shell && is_for_a_line(text) {
            true => true,
            // `sh -c -e '…'`
            false => awaits && is_option,
        };
        let name = called(text);
        all |= FOR_LINES.contains(&name);
        has_shell |= SHELLS.contains(&name);
    }
    lines
}

/// `sh -c`, `bash -euc`, `sh -ce`, `env -S`: a line comes next.
fn is_for_a_line(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.contains(['c', 'S']) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The name by which a word calls a program: `python` for `/usr/bin/python3.12`.
pub(super) fn called(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// What of a line was read so far.
struct Scan<'a> {
    rest: &'a str,
    line: Line,
    word: Word,
    /// The command that the next word belongs to.
    at: usize,
    /// The commands that go on after a `)` or a second backtick, and what opened them.
    outer: Vec<(char, usize)>,
    quote: Option<char>,
}

impl<'a> Scan<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            rest: line,
            line: Line {
                commands: vec![Command::new()],
                unknown: BTreeSet::new(),
            },
            word: Word::default(),
            at: 0,
            outer: Vec::new(),
            quote: None,
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, c: char) {
        match (self.quote, c) {
            (Some(open), c) if c == open => self.quote = None,
            (Some('\''), c) => self.word.text.push(c),
            (_, '$') => self.variable(),
            (Some(_), '\\') => self.escaped_in_quotes(),
            (Some(_), c) => {
                if c == '`' {
                    self.line.unknown.insert("`…`");
                    self.word.runs = true;
                }
                self.word.text.push(c);
            }
            (None, '"' | '\'') => self.quote = Some(c),
            (None, '\\') => match self.next() {
                None | Some('\n') => {}
                Some(c) => self.word.text.push(c),
            },
            (None, '#') if self.word.text.is_empty() => self.comment(),
            (None, c) => self.plain(c),
        }
    }

    fn plain(&mut self, c: char) {
        match c {
            '&' if self.peek() == Some('>') => self.end_word(),
            ';' | '|' | '&' | '\n' => self.end_command(),
            '(' => self.open('('),
            ')' => match self.outer.pop() {
                Some((_, outer)) => {
                    self.end_word();
                    self.at = outer;
                }
                // `case x in y)`
                None => self.end_command(),
            },
            '`' => {
                self.line.unknown.insert("`…`");
                match self.outer.last() {
                    Some(&('`', outer)) => {
                        self.end_word();
                        self.outer.pop();
                        self.at = outer;
                    }
                    _ => self.open('`'),
                }
            }
            '<' | '>' => self.redirect(c),
            c if c.is_whitespace() => self.end_word(),
            c => {
                self.pattern(c);
                self.word.text.push(c);
            }
        }
    }

    fn open(&mut self, by: char) {
        self.end_word();
        self.outer.push((by, self.at));
        self.begin_command();
    }

    fn end_command(&mut self) {
        self.end_word();
        self.begin_command();
    }

    fn begin_command(&mut self) {
        self.at = self.line.commands.len();
        self.line.commands.push(Command::new());
        self.word = Word::default();
    }

    fn end_word(&mut self) {
        if !self.word.text.is_empty() {
            let word = std::mem::take(&mut self.word);
            self.line.commands[self.at].push(word);
        }
    }

    fn comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    fn redirect(&mut self, c: char) {
        // `2>`
        if self.word.text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.word.text.clear();
        }
        self.end_word();
        self.word.role = match c {
            '>' => Role::Written,
            _ => Role::Read,
        };
        // `2>&1`, `>|x`
        if matches!(self.peek(), Some('&' | '|')) {
            self.next();
        }
    }

    fn escaped_in_quotes(&mut self) {
        match self.peek() {
            Some('\n') => drop(self.next()),
            Some(c @ ('$' | '`' | '"' | '\\')) => {
                self.next();
                self.word.text.push(c);
            }
            _ => self.word.text.push('\\'),
        }
    }

    fn variable(&mut self) {
        self.word.text.push('$');
        let known = PROJECT.iter().chain(&HERE).find_map(|it| {
            let name = it.strip_prefix('$')?;
            let rest = self.rest.strip_prefix(name)?;
            let goes_on = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            (it.ends_with('}') || !goes_on).then_some(name)
        });
        if let Some(name) = known {
            self.word.text.push_str(name);
            self.rest = &self.rest[name.len()..];
            return;
        }
        let unknown = match self.peek() {
            Some('(') => {
                self.word.runs = self.quote.is_some();
                "$(…)"
            }
            // In double quotes that is the end of the text.
            None | Some('"' | '/') => return,
            Some('\'') if self.quote.is_some() => return,
            Some(c) if c.is_whitespace() => return,
            Some(_) => "$…",
        };
        self.line.unknown.insert(unknown);
        // The name of a variable is no pattern.
        if let Some(c @ ('{' | '?' | '*' | '#')) = self.peek() {
            self.next();
            self.word.text.push(c);
        }
    }

    /// Notes what a shell makes other words of.
    fn pattern(&mut self, c: char) {
        let next = self.peek().unwrap_or(' ');
        let unknown = match c {
            '*' | '?' => "*",
            '[' if !next.is_whitespace() && next != '[' => "*",
            '{' => {
                let ends = |c: &char| *c == '}' || c.is_whitespace();
                let near = self.rest.chars().take(LONGEST_BRACE);
                let inner: String = near.take_while(|c| !ends(c)).collect();
                // `find -exec` has files for `{}`; `{file}` of a built-in is no program.
                let is_long = inner.chars().count() == LONGEST_BRACE;
                match next == '}' || is_long || inner.contains(',') || inner.contains("..") {
                    true => "{…}",
                    false => return,
                }
            }
            _ => return,
        };
        self.line.unknown.insert(unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> String {
        let line = Line::of(line);
        let words = |command: &Command| {
            let words = command.iter().map(|word| match word.role {
                Role::Said => word.text.clone(),
                Role::Read => format!("<{}", word.text),
                Role::Written => format!(">{}", word.text),
            });
            words.collect::<Vec<_>>().join("·")
        };
        let commands: Vec<String> = line.commands.iter().map(words).collect();
        commands.join(" | ")
    }

    #[test]
    fn a_line_is_cut_where_a_shell_cuts_it() {
        for (line, words) in [
            ("a b;c", "a·b | c"),
            ("a\\ b 'c d'\"e \\f\\\"\"", "a b·c de \\f\""),
            ("a\\\nb \"c\\\nd\"", "ab·cd"),
            ("a $(b c) d", "a·$·d | b·c"),
            ("a `b` d", "a·d | b"),
            ("(a; b) && c", "a | b | c"),
            ("case a in b) c;; esac", "case·a·in·b | c | esac"),
            ("a 2>&1 >b <c &>d", "a·>1·>b·<c·>d"),
            ("a # b'\nc#d", "a | c#d"),
            ("a 'b", "a·b"),
            ("", ""),
        ] {
            assert_eq!(cut(line), words, "{line}");
        }
    }

    #[test]
    fn lines_in_lines_are_cut_too_and_too_many_are_noted() {
        let deep = |depth: usize| {
            let quoted = |text: String, _| format!("sh -c '{}'", text.replace('\'', "'\\''"));
            let line = (0..depth).fold("x".to_owned(), quoted);
            Line::all_of(&Program::Shell(line))
        };
        assert_eq!(deep(3).commands.last().unwrap()[0].text, "x");
        assert!(deep(3).unknown.is_empty() && deep(9).unknown.contains(TOO_DEEP));
        let long = "{".repeat(300_000);
        assert!(Line::of(&long).unknown.contains("{…}"));
    }
}
