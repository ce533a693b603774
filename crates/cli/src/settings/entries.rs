//! Entries put into a settings file, taken out of it and looked at: becket's own, and other people's.
//! Pure: text in, text out; the record that `init` keeps is the exception.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};
use becket_wire::Place;
use becket_wire::place::fnv1a;
use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde::{Deserialize, Serialize};

use crate::settings::document::{
    Container, Document, Placed, SettingsError, Splices, flag, last, named, newline, plain,
    plain_object, split_mark, step,
};
use crate::settings::registration::{Registered, Registration, STRICT_EVENT, Strict};
use crate::settings::status_line::{self, Standing};

/// The settings with every event registered: missing entries added, wrong ones replaced where they
/// stand. What is right stays as it is, down to its layout.
pub fn register(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    let strict = is_strict(&Document::parse(&body)?, registration.strict);
    while let Some(edited) = remove_stray(&Document::parse(&body)?, registration) {
        body = edited;
    }
    body = add_hooks(&body, registration, strict)?;
    for registered in registration.events() {
        body = add_event(&body, registered, registration, strict)?;
    }
    if registration.status_line {
        body = status_line::put(&body, registration)?;
    }
    Ok(format!("{mark}{body}"))
}

/// The settings with those events registered synchronously on which a hook answers; nothing else
/// is mended.
pub fn make_synchronous(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let strict = is_strict(&Document::parse(body)?, registration.strict);
    let wanted = |one: &Registered| registration.synchronous.contains(one.event);
    let mut body = body.to_owned();
    for registered in registration.events().filter(wanted) {
        body = add_event(&body, registered, registration, strict)?;
    }
    Ok(format!("{mark}{body}"))
}

/// An empty file counts as an object with nothing in it.
pub fn with_root(body: &str) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    if document.root()?.is_some() {
        return Ok(body.to_owned());
    }
    let newline = newline(body);
    let gap = if body.is_empty() || body.ends_with('\n') {
        ""
    } else {
        newline
    };
    Ok(format!("{body}{gap}{{}}{newline}"))
}

/// Whether `PreToolUse` is to block when the shim fails.
pub fn is_strict(document: &Document<'_>, wanted: Strict) -> bool {
    let blocks = |ours: &Placed<'_, '_>| {
        ours.counts && ours.event == STRICT_EVENT && ours.string("onFailure") == Some("block")
    };
    match wanted {
        Strict::On => true,
        Strict::Off => false,
        Strict::Keep => document.ours().iter().any(blocks),
    }
}

/// Takes out one entry of ours that must not be where it is: on an event that is not registered,
/// behind a matcher, or a second time.
fn remove_stray(document: &Document<'_>, registration: &Registration) -> Option<String> {
    let mut seen = BTreeSet::new();
    let is_stray = |ours: &Placed<'_, '_>| {
        ours.counts
            && (registration.events().all(|one| one.event != ours.event)
                || ours.restricted()
                || !seen.insert(ours.event.to_owned()))
    };
    let stray = document.ours().into_iter().find(is_stray)?;
    Some(remove_entry(document, &stray, &Kept::default()).apply(document.text))
}

/// Where there are no hooks at all, all of ours are added in one piece.
fn add_hooks(
    body: &str,
    registration: &Registration,
    strict: bool,
) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let (Some(root), None) = (document.root()?, document.hooks()?) else {
        return Ok(body.to_owned());
    };
    let write = |indent: &str| {
        let before = format!("{}{indent}", newline(body));
        let deeper = format!("{before}{}", step(&document));
        let events: Vec<String> = registration
            .events()
            .map(|registered| format!("{deeper}{}", event(registered, registration, strict)))
            .collect();
        format!("\"hooks\": {{{}{before}}}", events.join(","))
    };
    Ok(Container::from(root).append(&document, write).apply(body))
}

fn add_event(
    body: &str,
    registered: Registered,
    registration: &Registration,
    strict: bool,
) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let groups = document.groups(registered.event)?;
    let right = registration.entries(registered, strict);
    let ours = document.ours();
    let standing = ours
        .iter()
        .find(|ours| ours.counts && ours.event == registered.event);
    let splices =
        match (standing, groups, document.hooks()?) {
            (Some(ours), _, _) if right.iter().any(|entry| says(ours, entry)) => Splices::default(),
            (Some(ours), _, _) => {
                let mut splices = Splices::default();
                let entry = registration.entry(registered, strict);
                splices.replace(ours.entry.start()..ours.entry.end(), entry);
                splices
            }
            (None, Some(groups), _) => Container::from(groups)
                .append(&document, |_| registration.group(registered, strict)),
            (None, None, Some(hooks)) => Container::from(hooks)
                .append(&document, |_| event(registered, registration, strict)),
            (None, None, None) => Splices::default(),
        };
    Ok(splices.apply(body))
}

fn event(registered: Registered, registration: &Registration, strict: bool) -> String {
    let group = registration.group(registered, strict);
    format!("\"{}\": [{group}]", registered.event)
}

/// Whether an entry says just this, however it is laid out.
pub fn says(ours: &Placed<'_, '_>, entry: &str) -> bool {
    let names: BTreeSet<_> = ours
        .entry
        .properties
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    let doubled = names.len() != ours.entry.properties.len();
    let wanted = serde_json::from_str::<serde_json::Value>(entry).ok();
    !doubled && wanted == Some(plain_object(ours.entry))
}

/// The value of a settings file, for comparing.
pub fn value(text: &str) -> Result<Option<serde_json::Value>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let root = document.root()?;
    Ok(root.map(|root| plain(&Value::Object(root.clone()))))
}

/// What is somebody's own: containers stay, even when they are empty; a status line comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    hooks: bool,
    events: BTreeSet<String>,
    /// The status line as it is written.
    status_line: Option<String>,
}

impl Kept {
    /// What stood in the settings before we came.
    pub fn of(original: &str) -> Self {
        let (_, body) = split_mark(original);
        let Ok(document) = Document::parse(body) else {
            return Self::default();
        };
        let hooks = document.hooks().ok().flatten();
        let events = hooks.map_or(&[][..], |hooks| &hooks.properties);
        let names = events.iter().map(|event| event.name.as_str());
        Self {
            hooks: hooks.is_some(),
            events: names.map(str::to_owned).collect(),
            status_line: status_line::theirs(&document).map(str::to_owned),
        }
    }

    /// The command of the status line.
    pub fn status_command(&self) -> Option<String> {
        status_line::command_of(self.status_line.as_deref()?)
    }
}

/// The settings without any entry of ours. A container goes too if it held nothing else, not even
/// a comment, and is not `kept`.
pub fn unregister(text: &str, kept: &Kept) -> Result<String, SettingsError> {
    let text = unregister_line(text, kept)?;
    let (mark, body) = split_mark(&text);
    let mut body = body.to_owned();
    while let Some(edited) = remove_one(&Document::parse(&body)?, kept)? {
        body = edited;
    }
    Ok(format!("{mark}{body}"))
}

/// The settings without our status line.
pub fn unregister_line(text: &str, kept: &Kept) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let body = status_line::take_out(body, kept.status_line.as_deref())?;
    Ok(format!("{mark}{body}"))
}

fn remove_one(document: &Document<'_>, kept: &Kept) -> Result<Option<String>, SettingsError> {
    document.root()?;
    let ours = document.ours();
    let first = ours.first();
    Ok(first.map(|ours| remove_entry(document, ours, kept).apply(document.text)))
}

/// Cuts out the entry, or the outermost thing around it that holds nothing else.
pub fn remove_entry(document: &Document<'_>, ours: &Placed<'_, '_>, kept: &Kept) -> Splices {
    let list_goes = ours.list.elements.len() == 1
        && ours.group.properties.len() == 1
        && !document.has_comment(ours.group, ours.entry);
    if !list_goes {
        return Container::from(ours.list).remove(document, ours.entry);
    }
    remove_group(document, ours, kept)
}

/// Cuts out the entry's group, or the outermost thing around it that holds nothing else.
pub fn remove_group(document: &Document<'_>, ours: &Placed<'_, '_>, kept: &Kept) -> Splices {
    let groups = ours.property.value.as_array();
    let event_goes = groups.is_none_or(|groups| groups.elements.len() == 1)
        && !kept.events.contains(ours.event)
        && is_only_one(ours.events, ours.property)
        && !document.has_comment(ours.property, ours.group);
    if let Some(groups) = groups.filter(|_| !event_goes) {
        return Container::from(groups).remove(document, ours.group);
    }
    let hooks_go = ours.events.properties.len() == 1
        && !kept.hooks
        && is_only_one(ours.root, ours.hooks)
        && !document.has_comment(ours.hooks, ours.property);
    if hooks_go {
        Container::from(ours.root).remove(document, ours.hooks)
    } else {
        Container::from(ours.events).remove(document, ours.property)
    }
}

/// Without the last key of a name, an earlier one of that name would count again.
fn is_only_one(object: &Object<'_>, property: &ObjectProp<'_>) -> bool {
    named(object, property.name.as_str()).count() == 1
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// One for each event that should be registered, in that order.
    pub entries: Vec<Entry>,
    /// All hooks are off, ours too.
    pub disable_all_hooks: bool,
    /// In managed settings: only managed hooks run, so ours do not.
    pub managed_hooks_only: bool,
    /// A missing or crashing shim blocks the tool call.
    pub strict: bool,
    /// becket's plugin is switched on.
    pub plugin: bool,
    pub status_line: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub event: &'static str,
    pub state: State,
    /// What Claude Code runs.
    pub command: Option<CommandLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As `init` would write it.
    Found,
    Missing,
    /// There, but `init` would mend it.
    Different,
}

/// A program and its arguments; no shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub args: Vec<String>,
}

impl Inspection {
    pub fn count(&self, state: State) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.state == state)
            .count()
    }

    /// Whether anything of ours stands there.
    pub fn any(&self) -> bool {
        self.count(State::Missing) < self.entries.len()
    }
}

/// Compares a settings file with what `init` would write. `Strict::Keep` takes either.
pub fn inspect(text: &str, registration: &Registration) -> Result<Inspection, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let root = document.root()?;
    let ours = document.ours();
    let strict = is_strict(&document, registration.strict);
    let entry = |registered: Registered| {
        let mut standing = ours
            .iter()
            .filter(|ours| ours.counts && ours.event == registered.event);
        let first = standing.next();
        let wanted = registration.entries(registered, strict);
        let right = |ours: &Placed<'_, '_>| {
            !ours.restricted() && wanted.iter().any(|wanted| says(ours, wanted))
        };
        let state = match first {
            None => State::Missing,
            Some(first) if right(first) && standing.next().is_none() => State::Found,
            Some(_) => State::Different,
        };
        Entry {
            event: registered.event,
            state,
            command: first.and_then(command_line),
        }
    };
    Ok(Inspection {
        entries: registration.events().map(entry).collect(),
        disable_all_hooks: root.is_some_and(|root| flag(root, "disableAllHooks")),
        managed_hooks_only: root.is_some_and(|root| flag(root, "allowManagedHooksOnly")),
        strict: is_strict(&document, Strict::Keep),
        plugin: root.is_some_and(has_plugin),
        status_line: status_line::inspect(&document, registration),
    })
}

/// Returns true if `enabledPlugins` of these settings switches on becket's, from whatever marketplace.
fn has_plugin(root: &Object<'_>) -> bool {
    let Some(Value::Object(plugins)) = last(root, "enabledPlugins").map(|plugins| &plugins.value)
    else {
        return false;
    };
    let names = plugins
        .properties
        .iter()
        .map(|property| property.name.as_str());
    names
        .filter(|name| name.starts_with("becket@"))
        .any(|name| flag(plugins, name))
}

fn command_line(ours: &Placed<'_, '_>) -> Option<CommandLine> {
    let args = ours.args().unwrap_or_default();
    Some(CommandLine {
        program: ours.string("command")?.to_owned(),
        args: args.into_iter().map(str::to_owned).collect(),
    })
}

/// An entry of somebody else's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    pub event: String,
    /// The matcher of its group, as a value.
    pub matcher: Option<serde_json::Value>,
    pub value: serde_json::Value,
    /// The entry as it is written.
    pub text: String,
}

impl Foreign {
    fn of(document: &Document<'_>, placed: &Placed<'_, '_>) -> Self {
        Self {
            event: placed.event.to_owned(),
            matcher: matcher(placed.group),
            value: plain_object(placed.entry),
            text: document.text[placed.entry.start()..placed.entry.end()].to_owned(),
        }
    }

    /// It is that entry, however it is laid out. Two of the same kind are one for Claude Code.
    fn is(&self, placed: &Placed<'_, '_>) -> bool {
        self.event == placed.event
            && self.matcher == matcher(placed.group)
            && self.value == plain_object(placed.entry)
    }

    fn list(&self) -> String {
        let matcher = self.matcher.as_ref();
        let matcher = matcher.map(|matcher| format!("\"matcher\": {matcher}, "));
        let matcher = matcher.unwrap_or_default();
        format!("{{{matcher}\"hooks\": [{}]}}", self.text)
    }

    fn property(&self) -> String {
        let event = serde_json::Value::from(&*self.event);
        format!("{event}: [{}]", self.list())
    }
}

fn matcher(group: &Object<'_>) -> Option<serde_json::Value> {
    last(group, "matcher").map(|matcher| plain(&matcher.value))
}

/// Every entry of somebody else's that Claude Code sees, in the order of the file.
pub fn foreign(text: &str) -> Result<Vec<Foreign>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    let theirs = document.theirs();
    let entries = theirs.iter().map(|placed| Foreign::of(&document, placed));
    Ok(entries.collect())
}

/// The settings without these entries. A group, an event or `hooks` itself goes too if it held
/// nothing else, not even a comment.
pub fn take_out(text: &str, entries: &[Foreign]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = body.to_owned();
    while let Some(edited) = take_one(&Document::parse(&body)?, entries) {
        body = edited;
    }
    Ok(format!("{mark}{body}"))
}

fn take_one(document: &Document<'_>, entries: &[Foreign]) -> Option<String> {
    let theirs = document.theirs();
    let is_meant = |placed: &&Placed<'_, '_>| entries.iter().any(|entry| entry.is(placed));
    let placed = theirs.iter().find(is_meant)?;
    let group_goes = placed.list.elements.len() == 1
        && is_plain_group(placed.group)
        && !document.has_comment(placed.group, placed.entry);
    let splices = if group_goes {
        remove_group(document, placed, &Kept::default())
    } else {
        Container::from(placed.list).remove(document, placed.entry)
    };
    Some(splices.apply(document.text))
}

/// Nothing but a matcher and a list.
fn is_plain_group(group: &Object<'_>) -> bool {
    let mut names: Vec<_> = group.properties.iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    matches!(names[..], ["hooks"] | ["hooks", "matcher"])
}

/// The settings with these entries again, each where its like stands, else at the end. One that is
/// there is not put in twice.
pub fn put_back(text: &str, entries: &[Foreign]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    for entry in entries {
        body = put_one(&Document::parse(&body)?, entry)?;
    }
    Ok(format!("{mark}{body}"))
}

fn put_one(document: &Document<'_>, entry: &Foreign) -> Result<String, SettingsError> {
    let text = document.text;
    if document.theirs().iter().any(|placed| entry.is(placed)) {
        return Ok(text.to_owned());
    }
    let groups = document.groups(&entry.event)?;
    let ours = document.ours();
    let is_ours = |group: &&Object<'_>| ours.iter().any(|one| one.group.range == group.range);
    let like = groups.and_then(|groups| {
        let mut groups = groups.elements.iter().filter_map(Value::as_object);
        let group = groups.find(|group| {
            matcher(group) == entry.matcher && is_plain_group(group) && !is_ours(group)
        })?;
        last(group, "hooks")?.value.as_array()
    });
    let splices = match (like, groups, document.hooks()?, document.root()?) {
        (Some(list), ..) => Container::from(list).append(document, |_| entry.text.clone()),
        (_, Some(groups), ..) => Container::from(groups).append(document, |_| entry.list()),
        (_, _, Some(hooks), _) => Container::from(hooks).append(document, |_| entry.property()),
        (_, _, None, Some(root)) => Container::from(root).append(document, |indent| {
            let before = format!("{}{indent}", newline(text));
            let property = entry.property();
            format!(
                "\"hooks\": {{{before}{}{property}{before}}}",
                step(document)
            )
        }),
        (_, _, None, None) => Splices::default(),
    };
    Ok(splices.apply(text))
}

/// A record holds two settings files.
const MAX_RECORD: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub file: String,
    /// The text without us; none if there was no file.
    pub original: Option<String>,
    /// The text that `init` wrote.
    pub written: String,
    /// The file's folder is ours too.
    pub made_folder: bool,
    /// The person wants no status line of ours.
    #[serde(default)]
    pub no_status_line: bool,
}

impl Record {
    /// What was remembered of a file. A damaged record is as good as none: `uninit` can do without.
    pub fn load(place: &Place, file: &Path) -> Option<Self> {
        let record = Snapshot::read(&record_path(place, file), MAX_RECORD).ok()?;
        let record: Self = serde_json::from_slice(record.bytes()?).ok()?;
        (record.file == file.to_string_lossy()).then_some(record)
    }

    /// Stores it. Only who holds the settings lock does, so nobody can outrun it for long.
    pub fn save(&self, place: &Place, file: &Path) -> Result<()> {
        let path = record_path(place, file);
        let failed = || format!("could not write {}", path.display());
        replace::make_folder(&folder(place), 0o700).with_context(failed)?;
        let bytes = serde_json::to_vec(self)?;
        loop {
            let old = Snapshot::read(&path, MAX_RECORD).with_context(failed)?;
            if old.replace(&bytes, 0o600).with_context(failed)? == Attempt::Done {
                return Ok(());
            }
        }
    }

    /// The command of the status line that was there before ours.
    pub fn status_command(&self) -> Option<String> {
        Kept::of(self.original.as_deref()?).status_command()
    }

    pub fn forget(place: &Place, file: &Path) -> Result<()> {
        let path = record_path(place, file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether any settings file is known to name becket.
pub fn is_any_registered(place: &Place) -> bool {
    let entries = fs::read_dir(folder(place)).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("settings-"))
}

fn folder(place: &Place) -> PathBuf {
    place.home().join("backup")
}

/// The file that keeps the record of a settings file.
pub fn record_path(place: &Place, file: &Path) -> PathBuf {
    let name = fnv1a(file.as_os_str().as_bytes());
    folder(place).join(format!("settings-{name:016x}.json"))
}

/// A settings file's text without us; none if there should be no file.
pub fn undo(text: &str, record: Option<&Record>) -> Result<Option<String>, SettingsError> {
    let Some(record) = record else {
        return unregister(text, &Kept::default()).map(Some);
    };
    if text == record.written {
        return Ok(record.original.clone());
    }
    let kept = record.original.as_deref().map(Kept::of).unwrap_or_default();
    let rest = unregister(text, &kept)?;
    let is_empty = rest != text && is_bare(&rest)?;
    Ok((record.original.is_some() || !is_empty).then_some(rest))
}

/// Nothing in it but an empty object, not even a comment.
fn is_bare(text: &str) -> Result<bool, SettingsError> {
    let nothing = value(text)?.is_none_or(|value| value == serde_json::json!({}));
    Ok(nothing && !text.contains('/'))
}
