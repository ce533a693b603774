//! Problems that stand in lines of their own, in the three spellings that tools have.

use super::{Problem, Severity};

/// `file:line:column: text`, where the column may be missing. What is indented below belongs to it
/// only if it is marked as a note of the same place.
pub(super) fn colons(text: &str) -> Vec<Problem> {
    let problems = text.lines().filter_map(colon_line);
    problems.collect()
}

/// `file(line,column): text`, with indented lines that go on.
pub(super) fn parens(text: &str) -> Vec<Problem> {
    going_on(text, paren_line)
}

/// `::error file=…,line=…,col=…::text`
pub(super) fn github(text: &str) -> Vec<Problem> {
    text.lines().filter_map(github_line).collect()
}

/// Whatever looks like a problem.
pub(super) fn any(text: &str) -> Vec<Problem> {
    let one = |line: &str| {
        github_line(line)
            .or_else(|| paren_line(line))
            .or_else(|| colon_line(line))
    };
    text.lines().filter_map(one).collect()
}

fn going_on(text: &str, read: fn(&str) -> Option<Problem>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some(problem) = read(line) {
            problems.push(problem);
            open = true;
        } else if open && line.starts_with("  ") {
            if let Some(last) = problems.last_mut() {
                last.text.push('\n');
                last.text.push_str(line.trim());
            }
        } else {
            open = false;
        }
    }
    problems
}

pub(super) fn colon_line(line: &str) -> Option<Problem> {
    // go vet says so of what does not even compile.
    let line = line.strip_prefix("vet: ").unwrap_or(line);
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    line.match_indices(':').find_map(|(at, _)| {
        let (file, rest) = (&line[..at], &line[at + 1..]);
        let (row, rest) = number(rest)?;
        let rest = rest.strip_prefix(':')?;
        let (column, rest) = match number(rest) {
            Some((column, more)) if more.starts_with(':') => (column, &more[1..]),
            _ => (0, rest),
        };
        let text = rest.strip_prefix(' ')?;
        is_file(file).then(|| problem(file, row, column, text))
    })
}

fn paren_line(line: &str) -> Option<Problem> {
    let (file, rest) = line.split_once('(')?;
    let (row, rest) = number(rest)?;
    let (column, rest) = number(rest.strip_prefix(',')?)?;
    let text = rest.strip_prefix("): ")?;
    (is_file(file) && !file.starts_with(char::is_whitespace))
        .then(|| problem(file, row, column, text))
}

fn github_line(line: &str) -> Option<Problem> {
    let (level, rest) = line.strip_prefix("::")?.split_once(' ')?;
    let severity = match level {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        "notice" => Severity::Note,
        _ => return None,
    };
    let (fields, text) = rest.split_once("::")?;
    let field = |name: &str| {
        let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
        fields
            .find(|(key, _)| *key == name)
            .map(|(_, value)| unescape(value))
    };
    let number = |name| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let title = field("title")
        .map(|title| format!("{title}: "))
        .unwrap_or_default();
    Some(Problem {
        file: Some(field("file")?.into()),
        line: number("line"),
        column: number("col"),
        severity,
        text: format!("{title}{}", unescape(text)),
    })
}

/// How GitHub wants special characters.
fn unescape(text: &str) -> String {
    let text = text.replace("%0A", "\n").replace("%0D", "");
    text.replace("%2C", ",")
        .replace("%3A", ":")
        .replace("%25", "%")
}

fn problem(file: &str, line: u32, column: u32, text: &str) -> Problem {
    Problem {
        file: Some(file.into()),
        line,
        column,
        severity: severity(text),
        text: text.trim().to_owned(),
    }
}

/// What the text says of itself; an error if it says nothing.
fn severity(text: &str) -> Severity {
    let word = text.split([':', ' ', '[']).next().unwrap_or_default();
    match word {
        "warning" => Severity::Warning,
        "note" | "info" | "help" => Severity::Note,
        _ => Severity::Error,
    }
}

/// A path as tools print it: no clock time, no address, no line of prose.
fn is_file(text: &str) -> bool {
    let is_path = |c: char| !c.is_control() && !"\"'`<>|".contains(c);
    let name = text.rsplit('/').next().unwrap_or_default();
    name.contains('.') && text.chars().all(is_path) && !text.contains("://") && !text.ends_with(' ')
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}
