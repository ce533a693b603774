//! The difference between two texts, as a person reads it.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use similar::TextDiff;

/// A unified diff; a file that is not there is named /dev/null.
pub fn unified(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| match text {
        Some(_) => file.to_owned(),
        None => String::from("/dev/null"),
    };
    let texts = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    let mut diff = texts.unified_diff();
    diff.header(&name(before), &name(after)).to_string()
}

/// The same with colours, for anstream to print or strip.
pub fn coloured(diff: &str) -> String {
    let mut result = String::with_capacity(diff.len());
    for (number, line) in diff.split_inclusive('\n').enumerate() {
        let style = style(line, number < 2);
        // Colours end before the line does, so that they never leak into the next one.
        let (text, end) = match line.find(['\r', '\n']) {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        // Writing to a string cannot fail.
        let _ = write!(result, "{style}{text}{style:#}{end}");
    }
    result
}

fn style(line: &str, is_header: bool) -> Style {
    match line.as_bytes().first() {
        _ if is_header => Style::new().bold(),
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}
