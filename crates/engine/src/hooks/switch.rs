//! The switch: which hooks are off in one session, kept in one JSON file a session. A person may
//! read, edit or delete it; becket never deletes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use becket_wire::Place;
use becket_wire::id::parse_uuid;
use jiff::{Timestamp, Unit};
use serde_json::{Map, Value};
use thiserror::Error;

use super::Hook;
use crate::config::Origin;
use crate::local_time;
use crate::replace::{self, Attempt, Snapshot, retry};

const MAX_SIZE: u64 = 1 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);

const SESSION: &str = "transcriptId";
const DISABLED: &str = "disabledHooks";
const AT: &str = "timestamp";
const CWD: &str = "workingDirectory";

/// The switches of one session that are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    disabled: Vec<String>,
}

/// Why a switch could not be set.
#[derive(Debug, Error)]
pub enum SwitchError {
    #[error("the session `{0}` has no switches: its id is not a UUID")]
    NoSwitches(String),
    #[error("could not read {}: {why}", .file.display())]
    Unreadable { file: PathBuf, why: io::Error },
    #[error("could not write {}: {why}", .file.display())]
    Unwritable { file: PathBuf, why: io::Error },
    #[error("could not lock {}: {why}", .file.display())]
    Locked { file: PathBuf, why: io::Error },
    #[error("{} keeps changing", .0.display())]
    KeepsChanging(PathBuf),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// False: it was so already, and nothing was written.
    pub changed: bool,
    /// Where the damaged file went that stood there.
    pub set_aside: Option<PathBuf>,
}

/// The switches as the file says them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    pub switches: Switches,
    /// Why the file counts as empty, if it should not be.
    pub trouble: Option<String>,
}

impl Switches {
    /// Reads a session's switches. One that has no file, or can have none, has nothing off.
    pub fn read(place: &Place, session: &str) -> Read {
        let Some(path) = path(place, session) else {
            return Read::default();
        };
        let read = match Snapshot::read(&path, MAX_SIZE) {
            Ok(snapshot) => Content::of(snapshot.bytes()),
            Err(why) => Err(why.to_string()),
        };
        match read {
            Ok(content) => Read {
                switches: content.switches(),
                trouble: None,
            },
            Err(why) => Read {
                switches: Self::default(),
                trouble: Some(format!("{}: {why}", path.display())),
            },
        }
    }

    pub fn new(disabled: Vec<String>) -> Self {
        Self { disabled }
    }

    pub fn is_off(&self, hook: &str) -> bool {
        self.disabled.iter().any(|name| name == hook)
    }

    /// The names, as the file has them.
    pub fn disabled(&self) -> &[String] {
        &self.disabled
    }
}

/// Where a session's switches stand. None if its id is not a UUID: such a session has none.
pub fn path(place: &Place, session: &str) -> Option<PathBuf> {
    parse_uuid(session)?;
    // On a file system that does not tell cases apart, nor do we.
    let name = format!("{}.json", session.to_ascii_lowercase());
    Some(place.sessions().join(name))
}

/// Whether a hook runs in a session, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Enabled,
    /// For good, by the config.
    OffInConfig(Origin),
    /// `becket trust` was not given for this project.
    NotTrusted,
    DisabledForSession,
    SkippedForAgent,
}

impl State {
    /// The word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::OffInConfig(_) => "off",
            Self::NotTrusted => "not_trusted",
            Self::DisabledForSession => "disabled",
            Self::SkippedForAgent => "skipped",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enabled => f.write_str("enabled"),
            Self::OffInConfig(origin) => write!(f, "off in config, {origin}"),
            Self::NotTrusted => f.write_str("not trusted"),
            Self::DisabledForSession => f.write_str("disabled for this session"),
            Self::SkippedForAgent => f.write_str("skipped for this subagent"),
        }
    }
}

/// Config off > not trusted > session > subagent > on. What the machine's owner manages, no session
/// switches off.
pub fn state(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> State {
    match hook.off {
        None if hook.untrusted => State::NotTrusted,
        _ => state_if_trusted(hook, switches, agent_type),
    }
}

/// Whether it runs, or would if its project had not changed since it was approved.
pub(super) fn is_due(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> bool {
    (!hook.untrusted || hook.changed)
        && state_if_trusted(hook, switches, agent_type) == State::Enabled
}

fn state_if_trusted(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> State {
    let skips = |agent: &str| hook.skip_agents.iter().any(|skipped| skipped == agent);
    match &hook.off {
        Some(origin) => State::OffInConfig(origin.clone()),
        None if !hook.managed && switches.is_off(&hook.name) => State::DisabledForSession,
        None if agent_type.is_some_and(skips) => State::SkippedForAgent,
        None => State::Enabled,
    }
}

/// Switches a hook off in one session.
pub fn disable(
    place: &Place,
    session: &str,
    hook: &str,
    cwd: &Path,
) -> Result<Switched, SwitchError> {
    edit(place, session, cwd, |disabled| {
        let is_new = !disabled.iter().any(|name| name == hook);
        if is_new {
            disabled.push(hook.to_owned());
        }
        is_new
    })
}

/// Switches it on again.
pub fn enable(
    place: &Place,
    session: &str,
    hook: &str,
    cwd: &Path,
) -> Result<Switched, SwitchError> {
    edit(place, session, cwd, |disabled| {
        let before = disabled.len();
        disabled.retain(|name| name != hook);
        disabled.len() < before
    })
}

/// Gives a session the switches of the one that it came from (`/clear`, a fork), unless it has some
/// already. True if it has them now. `wait` bounds the wait for the lock.
pub fn copy(place: &Place, from: &str, to: &str, wait: Duration) -> Result<bool, SwitchError> {
    let (Some(source), Some(target)) = (path(place, from), path(place, to)) else {
        return Ok(false);
    };
    // Most sessions have none, and cost no lock.
    if !source.exists() {
        return Ok(false);
    }
    let lock = take_lock(place, wait)?;
    let mut content = match Content::of(read(&source)?.bytes()) {
        Ok(content) if !content.disabled.is_empty() => content,
        _ => return Ok(false),
    };
    let snapshot = read(&target)?;
    if snapshot.bytes().is_some() {
        return Ok(false);
    }
    content.stamp(to);
    let attempt = content.write(&snapshot)?;
    drop(lock);
    Ok(attempt == Attempt::Done)
}

/// Moves a damaged file out of the way, if there is one, and says where it is now.
pub fn set_aside(place: &Place, session: &str) -> Result<Option<PathBuf>, SwitchError> {
    let Some(path) = path(place, session) else {
        return Ok(None);
    };
    if Switches::read(place, session).trouble.is_none() {
        return Ok(None);
    }
    let lock = take_lock(place, LOCK_WAIT)?;
    let aside = if is_damaged(&path)? {
        Some(move_away(&path)?)
    } else {
        None
    };
    drop(lock);
    Ok(aside)
}

fn edit(
    place: &Place,
    session: &str,
    cwd: &Path,
    change: impl Fn(&mut Vec<String>) -> bool,
) -> Result<Switched, SwitchError> {
    let path = path(place, session).ok_or_else(|| SwitchError::NoSwitches(session.to_owned()))?;
    let lock = take_lock(place, LOCK_WAIT)?;
    let mut set_aside = None;
    let changed = retry(|| {
        if is_damaged(&path)? {
            set_aside = Some(move_away(&path)?);
        }
        let snapshot = read(&path)?;
        let Ok(mut content) = Content::of(snapshot.bytes()) else {
            return Ok(None);
        };
        let changed = change(&mut content.disabled);
        if changed {
            content.stamp(session);
            content.cwd = Some(resolved(cwd));
        }
        let is_done = !changed || content.write(&snapshot)? == Attempt::Done;
        Ok(is_done.then_some(changed))
    })?;
    drop(lock);
    let changed = changed.ok_or(SwitchError::KeepsChanging(path))?;
    Ok(Switched { changed, set_aside })
}

/// A folder under its real name; one that is gone, as it was said.
fn resolved(folder: &Path) -> String {
    let real = folder.canonicalize();
    let real = real.unwrap_or_else(|_| folder.to_path_buf());
    real.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Snapshot, SwitchError> {
    Snapshot::read(path, MAX_SIZE).map_err(|why| SwitchError::Unreadable {
        file: path.to_path_buf(),
        why,
    })
}

/// Too long is damaged too; what may not be read is not ours to judge.
fn is_damaged(path: &Path) -> Result<bool, SwitchError> {
    match read(path) {
        Ok(snapshot) => Ok(Content::of(snapshot.bytes()).is_err()),
        Err(SwitchError::Unreadable { why, .. }) if why.kind() == ErrorKind::FileTooLarge => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

fn move_away(path: &Path) -> Result<PathBuf, SwitchError> {
    let time = local_time::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unwritable = |why| SwitchError::Unwritable {
        file: path.to_path_buf(),
        why,
    };
    let free = |number: &u32| {
        let aside = match number {
            1 => format!("{name}.damaged-{time}"),
            _ => format!("{name}.damaged-{time}-{number}"),
        };
        let aside = path.with_file_name(aside);
        (!aside.exists()).then_some(aside)
    };
    let aside = (1..1000).find_map(|number| free(&number));
    let aside = aside.ok_or_else(|| unwritable(ErrorKind::AlreadyExists.into()))?;
    fs::rename(path, &aside).map_err(unwritable)?;
    Ok(aside)
}

fn take_lock(place: &Place, wait: Duration) -> Result<File, SwitchError> {
    let file = place.sessions().join(".lock");
    replace::lock(&file, wait).map_err(|why| SwitchError::Locked { file, why })
}

/// What a file says. What a person added besides is kept.
#[derive(Debug, Default)]
struct Content {
    session: Option<String>,
    disabled: Vec<String>,
    at: Option<String>,
    cwd: Option<String>,
    rest: Map<String, Value>,
}

impl Content {
    fn of(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let value = serde_json::from_slice(bytes).map_err(|why| format!("not JSON: {why}"))?;
        let Value::Object(mut rest) = value else {
            return Err("not an object".to_owned());
        };
        let names = rest
            .remove(DISABLED)
            .unwrap_or_else(|| Value::Array(vec![]));
        let names = names.as_array().ok_or("disabledHooks is not a list")?;
        let name = |name: &Value| name.as_str().map(str::to_owned);
        let names: Option<Vec<String>> = names.iter().map(name).collect();
        let mut text = |key: &str| match rest.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Ok(Self {
            session: text(SESSION),
            at: text(AT),
            cwd: text(CWD),
            disabled: names.ok_or("disabledHooks holds a value that is not a string")?,
            rest,
        })
    }

    fn switches(self) -> Switches {
        Switches::new(self.disabled)
    }

    fn stamp(&mut self, session: &str) {
        let now = Timestamp::now();
        let now = now.round(Unit::Second).unwrap_or(now);
        self.session = Some(session.to_ascii_lowercase());
        self.at = Some(now.to_string());
    }

    fn write(&self, over: &Snapshot) -> Result<Attempt, SwitchError> {
        over.replace(self.text().as_bytes(), 0o600)
            .map_err(|why| SwitchError::Unwritable {
                file: over.path().to_path_buf(),
                why,
            })
    }

    /// Ours first and in their order; `serde_json` would sort them.
    fn text(&self) -> String {
        let ours = [
            (SESSION, Value::from(self.session.clone())),
            (DISABLED, Value::from(self.disabled.clone())),
            (AT, Value::from(self.at.clone())),
            (CWD, Value::from(self.cwd.clone())),
        ];
        let ours = ours.iter().map(|(name, value)| (*name, value));
        let theirs = self.rest.iter().map(|(name, value)| (&**name, value));
        let lines: Vec<String> = ours
            .chain(theirs)
            .map(|(name, value)| format!("  {}: {}", Value::from(name), spaced(value)))
            .collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }
}

/// A list of names on one line, with spaces, as a person would write it.
fn spaced(value: &Value) -> String {
    match value.as_array() {
        Some(values) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("[{}]", values.join(", "))
        }
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
