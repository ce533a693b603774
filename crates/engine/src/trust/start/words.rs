//! The words of a program that may be the name of a file, cut finer than a shell would: a list in an
//! option, a name in a piece of code. And what of a program nobody can follow.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use super::super::line::{Command, HERE, Line, PROJECT, TOO_DEEP, called};
use crate::run::Program;

/// How many values a word may have: `--set=key=value`.
const MOST_VALUES: usize = 4;
/// How many options one word may have before a file's name: `-nf`.
const MOST_LETTERS: usize = 3;
/// How often a word is cut again: quotes may stand in quotes.
const DEEPEST: usize = 6;
/// No file has a longer name.
const LONGEST: usize = 4096;
/// Where a word ends in lists (`a:b`, `a,b`) and in languages other than a shell's.
const ENDS: [char; 17] = [
    ':', ',', '=', '(', ')', '{', '}', '[', ']', '<', '>', ';', '|', '&', '"', '\'', '`',
];
/// Programs that take code of their own language, by which option, and what it is called.
const CODE: [(&str, &[&str], &str); 13] = [
    ("python", &["c"], "Python code"),
    ("pypy", &["c"], "Python code"),
    ("node", &["e", "p", "-eval", "-print"], "JavaScript code"),
    ("bun", &["e", "p", "-eval", "-print"], "JavaScript code"),
    ("deno", &["eval"], "JavaScript code"),
    ("perl", &["e", "E"], "Perl code"),
    ("ruby", &["e"], "Ruby code"),
    ("php", &["r", "B", "R", "-run"], "PHP code"),
    ("Rscript", &["e"], "R code"),
    ("lua", &["e"], "Lua code"),
    ("julia", &["e", "E", "-eval", "-print"], "Julia code"),
    ("osascript", &["e"], "AppleScript code"),
    ("tclsh", &["c"], "Tcl code"),
];
const AWK: [&str; 4] = ["awk", "gawk", "mawk", "nawk"];
/// How a program that finds files starts another one for each.
const FOR_EACH: [&str; 7] = [
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "--exec",
    "--exec-batch",
    "-x",
];

#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Its commands, and those of every line in it, each with its words.
    pub(super) commands: Vec<Vec<String>>,
    /// The words, and parts of words, that may be the name of a file.
    pub(crate) names: Vec<String>,
    /// What stands in it that cannot be followed.
    pub(super) unknown: BTreeSet<&'static str>,
}

impl Words {
    /// The words of a program, seen from that project.
    pub(crate) fn of(program: &Program, project: &Path) -> Self {
        let line = Line::all_of(program);
        let mut cut = Cut {
            project: project.to_string_lossy(),
            names: BTreeSet::new(),
            commands: Vec::new(),
            unknown: line.unknown,
        };
        for command in &line.commands {
            cut.command(command, 0);
        }
        Self {
            commands: cut.commands,
            names: cut.names.into_iter().collect(),
            unknown: cut.unknown,
        }
    }
}

struct Cut<'a> {
    project: Cow<'a, str>,
    names: BTreeSet<String>,
    commands: Vec<Vec<String>>,
    unknown: BTreeSet<&'static str>,
}

impl Cut<'_> {
    fn command(&mut self, command: &Command, depth: usize) {
        let known = |text: &str| with(&with(text, PROJECT, &self.project), HERE, ".");
        let words: Vec<String> = command.iter().map(|word| known(&word.text)).collect();
        for word in &words {
            self.take(word, depth);
        }
        self.unknown.extend(code_in(&words));
        self.commands.push(words);
    }

    fn take(&mut self, word: &str, depth: usize) {
        self.values(word);
        for part in word.split(|c: char| ENDS.contains(&c) || c.is_whitespace()) {
            self.name(part);
        }
        // It may be a line itself, for whatever program gets it.
        if !word.contains(|c: char| c == '\\' || c.is_whitespace() || ENDS[9..].contains(&c)) {
            return;
        }
        if depth == DEEPEST {
            self.unknown.insert(TOO_DEEP);
            return;
        }
        let line = Line::of(word);
        let same = |it: &Command| it.len() == 1 && it[0].text == word;
        for command in line.commands.iter().filter(|it| !same(it)) {
            self.command(command, depth + 1);
        }
    }

    fn values(&mut self, word: &str) {
        let mut rest = word;
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
        for name in names_in(word) {
            if !name.contains('\0') {
                self.names.insert(name.to_owned());
            }
        }
    }
}

/// A word, or of an option what follows its letters: `-fscripts/x.awk`.
pub(in crate::trust) fn names_in(word: &str) -> Vec<&str> {
    let names = match word.strip_prefix('-') {
        None => vec![word],
        Some(option) => {
            let letters = option.bytes().take(MOST_LETTERS);
            let letters = letters.take_while(u8::is_ascii_alphabetic).count();
            (1..=letters).map(|at| &option[at..]).collect()
        }
    };
    let is_name = |name: &&str| !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-');
    names.into_iter().filter(is_name).collect()
}

/// What stands in a command that no shell reads.
fn code_in(words: &[String]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let (name, rest) = (called(word), &words[at + 1..]);
        let code = CODE.iter().filter(|(program, ..)| *program == name);
        let code = code.filter(|(_, by, _)| rest.iter().any(|word| has_option(word, by)));
        found.extend(code.map(|(.., what)| *what));
        let starts = |word: &String| {
            ["system", "getline", "|"]
                .iter()
                .any(|it| word.contains(it))
        };
        if AWK.contains(&name) && rest.iter().any(starts) {
            found.insert("awk code");
        }
        if FOR_EACH.contains(&&**word) && rest.iter().any(|word| word.contains("{}")) {
            found.insert("{…}");
        }
    }
    found
}

/// Whether a word is one of those options, be it behind others (`-ne`) or before its value.
fn has_option(word: &str, options: &[&str]) -> bool {
    let Some(letters) = word.strip_prefix('-') else {
        return options.contains(&word);
    };
    let near = letters.bytes().take(MOST_LETTERS);
    let near = near.take_while(u8::is_ascii_alphabetic).count();
    options.iter().any(|option| match option.len() {
        1 => letters[..near].contains(option),
        _ => letters.split('=').next() == Some(option),
    })
}

/// A text with that in the place of a variable.
pub(in crate::trust) fn with(text: &str, variable: [&str; 2], value: &str) -> String {
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
