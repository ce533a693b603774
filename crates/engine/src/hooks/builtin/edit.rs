//! The steps of a Write, an Edit or a MultiEdit: the text of the file before and after each.

use std::fs;
use std::path::Path;

use becket_wire::Output;
use becket_wire::answer::Answer;
use becket_wire::event::{Event, EventName};
use serde_json::Value;

use super::report::shown;
use super::source::{LARGEST, Syntax};

/// An edited source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Relative to the folder in which the session works.
    pub path: String,
    pub syntax: Syntax,
    pub steps: Vec<EditStep>,
    /// True if the texts are those of the whole file, so that lines can be counted.
    pub whole: bool,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditStep {
    pub before: String,
    pub after: String,
}

impl Edited {
    /// Reads a PostToolUse of a session that works in `cwd`. Returns none for other events, and for a file that is
    /// not code or too large.
    pub fn read(payload: &[u8], cwd: &Path) -> Option<Self> {
        let Ok(Event::PostToolUse(call)) = Event::parse(payload) else {
            return None;
        };
        let input = &call.tool_input;
        let path = input["file_path"].as_str()?;
        let syntax = Syntax::of(path)?;
        let response = call.tool_response.as_ref().unwrap_or(&Value::Null);
        let original = original(response);
        let whole = original.is_some();
        let steps = match &*call.tool_name {
            "Write" => vec![EditStep {
                before: original?.to_owned(),
                after: input["content"].as_str()?.to_owned(),
            }],
            "Edit" => steps(&[input], original),
            "MultiEdit" => steps(
                &input["edits"].as_array()?.iter().collect::<Vec<_>>(),
                original,
            ),
            _ => return None,
        };
        if steps.iter().any(EditStep::is_too_large) {
            return None;
        }
        let file = cwd.join(path);
        let file = fs::canonicalize(&file).unwrap_or(file);
        Some(Self {
            path: shown(&file, cwd),
            syntax,
            steps,
            whole,
        })
    }

    /// Returns the text before the first step and the text after the last one.
    pub fn ends(&self) -> (String, String) {
        if let (true, [first, .., last]) = (self.whole, &*self.steps) {
            return (first.before.clone(), last.after.clone());
        }
        let before: Vec<&str> = self.steps.iter().map(|step| &*step.before).collect();
        let after: Vec<&str> = self.steps.iter().map(|step| &*step.after).collect();
        (before.join("\n"), after.join("\n"))
    }

    /// Formats the place of a byte: `path:line`, or the path alone if only a piece of the file is known.
    pub fn place(&self, after: &str, at: usize) -> String {
        if !self.whole {
            return self.path.clone();
        }
        format!("{}:{}", self.path, line_of(after, at))
    }
}

impl EditStep {
    fn is_too_large(&self) -> bool {
        self.before.len().max(self.after.len()) > LARGEST
    }
}

/// Returns the file before the edit. Claude Code sends it along; for a new file it is null.
fn original(response: &Value) -> Option<&str> {
    match response.get("originalFile")? {
        Value::Null if response["type"] == "create" => Some(""),
        text => text.as_str(),
    }
}

fn steps(edits: &[&Value], original: Option<&str>) -> Vec<EditStep> {
    let mut now = original.map(str::to_owned);
    let mut steps = Vec::new();
    for edit in edits {
        let (Some(old), Some(new)) = (edit["old_string"].as_str(), edit["new_string"].as_str())
        else {
            continue;
        };
        let (before, after) = match now.take() {
            // An edit of an empty text creates the file.
            Some(text) if old.is_empty() => (text, new.to_owned()),
            Some(text) => {
                let often = if edit["replace_all"] == true {
                    usize::MAX
                } else {
                    1
                };
                let after = text.replacen(old, new, often);
                (text, after)
            }
            None => (old.to_owned(), new.to_owned()),
        };
        if original.is_some() {
            now = Some(after.clone());
        }
        steps.push(EditStep { before, after });
    }
    steps
}

/// Returns the line of a byte, counted from one.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Makes feedback for the model about its last tool call.
pub fn feedback(text: String) -> Output {
    Answer::refusal(EventName::PostToolUse, text)
        .map_or_else(Output::silence, |answer| answer.render())
}

/// Shortens a line of code for feedback.
pub fn quoted(line: &str) -> String {
    const LONGEST: usize = 120;
    let line = line.trim();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{edit, posted, write};
    use super::*;

    const HERE: &str = "/p";

    fn texts(payload: &[u8]) -> Vec<(String, String)> {
        let steps = Edited::read(payload, HERE.as_ref()).unwrap().steps;
        steps
            .into_iter()
            .map(|step| (step.before, step.after))
            .collect()
    }

    fn pair(before: &str, after: &str) -> (String, String) {
        (before.to_owned(), after.to_owned())
    }

    #[test]
    fn what_claude_code_really_sent() {
        let write = include_bytes!("../../../../wire/fixtures/PostToolUse.Write.json");
        let edit = include_bytes!("../../../../wire/fixtures/PostToolUse.Edit.json");
        let as_code = |json: &[u8]| String::from_utf8_lossy(json).replace("note.txt", "note.ts");
        assert_eq!(texts(as_code(write).as_bytes()), [pair("", "one\ntwo\n")]);
        assert_eq!(
            texts(as_code(edit).as_bytes()),
            [pair("one\ntwo\n", "one\nthree\n")]
        );
        assert_eq!(
            Edited::read(write, HERE.as_ref()),
            None,
            "a text file is no code"
        );
    }

    #[test]
    fn several_edits_are_applied_in_turn() {
        let edits = json!([
            {"old_string": "a", "new_string": "b"},
            {"old_string": "b", "new_string": "c", "replace_all": true},
        ]);
        let input = json!({"file_path": "x.rs", "edits": edits});
        let whole = posted("MultiEdit", &input, Some("ab"));
        assert_eq!(texts(&whole), [pair("ab", "bb"), pair("bb", "cc")]);
        assert_eq!(
            Edited::read(&whole, HERE.as_ref()).unwrap().ends(),
            pair("ab", "cc")
        );
        let pieces = posted("MultiEdit", &input, None);
        assert_eq!(texts(&pieces), [pair("a", "b"), pair("b", "c")]);
        assert_eq!(
            Edited::read(&pieces, HERE.as_ref()).unwrap().ends(),
            pair("a\nb", "b\nc")
        );
    }

    #[test]
    fn what_is_no_edit_of_code_is_none() {
        let large = "a".repeat(LARGEST + 1);
        for payload in [
            write("a.ts", None, &large),
            write("a.png", None, "x"),
            posted("Read", &json!({"file_path": "a.ts"}), None),
            posted("Edit", &json!({"old_string": "a"}), None),
            posted("Write", &json!({"file_path": "a.ts"}), None),
            b"{".to_vec(),
        ] {
            assert_eq!(Edited::read(&payload, HERE.as_ref()), None);
        }
    }

    #[test]
    fn a_place_has_a_line_where_the_whole_file_is_known() {
        let edited = Edited::read(&edit("/p/a.ts", "x\ny\n", "y", "z"), HERE.as_ref()).unwrap();
        assert_eq!(edited.place("x\nz\n", 2), "a.ts:2");
        assert_eq!(
            quoted(&format!("  {}", "é".repeat(200))).chars().count(),
            121
        );
    }
}
