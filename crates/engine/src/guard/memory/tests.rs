use std::fs::OpenOptions;
use std::time::SystemTime;

use serde_json::json;

use super::*;

fn event() -> EventId {
    EventId::new(5, [7; 2])
}

/// A home, and what its files let pass.
struct Bench {
    place: Place,
    _home: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            place: Place::new(home.path()),
            _home: home,
        }
    }

    /// A home with a pass for `rm` in the session `s`.
    fn with_pass() -> Self {
        let bench = Self::new();
        let key = key("denied", "rm");
        key.deny(&bench.place, event(), "no-rm").unwrap();
        assert!(allow(&bench.place, &key.code).unwrap().is_some());
        bench
    }

    fn look_up(&self, key: &Key) -> Option<Pass> {
        key.look_up(&self.place, &EventName::PreToolUse)
    }

    /// Judges a call: true if it goes by a pass, which is then its own.
    fn passes(&self, key: &Key) -> bool {
        let pass = self.look_up(key);
        pass.is_some_and(|pass| key.bind(&self.place, &pass))
    }

    fn asks(&self, command: &str, fields: Value) -> bool {
        let key = key_of(fields, command);
        let found = key.look_up(&self.place, &EventName::PermissionRequest);
        found.is_some()
    }

    fn end(&self, event: &str, fields: Value) {
        let payload = with_session(fields);
        let head = Head::read(payload.as_bytes()).unwrap();
        let ends = Ends::of(&event.into(), &head);
        ends.unwrap().remove(&self.place);
    }
}

fn with_session(mut fields: Value) -> String {
    let session = fields["session_id"].as_str().unwrap_or("s").to_owned();
    fields["session_id"] = json!(session);
    fields.to_string()
}

fn key_of(fields: Value, command: &str) -> Key {
    let payload = with_session(fields);
    let head = Head::read(payload.as_bytes()).unwrap();
    let input = json!({"command": command, "description": payload});
    Key::of_call(&head, event(), "Bash", &input)
}

fn key(call: &str, command: &str) -> Key {
    key_of(json!({"tool_use_id": call, "prompt_id": "p"}), command)
}

#[test]
fn a_pass_is_bound_to_the_first_retry_however_often_that_is_judged() {
    let bench = Bench::new();
    let (first, second, third) = (key("1", "rm"), key("2", "rm"), key("3", "rm"));
    assert_eq!(bench.look_up(&first), None);
    first.deny(&bench.place, event(), "no-rm").unwrap();
    assert_eq!(bench.look_up(&first), None, "the same call");
    let once = bench.look_up(&second).unwrap().once;
    assert_eq!(once.as_deref(), Some("no-rm"));
    assert_eq!(denied(&bench.place).len(), 1);
    assert_eq!(allow(&bench.place, "00000000").unwrap(), None);
    let allowed = allow(&bench.place, &first.code).unwrap().unwrap();
    assert_eq!((&*allowed.rule, &*allowed.code), ("no-rm", &*first.code));
    assert_eq!(denied(&bench.place), []);
    assert_eq!(bench.look_up(&key("2", "ls")), None);
    // Two calls are judged, and then told to go: one is too late. Another host judges the other again.
    let (pass, late) = (bench.look_up(&second), bench.look_up(&third));
    assert!(second.bind(&bench.place, &pass.unwrap()));
    assert!(!third.bind(&bench.place, &late.unwrap()));
    assert!(bench.passes(&second) && bench.passes(&key("2", "rm x")));
    assert!(!bench.passes(&third));
}

#[test]
fn a_bound_pass_covers_the_dialog_of_its_call_and_of_no_other() {
    let bench = Bench::with_pass();
    let dialog = json!({"prompt_id": "p"});
    assert!(!bench.asks("rm", dialog.clone()), "it waits for a retry");
    assert!(bench.passes(&key("1", "rm")));
    let pass = bench.look_up(&key("1", "rm")).unwrap();
    assert!(key("1", "rm -i").bind(&bench.place, &pass), "rewritten");
    for (command, fields, passes) in [
        ("rm", dialog.clone(), true),
        ("rm -i", dialog.clone(), true),
        ("rm -f", dialog.clone(), false),
        ("rm", json!({"prompt_id": "q"}), false),
        ("rm", json!({"prompt_id": "p", "agent_id": "a"}), false),
        ("rm", json!({"prompt_id": "p", "session_id": "t"}), false),
    ] {
        assert_eq!(
            bench.asks(command, fields.clone()),
            passes,
            "{command} {fields}"
        );
    }
}

#[test]
fn a_bound_pass_ends_with_its_call_its_turn_or_its_session() {
    let call = json!({"tool_name": "Bash", "tool_use_id": "1", "prompt_id": "p"});
    let other_call = json!({"tool_name": "Bash", "tool_use_id": "2", "prompt_id": "p"});
    let (same, next) = (json!({"prompt_id": "p"}), json!({"prompt_id": "q"}));
    let (agent, elsewhere) = (json!({"agent_id": "a"}), json!({"session_id": "t"}));
    for (event, fields, ends) in [
        ("PostToolUse", &call, true),
        ("PostToolUseFailure", &call, true),
        ("PermissionDenied", &call, true),
        ("PostToolUse", &other_call, false),
        ("UserPromptSubmit", &next, true),
        ("UserPromptSubmit", &same, false),
        ("Stop", &same, true),
        ("Stop", &elsewhere, false),
        ("SubagentStop", &agent, false),
        ("SessionEnd", &same, true),
        ("SessionEnd", &elsewhere, false),
    ] {
        let bench = Bench::with_pass();
        bench.end(event, fields.clone());
        assert!(bench.passes(&key("1", "rm")), "{event}: it waits");
        bench.end(event, fields.clone());
        assert_eq!(bench.passes(&key("1", "rm")), !ends, "{event} {fields}");
    }
}

#[test]
fn a_session_that_ends_takes_its_codes_along() {
    let bench = Bench::new();
    let key = key("1", "rm");
    key.deny(&bench.place, event(), "no-rm").unwrap();
    bench.end("SessionEnd", json!({"session_id": "t"}));
    assert_eq!(denied(&bench.place).len(), 1);
    bench.end("SessionEnd", json!({}));
    assert_eq!(denied(&bench.place), []);
    assert_eq!(allow(&bench.place, &key.code).unwrap(), None);
}

#[test]
fn what_is_old_does_not_count() {
    let bench = Bench::new();
    let first = key("1", "rm");
    first.deny(&bench.place, event(), "no-rm").unwrap();
    let file = OpenOptions::new()
        .write(true)
        .open(file(&bench.place, &first.code, "denied"))
        .unwrap();
    file.set_modified(SystemTime::now() - LASTS).unwrap();
    assert_eq!(bench.look_up(&key("2", "rm")), None);
    assert_eq!(allow(&bench.place, &first.code).unwrap(), None);
    assert_eq!(denied(&bench.place), []);
}
