//! The problems that a tool reports: read from its output, cut to a useful length, and formatted.

mod formats;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use becket_wire::place::fnv1a;

use super::capture::Captured;
use super::language::Format;
use crate::join_first;

/// The bounds of one report: the number of problems, the bytes of each, and the bytes of all.
const MOST: usize = 10;
const LONGEST: usize = 700;
const ALL: usize = 4_000;
/// The number of lines that are kept of unreadable output.
const LAST_LINES: usize = 40;

/// One problem that a tool reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<PathBuf>,
    /// Counted from 1; 0 if unknown.
    pub line: u32,
    pub column: u32,
    pub severity: Severity,
    /// The message without the position. It has several lines if the tool explains itself.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    /// It explains another problem.
    Note,
}

/// Reads the problems in the output of a tool. Files are relative to `base`.
pub fn read(format: Format, output: &Captured, base: &Path) -> Vec<Problem> {
    let both = format!("{}\n{}", output.stdout, output.stderr);
    let mut problems = match format {
        Format::Lines | Format::Cargo => formats::colons(&both),
        Format::Parens => formats::parens(&both),
        Format::GitHub => formats::github(&output.stdout),
        Format::EslintJson => formats::eslint(&output.stdout),
        Format::PyrightJson => formats::pyright(&output.stdout),
        Format::JestJson => formats::jest(&output.stdout),
        Format::CargoTest => formats::cargo(&output.stdout, &output.stderr),
        Format::Pytest => formats::pytest(&output.stdout),
        Format::GoTest => formats::go(&output.stdout, &output.stderr),
        Format::Any => formats::any(&both),
    };
    for problem in &mut problems {
        problem.file = problem.file.take().map(|file| base.join(file));
    }
    // Several targets of one crate report the same problem.
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| {
        let place = (problem.file.clone(), problem.line, problem.column);
        seen.insert((place, problem.text.clone()))
    });
    problems
}

/// Makes a problem of the end of the output, for a tool that fails without a readable problem.
pub fn last_words(output: &Captured) -> Option<Problem> {
    let text = format!("{}\n{}", output.stdout.trim_end(), output.stderr.trim_end());
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    (!last.is_empty()).then(|| Problem::error(last.join("\n")))
}

/// Puts the worst problems first and keeps those that fit into one list. Returns how many do not.
pub fn cut_off(problems: &mut Vec<Problem>, cwd: &Path) -> usize {
    problems.sort_by_key(|problem| problem.severity);
    let (all, mut length, mut listed) = (problems.len(), 0, 0);
    for problem in problems.iter().take(MOST) {
        length += problem.entry(cwd).len();
        if listed > 0 && length > ALL {
            break;
        }
        listed += 1;
    }
    problems.truncate(listed);
    all - listed
}

/// Formats problems for a person or a model, and the count of those that were cut off.
pub fn list(problems: &[Problem], more: usize, cwd: &Path) -> String {
    let mut text: String = problems.iter().map(|it| it.entry(cwd)).collect();
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

/// Texts by which linters report an `any`. `check-any-changed` reports the same.
const ANY: [&str; 3] = ["no-explicit-any", "noExplicitAny", "Unexpected any"];

impl Problem {
    /// Makes an error without a place.
    pub fn error(text: String) -> Self {
        Self {
            file: None,
            line: 0,
            column: 0,
            severity: Severity::Error,
            text,
        }
    }

    /// Returns a hash that is the same for every tool that reports this problem.
    pub fn hash(&self) -> u64 {
        let file = self.file.as_ref();
        let file = file.map(|file| fs::canonicalize(file).unwrap_or_else(|_| file.clone()));
        let line = self.text.lines().next().unwrap_or_default();
        let is_any = ANY.iter().any(|any| self.text.contains(any));
        let words = if is_any { ANY[0] } else { line.trim() };
        let file = file.unwrap_or_default();
        fnv1a(format!("{}\0{}\0{words}", file.display(), self.line).as_bytes())
    }

    /// Returns its file and line, relative to the session's folder.
    pub fn place(&self, cwd: &Path) -> Option<String> {
        let file = shown(self.file.as_ref()?, cwd);
        Some(match self.line {
            0 => file,
            line => format!("{file}:{line}"),
        })
    }

    fn entry(&self, cwd: &Path) -> String {
        let mut entry = String::new();
        if let Some(file) = &self.file {
            let _ = write!(entry, "{}", shown(file, cwd));
            for number in [self.line, self.column] {
                if number > 0 {
                    let _ = write!(entry, ":{number}");
                }
            }
            entry.push_str(": ");
        }
        let mut text = cut(&self.text, if self.file.is_some() { LONGEST } else { ALL });
        // Tools print whole paths, which are long and not needed.
        if cwd.parent().is_some() {
            text = text.replace(&format!("{}/", cwd.display()), "");
        }
        entry.push_str(&text.replace('\n', "\n  "));
        entry.push('\n');
        entry
    }
}

/// The number of `..` that a relative path may begin with.
const MOST_UP: usize = 4;

/// Formats a path relative to the folder in which the session works.
pub fn shown(path: &Path, cwd: &Path) -> String {
    let above = cwd.ancestors().take(MOST_UP + 1).enumerate();
    for (up, folder) in above {
        if let (Ok(near), Some(_)) = (path.strip_prefix(folder), folder.parent()) {
            return format!("{}{}", "../".repeat(up), near.display());
        }
    }
    path.display().to_string()
}

/// Formats the places of problems that were reported before, on one line.
pub fn places(problems: &[Problem], cwd: &Path) -> String {
    let mut places: Vec<String> = Vec::new();
    for place in problems.iter().filter_map(|problem| problem.place(cwd)) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    join_first(places.into_iter(), MOST)
}

/// Cuts a text at its end, which matters least.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{} …", text[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(format: Format, stdout: &str, stderr: &str) -> String {
        let output = Captured {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            code: Some(1),
            cut: false,
        };
        cut_list(read(format, &output, Path::new("/p")))
    }

    fn cut_list(mut problems: Vec<Problem>) -> String {
        let more = cut_off(&mut problems, Path::new("/p"));
        list(&problems, more, Path::new("/p"))
    }

    macro_rules! on_stdout {
        ($format:ident, $name:literal) => {
            recorded(
                Format::$format,
                include_str!(concat!("report/recorded/", $name)),
                "",
            )
        };
    }

    macro_rules! on_stderr {
        ($format:ident, $name:literal) => {
            recorded(
                Format::$format,
                "",
                include_str!(concat!("report/recorded/", $name)),
            )
        };
    }

    #[test]
    fn javascript() {
        insta::assert_snapshot!("tsc", on_stdout!(Parens, "tsc.txt"));
        insta::assert_snapshot!("eslint", on_stdout!(EslintJson, "eslint.json"));
        insta::assert_snapshot!("biome", on_stdout!(GitHub, "biome.txt"));
        insta::assert_snapshot!("vitest", on_stdout!(JestJson, "vitest.json"));
        insta::assert_snapshot!("jest", on_stdout!(JestJson, "jest.json"));
    }

    #[test]
    fn rust() {
        insta::assert_snapshot!("cargo-check", on_stderr!(Cargo, "cargo-check.txt"));
        insta::assert_snapshot!("clippy", on_stderr!(Cargo, "clippy.txt"));
        insta::assert_snapshot!("cargo-test", on_stdout!(CargoTest, "cargo-test.txt"));
        // What does not compile has no tests.
        let broken = on_stderr!(CargoTest, "cargo-check.txt");
        assert!(broken.contains("expected `u8`, found `String`"), "{broken}");
    }

    #[test]
    fn python() {
        insta::assert_snapshot!("pyright", on_stdout!(PyrightJson, "pyright.json"));
        insta::assert_snapshot!("mypy", on_stdout!(Lines, "mypy.txt"));
        insta::assert_snapshot!("ruff", on_stdout!(Lines, "ruff.txt"));
        insta::assert_snapshot!("pytest", on_stdout!(Pytest, "pytest.txt"));
        insta::assert_snapshot!("pytest-collect", on_stdout!(Pytest, "pytest-collect.txt"));
    }

    #[test]
    fn go() {
        insta::assert_snapshot!("go-vet", on_stderr!(Lines, "go-vet.txt"));
        insta::assert_snapshot!("go-vet-broken", on_stderr!(Lines, "go-vet-broken.txt"));
        insta::assert_snapshot!("golangci-lint", on_stdout!(Lines, "golangci-lint.txt"));
        insta::assert_snapshot!("go-test", on_stdout!(GoTest, "go-test.txt"));
        let broken = on_stderr!(GoTest, "go-vet-broken.txt");
        assert!(
            broken.starts_with("price/price.go:9:25: cannot use"),
            "{broken}"
        );
    }

    #[test]
    fn any_command_is_read_as_far_as_it_can_be() {
        let text = "\
make: Entering directory '/p'
src/a.c:3:5: warning: unused variable 'x'
src/b.ts(1,2): error TS1: no
::error file=c.js,line=4::wrong
12:30:01 INFO done
see https://example.com:443/a.b: there
";
        assert_eq!(
            recorded(Format::Any, text, ""),
            "src/b.ts:1:2: error TS1: no\nc.js:4: wrong\nsrc/a.c:3:5: warning: unused variable 'x'\n"
        );
    }

    #[test]
    fn json_is_found_among_what_tests_print() {
        let report = r#"{"testResults":[{"name":"/p/a.test.js","status":"failed","message":"no","assertionResults":[]}]}"#;
        let printed = format!("hello\n{{not json}}\n{{\"a\":1}}\n{report}\nbye\n");
        let listed = recorded(Format::JestJson, &printed, "");
        assert_eq!(listed, "a.test.js: the file could not be run: no\n");
        for garbage in ["", "[", "{}", "null", "\"x\"", "[1]"] {
            for format in [Format::EslintJson, Format::PyrightJson, Format::JestJson] {
                assert_eq!(recorded(format, garbage, ""), "", "{garbage}");
            }
        }
    }

    fn problem(line: u32, text: &str) -> Problem {
        Problem {
            file: Some("/p/src/a.ts".into()),
            line,
            column: 0,
            severity: Severity::Error,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        let listed = cut_list((1..=25).map(|line| problem(line, "wrong")).collect());
        assert_eq!(listed.lines().count(), 11, "{listed}");
        assert!(
            listed.ends_with("src/a.ts:10: wrong\nand 15 more\n"),
            "{listed}"
        );

        let long = "é".repeat(5_000);
        let listed = cut_list((1..=25).map(|line| problem(line, &long)).collect());
        assert!(listed.len() < ALL + 100, "{}", listed.len());
        assert!(
            listed.ends_with("and 20 more\n"),
            "{}",
            &listed[listed.len() - 30..]
        );
    }

    #[test]
    fn the_worst_comes_first_and_nothing_twice() {
        let text =
            "a.py:1:1: warning: w\na.py:2:1: error: e\na.py:2:1: error: e\na.py:3:1: error: e\n";
        assert_eq!(
            recorded(Format::Lines, text, ""),
            "a.py:2:1: error: e\na.py:3:1: error: e\na.py:1:1: warning: w\n"
        );
    }

    #[test]
    fn unreadable_output_is_reported_by_its_end() {
        let stdout: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
        let output = Captured {
            stdout,
            stderr: "the end\n".to_owned(),
            ..Captured::default()
        };
        let listed = last_words(&output).unwrap().text;
        assert!(listed.starts_with("line 61\n"), "{listed}");
        assert!(listed.ends_with("line 99\nthe end"), "{listed}");
        assert_eq!(last_words(&Captured::default()), None);
    }
}
