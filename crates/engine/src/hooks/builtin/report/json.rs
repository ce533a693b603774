//! Problems as tools write them for machines.

use serde_json::Value;

use super::{Problem, Severity};

/// `eslint --format json`
pub(super) fn eslint(text: &str) -> Vec<Problem> {
    let files = parse(text, Value::is_array);
    let mut problems = Vec::new();
    for file in list(&files) {
        for message in list(&file["messages"]) {
            // Without a place it is about the file as such, as that it is ignored.
            let Some(line) = number(&message["line"]) else {
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
            let said = text_of(&message["message"]);
            problems.push(Problem {
                file: path(&file["filePath"]),
                line,
                column: number(&message["column"]).unwrap_or(0),
                severity,
                text: match rule {
                    Some(rule) => format!("{word}: {said} ({rule})"),
                    None => format!("{word}: {said}"),
                },
            });
        }
    }
    problems
}

/// `pyright --outputjson`, which counts from 0.
pub(super) fn pyright(text: &str) -> Vec<Problem> {
    let report = parse(text, |value| value["generalDiagnostics"].is_array());
    let one = |found: &Value| {
        let start = &found["range"]["start"];
        let place = |value: &Value| number(value).map_or(0, |number| number + 1);
        let word = text_of(&found["severity"]);
        let rule = found["rule"].as_str();
        let rule = rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
        Problem {
            file: path(&found["file"]),
            line: place(&start["line"]),
            column: place(&start["character"]),
            severity: match &*word {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                _ => Severity::Note,
            },
            text: format!("{word}: {}{rule}", text_of(&found["message"])),
        }
    };
    list(&report["generalDiagnostics"])
        .iter()
        .map(one)
        .collect()
}

/// `jest --json` and `vitest --reporter=json`: the tests that failed.
pub(super) fn jest(text: &str) -> Vec<Problem> {
    let report = parse(text, |value| value["testResults"].is_array());
    let mut problems = Vec::new();
    for suite in list(&report["testResults"]) {
        let tests = list(&suite["assertionResults"]);
        let failed = tests.iter().filter(|test| test["status"] == "failed");
        let before = problems.len();
        problems.extend(failed.map(|test| failed_test(suite, test)));
        if problems.len() == before && suite["status"] == "failed" {
            let said = text_of(&suite["message"]);
            // jest gives a page of advice before it says what is wrong.
            let said = said.split_once("Details:").map_or(&*said, |(_, said)| said);
            let said = first_lines(said);
            problems.push(at(
                suite,
                format!("the file could not be run: {said}"),
                0,
                0,
            ));
        }
    }
    problems
}

fn failed_test(suite: &Value, test: &Value) -> Problem {
    let said = list(&test["failureMessages"]);
    let said = said.first().map(text_of).unwrap_or_default();
    let name = text_of(&test["fullName"]);
    let file = text_of(&suite["name"]);
    let (line, column) = place_in(&said, &file).unwrap_or_default();
    at(
        suite,
        format!("{name}: {}", first_lines(&said)),
        line,
        column,
    )
}

fn at(suite: &Value, text: String, line: u32, column: u32) -> Problem {
    Problem {
        file: path(&suite["name"]),
        line,
        column,
        severity: Severity::Error,
        text,
    }
}

/// The first `file:line:column` of this file in a stack.
fn place_in(stack: &str, file: &str) -> Option<(u32, u32)> {
    let (_, after) = stack.split_once(&format!("{file}:"))?;
    let mut numbers = after.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What a failure says, without the stack and the picture of the code.
fn first_lines(text: &str) -> String {
    let text = super::super::capture::plain(text);
    let is_stack = |line: &str| line.starts_with("at ") || line.starts_with('❯');
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.take_while(|line| !is_stack(line)).take(8).collect();
    lines.join("\n")
}

/// The JSON in what was printed: all of it, else the first line that is such. Tests print too.
fn parse(text: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let whole = serde_json::from_str(text.trim()).ok().filter(&fits);
    let in_a_line = || {
        let mut lines = text.lines().filter(|line| line.starts_with(['{', '[']));
        lines.find_map(|line| serde_json::from_str(line).ok().filter(&fits))
    };
    whole.or_else(in_a_line).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn path(value: &Value) -> Option<std::path::PathBuf> {
    value.as_str().map(Into::into)
}
