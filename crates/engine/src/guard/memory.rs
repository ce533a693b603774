//! Calls that were denied, and passes for them: one small file each in `run/guard/`, for both hosts.
//!
//! A denied call leaves `CODE.denied`. `becket allow CODE` renames it to `CODE.pass`. The first
//! retry that goes by the pass, or the second try of an `answer = "once"`, removes that file and leaves
//! `CALL.bound`: the pass is then for this one call, until the call, its turn or its session ends.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use becket_wire::event::EventName;
use becket_wire::tool::is_shell;
use becket_wire::{EventId, Head, Place};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::rule::Say;
use super::sight::Found;
use crate::replace::make_folder;
use crate::trust::hash_of;

/// A denied call can be allowed for so long, and a pass lasts as long.
pub const LASTS: Duration = Duration::from_secs(600);
const CODE_LENGTH: usize = 8;
const CALL_LENGTH: usize = 32;

/// The identity of a call: session, agent, prompt, tool and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub code: String,
    hash: String,
    session: String,
    agent: Option<String>,
    prompt: Option<String>,
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

/// The reason why guards let a call pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The guard whose first try was denied. None: a person allowed the call, and every guard lets it pass.
    once: Option<String>,
    /// The file that the pass uses up. None: it is bound to the call already.
    waits: Option<PathBuf>,
}

impl Pass {
    pub fn covers(&self, found: &Found) -> bool {
        let is_once = |rule: &String| found.say == Say::Once && *rule == found.rule.id;
        self.once.as_ref().is_none_or(is_once)
    }
}

/// A pass that is bound to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Bound {
    session: String,
    agent: Option<String>,
    prompt: Option<String>,
    once: Option<String>,
    /// The hashes of the call's input, as the model wrote it and as hooks rewrote it.
    inputs: Vec<String>,
}

impl Bound {
    fn pass(self) -> Pass {
        Pass {
            once: self.once,
            waits: None,
        }
    }
}

impl Key {
    /// Returns the key of a tool call. Fields without an effect do not count: the model writes another
    /// description with each try.
    pub fn of_call(head: &Head<'_>, event: EventId, tool: &str, input: &Value) -> Self {
        let mut input = input.clone();
        if is_shell(tool)
            && let Some(fields) = input.as_object_mut()
        {
            for name in ["description", "timeout", "timeout_ms"] {
                fields.remove(name);
            }
        }
        let id = head.tool_use_id.as_deref();
        Self::of(head, id, event, tool, &input.to_string())
    }

    pub fn of_prompt(head: &Head<'_>, event: EventId, prompt: &str) -> Self {
        let id = head.prompt_id.as_deref();
        Self::of(head, id, event, "prompt", prompt)
    }

    fn of(head: &Head<'_>, id: Option<&str>, event: EventId, tool: &str, input: &str) -> Self {
        let session = head.session_id.as_deref().unwrap_or_default();
        let hash = hash_of(format!("{session}\0{tool}\0{input}").as_bytes());
        let call = match id {
            Some(id) => call_of(session, tool, id),
            None => call_of(session, tool, &event.to_string()),
        };
        Self {
            code: hash[..CODE_LENGTH].to_owned(),
            hash,
            session: session.to_owned(),
            agent: head.agent_id.as_deref().map(str::to_owned),
            prompt: head.prompt_id.as_deref().map(str::to_owned),
            tool: tool.to_owned(),
            call,
        }
    }

    /// Finds the pass for this call.
    pub fn look_up(&self, place: &Place, event: &EventName) -> Option<Pass> {
        if let Some(bound) = read_json::<Bound>(&bound_file(place, &self.call)) {
            return Some(bound.pass());
        }
        if *event == EventName::PermissionRequest {
            // It has no `tool_use_id`.
            let mut bound = all_bound(place).map(|(_, bound)| bound);
            return bound.find(|bound| self.is_of(bound)).map(Bound::pass);
        }
        let read = |state| read(place, &self.code, state).filter(|it| it.hash == self.hash);
        let (state, once) = match (read("pass"), read("denied")) {
            (Some(_), _) => ("pass", None),
            (None, Some(denied)) if denied.call != self.call => ("denied", Some(denied.rule)),
            _ => return None,
        };
        Some(Pass {
            once,
            waits: Some(file(place, &self.code, state)),
        })
    }

    fn is_of(&self, bound: &Bound) -> bool {
        let same_turn = bound.agent == self.agent && bound.prompt == self.prompt;
        same_turn && bound.inputs.contains(&self.hash)
    }

    /// Binds the pass to this call. False if another call was faster.
    pub fn bind(&self, place: &Place, pass: &Pass) -> bool {
        let path = bound_file(place, &self.call);
        let mut bound = match (read_json::<Bound>(&path), &pass.waits) {
            (Some(bound), _) => bound,
            // The dialog of the call to which it is bound.
            (None, None) => return true,
            (None, Some(waits)) if fs::remove_file(waits).is_err() => return false,
            (None, Some(_)) => Bound {
                session: self.session.clone(),
                agent: self.agent.clone(),
                prompt: self.prompt.clone(),
                once: pass.once.clone(),
                inputs: Vec::new(),
            },
        };
        if bound.inputs.contains(&self.hash) {
            return true;
        }
        bound.inputs.push(self.hash.clone());
        write_json(place, &path, &bound).is_ok()
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
        make_folder(&place.guard(), 0o700)?;
        sweep(place);
        write_json(place, &file(place, &self.code, "denied"), &denied)
    }
}

fn call_of(session: &str, tool: &str, id: &str) -> String {
    let mut call = hash_of(format!("{session}\0{tool}\0{id}").as_bytes());
    call.truncate(CALL_LENGTH);
    call
}

/// The passes that an event ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// The one that is bound to this call.
    Call(String),
    /// Those of an agent, but for the calls of its new prompt.
    Turn {
        session: String,
        agent: Option<String>,
        new_prompt: Option<String>,
    },
    /// Those of a session. Its denied calls cannot be allowed any more.
    Session(String),
}

impl Ends {
    pub fn of(event: &EventName, head: &Head<'_>) -> Option<Self> {
        let session = head.session_id.as_deref()?;
        let turn = |new_prompt: Option<&str>| Self::Turn {
            session: session.to_owned(),
            agent: head.agent_id.as_deref().map(str::to_owned),
            new_prompt: new_prompt.map(str::to_owned),
        };
        match event {
            EventName::PostToolUse
            | EventName::PostToolUseFailure
            | EventName::PermissionDenied => {
                let (tool, id) = (head.tool.as_deref()?, head.tool_use_id.as_deref()?);
                Some(Self::Call(call_of(session, tool, id)))
            }
            EventName::UserPromptSubmit => Some(turn(head.prompt_id.as_deref())),
            EventName::Stop | EventName::SubagentStop => Some(turn(None)),
            EventName::SessionEnd => Some(Self::Session(session.to_owned())),
            _ => None,
        }
    }

    /// Removes them.
    pub fn remove(&self, place: &Place) {
        match self {
            Self::Call(call) => drop(fs::remove_file(bound_file(place, call))),
            Self::Turn {
                session,
                agent,
                new_prompt,
            } => {
                remove_bound(place, |bound| {
                    let is_new = new_prompt.is_some() && bound.prompt == *new_prompt;
                    bound.session == *session && bound.agent == *agent && !is_new
                });
            }
            Self::Session(session) => {
                remove_bound(place, |bound| bound.session == *session);
                let denied = denied(place).into_iter();
                for denied in denied.filter(|denied| denied.session_id == *session) {
                    drop(fs::remove_file(file(place, &denied.code, "denied")));
                }
            }
        }
    }
}

fn remove_bound(place: &Place, ends: impl Fn(&Bound) -> bool) {
    for (path, _) in all_bound(place).filter(|(_, bound)| ends(bound)) {
        drop(fs::remove_file(path));
    }
}

fn all_bound(place: &Place) -> impl Iterator<Item = (PathBuf, Bound)> {
    let names = names(place).into_iter();
    let paths = names
        .filter(|name| name.ends_with(".bound"))
        .map(|name| place.guard().join(name));
    paths.filter_map(|path| Some((path.clone(), read_json(&path)?)))
}

fn bound_file(place: &Place, call: &str) -> PathBuf {
    file(place, call, "bound")
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
    let denied: Denied = read_json(&path)?;
    (age(&path)? < LASTS).then(|| Denied {
        code: code.to_owned(),
        ..denied
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces a file of `run/guard/` as a whole.
fn write_json(place: &Place, path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut draft = NamedTempFile::new_in(place.guard())?;
    draft.write_all(&serde_json::to_vec(value)?)?;
    draft.persist(path)?;
    Ok(())
}

fn age(path: &Path) -> Option<Duration> {
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
mod tests;
