//! Readers of what tools print: lines, JSON, and the output of test runners.

use serde_json::Value;

use super::{Problem, Severity};

/// Reads `file:line:column: text`, where the column may be missing.
pub(super) fn colons(text: &str) -> Vec<Problem> {
    let problems = text.lines().filter_map(colon_line);
    problems.collect()
}

/// Reads `file(line,column): text`, with indented lines that belong to it.
pub(super) fn parens(text: &str) -> Vec<Problem> {
    going_on(text, paren_line)
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
    // go vet prints this before code that does not compile.
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
    let title = github_field(fields, "title")
        .map(|title| format!("{title}: "))
        .unwrap_or_default();
    Some(Problem {
        file: Some(github_field(fields, "file")?.into()),
        line: github_number(fields, "line"),
        column: github_number(fields, "col"),
        severity,
        text: format!("{title}{}", unescape(text)),
    })
}

fn github_field(fields: &str, name: &str) -> Option<String> {
    let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(key, _)| *key == name)?;
    Some(unescape(value))
}

fn github_number(fields: &str, name: &str) -> u32 {
    let text = github_field(fields, name).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Resolves the escapes of GitHub's workflow commands.
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

/// Returns the severity at the beginning of a text; an error if there is none.
fn severity(text: &str) -> Severity {
    let word = text.split([':', ' ', '[']).next().unwrap_or_default();
    match word {
        "warning" => Severity::Warning,
        "note" | "info" | "help" => Severity::Note,
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

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
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
            let rule = message["ruleId"].as_str();
            let severity = match message["severity"].as_u64() {
                Some(1) => Severity::Warning,
                _ => Severity::Error,
            };
            let word = if severity == Severity::Error {
                "error"
            } else {
                "warning"
            };
            let text = text_of(&message["message"]);
            problems.push(Problem {
                file: path(&file["filePath"]),
                line,
                column: integer(&message["column"]).unwrap_or(0),
                severity,
                text: match rule {
                    Some(rule) => format!("{word}: {text} ({rule})"),
                    None => format!("{word}: {text}"),
                },
            });
        }
    }
    problems
}

/// Reads the output of `pyright --outputjson`, which counts from 0.
pub(super) fn pyright(text: &str) -> Vec<Problem> {
    let report = parse(text, |value| value["generalDiagnostics"].is_array());
    let problems = list(&report["generalDiagnostics"]).iter().map(|found| {
        let start = &found["range"]["start"];
        let word = text_of(&found["severity"]);
        let rule = found["rule"].as_str();
        let rule = rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
        Problem {
            file: path(&found["file"]),
            line: counted_from_one(&start["line"]),
            column: counted_from_one(&start["character"]),
            severity: match &*word {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                _ => Severity::Note,
            },
            text: format!("{word}: {}{rule}", text_of(&found["message"])),
        }
    });
    problems.collect()
}

fn counted_from_one(value: &Value) -> u32 {
    integer(value).map_or(0, |number| number + 1)
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
            let output = output
                .split_once("Details:")
                .map_or(&*output, |(_, output)| output);
            let output = first_lines(output);
            problems.push(at(
                suite,
                format!("the file could not be run: {output}"),
                0,
                0,
            ));
        }
    }
    problems
}

fn failed_test(suite: &Value, test: &Value) -> Problem {
    let output = list(&test["failureMessages"]);
    let output = output.first().map(text_of).unwrap_or_default();
    let name = text_of(&test["fullName"]);
    let file = text_of(&suite["name"]);
    let (line, column) = place_in(&output, &file).unwrap_or_default();
    at(
        suite,
        format!("{name}: {}", first_lines(&output)),
        line,
        column,
    )
}

fn at(suite: &Value, text: String, line: u32, column: u32) -> Problem {
    Problem {
        file: path(&suite["name"]),
        line,
        column,
        ..Problem::error(text)
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

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn path(value: &Value) -> Option<std::path::PathBuf> {
    value.as_str().map(Into::into)
}

/// The number of lines that are kept of one failure.
const LINES: usize = 8;

/// Reads the output of `cargo test -q`: compiler errors are on stderr, tests on stdout.
pub(super) fn cargo(stdout: &str, stderr: &str) -> Vec<Problem> {
    let mut problems = colons(stderr);
    problems.retain(|problem| problem.severity == Severity::Error);
    let mut lines = stdout.lines().peekable();
    while let Some(line) = lines.next() {
        let name = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        let Some(name) = name else {
            continue;
        };
        let mut output = Vec::new();
        while let Some(line) =
            lines.next_if(|line| !line.starts_with("---- ") && *line != "failures:")
        {
            output.push(line);
        }
        problems.push(cargo_test(name, &output));
    }
    problems
}

fn cargo_test(name: &str, output: &[&str]) -> Problem {
    // "thread 'x' (123) panicked at src/price.rs:12:9:"
    let panicked = output
        .iter()
        .position(|line| line.contains(" panicked at "));
    let place = panicked.and_then(|at| {
        let (_, place) = output[at].split_once(" panicked at ")?;
        colon_line(&format!("{place} "))
    });
    let from = panicked.map_or(0, |at| at + 1);
    let output = output[from..].iter().copied();
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
    let mut problems = Vec::new();
    let lines: Vec<_> = stdout.lines().collect();
    let summary = lines
        .iter()
        .position(|line| line.contains("short test summary info"));
    let (bodies, summary) = lines.split_at(summary.unwrap_or(lines.len()));
    for line in summary {
        let failure = line
            .strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "));
        let Some(failure) = failure else {
            continue;
        };
        let id = failure.split(" - ").next().unwrap_or(failure);
        let (file, test) = id.split_once("::").unwrap_or((id, ""));
        let body = body_of(bodies, file, test);
        let prefix = format!("{file}:");
        let place = body
            .iter()
            .filter(|line| line.starts_with(&prefix))
            .filter_map(|line| colon_line(line))
            .next_back();
        let errors = body.iter().filter_map(|line| line.strip_prefix("E "));
        let output: Vec<_> = errors.map(str::trim).take(LINES).collect();
        let output = match failure.split_once(" - ") {
            Some((_, short)) if output.is_empty() => short.to_owned(),
            _ => output.join("\n"),
        };
        let name = if test.is_empty() {
            "the file could not be read"
        } else {
            test
        };
        problems.push(Problem {
            file: Some(file.into()),
            line: place.as_ref().map_or(0, |place| place.line),
            ..Problem::error(format!("{name}: {output}"))
        });
    }
    problems
}

/// Returns the lines under the heading of one test.
fn body_of<'a>(lines: &'a [&'a str], file: &str, test: &str) -> &'a [&'a str] {
    // The heading of a method is the names of class and method, with a full stop between.
    let name = test.replace("::", ".");
    let start = lines.iter().position(|line| {
        let title = line.trim_matches('_').trim();
        let is_own = if name.is_empty() {
            title.ends_with(file)
        } else {
            title == name || title.ends_with(&format!(" of {name}"))
        };
        is_heading(line) && is_own
    });
    let Some(start) = start else {
        return &[];
    };
    let rest = &lines[start + 1..];
    let end = rest
        .iter()
        .position(|line| is_heading(line) || line.starts_with("==="));
    &rest[..end.unwrap_or(rest.len())]
}

fn is_heading(line: &str) -> bool {
    line.starts_with("___") && line.ends_with("___")
}

/// Reads the output of `go test`: compiler errors are on stderr, tests on stdout.
pub(super) fn go(stdout: &str, stderr: &str) -> Vec<Problem> {
    let mut problems = colons(stderr);
    let mut lines = stdout.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(panic) = line.strip_prefix("panic: ") {
            problems.push(Problem::error(format!("panic: {panic}")));
            continue;
        }
        let Some(name) = line.trim_start().strip_prefix("--- FAIL: ") else {
            continue;
        };
        let name = name.split(" (").next().unwrap_or(name);
        let mut output = Vec::new();
        while let Some(line) =
            lines.next_if(|line| line.starts_with(' ') && !line.contains("--- FAIL: "))
        {
            output.push(line.trim());
        }
        // A test may fail only because a test inside it did.
        if output.is_empty() && lines.peek().is_some_and(|line| line.contains("--- FAIL: ")) {
            continue;
        }
        let output: Vec<_> = output.into_iter().take(LINES).collect();
        problems.push(Problem::error(format!("{name}: {}", output.join("\n"))));
    }
    problems
}
