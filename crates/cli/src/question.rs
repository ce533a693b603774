//! Formats questions that wait for a person: the whole request, as the person has to judge it.

use becket_wire::question::{AskedQuestion, QuestionRow};
use serde_json::Value;

use crate::ui::text::{one_line, visible};

/// The use of a line, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineUse {
    Plain,
    Added,
    Removed,
    Note,
}

/// One line of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionLine {
    pub line_use: LineUse,
    pub text: String,
}

/// Returns the whole request, line by line.
pub fn lines(row: &QuestionRow) -> Vec<QuestionLine> {
    let mut lines = Vec::new();
    let input = &row.input;
    match &*row.tool {
        "Bash" => {
            for (nth, line) in field(input, "command").lines().enumerate() {
                let mark = if nth == 0 { "$" } else { " " };
                add(
                    &mut lines,
                    LineUse::Plain,
                    format!("{mark} {}", visible(line)),
                );
            }
        }
        "Edit" => {
            add(&mut lines, LineUse::Plain, visible(file(input)));
            add_change(
                &mut lines,
                field(input, "old_string"),
                field(input, "new_string"),
            );
        }
        "MultiEdit" => {
            add(&mut lines, LineUse::Plain, visible(file(input)));
            for edit in input["edits"].as_array().into_iter().flatten() {
                add_change(
                    &mut lines,
                    field(edit, "old_string"),
                    field(edit, "new_string"),
                );
            }
        }
        "Write" => {
            add(&mut lines, LineUse::Plain, visible(file(input)));
            add_change(&mut lines, "", field(input, "content"));
        }
        "ExitPlanMode" => {
            for line in field(input, "plan").lines() {
                add(&mut lines, LineUse::Plain, visible(line));
            }
        }
        _ if !row.asked().is_empty() => {
            for asked in &row.asked() {
                lines.extend(asked_lines(asked));
            }
        }
        _ => {
            for (key, value) in input.as_object().into_iter().flatten() {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                add(
                    &mut lines,
                    LineUse::Plain,
                    format!("{}: {}", one_line(key), visible(&text)),
                );
            }
        }
    }
    if let Some(reason) = &row.reason {
        add(
            &mut lines,
            LineUse::Note,
            format!("A guard asks: {}", one_line(reason)),
        );
    }
    if !row.can_be_answered {
        let text = "Only the terminal of the session can answer this.".to_owned();
        add(&mut lines, LineUse::Note, text);
    }
    lines
}

/// Returns the rules that `always` adds, in words.
pub fn suggested_rules(row: &QuestionRow) -> Vec<String> {
    let mut rules = Vec::new();
    for suggestion in &row.suggestions {
        let place = one_line(field(suggestion, "destination"));
        for rule in suggestion["rules"].as_array().into_iter().flatten() {
            let tool = one_line(field(rule, "toolName"));
            let rule = match field(rule, "ruleContent") {
                "" => tool,
                content => format!("{tool}({})", visible(content)),
            };
            rules.push(format!("{rule} ({place})"));
        }
        if let Some(mode) = suggestion["mode"].as_str() {
            rules.push(format!("permission mode {} ({place})", one_line(mode)));
        }
        for folder in suggestion["directories"].as_array().into_iter().flatten() {
            let folder = visible(folder.as_str().unwrap_or_default());
            rules.push(format!("the folder {folder} ({place})"));
        }
    }
    rules
}

fn add(lines: &mut Vec<QuestionLine>, line_use: LineUse, text: String) {
    lines.push(QuestionLine { line_use, text });
}

fn add_change(lines: &mut Vec<QuestionLine>, old: &str, new: &str) {
    for line in old.lines() {
        add(lines, LineUse::Removed, format!("- {}", visible(line)));
    }
    for line in new.lines() {
        add(lines, LineUse::Added, format!("+ {}", visible(line)));
    }
}

/// Returns one question of an AskUserQuestion with its options.
pub fn asked_lines(asked: &AskedQuestion) -> Vec<QuestionLine> {
    let mut lines = Vec::new();
    add(&mut lines, LineUse::Plain, one_line(&asked.question));
    for (nth, option) in asked.options.iter().enumerate() {
        let label = one_line(&option.label);
        let description = one_line(&option.description);
        let text = format!("  {} {label}  {description}", nth + 1);
        add(&mut lines, LineUse::Plain, text.trim_end().to_owned());
    }
    lines
}

fn field<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn file(input: &Value) -> &str {
    let keys = ["file_path", "notebook_path", "path", "url", "pattern"];
    let mut found = keys.iter().map(|key| field(input, key));
    found.find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(tool: &str, input: Value) -> String {
        let row = QuestionRow {
            tool: tool.to_owned(),
            input,
            can_be_answered: true,
            ..QuestionRow::default()
        };
        let lines = lines(&row).into_iter().map(|line| line.text);
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_whole_request_is_shown() {
        let command = json!({"command": "psql shop_dev \\\n  -f 0042.sql\u{1b}[2K"});
        insta::assert_snapshot!(shown("Bash", command), @r"
        $ psql shop_dev \
            -f 0042.sql\u{1b}[2K
        ");
        let edit = json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "three"});
        insta::assert_snapshot!(shown("Edit", edit), @r"
        a.rs
        - one
        - two
        + three
        ");
        let asked = json!({"questions": [{"question": "Which colour?", "options": [
            {"label": "Blue", "description": "calm"}, {"label": "Red"}]}]});
        insta::assert_snapshot!(shown("AskUserQuestion", asked), @r"
        Which colour?
          1 Blue  calm
          2 Red
        ");
        let other = json!({"query": "x\ny", "n": 3});
        insta::assert_snapshot!(shown("mcp__db__run", other), @r"
        n: 3
        query: x⏎y
        ");
    }

    #[test]
    fn the_rules_of_always_are_named() {
        let row = QuestionRow {
            suggestions: vec![
                json!({"type": "addRules", "behavior": "allow", "destination": "localSettings",
                    "rules": [{"toolName": "Bash", "ruleContent": "psql:*"}, {"toolName": "WebFetch"}]}),
                json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}),
            ],
            ..QuestionRow::default()
        };
        assert_eq!(
            suggested_rules(&row),
            [
                "Bash(psql:*) (localSettings)",
                "WebFetch (localSettings)",
                "permission mode acceptEdits (session)"
            ]
        );
    }
}
