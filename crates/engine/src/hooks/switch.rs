//! The switches of a session: the hooks that are off in it, kept in one JSON file a session. The user may read,
//! edit or delete the file; becket never deletes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::mem;
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

/// The result of a change to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchOutcome {
    /// False if nothing was to do, and nothing was written.
    pub changed: bool,
    /// The new path of the damaged file that was there before.
    pub set_aside: Option<PathBuf>,
}

/// The switches as the file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchesRead {
    pub switches: Switches,
    /// The reason for which the file counts as empty, if it should not.
    pub trouble: Option<String>,
}

impl Switches {
    /// Reads a session's switches. Without a file all hooks are on.
    pub fn read(place: &Place, session: &str) -> SwitchesRead {
        let Some(path) = path(place, session) else {
            return SwitchesRead::default();
        };
        let snapshot = Snapshot::read(&path, MAX_SIZE).map_err(|why| why.to_string());
        let content = snapshot.and_then(|snapshot| Content::of(snapshot.bytes()));
        let trouble = content.as_ref().err();
        SwitchesRead {
            trouble: trouble.map(|why| format!("{}: {why}", path.display())),
            switches: Switches::new(content.unwrap_or_default().disabled),
        }
    }

    pub fn new(disabled: Vec<String>) -> Self {
        Self { disabled }
    }

    pub fn is_off(&self, hook: &str) -> bool {
        self.disabled.iter().any(|name| name == hook)
    }

    /// Returns the names of the hooks that are off, as the file has them.
    pub fn disabled(&self) -> &[String] {
        &self.disabled
    }
}

/// Returns the file of a session's switches; none if its id is not a UUID: such a session has none.
pub fn path(place: &Place, session: &str) -> Option<PathBuf> {
    parse_uuid(session)?;
    // A file system may ignore case.
    let name = format!("{}.json", session.to_ascii_lowercase());
    Some(place.sessions().join(name))
}

/// The state of a hook in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    Enabled,
    /// Off for good, by the config.
    OffInConfig(Origin),
    /// The project is not trusted.
    NotTrusted,
    DisabledForSession,
    SkippedForAgent,
}

impl HookState {
    /// Returns the word for scripts.
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

impl fmt::Display for HookState {
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

/// Returns the state of a hook: off in config, then not trusted, then off in the session, then off for the
/// subagent, then on. A session cannot switch off a managed hook.
pub fn state(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> HookState {
    match hook.off {
        None if hook.untrusted => HookState::NotTrusted,
        _ => state_if_trusted(hook, switches, agent_type),
    }
}

/// Returns true if a hook runs, or would run if its project had not changed since it was approved.
pub(super) fn is_due(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> bool {
    (!hook.untrusted || hook.changed)
        && state_if_trusted(hook, switches, agent_type) == HookState::Enabled
}

fn state_if_trusted(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> HookState {
    let skips = |agent: &str| hook.skip_agents.iter().any(|skipped| skipped == agent);
    match &hook.off {
        Some(origin) => HookState::OffInConfig(origin.clone()),
        None if !hook.managed && switches.is_off(&hook.name) => HookState::DisabledForSession,
        None if agent_type.is_some_and(skips) => HookState::SkippedForAgent,
        None => HookState::Enabled,
    }
}

/// Switches a hook off in one session.
pub fn disable(
    place: &Place,
    session: &str,
    hook: &str,
    cwd: &Path,
) -> Result<SwitchOutcome, SwitchError> {
    edit(place, session, cwd, |disabled| {
        let is_new = !disabled.iter().any(|name| name == hook);
        if is_new {
            disabled.push(hook.to_owned());
        }
        is_new
    })
}

/// Switches a hook on again in one session.
pub fn enable(
    place: &Place,
    session: &str,
    hook: &str,
    cwd: &Path,
) -> Result<SwitchOutcome, SwitchError> {
    edit(place, session, cwd, |disabled| {
        let before = disabled.len();
        disabled.retain(|name| name != hook);
        disabled.len() < before
    })
}

/// Gives a session the switches of the session that it came from (`/clear`, a fork), unless it has a file
/// already. Returns true if it got them. `wait` bounds the wait for the lock.
pub fn copy(place: &Place, from: &str, to: &str, wait: Duration) -> Result<bool, SwitchError> {
    let (Some(source), Some(target)) = (path(place, from), path(place, to)) else {
        return Ok(false);
    };
    // Most sessions have no file, and cost no lock.
    if !source.exists() {
        return Ok(false);
    }
    let _lock = take_lock(place, wait)?;
    let source = load(&source)?.filter(|(_, content)| !content.disabled.is_empty());
    let (Some((_, mut content)), Some((snapshot, _))) = (source, load(&target)?) else {
        return Ok(false);
    };
    if snapshot.bytes().is_some() {
        return Ok(false);
    }
    content.stamp(to);
    Ok(content.write(&snapshot)? == Attempt::Done)
}

/// Moves a damaged file away, if there is one, and returns its new path.
pub fn set_aside(place: &Place, session: &str) -> Result<Option<PathBuf>, SwitchError> {
    let Some(path) = path(place, session) else {
        return Ok(None);
    };
    if Switches::read(place, session).trouble.is_none() {
        return Ok(None);
    }
    let _lock = take_lock(place, LOCK_WAIT)?;
    let is_damaged = load(&path)?.is_none();
    is_damaged.then(|| move_away(&path)).transpose()
}

fn edit(
    place: &Place,
    session: &str,
    cwd: &Path,
    change: impl Fn(&mut Vec<String>) -> bool,
) -> Result<SwitchOutcome, SwitchError> {
    let path = path(place, session).ok_or_else(|| SwitchError::NoSwitches(session.to_owned()))?;
    let _lock = take_lock(place, LOCK_WAIT)?;
    let mut set_aside = None;
    let changed = retry(|| {
        let Some((snapshot, mut content)) = load(&path)? else {
            set_aside = Some(move_away(&path)?);
            return Ok(None);
        };
        let changed = change(&mut content.disabled);
        if changed {
            content.stamp(session);
            content.set(CWD, resolved(cwd));
        }
        let is_done = !changed || content.write(&snapshot)? == Attempt::Done;
        Ok(is_done.then_some(changed))
    })?;
    let changed = changed.ok_or(SwitchError::KeepsChanging(path))?;
    Ok(SwitchOutcome { changed, set_aside })
}

/// Returns the real path of a folder; if it is gone, the path as given.
fn resolved(folder: &Path) -> String {
    let real = folder.canonicalize();
    let real = real.unwrap_or_else(|_| folder.to_path_buf());
    real.to_string_lossy().into_owned()
}

/// Reads a file. Returns none if it is damaged: not JSON of the expected form, or too long.
fn load(path: &Path) -> Result<Option<(Snapshot, Content)>, SwitchError> {
    match Snapshot::read(path, MAX_SIZE) {
        Ok(snapshot) => {
            let content = Content::of(snapshot.bytes()).ok();
            Ok(content.map(|content| (snapshot, content)))
        }
        Err(why) if why.kind() == ErrorKind::FileTooLarge => Ok(None),
        Err(why) => Err(SwitchError::Unreadable {
            file: path.to_path_buf(),
            why,
        }),
    }
}

fn move_away(path: &Path) -> Result<PathBuf, SwitchError> {
    let time = local_time::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = (1..1000)
        .map(|number| match number {
            1 => format!("{name}.damaged-{time}"),
            _ => format!("{name}.damaged-{time}-{number}"),
        })
        .map(|name| path.with_file_name(name))
        .find(|aside| !aside.exists());
    let moved = match aside {
        Some(aside) => fs::rename(path, &aside).map(|()| aside),
        None => Err(ErrorKind::AlreadyExists.into()),
    };
    moved.map_err(|why| SwitchError::Unwritable {
        file: path.to_path_buf(),
        why,
    })
}

fn take_lock(place: &Place, wait: Duration) -> Result<File, SwitchError> {
    let file = place.sessions().join(".lock");
    replace::lock(&file, wait).map_err(|why| SwitchError::Locked { file, why })
}

/// The content of a file. Keys that a user added are kept.
#[derive(Debug, Default)]
struct Content {
    disabled: Vec<String>,
    /// All other keys.
    rest: Map<String, Value>,
}

impl Content {
    fn of(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let mut rest: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|why| format!("not a JSON object: {why}"))?;
        let disabled = rest.remove(DISABLED).map(serde_json::from_value);
        let disabled = disabled
            .transpose()
            .map_err(|_| "disabledHooks is not a list of strings")?;
        Ok(Self {
            disabled: disabled.unwrap_or_default(),
            rest,
        })
    }

    fn stamp(&mut self, session: &str) {
        let now = Timestamp::now();
        let now = now.round(Unit::Second).unwrap_or(now).to_string();
        self.set(SESSION, session.to_ascii_lowercase());
        self.set(AT, now);
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.rest.insert(key.to_owned(), value.into());
    }

    fn write(mut self, over: &Snapshot) -> Result<Attempt, SwitchError> {
        let disabled = mem::take(&mut self.disabled);
        self.set(DISABLED, disabled);
        over.replace(self.text().as_bytes(), 0o600)
            .map_err(|why| SwitchError::Unwritable {
                file: over.path().to_path_buf(),
                why,
            })
    }

    /// Formats the file with becket's own keys first and in their order; `serde_json` would sort them.
    fn text(&self) -> String {
        let ours = [SESSION, DISABLED, AT, CWD];
        let theirs = self.rest.keys().map(String::as_str);
        let theirs = theirs.filter(|key| !ours.contains(key));
        let lines: Vec<String> = ours
            .into_iter()
            .chain(theirs)
            .filter_map(|key| Some((key, self.rest.get(key)?)))
            .map(|(key, value)| format!("  {}: {}", Value::from(key), spaced(value)))
            .collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }
}

/// Formats a list on one line, with spaces, as a person would write it.
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
