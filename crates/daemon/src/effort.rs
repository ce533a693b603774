//! Requests about work, and efforts without a daemon. What reads or writes the files of a task happens here,
//! on the blocking pool or in the standalone process; the core thread keeps the state.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becket_engine::config::Snapshot;
use becket_engine::effort::skill::{self, Skill};
use becket_engine::effort::{EffortContext, Left, MAIN, artifact, directive, recovery};
use becket_engine::mask::Masker;
use becket_engine::pipeline::PreparedEvent;
use becket_engine::trust::Trust;
use becket_wire::effort::{
    Artifact, ArtifactRow, Caller, EffortAsk, EffortDo, EffortRow, EffortTold, WindowRow,
};
use becket_wire::event::EventName;
use becket_wire::rpc::AskReply;
use becket_wire::{Head, Place};
use tokio::sync::oneshot;

use crate::core::Message;
use crate::efforts::facts;
use crate::lifecycle::now_ms;
use crate::registry::{Prepared, Registry};
use crate::serve::{Server, take_in};
use crate::store::{self, effort as stored};

/// A title, and a log entry: bytes.
const MAX_TITLE: usize = 500;
const MAX_ENTRY: usize = 16 << 10;
/// A plan or a debrief: bytes.
const MAX_ARTIFACT: usize = 1 << 20;

/// Answers a request about work.
pub(crate) async fn answer(ask: EffortAsk, server: &Server) -> AskReply {
    // What standalone left counts too.
    take_in(server).await;
    let told = match &ask.what {
        // A task that is yet to be made lies in the project root.
        EffortDo::Start { task: None, .. } => Ok(Found::Folder(ask.caller.project.clone())),
        EffortDo::Start { task, .. } => {
            let shown = EffortDo::TaskShow { task: *task };
            found(core(server, &ask.caller, shown, Prepared::default()).await)
        }
        EffortDo::TaskNew { folder, .. } => Ok(Found::Folder(folder.clone())),
        EffortDo::Phase { .. }
        | EffortDo::Log { .. }
        | EffortDo::Write { .. }
        | EffortDo::Dehydrate { .. } => {
            let shown = EffortDo::Show { dialogue: false };
            found(core(server, &ask.caller, shown, Prepared::default()).await)
        }
        EffortDo::Context => {
            found(core(server, &ask.caller, EffortDo::Context, Prepared::default()).await)
        }
        _ => Ok(Found::Nothing),
    };
    let found = match told {
        Ok(found) => found,
        Err(why) => return AskReply::Refused(why),
    };
    let configs = Arc::clone(&server.configs);
    let done = tokio::task::spawn_blocking(move || {
        let project = PathBuf::from(&ask.caller.project);
        let (config, masker) = configs.current(Some(&project));
        prepare(ask, &found, &config, &masker)
    });
    match done.await {
        Ok(Ok(Ready::Ask(ask, prepared))) => core(server, &ask.caller, ask.what, prepared).await,
        Ok(Ok(Ready::Text(text))) => AskReply::Effort(Box::new(EffortTold::Text(text))),
        Ok(Err(why)) => AskReply::Refused(why),
        Err(_) => AskReply::Refused("the request failed".to_owned()),
    }
}

/// What a request is about.
enum Found {
    Nothing,
    Folder(String),
    Effort(Box<EffortRow>, Vec<WindowRow>),
}

fn found(told: AskReply) -> Result<Found, String> {
    match told {
        AskReply::Effort(told) => match *told {
            EffortTold::Shown {
                effort, windows, ..
            } => Ok(Found::Effort(Box::new(effort), windows)),
            EffortTold::Task { task, .. } => Ok(Found::Folder(task.folder)),
            _ => Err("no effort is active here".to_owned()),
        },
        AskReply::Refused(why) => Err(why),
        _ => Err("the daemon ends".to_owned()),
    }
}

async fn core(server: &Server, caller: &Caller, what: EffortDo, prepared: Prepared) -> AskReply {
    let (done, told) = oneshot::channel();
    let ask = Box::new(EffortAsk {
        caller: caller.clone(),
        what,
    });
    drop(server.core.send(Message::Effort(ask, prepared, done)).await);
    let ending = AskReply::Refused("the daemon ends".to_owned());
    told.await.unwrap_or(ending)
}

/// What is done next.
enum Ready {
    Ask(Box<EffortAsk>, Prepared),
    Text(String),
}

/// Does what a request needs of files: checks it, and writes artifacts.
fn prepare(
    mut ask: EffortAsk,
    found: &Found,
    config: &Snapshot,
    masker: &Masker,
) -> Result<Ready, String> {
    let mut prepared = Prepared::default();
    match (&mut ask.what, found) {
        (
            EffortDo::Start {
                skill: name, title, ..
            },
            Found::Folder(folder),
        ) => {
            let skill = skill::find(config, name).ok_or_else(|| no_skill(config, name))?;
            is_folder(folder)?;
            prepared.phase = skill.phases.first().cloned();
            *title = title
                .take()
                .map(|title| cut(masker.text(&title), MAX_TITLE));
        }
        (EffortDo::TaskNew { title, .. }, Found::Folder(folder)) => {
            is_folder(folder)?;
            is_within_project(folder, &ask.caller.project)?;
            *title = title
                .take()
                .map(|title| cut(masker.text(&title), MAX_TITLE));
        }
        (EffortDo::Phase { name }, Found::Effort(effort, _)) => {
            let skill = skill::find(config, &effort.skill).unwrap_or_default();
            if !skill.phases.is_empty() && !skill.phases.contains(name) && name != skill::LOADING {
                let (skill, phases) = (&effort.skill, skill.phases.join(", "));
                return Err(format!("{skill} has no phase {name}; it has {phases}"));
            }
        }
        (EffortDo::Log { text }, Found::Effort(effort, _)) => {
            *text = cut(masker.text(text.trim()), MAX_ENTRY);
            if text.is_empty() {
                return Err("a log entry needs a text".to_owned());
            }
            prepared.artifact = Some(write(effort, Artifact::Log, text)?);
        }
        (EffortDo::Write { kind, text }, Found::Effort(effort, _)) => {
            let len = text.len();
            if len > MAX_ARTIFACT {
                return Err(format!(
                    "the {} has {len} bytes; at most 1 MiB is taken",
                    kind.word()
                ));
            }
            prepared.artifact = Some(write(effort, *kind, text)?);
        }
        (EffortDo::Dehydrate { text }, Found::Effort(effort, _)) => {
            let dehydrated = recovery::parse(&masker.text(text))?;
            recovery::check_files(&dehydrated, Path::new(&effort.project))?;
            prepared.dehydrated = Some(dehydrated);
        }
        (EffortDo::Context, Found::Effort(effort, windows)) => {
            let skill = skill::find(config, &effort.skill).unwrap_or_default();
            return Ok(Ready::Text(beginning(effort, windows, &skill, config)));
        }
        _ => {}
    }
    Ok(Ready::Ask(Box::new(ask), prepared))
}

fn no_skill(config: &Snapshot, name: &str) -> String {
    let known: Vec<&str> = config.skills.keys().map(String::as_str).collect();
    format!("there is no skill {name}; there are {}", known.join(", "))
}

fn is_folder(folder: &str) -> Result<(), String> {
    let there = Path::new(folder).is_dir();
    there.then_some(()).ok_or_else(|| {
        format!("the folder {folder} is not there; make it again, or start in another task")
    })
}

/// becket reads and writes the files of a task only inside its project.
fn is_within_project(folder: &str, project: &str) -> Result<(), String> {
    let real = |path: &str| Path::new(path).canonicalize();
    let is_within = real(folder)
        .and_then(|folder| Ok(folder.starts_with(real(project)?)))
        .unwrap_or(false);
    is_within
        .then_some(())
        .ok_or_else(|| format!("a task lies in its project: {folder} is outside of {project}"))
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// What an agent gets that takes an effort up in the middle of a session.
fn beginning(
    effort: &EffortRow,
    windows: &[WindowRow],
    skill: &Skill,
    config: &Snapshot,
) -> String {
    let main = windows.iter().filter(|window| window.agent_id.is_none());
    let before = main.rev().nth(1);
    let context = EffortContext {
        facts: facts(effort),
        agent: MAIN.to_owned(),
        left: before.map(|window| Left {
            dehydrated: window.dehydrated.clone(),
            loaded: Vec::new(),
        }),
        ..EffortContext::default()
    };
    let project = config.project.as_ref();
    let trusted = project.is_some_and(|project| project.trust == Trust::Yes);
    directive::read(&context, skill, &EventName::SessionStart, trusted).text
}

/// Writes an artifact: a log grows, the others are replaced.
fn write(effort: &EffortRow, kind: Artifact, text: &str) -> Result<ArtifactRow, String> {
    let path = facts(effort).artifact(kind);
    is_folder(&effort.folder)?;
    let now = now_ms();
    let project = Path::new(&effort.project);
    let written = match kind {
        Artifact::Log => append(project, &path, effort, text, now),
        Artifact::Plan | Artifact::Debrief => replace(project, &path, text),
    };
    let created = written.map_err(|why| format!("could not write {}: {why}", path.display()))?;
    Ok(ArtifactRow {
        kind,
        path: path.display().to_string(),
        written_at: now,
        created,
    })
}

/// Says whether it has made the file.
fn append(
    project: &Path,
    path: &Path,
    effort: &EffortRow,
    text: &str,
    now: i64,
) -> io::Result<bool> {
    let (mut file, is_new) = artifact::append(project, path)?;
    let entry = recovery::log_entry(&facts(effort), text, now, is_new);
    // One write: entries of two agents do not mix.
    file.write_all(entry.as_bytes())?;
    Ok(is_new)
}

fn replace(project: &Path, path: &Path, text: &str) -> io::Result<bool> {
    let (mut file, is_new) = artifact::replace(project, path)?;
    file.write_all(text.as_bytes())?;
    Ok(is_new)
}

/// What the judgement of an event depends on where no daemon is: the same rules on what the database has.
/// None if its session has no effort, or nothing can be read.
pub fn standalone(event: &PreparedEvent, place: &Place) -> Option<Box<EffortContext>> {
    let database = store::open_to_read(&place.database()).ok().flatten()?;
    if stored::efforts(&database, stored::WhichEfforts::Active)
        .ok()?
        .is_empty()
    {
        return None;
    }
    let head = Head::read(&event.masked).ok()?;
    let mut registry = Registry::open(&database);
    let envelope = &event.envelope;
    // A daemon that was too slow has counted it already.
    if stored::knows_event(&database, envelope.id).ok()? {
        let agent = head.agent_id.as_deref().filter(|id| !id.is_empty());
        return registry.effort_context(head.session_id.as_deref()?, agent, &head, envelope);
    }
    let project = event.masked_project();
    let applied = registry.apply(&database, &head, envelope, project.as_deref(), None);
    applied?.effort
}
