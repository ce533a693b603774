//! `self-review`: asks Claude to review its own changes before it stops.

use std::path::PathBuf;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::text::is_hidden;

use super::changed::{self, Baseline, ProjectState};
use super::memory::{read_text, write_text};
use super::source::Syntax;
use super::turn::EndedTurn;
use super::{BuiltIn, BuiltinCall, ON_STOP};
use crate::join_first;
use crate::matcher::Paths;

pub const HOOK: BuiltIn = BuiltIn {
    name: "self-review",
    description: "Asks Claude a few questions about the code that it changed",
    timeout: Duration::from_secs(30),
    // git status runs filters that the repository may name.
    starts_project_tools: true,
    keys: &["questions", "files"],
    run,
    ..ON_STOP
};

/// The number of questions that are asked at a time.
const ASKED: usize = 3;
/// The number of characters of a question.
const LONGEST: usize = 500;
/// The number of files that are named.
const NAMED: usize = 5;

/// The questions. Each group of three asks about completeness, fit and side effects.
const QUESTIONS: [&str; 9] = [
    "Does it do all that was asked, or only the easy part? Is anything stubbed, hard-coded or put off without a word?",
    "Did you run it, or the tests that touch it? What does it do with empty, huge or wrong input?",
    "Is something left that only served the way here: debug output, dead code, a second version of the same?",
    "Does it read like the code around it: names, errors, tests, layout?",
    "Does it do again what the project could do already? Would a smaller change do?",
    "Would the tests fail if the new code were wrong? Did any test get weaker to pass?",
    "Who else uses what you changed, and do they still get what they expect?",
    "What happens when it fails half way: are files, locks and data left whole, and is the failure reported?",
    "Is what is written about it (documentation, comments, help, examples) still true?",
];

fn run(call: &BuiltinCall<'_>) -> Output {
    let Some(turn) = EndedTurn::read(call.payload) else {
        return Output::silence();
    };
    // An agent that asks or waits is not done: its changes are reviewed when it is.
    if !(turn.is_final() || turn.active) {
        return Output::silence();
    }
    let transcript = turn.transcript.as_deref();
    let before = Baseline::read(call.memory, turn.agent.as_deref(), transcript);
    let (now, changed) = ProjectState::look(call.project, &before);
    // If this fails, the next stop asks again.
    let _ = changed::remember(call.memory, turn.agent.as_deref(), &now);
    // The key `paths` is about files that an event names, and a Stop names none. A broken glob is left out.
    let mut globs = texts(call, "files");
    globs.retain(|glob| Paths::parse(std::slice::from_ref(glob)).is_ok());
    let wanted = Paths::parse(&globs).unwrap_or_default();
    let changed = changed.into_iter().filter(|file| {
        let is_code = file.to_str().is_some_and(|file| Syntax::of(file).is_some());
        is_code && (wanted.is_empty() || wanted.matches(file, call.project))
    });
    let changed: Vec<PathBuf> = changed.collect();
    // Changes that a review caused need no other review.
    if turn.active || changed.is_empty() {
        return Output::silence();
    }
    turn.go_on(reason(call, &changed))
}

fn reason(call: &BuiltinCall<'_>, changed: &[PathBuf]) -> String {
    let names = changed.iter().map(|file| {
        let file = file.strip_prefix(call.project).unwrap_or(file);
        file.to_string_lossy().replace(is_hidden, "�")
    });
    let asked: String = questions(call)
        .iter()
        .map(|question| format!("- {question}\n"))
        .collect();
    format!(
        "Before you stop, look once more at what you changed ({}):\n{asked}\
         Fix what you find. If all is well, say so in a line.",
        join_first(names, NAMED)
    )
}

/// Returns the next few questions, from the user's own list, or else from becket's.
fn questions(call: &BuiltinCall<'_>) -> Vec<String> {
    let own = texts(call, "questions").into_iter();
    let own: Vec<String> = own.map(|own| own.chars().take(LONGEST).collect()).collect();
    let all = if own.is_empty() {
        QUESTIONS.map(str::to_owned).to_vec()
    } else {
        own
    };
    let next = read_text(call.memory, "next").and_then(|next| next.parse().ok());
    let next: usize = next.unwrap_or(0) % all.len();
    // If this fails, the same questions come again.
    let _ = write_text(call.memory, "next", &(next + ASKED).to_string());
    let turned = all.iter().cycle().skip(next).take(ASKED.min(all.len()));
    turned.cloned().collect()
}

/// Reads a list of texts in the config.
fn texts(call: &BuiltinCall<'_>, key: &str) -> Vec<String> {
    let texts = call.options.get(key).and_then(toml::Value::as_array);
    let texts = texts.into_iter().flatten().filter_map(toml::Value::as_str);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    use super::super::tests::{blocked, ran_in, stop};
    use super::*;

    struct Session {
        home: tempfile::TempDir,
        options: toml::Table,
    }

    impl Session {
        fn new(options: &str) -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("project")).unwrap();
            fs::write(home.path().join("t.jsonl"), "").unwrap();
            let session = Self {
                home,
                options: options.parse().unwrap(),
            };
            session.git(&["init", "-q"]);
            session
        }

        fn git(&self, args: &[&str]) {
            let done = Command::new("git")
                .args(["-c", "user.name=n", "-c", "user.email=e"])
                .args(args)
                .current_dir(self.home.path().join("project"))
                .env("HOME", self.home.path())
                .stdin(Stdio::null())
                .status();
            assert!(done.unwrap().success(), "{args:?}");
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.home.path().join("project").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn ends(&self, mut fields: Value) -> Option<String> {
            fields["transcript_path"] = json!(self.home.path().join("t.jsonl"));
            let project = self.home.path().join("project");
            let memory = self.home.path().join("memory");
            let output = ran_in(&HOOK, &stop(&fields), &project, &memory, &self.options);
            blocked(&output)
        }
    }

    #[test]
    fn changed_code_is_asked_about() {
        let session = Session::new("");
        session.write("src/a.rs", "1");
        session.write("b.ts", "1");
        insta::assert_snapshot!(session.ends(json!({})).unwrap());
        assert_eq!(session.ends(json!({})), None, "nothing changed since");
        session.write("b.ts", "22");
        let said = session.ends(json!({})).unwrap();
        assert!(said.contains("(b.ts)"), "{said}");
        assert!(
            said.contains(QUESTIONS[3]) && !said.contains(QUESTIONS[0]),
            "{said}"
        );
    }

    #[test]
    fn a_turn_that_is_not_over_waits_and_a_review_is_not_reviewed() {
        let session = Session::new("");
        session.write("a.go", "1");
        assert_eq!(
            session.ends(json!({"last_assistant_message": "Shall I?"})),
            None
        );
        assert_eq!(
            session.ends(json!({"background_tasks": [{"status": "running"}]})),
            None
        );
        assert!(session.ends(json!({})).is_some());
        session.write("a.go", "22");
        assert_eq!(session.ends(json!({"stop_hook_active": true})), None);
        assert_eq!(session.ends(json!({})), None);
    }

    #[test]
    fn ones_own_questions_in_turn() {
        let session = Session::new("questions = ['one?', 'two?', 'three?', 'four?']");
        session.write("a.c", "1");
        let said = session.ends(json!({})).unwrap();
        assert!(said.contains("- one?\n- two?\n- three?\nFix"), "{said}");
        session.write("a.c", "22");
        let said = session.ends(json!({})).unwrap();
        assert!(said.contains("- four?\n- one?\n- two?\nFix"), "{said}");
    }

    #[test]
    fn only_the_files_that_are_wanted() {
        let session = Session::new("files = ['src/**', '!src/made/**']");
        session.write("a.rs", "1");
        session.write("src/made/b.rs", "1");
        assert_eq!(session.ends(json!({})), None);
        session.write("src/deep/c.rs", "1");
        let said = session.ends(json!({})).unwrap();
        assert!(said.contains("(src/deep/c.rs)"), "{said}");
    }
}
