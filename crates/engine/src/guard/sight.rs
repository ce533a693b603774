//! What the guards find in one event: made in `prepare` (and again for a rewritten input), since it may
//! read files. Deciding by it does not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_wire::event::EventName;
use becket_wire::{EventId, Head, Place, json};
use serde_json::Value;

use super::act::{Access, Act, Call, Touch, Word};
use super::check::{Check, value_of};
use super::edit::{self, Edit, switches_off};
use super::glob::Bases;
use super::memory::{Key, Pass};
use super::path;
use super::rule::{Match, Rule, Rules, Say, Scene, Seen};
use crate::stamp::{is_absence, read_bytes, read_text};

/// How long symlinks may take to be followed.
const LOOK: Duration = Duration::from_millis(100);
/// Files that a call brings to commands: as many are read, and each up to this.
const BROUGHT: usize = 64;
const LONGEST_COMMAND: u64 = 1 << 20;
/// A settings file is read up to this. Claude Code reads up to 2 MiB.
const LONGEST_SETTINGS: u64 = 4 << 20;

/// What is around every event.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    pub rules: &'a Rules,
    pub place: &'a Place,
    /// The user's home.
    pub home: &'a Path,
    pub project: &'a Path,
    /// The event came by a registration in a settings file.
    pub registered_by_settings: bool,
    /// The project's file system does not answer: no file is looked at, and no symlink followed.
    pub stalled: bool,
}

/// What one rule says.
#[derive(Debug, Clone)]
pub struct Found {
    pub rule: Arc<Rule>,
    pub say: Say,
    pub reason: String,
}

/// What all rules say, the strictest first.
#[derive(Debug, Clone)]
pub struct Sight {
    pub found: Vec<Found>,
    pub key: Key,
    pass: Option<Pass>,
}

/// A call goes by a pass, which no other call may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    key: Key,
    pass: Pass,
    /// What is said if another call was faster.
    pub rule: String,
    pub reason: String,
}

/// What guards say to an event, after passes and second tries.
#[derive(Debug, Clone, Default)]
pub struct Ruling<'a> {
    /// Warnings, and the strictest of the others last.
    pub warns: Vec<&'a Found>,
    pub strictest: Option<&'a Found>,
    pub spend: Option<Spend>,
}

impl Spend {
    /// Binds the pass to the call. False if another call was faster.
    pub fn spend(&self, place: &Place) -> bool {
        self.key.bind(place, &self.pass)
    }
}

impl Sight {
    /// None if no guard has anything to say.
    pub fn of(
        event: &EventName,
        id: EventId,
        head: &Head<'_>,
        payload: &[u8],
        around: &Around<'_>,
    ) -> Option<Self> {
        // A key takes a hash of the whole input: only where something was found.
        let found_key = match event {
            EventName::PreToolUse | EventName::PermissionRequest => {
                let tool = head.tool.as_deref().unwrap_or_default();
                let (input, Judged { found, .. }) = judge_text(tool, head, around);
                let key = || Key::of_call(head, id, tool, &input);
                (!found.is_empty()).then(|| (found, key()))
            }
            EventName::UserPromptSubmit => {
                let prompt = head.prompt.as_deref().unwrap_or_default();
                let found = judge_prompt(prompt, around.rules);
                (!found.is_empty()).then(|| (found, Key::of_prompt(head, id, prompt)))
            }
            EventName::ConfigChange if !around.stalled => {
                let found = config_change(head, payload, around);
                (!found.is_empty()).then(|| (found, Key::of_prompt(head, id, "")))
            }
            _ => None,
        };
        let (found, key) = found_key?;
        let pass = key.look_up(around.place, event);
        Some(Self { found, key, pass })
    }

    /// Takes over the pass of the same call as it was before a hook rewrote its input.
    #[must_use]
    pub fn after(mut self, original: Option<&Self>) -> Self {
        let pass = original.and_then(|original| original.pass.clone());
        self.pass = self.pass.or(pass);
        self
    }

    pub fn ruling(&self) -> Ruling<'_> {
        let mut ruling = Ruling::default();
        for found in &self.found {
            if found.say == Say::Warn {
                ruling.warns.push(found);
                continue;
            }
            let Some(pass) = self.pass.as_ref().filter(|pass| pass.covers(found)) else {
                ruling.strictest = ruling.strictest.or(Some(found));
                continue;
            };
            ruling.spend.get_or_insert_with(|| Spend {
                key: self.key.clone(),
                pass: pass.clone(),
                rule: found.rule.id.clone(),
                reason: found.reason.clone(),
            });
        }
        ruling
    }
}

/// What the guards find in a call, and what the call would do.
#[derive(Debug, Clone)]
pub struct Judged {
    pub call: Call,
    /// The strictest first.
    pub found: Vec<Found>,
}

/// Judges a tool call by the input of its event, as far as that can be read. Returns the input with it: as
/// its text where it could not be read as it is, so that two such calls are not the same one.
pub fn judge_text(tool: &str, head: &Head<'_>, around: &Around<'_>) -> (Value, Judged) {
    let text = head.tool_input.unwrap_or("{}");
    if let Ok(input) = serde_json::from_str(text) {
        let judged = judge_call(tool, &input, head, around);
        return (input, judged);
    }
    let (repaired, is_cut) = json::repaired(text, json::DEPTH);
    let judged = match serde_json::from_str(&repaired) {
        Ok(input) => judge(tool, &input, is_cut, head, around),
        Err(why) => {
            let why = format!("the input cannot be read: {why}");
            let mut found = unreadable(around.rules, &why);
            found.extend(find_by(around.rules, |rule| {
                (rule.check == Some(Check::Unread)).then_some(Match::Other)
            }));
            let call = Call::default();
            Judged { call, found }
        }
    };
    (Value::String(text.to_owned()), judged)
}

/// Judges a tool call, whatever was allowed before.
pub fn judge_call(tool: &str, input: &Value, head: &Head<'_>, around: &Around<'_>) -> Judged {
    judge(tool, input, false, head, around)
}

fn judge(tool: &str, input: &Value, is_cut: bool, head: &Head<'_>, around: &Around<'_>) -> Judged {
    let cwd = Path::new(head.cwd.as_deref().unwrap_or("/"));
    let look = if around.stalled { Duration::ZERO } else { LOOK };
    let mut call = path::call(tool, input, cwd, around.home, Instant::now() + look);
    if is_cut {
        call.unread.push(path::too_deep());
    }
    let links = claude_links(&call, around);
    let linked = linked_touches(&call, &links);
    call.touches.extend(linked);
    let edits = edits(&call, input, &links, around);
    let brings_command = brings_command(&call, around.stalled);
    let given_settings = given_settings(&call, around.stalled);
    let bases = Bases::new(around.home, around.project);
    let seen = Seen::of(&call, around.project, around.home, bases);
    let scene = Scene {
        tool,
        input,
        call: &call,
        home: around.home,
        becket: around.place.home(),
        mode: head.permission_mode.as_deref(),
        agent: head.agent_type.as_deref().filter(|it| !it.is_empty()),
        edits: &edits,
        brings_command: brings_command.as_deref(),
        given_settings: &given_settings,
        seen: &seen,
    };
    let found = sorted(around.rules.matches(&scene));
    Judged { call, found }
}

/// Judges a prompt.
pub fn judge_prompt(prompt: &str, rules: &Rules) -> Vec<Found> {
    find_by(rules, |rule| rule.matches_prompt(prompt))
}

/// Judges a call that cannot be read: a rule that is `fail = "closed"` denies.
pub fn unreadable(rules: &Rules, why: &str) -> Vec<Found> {
    find_by(rules, |rule| {
        let judges = rule.closed && rule.prompt.is_empty();
        judges.then(|| Match::Unsure(why.to_owned()))
    })
}

fn find_by(rules: &Rules, matches: impl Fn(&Rule) -> Option<Match>) -> Vec<Found> {
    let rules = rules.iter().filter(|rule| rule.off.is_none());
    sorted(rules.filter_map(|rule| Some((rule, matches(rule)?))))
}

/// The strictest first.
fn sorted<'a>(found: impl IntoIterator<Item = (&'a Arc<Rule>, Match)>) -> Vec<Found> {
    let found = found.into_iter().map(|(rule, found)| Found {
        say: match found {
            Match::Unsure(_) => Say::Deny,
            _ => rule.say,
        },
        reason: rule.says(&found),
        rule: Arc::clone(rule),
    });
    let mut found: Vec<Found> = found.collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.say));
    found
}

/// The settings or command file that the call writes, as it is and as it would be.
fn edits(call: &Call, input: &Value, links: &[Link], around: &Around<'_>) -> Vec<Edit> {
    let written = call.touches.iter().filter(|it| it.access == Access::Write);
    let written = written.filter(|it| it.act.is_none());
    let paths = written.flat_map(|it| {
        let real = it.real.as_ref().unwrap_or(&it.path);
        [
            Some(it.path.clone()),
            it.real.clone(),
            claudes_name(real, links),
        ]
    });
    let known = paths.flatten();
    let known = known.filter(|path| edit::is_settings(path) || edit::is_command(path));
    let Some(path) = known.max_by_key(|path| edit::is_claudes(path)) else {
        return Vec::new();
    };
    let file = if around.stalled {
        None
    } else {
        read_settings(Path::new(&path))
    };
    Edit::all(&path, input, file.as_deref())
}

/// A link among the files of Claude Code, and what it leads to: `.claude -> conf`.
type Link = (PathBuf, String);

/// Finds the links among the files of Claude Code, if the call writes anything.
fn claude_links(call: &Call, around: &Around<'_>) -> Vec<Link> {
    let names = [
        "",
        "/settings.json",
        "/settings.local.json",
        "/commands",
        "/skills",
    ];
    if around.stalled || !call.touches.iter().any(changes) {
        return Vec::new();
    }
    let by = Instant::now() + LOOK;
    let folders = [around.project, around.home].into_iter();
    let links = folders.flat_map(|folder| names.map(|it| folder.join(format!(".claude{it}"))));
    let followed = links.filter_map(|link| {
        link.read_link().ok()?;
        let target = path::follow(PathBuf::from("/"), &link, by, |_| ())?;
        Some((link, target.to_str()?.to_owned()))
    });
    followed.collect()
}

fn changes(touch: &Touch) -> bool {
    matches!(touch.access, Access::Write | Access::Delete)
}

/// The name by which Claude Code reads this file as settings or as a command, where that has a link in it.
fn claudes_name(real: &str, links: &[Link]) -> Option<String> {
    links.iter().find_map(|(link, target)| {
        let rest = real.strip_prefix(target)?;
        let is_in = rest.is_empty() || rest.starts_with('/');
        let name = is_in.then(|| format!("{}{rest}", link.display()));
        name.filter(|name| edit::is_settings(name) || edit::is_command(name))
    })
}

/// The settings and commands that a shell command changes, by the names by which Claude Code reads them.
fn linked_touches(call: &Call, links: &[Link]) -> Vec<Touch> {
    let changed = call.touches.iter();
    let changed = changed.filter(|it| it.act.is_some() && changes(it));
    let linked = changed.filter_map(|it| {
        let real = it.real.as_ref().unwrap_or(&it.path);
        Some(Touch {
            path: claudes_name(real, links).filter(|name| *name != it.path)?,
            real: Some(it.path.clone()),
            ..it.clone()
        })
    });
    linked.collect()
}

/// Finds the command or skill that a call makes of other files, where one of them has an inline command or
/// cannot be read. By a link, what stands there can be changed later.
fn brings_command(call: &Call, stalled: bool) -> Option<String> {
    let is_written = |path: &str| {
        let mut touches = call.touches.iter();
        touches.any(|it| it.access == Access::Write && it.path == path)
    };
    let is_harmless = |path: &str| match read_bytes(Path::new(path), LONGEST_COMMAND) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).replace('\0', "");
            edit::inline_commands(&text).is_empty()
                && (!is_written(path) || edit::is_harmless(path, call))
        }
        Err(error) => is_absence(&error) && is_written(path) && edit::is_harmless(path, call),
    };
    let claude = |path: &str| Some(path.split_once("/.claude/")?.0.to_owned());
    let (mut acts, mut count) = (HashSet::new(), 0);
    for target in &call.touches {
        let mut paths = [Some(&target.path), target.real.as_ref()].into_iter();
        let is_target = target.access == Access::Write
            && paths.any(|path| path.is_some_and(|path| edit::may_hold_commands(path)));
        if !is_target || !acts.insert(target.act) {
            continue;
        }
        let act = target.act.and_then(|nth| call.acts.get(nth));
        let is_link = act.is_some_and(|act| ["ln", "link"].contains(&&*act.program));
        let is_git_move = act.is_some_and(|act| {
            act.program == "git" && act.args.first().is_some_and(|verb| verb.text == "mv")
        });
        for source in call.touches.iter().filter(|it| it.act == target.act) {
            let is_source = match source.access {
                Access::Read | Access::Delete => true,
                Access::Write => is_git_move,
                Access::List => false,
            };
            let stays =
                edit::is_command(&source.path) && claude(&source.path) == claude(&target.path);
            if !is_source || stays || source.path == target.path {
                continue;
            }
            count += 1;
            let is_known = !is_link && !stalled && !source.opaque && count <= BROUGHT;
            if !is_known || !is_harmless(&source.path) {
                return Some(target.path.clone());
            }
        }
    }
    None
}

/// The settings that a command gives to Claude Code.
fn given_settings(call: &Call, stalled: bool) -> Vec<Option<String>> {
    let writes = |path: &str| {
        let mut touches = call.touches.iter();
        touches.any(|it| it.access == Access::Write && it.path == path)
    };
    let text = |act: &Act, word: Word| {
        if word.text.trim_start().starts_with('{') {
            return Some(word.text).filter(|_| !word.opaque);
        }
        let path = path::normal(&act.cwd.as_ref()?.join(&word.text));
        let is_known = !word.opaque && !stalled && !act.remote && !writes(&path);
        let text = is_known.then(|| read_text(Path::new(&path), LONGEST_SETTINGS));
        text?.ok()
    };
    let claude = call.acts.iter().filter(|act| act.program == "claude");
    let given = claude.flat_map(|act| {
        value_of(act, "--settings")
            .into_iter()
            .map(|it| text(act, it))
    });
    given.collect()
}

/// Reads a settings file. One that is not there is empty; `None` is one that becket cannot read, but Claude Code
/// perhaps can.
fn read_settings(path: &Path) -> Option<String> {
    match read_text(path, LONGEST_SETTINGS) {
        Ok(text) => Some(text),
        Err(error) => is_absence(&error).then(String::new),
    }
}

/// A settings file was changed while the session runs: it must not cut becket off.
fn config_change(head: &Head<'_>, payload: &[u8], around: &Around<'_>) -> Vec<Found> {
    let change: Value = json::lenient(&String::from_utf8_lossy(payload)).unwrap_or_default();
    let changed = change
        .get("file_path")
        .and_then(Value::as_str)
        .map(Path::new);
    let is_settings = head
        .source
        .as_deref()
        .is_some_and(|source| source.ends_with("_settings"));
    let Some(changed) = changed.filter(|_| is_settings) else {
        return Vec::new();
    };
    // Transcripts are in `projects/` beside the user's settings.
    let transcript = Path::new(head.transcript_path.as_deref().unwrap_or_default());
    let mut above = transcript.ancestors();
    let projects = above.find(|folder| folder.ends_with("projects"));
    let user = projects
        .and_then(Path::parent)
        .filter(|folder| folder.is_dir());
    let user = user.map(|folder| folder.join("settings.json"));
    // Where the user's own file is not known, becket may be registered there.
    let is_known = user.is_some();
    let project = ["settings.json", "settings.local.json"];
    let project = project.map(|name| around.project.join(".claude").join(name));
    let files = (user.into_iter().chain(project)).chain([changed.to_path_buf()]);
    let mut texts = files.map(|file| read_settings(&file));
    let may_register = |text: Option<String>| text.is_none_or(|it| it.contains("becket-hook"));
    let is_registered = !is_known || texts.any(may_register);
    let is_off = read_settings(changed).is_none_or(|text| switches_off(&text));
    find_by(around.rules, |rule| {
        let cuts_off = is_off || !is_registered && around.registered_by_settings;
        let path = || Match::Path(changed.display().to_string());
        (rule.check == Some(Check::Unregisters) && cuts_off).then(path)
    })
}
