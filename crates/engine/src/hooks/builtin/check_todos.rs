//! `check-todos`: Claude does not stop with open items on its own list, without a word about them.

mod list;

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;

use super::turn::Turn;
use super::{BuiltIn, Call, memory};
use list::{Item, List};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-todos",
    description: "Keeps Claude from stopping while its todo list has open items",
    on: &[EventName::Stop],
    tools: "",
    timeout: Duration::from_secs(10),
    starts_project_tools: false,
    keys: &[],
    run,
};

/// So much of the end of a transcript is read: a list that was last touched before is forgotten.
const TAIL: u64 = 64 << 20;
const TOLD: usize = 20;
const LONGEST: usize = 200;

fn run(call: &Call<'_>) -> Output {
    let Some(turn) = Turn::read(call.payload).filter(Turn::is_final) else {
        return Output::silence();
    };
    let list = turn.transcript.as_deref().map(read);
    let open = list
        .and_then(Result::ok)
        .map(List::open)
        .unwrap_or_default();
    if open.is_empty() {
        return Output::silence();
    }
    // Who left the same items open once more has heard of it.
    let told = open.iter().fold(String::new(), |mut told, item| {
        let _ = writeln!(told, "{} {}", item.status, item.text);
        told
    });
    if memory::is_known(call.memory, "open", &told) {
        return Output::silence();
    }
    memory::keep(call.memory, "open", &told);
    turn.go_on(reason(&open))
}

fn reason(open: &[Item]) -> String {
    let one_line = |text: &str| -> String {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.chars().take(LONGEST).collect()
    };
    let lines = open.iter().take(TOLD).map(|item| match &*item.status {
        "pending" => format!("- {}\n", one_line(&item.text)),
        status => format!(
            "- {} ({})\n",
            one_line(&item.text),
            one_line(&status.replace('_', " "))
        ),
    });
    let lines: String = lines.collect();
    let more = match open.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    format!(
        "Your todo list still has open items:\n{lines}{more}\
         Finish them. Those that are done, mark as done; those that are not wanted any more, take \
         off the list. If you need the person for one of them, ask."
    )
}

/// The list as the end of the transcript leaves it.
fn read(transcript: &Path) -> io::Result<List> {
    // To open a pipe would be to wait for its writer.
    let about = fs::metadata(transcript)?;
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(transcript)?;
    let start = about.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut list = List::default();
    list.read(BufReader::with_capacity(1 << 18, file))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{blocked, ran_in};
    use super::super::turn::tests::stop;
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
        let item = |text: &str| Item {
            text: text.to_owned(),
            status: "pending".to_owned(),
        };
        let said = reason(&vec![item(&"é\n".repeat(500)); 25]);
        assert!(said.contains("- and 5 more\n"), "{said}");
        assert!(said.len() < 20 * 450, "{}", said.len());
    }
}
