//! Which words of a program are commands, and whether such a command is a file of whatever project
//! a session works in.

use super::start::is_for_a_line;
use crate::run::Program;

/// How a line names the project, or the folder that it runs in.
const HERE: [&str; 4] = [
    "${CLAUDE_PROJECT_DIR}",
    "$CLAUDE_PROJECT_DIR",
    "${PWD}",
    "$PWD",
];
/// Words of a shell after which a command stands.
const BEFORE: [&str; 15] = [
    "!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "exec", "command",
    "env", "nohup", ".",
];

/// Whether it starts a file that the project brings along: a path that is not absolute. In a line
/// for a shell every command counts; what a command gets as an argument does not.
pub fn is_of_the_project(program: &Program) -> bool {
    let words = match program {
        Program::Shell(line) => return has_a_command_of_the_project(line),
        Program::List(words) => words,
    };
    let is_line =
        |pair: &[String]| is_for_a_line(&pair[0]) && has_a_command_of_the_project(&pair[1]);
    words.first().is_some_and(|word| is_relative(word)) || words.windows(2).any(is_line)
}

fn has_a_command_of_the_project(line: &str) -> bool {
    commands_in(line).iter().any(|word| {
        let here = HERE.iter().find_map(|here| word.strip_prefix(here));
        let elsewhere = word.starts_with(['~', '$']);
        here.is_some_and(|rest| rest.starts_with('/')) || (!elsewhere && is_relative(word))
    })
}

fn is_relative(word: &str) -> bool {
    word.contains('/') && !word.starts_with('/')
}

/// The words of a line that stand where a command does.
fn commands_in(line: &str) -> Vec<String> {
    let mut words = Words::default();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => words.word.push(c),
            (None, '"' | '\'') => quote = Some(c),
            (None, '\\') => {}
            // `2>&1`
            (None, '&') if words.redirects && words.word.is_empty() => {}
            (None, ';' | '|' | '&' | '(' | '`' | '\n') => {
                words.end();
                (words.awaits, words.redirects) = (true, false);
            }
            (None, '<' | '>') => {
                if words.word.chars().all(|c| c.is_ascii_digit()) {
                    words.word.clear();
                }
                words.end();
                words.redirects = true;
            }
            (None, c) if c.is_whitespace() || c == ')' => words.end(),
            (None, c) => words.word.push(c),
        }
    }
    words.end();
    words.commands
}

struct Words {
    word: String,
    /// The next word is a command.
    awaits: bool,
    /// The next word is a file that is read or written.
    redirects: bool,
    commands: Vec<String>,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            word: String::new(),
            awaits: true,
            redirects: false,
            commands: Vec::new(),
        }
    }
}

impl Words {
    fn end(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        if std::mem::take(&mut self.redirects) || !self.awaits {
            return;
        }
        let is_option = word.starts_with('-');
        let passed_over = is_option || BEFORE.contains(&&*word) || is_assignment(&word);
        if !passed_over {
            self.awaits = false;
            self.commands.push(word);
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_a_path_that_is_not_absolute_is_the_projects() {
        let line = |line: &str| is_of_the_project(&Program::Shell(line.to_owned()));
        for own in [
            "scripts/check",
            "./check --all",
            "  ../check",
            "X=a/b ./check",
            "true && ./check",
            "cd x; if ./check; then echo; fi",
            "exec ./check",
            ". scripts/lib.sh",
            "cat x |\n scripts/check",
            "echo $(./check)",
            "<in ./check",
            "2>err ./check",
            "env -i A=b ./check",
            "true & ./check",
            "\"./check\"",
            "\"$CLAUDE_PROJECT_DIR\"/scripts/check",
            "${CLAUDE_PROJECT_DIR}/scripts/check",
            "$PWD/check",
        ] {
            assert!(line(own), "{own}");
        }
        for other in [
            "check src/main.rs",
            "/usr/bin/check ./x",
            "~/bin/check",
            "$HOME/bin/check",
            "\"$HOME\"/bin/check",
            "X=./a check",
            "check > out/file",
            "check 2>&1 src/main.rs",
            "check 2>&1 >out src/main.rs",
            "check < in/file",
            "echo './x; ./y'",
            "$CLAUDE_PROJECT_DIRECTORY",
            "",
        ] {
            assert!(!line(other), "{other}");
        }
        let list = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned());
            is_of_the_project(&Program::List(words.collect()))
        };
        assert!(list(&["scripts/check"]) && list(&["./x"]) && list(&["~/x"]));
        assert!(list(&["$CLAUDE_PROJECT_DIR/x"]), "nothing is expanded");
        assert!(list(&["bash", "-c", "true && ./x"]) && !list(&["bash", "-c", "x ./y"]));
        assert!(!list(&["check", "./x"]) && !list(&["/bin/check"]) && !list(&[]));
    }
}
