//! Tasks and efforts from the command line: where a request comes from, what the daemon answers, and how
//! its rows are shown.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use becket_wire::effort::{
    ArtifactRow, Caller, EffortAsk, EffortDo, EffortRow, EffortTold, MessageRow, PhaseRow, TaskRow,
    WindowRow,
};
use becket_wire::rpc::{Ask, LAUNCH};
use serde_json::{Value, json};

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::session::source::SessionSource;
use crate::ui::time::timestamp;
use crate::world::{World, own_session, project_of};

/// A plan or a debrief, and what stands on stdin: bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Which effort a command is about, where it is not the one of the session or the folder.
#[derive(Debug, Default, clap::Args)]
pub struct Which {
    /// This effort instead of the one that is worked on here
    #[arg(long, value_name = "ID")]
    effort: Option<i64>,
    /// The effort of this session (inside Claude Code: its own)
    #[arg(long, value_name = "ID", conflicts_with = "effort")]
    session: Option<String>,
}

impl Which {
    pub fn effort(id: Option<i64>) -> Self {
        Self {
            effort: id,
            session: None,
        }
    }
}

/// Asks the daemon about work.
pub fn ask(world: &World, which: &Which, what: EffortDo) -> Result<EffortTold> {
    let caller = caller(world, which)?;
    ask_as(world, caller, what)
}

pub fn ask_as(world: &World, caller: Caller, what: EffortDo) -> Result<EffortTold> {
    let ask = Box::new(EffortAsk { caller, what });
    Client::connect_or_start(world)?.effort(Ask::Effort(ask))
}

/// A request that comes from a folder, or from the session that is meant.
pub fn caller(world: &World, which: &Which) -> Result<Caller> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let socket = |tmux: String| tmux.split(',').next().map(str::to_owned);
    let mut caller = Caller {
        agent_id: variable("AGENT_ID"),
        pane: variable("TMUX_PANE"),
        tmux_socket: variable("TMUX").and_then(socket),
        launch: variable(LAUNCH),
        effort: which.effort,
        ..here(world)
    };
    let named = which.session.as_deref();
    let row = match (named, own_session()) {
        (Some(named), _) => Some(SessionSource::open(world).find(named)?),
        (None, Some(own)) => {
            let row = SessionSource::open_quietly(world).find(&own).ok();
            caller.session_id = Some(own);
            row
        }
        (None, None) => None,
    };
    if let Some(row) = row {
        // Outside of git the project is the folder in which Claude Code began.
        caller.project = row.project.unwrap_or(caller.project);
        caller.session_id = Some(row.session_id);
    }
    Ok(caller)
}

/// A request that comes from a folder.
pub fn here(world: &World) -> Caller {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Caller {
        cwd: text(&world.cwd),
        project: text(project_of(&world.cwd)),
        ..Caller::default()
    }
}

/// What the daemon refuses begins so: the exit code, and what to do.
const REFUSALS: [(&str, Code, &str); 9] = [
    (
        "no effort is active here",
        Code::Missing,
        "becket effort start SKILL begins one; becket effort resume goes on with one",
    ),
    (
        "there is no skill",
        Code::Missing,
        "becket config check tells what is wrong with [skills.*] of the configuration",
    ),
    (
        "there is no effort",
        Code::Missing,
        "becket effort list --all",
    ),
    (
        "there is no task",
        Code::Missing,
        "becket effort task list --all",
    ),
    (
        "this project has no task",
        Code::Missing,
        "becket effort task new, or becket effort start SKILL",
    ),
    (
        "a task lies in its project",
        Code::Failed,
        "name a folder of the project, or call it from that folder's project",
    ),
    (
        "the folder ",
        Code::Missing,
        "becket effort task list shows where the folders of tasks are",
    ),
    (
        "the dehydrated context",
        Code::Failed,
        "nothing was stored; becket effort dehydrate --help shows the form",
    ),
    (
        "requiredFiles",
        Code::Failed,
        "nothing was stored; name files of this project, relative to its root",
    ),
];

/// Why the daemon did not do it.
pub fn refusal(why: &str) -> anyhow::Error {
    let known = REFUSALS
        .iter()
        .find(|(beginning, ..)| why.starts_with(beginning));
    match known {
        Some((_, code, hint)) => Failure::new(*code, why).hint(*hint).into(),
        None if why.ends_with("is not active") => Failure::new(Code::Missing, why)
            .hint("becket effort list shows those that are")
            .into(),
        None if why.contains(" has no phase ") => Failure::new(Code::Missing, why)
            .hint("[skills.*] of the configuration names the phases of a skill")
            .into(),
        None => Failure::new(Code::Failed, why).into(),
    }
}

pub fn unexpected(told: &EffortTold) -> anyhow::Error {
    anyhow!("the daemon said something else: {told:?}")
}

/// What stands in a file, or on stdin (`-`).
pub fn read_text(world: &World, file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin()
            .lock()
            .take(MAX_TEXT + 1)
            .read_to_end(&mut bytes),
        false => std::fs::File::open(world.cwd.join(file))
            .and_then(|file| file.take(MAX_TEXT + 1).read_to_end(&mut bytes)),
    };
    let shown = file.display();
    match read {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let failure = Failure::new(Code::Missing, format!("there is no file {shown}"));
            return Err(failure.into());
        }
        read => read.with_context(|| format!("could not read {shown}"))?,
    };
    if bytes.len() as u64 > MAX_TEXT {
        let failure = Failure::new(Code::Failed, format!("{shown} is longer than 1 MiB"));
        return Err(failure.hint("nothing was written").into());
    }
    let text = String::from_utf8(bytes);
    text.map_err(|_| Failure::new(Code::Failed, format!("{shown} is not UTF-8")).into())
}

pub fn task_json(task: &TaskRow) -> Value {
    json!({
        "id": task.id,
        "project": task.project,
        "folder": task.folder,
        "title": task.title,
        "keywords": task.keywords,
        "active": task.active,
        "efforts": task.efforts,
        "created_at": timestamp(task.created_at),
    })
}

pub fn effort_json(effort: &EffortRow) -> Value {
    let phase = |phase: &PhaseRow| json!({"name": phase.name, "since": timestamp(phase.since)});
    let artifact = |artifact: &ArtifactRow| {
        let at = timestamp(artifact.written_at);
        json!({"kind": artifact.kind, "path": artifact.path, "written_at": at})
    };
    json!({
        "id": effort.id,
        "task": effort.task,
        "project": effort.project,
        "folder": effort.folder,
        "ordinal": effort.ordinal,
        "skill": effort.skill,
        "mode": effort.mode,
        "title": effort.title,
        "active": effort.finished_at.is_none(),
        "phase": effort.phase,
        "phases": effort.phases.iter().map(phase).collect::<Vec<_>>(),
        "directives": effort.directives,
        "artifacts": effort.artifacts.iter().map(artifact).collect::<Vec<_>>(),
        "started_at": timestamp(effort.started_at),
        "finished_at": effort.finished_at.map(timestamp),
        "session_id": effort.session_id,
        "held": effort.held,
        "heartbeat": effort.heartbeat,
        "context_pct": effort.context_pct,
        "exhausted": effort.exhausted,
    })
}

pub fn window_json(window: &WindowRow) -> Value {
    json!({
        "id": window.id.to_string(),
        "session_id": window.session_id,
        "agent_id": window.agent_id,
        "prev": window.prev.map(|id| id.to_string()),
        "source": window.source,
        "started_at": timestamp(window.started_at),
        "ended_at": window.ended_at.map(timestamp),
        "dehydrated": window.dehydrated,
    })
}

pub fn message_json(message: &MessageRow) -> Value {
    json!({
        "at": timestamp(message.at),
        "session_id": message.session_id,
        "agent_id": message.agent_id,
        "kind": message.kind,
        "text": message.text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_exit_code_and_the_way_on() {
        for (why, missing) in [
            ("no effort is active here", true),
            ("effort 7 is not active", true),
            ("there is no skill dance; there are fix", true),
            ("the dehydrated context is not JSON: expected value", false),
            ("requiredFiles: there is no file x", false),
        ] {
            let error = refusal(why);
            let failure = error.downcast_ref::<Failure>().unwrap();
            assert_eq!(failure.is_missing(), missing, "{why}");
            assert_eq!(failure.to_string(), why);
        }
    }
}
