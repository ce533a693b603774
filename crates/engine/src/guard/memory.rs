//! Calls that were denied, and passes for them: one small file each in `run/guard/`. A denied call leaves
//! `CODE.denied`; `becket guard allow-once CODE` renames it to `CODE.pass`; the final decision about the
//! next such call renames that to `CODE.used-CALL`. So one call passes, however often it is judged.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use becket_wire::{EventId, Head, Place};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::path::is_shell;
use crate::replace::make_folder;
use crate::trust::hash_of;

/// A denied call can be allowed for so long, and a pass lasts as long.
pub const LASTS: Duration = Duration::from_secs(600);
const CODE_LENGTH: usize = 8;

/// Which call it is: session, tool and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub code: String,
    hash: String,
    session: String,
    tool: String,
    /// This very call, however often it is judged.
    call: String,
}

/// A call that was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    #[serde(skip)]
    pub code: String,
    pub event_id: EventId,
    pub session_id: String,
    pub tool: String,
    pub rule: String,
    hash: String,
    call: String,
}

/// What is remembered of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Memory {
    #[default]
    Nothing,
    /// An earlier one was denied by this rule.
    Denied(String),
    /// It may pass.
    Pass,
}

impl Key {
    /// What says nothing of the call's effect does not count: the model writes another description
    /// with each try.
    pub fn of_call(head: &Head<'_>, event: EventId, tool: &str, input: &Value) -> Self {
        let mut input = input.clone();
        if is_shell(tool)
            && let Some(fields) = input.as_object_mut()
        {
            for name in ["description", "timeout", "timeout_ms"] {
                fields.remove(name);
            }
        }
        Self::of(head, event, tool, &input.to_string())
    }

    pub fn of_prompt(head: &Head<'_>, event: EventId, prompt: &str) -> Self {
        Self::of(head, event, "prompt", prompt)
    }

    fn of(head: &Head<'_>, event: EventId, tool: &str, input: &str) -> Self {
        let session = head.session_id.as_deref().unwrap_or_default();
        let hash = hash_of(format!("{session}\0{tool}\0{input}").as_bytes());
        let id = head.tool_use_id.as_deref().or(head.prompt_id.as_deref());
        let call = id.map_or_else(|| event.to_string(), |id| hash_of(id.as_bytes()));
        Self {
            code: hash[..CODE_LENGTH].to_owned(),
            hash,
            session: session.to_owned(),
            tool: tool.to_owned(),
            call: call.chars().take(32).collect(),
        }
    }

    fn used(&self, place: &Place) -> PathBuf {
        place
            .guard()
            .join(format!("{}.used-{}", self.code, self.call))
    }

    /// What is remembered. `later`: the event follows a decision about the same call.
    pub fn look_up(&self, place: &Place, later: bool) -> Memory {
        let used = |name: &str| name.starts_with(&format!("{}.used-", self.code));
        if self.used(place).exists() || later && names(place).iter().any(|name| used(name)) {
            return Memory::Pass;
        }
        let read = |state| read(place, &self.code, state).filter(|it| it.hash == self.hash);
        match (read("pass"), read("denied")) {
            (Some(_), _) => Memory::Pass,
            (None, Some(denied)) if denied.call != self.call => Memory::Denied(denied.rule),
            _ => Memory::Nothing,
        }
    }

    /// Uses up the pass, or that the call was denied before. False if another call was faster.
    pub fn spend(&self, place: &Place, memory: &Memory) -> bool {
        let state = match memory {
            Memory::Nothing => return false,
            Memory::Denied(_) => "denied",
            Memory::Pass => "pass",
        };
        let used = self.used(place);
        fs::rename(file(place, &self.code, state), &used).is_ok() || used.exists()
    }

    /// Remembers that the call was denied.
    pub fn deny(&self, place: &Place, event_id: EventId, rule: &str) -> io::Result<()> {
        let denied = Denied {
            code: self.code.clone(),
            event_id,
            session_id: self.session.clone(),
            tool: self.tool.clone(),
            rule: rule.to_owned(),
            hash: self.hash.clone(),
            call: self.call.clone(),
        };
        let folder = place.guard();
        make_folder(&folder, 0o700)?;
        sweep(place);
        let draft = folder.join(format!("{}.{event_id}", self.code));
        let mut options = OpenOptions::new();
        let mut new = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        new.write_all(&serde_json::to_vec(&denied)?)?;
        fs::rename(&draft, file(place, &self.code, "denied"))
    }
}

/// The calls that were denied and can still be allowed.
pub fn denied(place: &Place) -> Vec<Denied> {
    let names = names(place);
    let codes = names.iter().filter_map(|name| name.strip_suffix(".denied"));
    codes
        .filter_map(|code| read(place, code, "denied"))
        .collect()
}

/// Lets the next such call pass. None if no call with this code can be allowed.
pub fn allow(place: &Place, code: &str) -> io::Result<Option<Denied>> {
    let is_code =
        code.len() == CODE_LENGTH && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some(denied) = is_code.then(|| read(place, code, "denied")).flatten() else {
        return Ok(None);
    };
    let pass = file(place, code, "pass");
    // Its time begins now.
    OpenOptions::new()
        .write(true)
        .open(file(place, code, "denied"))?
        .set_modified(SystemTime::now())?;
    fs::rename(file(place, code, "denied"), pass)?;
    Ok(Some(denied))
}

fn file(place: &Place, code: &str, state: &str) -> PathBuf {
    place.guard().join(format!("{code}.{state}"))
}

fn read(place: &Place, code: &str, state: &str) -> Option<Denied> {
    let path = file(place, code, state);
    let denied: Denied = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    (age(&path)? < LASTS).then(|| Denied {
        code: code.to_owned(),
        ..denied
    })
}

fn age(path: &std::path::Path) -> Option<Duration> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(modified.elapsed().unwrap_or_default())
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.guard()).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Removes what is too old to count.
fn sweep(place: &Place) {
    for name in names(place) {
        let path = place.guard().join(name);
        if age(&path).is_some_and(|age| age > 2 * LASTS) {
            drop(fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: &str, command: &str) -> Key {
        let payload = format!(r#"{{"session_id":"s","tool_use_id":"{call}"}}"#);
        let head = Head::read(payload.as_bytes()).unwrap();
        let input = serde_json::json!({"command": command, "description": call});
        Key::of_call(&head, EventId::new(5, [7; 2]), "Bash", &input)
    }

    #[test]
    fn one_pass_lets_one_call_pass_however_often_it_is_judged() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        let (first, second, third) = (key("1", "rm"), key("2", "rm"), key("3", "rm"));
        assert_eq!(first.look_up(&place, false), Memory::Nothing);
        first
            .deny(&place, EventId::new(5, [7; 2]), "no-rm")
            .unwrap();
        assert_eq!(
            first.look_up(&place, false),
            Memory::Nothing,
            "the same call"
        );
        assert_eq!(
            second.look_up(&place, false),
            Memory::Denied("no-rm".into())
        );
        assert_eq!(denied(&place).len(), 1);
        assert_eq!(allow(&place, "00000000").unwrap(), None);
        let allowed = allow(&place, &first.code).unwrap().unwrap();
        assert_eq!((&*allowed.rule, &*allowed.code), ("no-rm", &*first.code));
        assert_eq!(denied(&place), []);
        assert_eq!(key("2", "ls").look_up(&place, false), Memory::Nothing);
        // Two hosts judge the same call, and one of them is told to go.
        assert_eq!(second.look_up(&place, false), Memory::Pass);
        let spend = |key: &Key| key.spend(&place, &Memory::Pass);
        assert!(spend(&second) && spend(&second));
        assert_eq!(second.look_up(&place, false), Memory::Pass);
        assert_eq!(third.look_up(&place, false), Memory::Nothing);
        assert_eq!(
            third.look_up(&place, true),
            Memory::Pass,
            "its permission dialog"
        );
        assert!(!spend(&third));
    }

    #[test]
    fn what_is_old_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        let first = key("1", "rm");
        first
            .deny(&place, EventId::new(5, [7; 2]), "no-rm")
            .unwrap();
        let file = OpenOptions::new()
            .write(true)
            .open(file(&place, &first.code, "denied"))
            .unwrap();
        file.set_modified(SystemTime::now() - LASTS).unwrap();
        assert_eq!(key("2", "rm").look_up(&place, false), Memory::Nothing);
        assert_eq!(allow(&place, &first.code).unwrap(), None);
        assert_eq!(denied(&place), []);
    }
}
