//! Readers of what tools print: lines, JSON, and the output of test runners.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::{Problem, Severity};

/// `file:line:column: text`, where the column may be missing. go vet prints `vet: ` before code that does not compile.
static COLONS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"^(?:vet: )?(?<file>[^ \t].*?):(?<line>[0-9]+):(?:(?<column>[0-9]+):)? (?<text>.*)";
    Regex::new(pattern).expect("a valid pattern")
});

/// `file(line,column): text`
static PARENS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^(?<file>[^ \t(][^(]*)\((?<line>[0-9]+),(?<column>[0-9]+)\): (?<text>.*)";
    Regex::new(pattern).expect("a valid pattern")
});

/// `::error file=…,line=…,col=…::text`
static GITHUB: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^::(?<level>error|warning|notice) (?<fields>.*?)::(?<text>.*)";
    Regex::new(pattern).expect("a valid pattern")
});

/// Reads `file:line:column: text`.
pub(super) fn colons(text: &str) -> Vec<Problem> {
    text.lines().filter_map(colon_line).collect()
}

/// Reads `file(line,column): text`, with indented lines that belong to it.
pub(super) fn parens(text: &str) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some(problem) = paren_line(line) {
            problems.push(problem);
            open = true;
        } else if open
            && line.starts_with("  ")
            && let Some(last) = problems.last_mut()
        {
            last.text.push('\n');
            last.text.push_str(line.trim());
        } else {
            open = false;
        }
    }
    problems
}

/// Reads `::error file=…,line=…,col=…::text`.
pub(super) fn github(text: &str) -> Vec<Problem> {
    text.lines().filter_map(github_line).collect()
}

/// Reads each line that looks like a problem.
pub(super) fn any(text: &str) -> Vec<Problem> {
    let problems = text.lines().filter_map(|line| {
        github_line(line)
            .or_else(|| paren_line(line))
            .or_else(|| colon_line(line))
    });
    problems.collect()
}

fn colon_line(line: &str) -> Option<Problem> {
    from_captures(&COLONS.captures(line)?)
}

fn paren_line(line: &str) -> Option<Problem> {
    from_captures(&PARENS.captures(line)?)
}

fn from_captures(line: &Captures) -> Option<Problem> {
    let file = &line["file"];
    if !is_file(file) {
        return None;
    }
    let column = match line.name("column") {
        Some(column) => column.as_str().parse().ok()?,
        None => 0,
    };
    Some(problem(
        file,
        line["line"].parse().ok()?,
        column,
        &line["text"],
    ))
}

fn github_line(line: &str) -> Option<Problem> {
    let line = GITHUB.captures(line)?;
    let fields = &line["fields"];
    let title = github_field(fields, "title").map(|title| format!("{title}: "));
    let [row, column] = ["line", "col"].map(|name| github_field(fields, name)?.parse().ok());
    let text = title.unwrap_or_default() + &unescape(&line["text"]);
    Some(Problem {
        severity: severity(&line["level"]),
        ..problem(
            &github_field(fields, "file")?,
            row.unwrap_or(0),
            column.unwrap_or(0),
            &text,
        )
    })
}

fn github_field(fields: &str, name: &str) -> Option<String> {
    let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(key, _)| *key == name)?;
    Some(unescape(value))
}

/// Resolves the escapes of GitHub's workflow commands.
fn unescape(text: &str) -> String {
    let text = text.replace("%0A", "\n").replace("%0D", "");
    text.replace("%2C", ",")
        .replace("%3A", ":")
        .replace("%25", "%")
}

/// Makes a problem with the severity at the beginning of its text.
fn problem(file: &str, line: u32, column: u32, text: &str) -> Problem {
    Problem {
        file: Some(file.into()),
        line,
        column,
        severity: severity(text),
        text: text.trim().to_owned(),
    }
}

/// Returns the severity at the beginning of a text; an error if there is none.
fn severity(text: &str) -> Severity {
    let word = text.split([':', ' ', '[']).next().unwrap_or_default();
    match word {
        "warning" => Severity::Warning,
        "note" | "notice" | "info" | "information" | "help" => Severity::Note,
        _ => Severity::Error,
    }
}

/// Returns true for a path as tools print it, and false for a time, an address or prose.
fn is_file(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    name.contains('.')
        && !text.contains(|c: char| c.is_control() || "\"'`<>|".contains(c))
        && !text.contains("://")
        && !text.ends_with(' ')
}

/// Reads the output of `eslint --format json`.
pub(super) fn eslint(text: &str) -> Vec<Problem> {
    let files = parse(text, Value::is_array);
    let mut problems = Vec::new();
    for file in list(&files) {
        for message in list(&file["messages"]) {
            // A message without a place is about the whole file, for example that it is ignored.
            let Some(line) = integer(&message["line"]) else {
                continue;
            };
            let word = if message["severity"] == 1 {
                "warning"
            } else {
                "error"
            };
            let column = integer(&message["column"]).unwrap_or(0);
            let text = text_with_rule(word, &message["message"], &message["ruleId"]);
            problems.push(problem(text_of(&file["filePath"]), line, column, &text));
        }
    }
    problems
}

/// Reads the output of `pyright --outputjson`, which counts from 0.
pub(super) fn pyright(text: &str) -> Vec<Problem> {
    let report = parse(text, |value| value["generalDiagnostics"].is_array());
    let problems = list(&report["generalDiagnostics"]).iter().map(|found| {
        let start = &found["range"]["start"];
        let line = integer(&start["line"]).map_or(0, |line| line + 1);
        let column = integer(&start["character"]).map_or(0, |column| column + 1);
        let text = text_with_rule(
            text_of(&found["severity"]),
            &found["message"],
            &found["rule"],
        );
        problem(text_of(&found["file"]), line, column, &text)
    });
    problems.collect()
}

/// Formats a message as `error: message (rule)`; not every message has a rule.
fn text_with_rule(severity: &str, message: &Value, rule: &Value) -> String {
    let rule = rule.as_str().map(|rule| format!(" ({rule})"));
    format!(
        "{severity}: {}{}",
        text_of(message),
        rule.unwrap_or_default()
    )
}

/// Reads the failed tests in the output of `jest --json` and `vitest --reporter=json`.
pub(super) fn jest(text: &str) -> Vec<Problem> {
    let report = parse(text, |value| value["testResults"].is_array());
    let mut problems = Vec::new();
    for suite in list(&report["testResults"]) {
        let tests = list(&suite["assertionResults"]);
        let failed = tests.iter().filter(|test| test["status"] == "failed");
        let before = problems.len();
        problems.extend(failed.map(|test| failed_test(suite, test)));
        if problems.len() == before && suite["status"] == "failed" {
            let output = text_of(&suite["message"]);
            // jest prints a page of advice before the error.
            let output = output.split_once("Details:").map_or(output, |(_, it)| it);
            let text = format!("the file could not be run: {}", first_lines(output));
            problems.push(Problem {
                file: Some(text_of(&suite["name"]).into()),
                ..Problem::error(text)
            });
        }
    }
    problems
}

fn failed_test(suite: &Value, test: &Value) -> Problem {
    let output = list(&test["failureMessages"]).first();
    let output = output.map(text_of).unwrap_or_default();
    let file = text_of(&suite["name"]);
    let (line, column) = place_in(output, file).unwrap_or_default();
    Problem {
        file: Some(file.into()),
        line,
        column,
        ..Problem::error(format!(
            "{}: {}",
            text_of(&test["fullName"]),
            first_lines(output)
        ))
    }
}

/// Returns the first `file:line:column` of a file in a stack.
fn place_in(stack: &str, file: &str) -> Option<(u32, u32)> {
    let (_, after) = stack.split_once(&format!("{file}:"))?;
    let mut numbers = after.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the message of a failure, without the stack and the excerpt of the code.
fn first_lines(text: &str) -> String {
    let text = super::super::capture::plain(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.take_while(|line| !line.starts_with("at ") && !line.starts_with('❯'));
    let lines: Vec<_> = lines.take(8).collect();
    lines.join("\n")
}

/// Returns the JSON in an output: all of it, or else the first line of JSON. Tests print too.
fn parse(text: &str, fits: impl Fn(&Value) -> bool) -> Value {
    if let Some(whole) = serde_json::from_str(text.trim()).ok().filter(&fits) {
        return whole;
    }
    let mut lines = text.lines().filter(|line| line.starts_with(['{', '[']));
    let found = lines.find_map(|line| serde_json::from_str(line).ok().filter(&fits));
    found.unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn integer(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number of lines that are kept of one failure.
const LINES: usize = 8;

/// Splits an output into sections: the titles that `title_of` finds, each with the lines after it.
fn sections<'a>(
    text: &'a str,
    title_of: impl Fn(&'a str) -> Option<&'a str>,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if let Some(title) = title_of(line) {
            sections.push((title, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}

/// Reads the output of `cargo test -q`: compiler errors are on stderr, tests on stdout.
pub(super) fn cargo(stdout: &str, stderr: &str) -> Vec<Problem> {
    let mut problems = colons(stderr);
    problems.retain(|problem| problem.severity == Severity::Error);
    let tests = sections(stdout, |line| {
        line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
    });
    problems.extend(tests.iter().map(|(name, output)| cargo_test(name, output)));
    problems
}

fn cargo_test(name: &str, output: &[&str]) -> Problem {
    let mut sections = output.split(|line| line.starts_with("---- ") || *line == "failures:");
    let output = sections.next().unwrap_or_default();
    // "thread 'x' (123) panicked at src/price.rs:12:9:"
    let panicked = output
        .iter()
        .position(|line| line.contains(" panicked at "));
    let place = panicked.and_then(|at| {
        let (_, place) = output[at].split_once(" panicked at ")?;
        colon_line(&format!("{place} "))
    });
    let output = output[panicked.map_or(0, |at| at + 1)..].iter().copied();
    let output: Vec<_> = output
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: "))
        .take(LINES)
        .collect();
    Problem {
        text: format!("{name}: {}", output.join("\n")),
        ..place.unwrap_or_else(|| Problem::error(String::new()))
    }
}

/// Reads the output of `pytest -q --tb=short`.
pub(super) fn pytest(stdout: &str) -> Vec<Problem> {
    let (bodies, summary) = stdout
        .split_once("short test summary info")
        .unwrap_or((stdout, ""));
    let bodies = sections(bodies, pytest_title);
    let failures = summary.lines().filter_map(|line| {
        line.strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "))
    });
    failures
        .map(|failure| pytest_failure(failure, &bodies))
        .collect()
}

fn pytest_title(line: &str) -> Option<&str> {
    let is_title = line.starts_with("___") && line.ends_with("___");
    // A line of `=` ends the sections of one kind.
    (is_title || line.starts_with("===")).then(|| line.trim_matches(['_', '=']).trim())
}

/// Makes a problem of a row of the summary, `file::test - message`, and the section about that test.
fn pytest_failure(failure: &str, bodies: &[(&str, Vec<&str>)]) -> Problem {
    let (id, short) = failure.split_once(" - ").unwrap_or((failure, ""));
    let (file, test) = id.split_once("::").unwrap_or((id, ""));
    // The title of a method is the names of class and method, with a full stop between.
    let title = test.replace("::", ".");
    let body = bodies.iter().find(|(found, _)| match &*title {
        "" => found.ends_with(file),
        title => *found == title || found.ends_with(&format!(" of {title}")),
    });
    let body = body.map_or(&[][..], |(_, lines)| lines);
    let prefix = format!("{file}:");
    let own_lines = body.iter().filter(|line| line.starts_with(&prefix));
    let place = own_lines.filter_map(|line| colon_line(line)).next_back();
    let errors = body.iter().filter_map(|line| line.strip_prefix("E "));
    let errors: Vec<_> = errors.map(str::trim).take(LINES).collect();
    let output = if errors.is_empty() {
        short.to_owned()
    } else {
        errors.join("\n")
    };
    let name = if test.is_empty() {
        "the file could not be read"
    } else {
        test
    };
    Problem {
        file: Some(file.into()),
        line: place.map_or(0, |place| place.line),
        ..Problem::error(format!("{name}: {output}"))
    }
}

/// Reads the output of `go test`: compiler errors are on stderr, tests on stdout.
pub(super) fn go(stdout: &str, stderr: &str) -> Vec<Problem> {
    let mut problems = colons(stderr);
    let mut tests = sections(stdout, go_title).into_iter().peekable();
    while let Some((title, output)) = tests.next() {
        if title.starts_with(PANIC) {
            problems.push(Problem::error(title.to_owned()));
            continue;
        }
        // A test may fail only because a test inside it did.
        if output.is_empty()
            && tests
                .peek()
                .is_some_and(|(title, _)| !title.starts_with(PANIC))
        {
            continue;
        }
        let name = title.split(" (").next().unwrap_or(title);
        let output = output.into_iter().take_while(|line| line.starts_with(' '));
        let output: Vec<_> = output.map(str::trim).take(LINES).collect();
        problems.push(Problem::error(format!("{name}: {}", output.join("\n"))));
    }
    problems
}

const PANIC: &str = "panic: ";

fn go_title(line: &str) -> Option<&str> {
    if line.starts_with(PANIC) {
        return Some(line);
    }
    line.trim_start().strip_prefix("--- FAIL: ")
}
