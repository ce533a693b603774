//! Failed tests, from runners that write for people.

use super::lines::{colon_line, colons};
use super::{Problem, Severity};

/// What is told of one failure.
const LINES: usize = 8;

/// `cargo test -q`: what does not compile stands on stderr, the tests on stdout.
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
        let mut said = Vec::new();
        while let Some(line) =
            lines.next_if(|line| !line.starts_with("---- ") && *line != "failures:")
        {
            said.push(line);
        }
        problems.push(cargo_test(name, &said));
    }
    problems
}

fn cargo_test(name: &str, said: &[&str]) -> Problem {
    // "thread 'x' (123) panicked at src/price.rs:12:9:"
    let panicked = said.iter().position(|line| line.contains(" panicked at "));
    let place = panicked.and_then(|at| {
        let (_, place) = said[at].split_once(" panicked at ")?;
        colon_line(&format!("{place} "))
    });
    let is_noise = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: ");
    let from = panicked.map_or(0, |at| at + 1);
    let said: Vec<_> = said[from..]
        .iter()
        .copied()
        .filter(is_noise)
        .take(LINES)
        .collect();
    Problem {
        text: format!("{name}: {}", said.join("\n")),
        ..place.unwrap_or(nowhere())
    }
}

/// `pytest -q --tb=short`
pub(super) fn pytest(stdout: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines: Vec<_> = stdout.lines().collect();
    let summary = lines
        .iter()
        .position(|line| line.contains("short test summary info"));
    let (bodies, summary) = lines.split_at(summary.unwrap_or(lines.len()));
    for line in summary {
        let told = line
            .strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "));
        let Some(told) = told else {
            continue;
        };
        let id = told.split(" - ").next().unwrap_or(told);
        let (file, test) = id.split_once("::").unwrap_or((id, ""));
        let body = body_of(bodies, file, test);
        let in_file = |line: &&&str| line.starts_with(&format!("{file}:"));
        let place = body
            .iter()
            .filter(in_file)
            .filter_map(|line| colon_line(line))
            .next_back();
        let errors = body.iter().filter_map(|line| line.strip_prefix("E "));
        let said: Vec<_> = errors.map(str::trim).take(LINES).collect();
        let said = match told.split_once(" - ") {
            Some((_, short)) if said.is_empty() => short.to_owned(),
            _ => said.join("\n"),
        };
        let name = if test.is_empty() {
            "the file could not be read"
        } else {
            test
        };
        problems.push(Problem {
            file: Some(file.into()),
            line: place.as_ref().map_or(0, |place| place.line),
            text: format!("{name}: {said}"),
            ..nowhere()
        });
    }
    problems
}

/// The lines under the heading of one test.
fn body_of<'a>(lines: &'a [&'a str], file: &str, test: &str) -> &'a [&'a str] {
    let heading = |line: &&str| line.starts_with("___") && line.ends_with("___");
    let title = |line: &&str| line.trim_matches('_').trim().to_owned();
    // A method of a class is headed by both names, with a full stop between.
    let name = test.replace("::", ".");
    let is_own = |line: &&str| {
        let title = title(line);
        heading(line)
            && match &*name {
                "" => title.ends_with(file),
                name => title == name || title.ends_with(&format!(" of {name}")),
            }
    };
    let Some(start) = lines.iter().position(is_own) else {
        return &[];
    };
    let rest = &lines[start + 1..];
    let end = rest
        .iter()
        .position(|line| heading(line) || line.starts_with("==="));
    &rest[..end.unwrap_or(rest.len())]
}

/// `go test`: what does not compile stands on stderr, the tests on stdout.
pub(super) fn go(stdout: &str, stderr: &str) -> Vec<Problem> {
    let mut problems = colons(stderr);
    let mut lines = stdout.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(panic) = line.strip_prefix("panic: ") {
            problems.push(Problem {
                text: format!("panic: {panic}"),
                ..nowhere()
            });
            continue;
        }
        let Some(name) = line.trim_start().strip_prefix("--- FAIL: ") else {
            continue;
        };
        let name = name.split(" (").next().unwrap_or(name);
        let mut said = Vec::new();
        while let Some(line) =
            lines.next_if(|line| line.starts_with(' ') && !line.contains("--- FAIL: "))
        {
            said.push(line.trim());
        }
        // A test that failed only because one inside it did.
        if said.is_empty() && lines.peek().is_some_and(|line| line.contains("--- FAIL: ")) {
            continue;
        }
        let said: Vec<_> = said.into_iter().take(LINES).collect();
        problems.push(Problem {
            text: format!("{name}: {}", said.join("\n")),
            ..nowhere()
        });
    }
    problems
}

fn nowhere() -> Problem {
    Problem {
        file: None,
        line: 0,
        column: 0,
        severity: Severity::Error,
        text: String::new(),
    }
}
