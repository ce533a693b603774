//! The words of a program, as far as they can be told apart without a shell, and what only a shell
//! could say.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use crate::run::Program;

/// How many values a word may have: `--set=key=value`.
const MOST_VALUES: usize = 4;
/// How many options one word may have before a file's name: `-nf`.
const MOST_LETTERS: usize = 3;
/// No file has a longer name.
const LONGEST: usize = 4096;
/// How Claude Code's own hooks name the project.
pub(super) const PROJECT: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"];
/// How a line names the folder that it is in.
const HERE: [&str; 2] = ["${PWD}", "$PWD"];

#[derive(Debug, Default)]
pub(crate) struct Words {
    /// All of them, in their order.
    pub(super) all: Vec<String>,
    /// Those, and parts of those, that may be the name of a file.
    pub(crate) names: Vec<String>,
    /// What stands in it for words that nobody knows before it runs.
    pub(super) unknown: BTreeSet<&'static str>,
}

impl Words {
    /// The words of a program, seen from that project.
    pub(crate) fn of(program: &Program, project: &Path) -> Self {
        let mut cut = Cut {
            project: project.to_string_lossy(),
            words: Self::default(),
        };
        match program {
            Program::List(list) => {
                let before = std::iter::once("").chain(list.iter().map(String::as_str));
                for (before, word) in before.zip(list) {
                    cut.take(before, word);
                }
            }
            Program::Shell(line) => {
                cut.note(line);
                cut.split(line);
            }
        }
        cut.words
    }
}

struct Cut<'a> {
    project: Cow<'a, str>,
    words: Words,
}

impl Cut<'_> {
    fn take(&mut self, before: &str, word: &str) {
        if is_for_a_line(before) {
            self.note(word);
        }
        let word = with(&with(word, PROJECT, &self.project), HERE, ".");
        // A line for another shell: `sh -c "…"`.
        if word.contains(char::is_whitespace) {
            self.split(&word);
        } else {
            self.words.all.push(word.clone());
        }
        let mut rest = &*word;
        self.name(rest);
        for _ in 0..MOST_VALUES {
            let Some((_, value)) = rest.split_once('=') else {
                break;
            };
            self.name(value);
            rest = value;
        }
    }

    /// Takes a word, or of an option what follows its letters: `-fscripts/x.awk`.
    fn name(&mut self, word: &str) {
        let Some(option) = word.strip_prefix('-') else {
            return self.push(word);
        };
        let letters = option.bytes().take(MOST_LETTERS);
        let letters = letters.take_while(u8::is_ascii_alphabetic).count();
        for at in 1..=letters {
            self.push(&option[at..]);
        }
    }

    fn push(&mut self, word: &str) {
        let file = !word.is_empty() && word.len() <= LONGEST && !word.starts_with('-');
        if file && !word.contains('\0') {
            self.words.names.push(word.to_owned());
        }
    }

    /// Cuts a line where a shell would.
    fn split(&mut self, line: &str) {
        let (mut word, mut quote) = (String::new(), None);
        let mut words = Vec::new();
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), c) => word.push(c),
                (None, '"' | '\'') => quote = Some(c),
                (None, '\\') => {}
                (None, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`') => {
                    words.push(std::mem::take(&mut word));
                }
                (None, c) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
                (None, c) => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        let mut before = "";
        for word in &words {
            // A word as long as the line has nothing left to be cut.
            match word.len() < line.len() {
                true => self.take(before, word),
                false if word.contains(char::is_whitespace) => self.words.names.push(word.clone()),
                false => self.take(before, word),
            }
            before = word;
        }
    }

    /// Notes what of a line only a shell can tell.
    fn note(&mut self, line: &str) {
        let line = with(&with(line, PROJECT, ""), HERE, "");
        let mut quote = None;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied().unwrap_or(' ');
            let unknown = match (quote, c) {
                (Some(open), c) if c == open => {
                    quote = None;
                    None
                }
                (Some('\''), _) => None,
                (_, '$') => match next {
                    '(' => Some("$(…)"),
                    // In double quotes that is the end of the text.
                    '"' => None,
                    '\'' if quote.is_some() => None,
                    next if next.is_whitespace() || next == '/' => None,
                    _ => Some("$…"),
                },
                (_, '`') => Some("`…`"),
                (None, '\\') => {
                    chars.next();
                    None
                }
                (Some(_), _) => None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    None
                }
                (None, '*' | '?') => Some("*"),
                (None, '[') if !next.is_whitespace() && next != '[' => Some("*"),
                (None, '{') => {
                    let ends = |c: &char| *c == '}' || c.is_whitespace();
                    let inner: String = chars.clone().take_while(|c| !ends(c)).collect();
                    // `find -exec` has files for `{}`; `{file}` of a built-in is no program.
                    let open = next == '}' || inner.contains(',') || inner.contains("..");
                    open.then_some("{…}")
                }
                (None, _) => None,
            };
            // The name of a variable is no pattern.
            if unknown == Some("$…") && matches!(next, '{' | '?' | '*') {
                chars.next();
            }
            self.words.unknown.extend(unknown);
        }
    }
}

/// `sh -c`, `bash -euc`: what comes next is a line.
pub(in crate::trust) fn is_for_a_line(before: &str) -> bool {
    let letters = before.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// A text with that in the place of a variable.
fn with(text: &str, variable: [&str; 2], value: &str) -> String {
    let [braced, bare] = variable;
    let text = text.replace(braced, value);
    let mut parts = text.split(bare);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        all.push_str(if goes_on { bare } else { value });
        all.push_str(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_before_it_runs_is_noted() {
        let unknown = |program: Program| -> Vec<&str> {
            let words = Words::of(&program, Path::new("/p"));
            words.unknown.into_iter().collect()
        };
        let line = |line: &str| unknown(Program::Shell(line.to_owned()));
        for plain in [
            "cd x && ./y",
            "\"$CLAUDE_PROJECT_DIR\"/x ${CLAUDE_PROJECT_DIR}/y $PWD/z",
            "jq '.a[$x]' | grep \"x$\" | sed 's/a*$//'",
            "if [ -e x ]; then { y; }; fi; [[ -e x ]]",
            "awk '{print $1}'",
            "make {files}",
        ] {
            assert_eq!(line(plain), [""; 0], "{plain}");
        }
        for (open, what) in [
            ("bash -c \"$(cat x)\"", "$(…)"),
            ("`cat x`", "`…`"),
            ("$x/y", "$…"),
            ("\"$x\"", "$…"),
            ("${x%$}", "$…"),
            ("$CLAUDE_PROJECT_DIRECTORY/x", "$…"),
            ("$'\\x2e/y'", "$…"),
            ("test $? = 0", "$…"),
            ("sh scripts/*.sh", "*"),
            ("sh scripts/?.sh", "*"),
            ("sh scripts/[ab].sh", "*"),
            ("sh scripts/{a,b}.sh", "{…}"),
            ("sh scripts/{1..3}.sh", "{…}"),
            ("find scripts -exec sh {} \\;", "{…}"),
            ("sh -euc '$x'", "$…"),
        ] {
            assert_eq!(line(open), [what], "{open}");
        }
        let list = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned());
            unknown(Program::List(words.collect()))
        };
        assert_eq!(list(&["x", "$y", "*"]), [""; 0], "nothing is expanded");
        assert_eq!(list(&["sh", "-c", "$y"]), ["$…"]);
    }

    #[test]
    fn a_variable_counts_only_as_a_whole() {
        let names = |line: &str| Words::of(&Program::Shell(line.to_owned()), Path::new("/p")).names;
        assert_eq!(names("$CLAUDE_PROJECT_DIR/x"), ["/p/x"]);
        assert_eq!(names("\"${CLAUDE_PROJECT_DIR}\"/x"), ["/p/x"]);
        assert_eq!(names("$CLAUDE_PROJECT_DIRX/x"), ["$CLAUDE_PROJECT_DIRX/x"]);
        assert_eq!(names("$PWD/x"), ["./x"]);
    }
}
