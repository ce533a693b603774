//! `check-todos`: Claude does not stop with open items on its own list without saying something about them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use becket_wire::Output;
use memchr::memmem;
use serde_json::Value;

use super::memory::{read_text, write_text};
use super::turn::EndedTurn;
use super::{BuiltIn, BuiltinCall, ON_STOP};
use crate::stamp::open_regular;
use crate::transcript::LONGEST_LINE;

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-todos",
    description: "Keeps Claude from stopping while its todo list has open items",
    run,
    ..ON_STOP
};

/// The number of bytes at the end of a transcript that are read. A list that was last changed before is ignored.
const TAIL: u64 = 64 << 20;
/// The number of items that are listed.
const MOST_LISTED: usize = 20;
/// The number of characters of an item that are shown.
const LONGEST: usize = 200;

fn run(call: &BuiltinCall<'_>) -> Output {
    let Some(turn) = EndedTurn::read(call.payload).filter(EndedTurn::is_final) else {
        return Output::silence();
    };
    let list = turn.transcript.as_deref().map(read);
    let open = list
        .and_then(Result::ok)
        .map(TodoList::open)
        .unwrap_or_default();
    if open.is_empty() {
        return Output::silence();
    }
    // The same open items are reported once.
    let listed = open.iter().fold(String::new(), |mut listed, item| {
        let _ = writeln!(listed, "{} {}", item.status, item.text);
        listed
    });
    if read_text(call.memory, "open").as_ref() == Some(&listed) {
        return Output::silence();
    }
    let _ = write_text(call.memory, "open", &listed);
    turn.go_on(reason(&open))
}

fn reason(open: &[TodoItem]) -> String {
    let lines = open
        .iter()
        .take(MOST_LISTED)
        .map(|item| match &*item.status {
            "pending" => format!("- {}\n", one_line(&item.text)),
            status => format!(
                "- {} ({})\n",
                one_line(&item.text),
                one_line(&status.replace('_', " "))
            ),
        });
    let lines: String = lines.collect();
    let more = match open.len().saturating_sub(MOST_LISTED) {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    format!(
        "Your todo list still has open items:\n{lines}{more}\
         Finish them. Those that are done, mark as done; those that are not wanted any more, take \
         off the list. If you need the person for one of them, ask."
    )
}

/// Reads the list at the end of a transcript.
fn read(transcript: &Path) -> io::Result<TodoList> {
    let mut file = open_regular(transcript)?;
    let start = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut list = TodoList::default();
    list.read(BufReader::with_capacity(1 << 18, file))?;
    Ok(list)
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(LONGEST).collect()
}

/// One item of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TodoItem {
    text: String,
    /// `pending`, `in_progress`, or an unknown word.
    status: String,
}

/// The list while the transcript is read.
#[derive(Debug, Default)]
struct TodoList {
    /// The tool calls whose result has not come yet, by their id.
    calls: HashMap<String, (String, Value)>,
    todos: Vec<TodoItem>,
    /// The tasks in the order of their numbers.
    tasks: BTreeMap<(u64, String), TodoTask>,
    /// True if a task, and not a todo, was changed last.
    has_tasks: bool,
}

#[derive(Debug)]
struct TodoTask {
    item: TodoItem,
    /// True if the task is given to another agent.
    owned: bool,
}

const WRITE: &str = "TodoWrite";
const CREATE: &str = "TaskCreate";
const UPDATE: &str = "TaskUpdate";
/// The number of calls that are remembered. Results come soon after their calls; a call that waits longer was
/// interrupted.
const MOST_CALLS: usize = 256;

impl TodoList {
    /// Reads the lines of a transcript, which may begin within a line.
    fn read(&mut self, transcript: impl BufRead) -> io::Result<()> {
        for line in transcript.split(b'\n') {
            self.line(&line?);
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        let is_in_line = |text: &str| memmem::find(line, text.as_bytes()).is_some();
        let calls = [WRITE, CREATE, UPDATE].into_iter().any(is_in_line);
        let is_needed = calls || self.calls.keys().any(|id| is_in_line(id));
        if !is_needed || line.len() > LONGEST_LINE {
            return;
        }
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        // A subagent has a list of its own.
        if line["isSidechain"] == true || line["agentId"].is_string() {
            return;
        }
        let blocks = line["message"]["content"].as_array();
        for block in blocks.into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => self.call(block),
                Some("tool_result") => self.result(block, &line["toolUseResult"]),
                _ => {}
            }
        }
    }

    fn call(&mut self, block: &Value) {
        let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
            return;
        };
        if [WRITE, CREATE, UPDATE].contains(&name) {
            if self.calls.len() >= MOST_CALLS {
                self.calls.clear();
            }
            let call = (name.to_owned(), block["input"].clone());
            self.calls.insert(id.to_owned(), call);
        }
    }

    fn result(&mut self, block: &Value, response: &Value) {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let Some((name, input)) = self.calls.remove(id) else {
            return;
        };
        if block["is_error"] == true || response["success"] == false {
            return;
        }
        match &*name {
            WRITE => self.write(&input),
            CREATE => self.create(&input, response),
            _ => self.update(&input),
        }
        self.has_tasks = name != WRITE;
    }

    fn write(&mut self, input: &Value) {
        let todos = input["todos"].as_array();
        let todos = todos.into_iter().flatten().map(|todo| TodoItem {
            text: text(&todo["content"]),
            status: text(&todo["status"]),
        });
        self.todos = todos.collect();
    }

    fn create(&mut self, input: &Value, response: &Value) {
        let subject = [&response["task"]["subject"], &input["subject"]];
        let subject = subject.into_iter().find(|subject| subject.is_string());
        let Some(key) = key(&response["task"]["id"]) else {
            return;
        };
        let item = TodoItem {
            text: subject.map(text).unwrap_or_default(),
            status: "pending".to_owned(),
        };
        self.tasks.insert(key, TodoTask { item, owned: false });
    }

    fn update(&mut self, input: &Value) {
        let Some(task) = key(&input["taskId"]).and_then(|key| self.tasks.get_mut(&key)) else {
            return;
        };
        if let Some(status) = input["status"].as_str() {
            task.item.status = status.to_owned();
        }
        if let Some(subject) = input["subject"].as_str() {
            task.item.text = subject.to_owned();
        }
        if let Some(owner) = input["owner"].as_str() {
            task.owned = !owner.is_empty();
        }
    }

    /// Returns the items that are not done.
    fn open(self) -> Vec<TodoItem> {
        let items: Vec<TodoItem> = if self.has_tasks {
            let tasks = self.tasks.into_values().filter(|task| !task.owned);
            tasks.map(|task| task.item).collect()
        } else {
            self.todos
        };
        let open = items
            .into_iter()
            .filter(|item| !matches!(&*item.status, "completed" | "deleted" | "cancelled"));
        open.collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the key by which a task is sorted: task numbers are stored as texts.
fn key(id: &Value) -> Option<(u64, String)> {
    let id = id.as_str()?;
    Some((id.parse().unwrap_or(u64::MAX), id.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::super::tests::{blocked, ran_in, stop};
    use super::*;

    struct Session {
        folder: tempfile::TempDir,
    }

    impl Session {
        fn new(transcript: &[u8]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("t.jsonl"), transcript).unwrap();
            Self { folder }
        }

        fn ends(&self, fields: Value) -> Option<String> {
            let mut fields = fields;
            fields["transcript_path"] = json!(self.folder.path().join("t.jsonl"));
            let memory = self.folder.path().join("memory/deep");
            let options = toml::Table::new();
            let payload = stop(&fields);
            blocked(&ran_in(
                &HOOK,
                &payload,
                self.folder.path(),
                &memory,
                &options,
            ))
        }
    }

    const TASKS: &[u8] = include_bytes!("../../../fixtures/transcript/tasks.jsonl");

    #[test]
    fn open_tasks_are_told_once() {
        let session = Session::new(TASKS);
        insta::assert_snapshot!(session.ends(json!({})).unwrap());
        assert_eq!(session.ends(json!({})), None, "the same again");
    }

    #[test]
    fn not_while_the_turn_is_not_really_over() {
        let session = Session::new(TASKS);
        for fields in [
            json!({"stop_hook_active": true}),
            json!({"last_assistant_message": "Shall I?"}),
            json!({"background_tasks": [{"status": "running"}]}),
            json!({"permission_mode": "plan"}),
        ] {
            assert_eq!(session.ends(fields.clone()), None, "{fields}");
        }
        assert!(session.ends(json!({})).is_some());
    }

    #[test]
    fn no_list_no_word() {
        assert_eq!(Session::new(b"").ends(json!({})), None);
        assert_eq!(
            Session::new(b"garbage\n{\"type\":\"user\"}\n").ends(json!({})),
            None
        );
        let payload = stop(&json!({"transcript_path": "/nonexistent"}));
        assert_eq!(super::super::tests::reason(&HOOK, &payload), None);
        let payload = stop(&json!({"transcript_path": "/dev/zero"}));
        assert_eq!(super::super::tests::reason(&HOOK, &payload), None);
    }

    #[test]
    fn much_is_cut() {
        let item = |text: &str| TodoItem {
            text: text.to_owned(),
            status: "pending".to_owned(),
        };
        let response = reason(&vec![item(&"é\n".repeat(500)); 25]);
        assert!(response.contains("- and 5 more\n"), "{response}");
        assert!(response.len() < 20 * 450, "{}", response.len());
    }

    fn open(lines: &[Value]) -> Vec<(String, String)> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut list = TodoList::default();
        list.read(text.as_bytes()).unwrap();
        let open = list.open().into_iter();
        open.map(|item| (item.text, item.status)).collect()
    }

    fn call(id: &str, name: &str, input: &Value) -> Value {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        json!({"type": "assistant", "message": {"content": [block]}})
    }

    fn result(id: &str, response: &Value) -> Value {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
        json!({"type": "user", "message": {"content": [block]}, "toolUseResult": response})
    }

    fn wrote(id: &str, todos: &[(&str, &str)]) -> [Value; 2] {
        let todos: Vec<Value> = todos
            .iter()
            .map(|(content, status)| json!({"content": content, "status": status}))
            .collect();
        let input = json!({"todos": todos});
        [call(id, WRITE, &input), result(id, &json!({}))]
    }

    fn made(id: &str, task: &str) -> [Value; 2] {
        let response = json!({"task": {"id": task, "subject": task}});
        [
            call(id, CREATE, &json!({"subject": task})),
            result(id, &response),
        ]
    }

    fn item(text: &str, status: &str) -> (String, String) {
        (text.to_owned(), status.to_owned())
    }

    #[test]
    fn the_last_list_counts() {
        let first = wrote("1", &[("a", "pending"), ("b", "in_progress")]);
        assert_eq!(
            open(&first),
            [item("a", "pending"), item("b", "in_progress")]
        );
        let then = wrote("2", &[("a", "completed"), ("b", "pending")]);
        let both = [first.to_vec(), then.to_vec()].concat();
        assert_eq!(open(&both), [item("b", "pending")]);
        let done = [both, wrote("3", &[("a", "completed")]).to_vec()].concat();
        assert_eq!(open(&done), []);
    }

    #[test]
    fn a_call_that_failed_changes_nothing() {
        let mut lines = wrote("1", &[("a", "completed")]).to_vec();
        let [call, mut result] = wrote("2", &[("a", "pending")]);
        result["message"]["content"][0]["is_error"] = json!(true);
        lines.extend([call, result]);
        assert_eq!(open(&lines), []);
        let unanswered = wrote("3", &[("a", "pending")])[0].clone();
        lines.push(unanswered);
        assert_eq!(open(&lines), []);
    }

    #[test]
    fn tasks_in_their_order() {
        let lines = [made("1", "10"), made("2", "9")].concat();
        assert_eq!(open(&lines), [item("9", "pending"), item("10", "pending")]);
        let update = |id: &str, input: Value| [call(id, UPDATE, &input), result(id, &json!({}))];
        let done = update("3", json!({"taskId": "9", "status": "completed"}));
        let given = update("4", json!({"taskId": "10", "owner": "mate"}));
        let lines = [lines, done.to_vec()].concat();
        assert_eq!(open(&lines), [item("10", "pending")]);
        assert_eq!(open(&[lines, given.to_vec()].concat()), []);
    }

    #[test]
    fn the_kind_that_was_used_last_counts() {
        let todos = wrote("1", &[("a", "pending")]).to_vec();
        let tasks = made("2", "7").to_vec();
        assert_eq!(
            open(&[todos.clone(), tasks.clone()].concat()),
            [item("7", "pending")]
        );
        assert_eq!(open(&[tasks, todos].concat()), [item("a", "pending")]);
    }

    #[test]
    fn a_subagents_list_is_its_own() {
        let mut lines = wrote("1", &[("a", "pending")]);
        for line in &mut lines {
            line["isSidechain"] = json!(true);
        }
        assert_eq!(open(&lines), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let [one, two] = wrote("1", &[("a", "pending")]);
        let text = format!("{}\n{one}\n{two}", "TodoWrite".repeat(LONGEST_LINE / 4));
        let mut list = TodoList::default();
        list.read(text.as_bytes()).unwrap();
        assert_eq!(list.open().len(), 1);
    }
}
