//! The efforts of live sessions: what an event does to them, and what is asked of them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::UNIX_EPOCH;

use becket_engine::effort::{Effect, EffortContext, EffortSaid, Left, MAIN, dialogue, directive};
use becket_engine::session::{Session, SessionEvent};
use becket_wire::effort::{
    ArtifactRow, Caller, Dehydrated, EffortAsk, EffortBrief, EffortDo, EffortRow, EffortTold,
    MessageRow, TaskRow, WindowRow,
};
use becket_wire::event::EventName;
use becket_wire::rpc::{AskReply, Envelope};
use becket_wire::{EventId, Head};
use rusqlite::Connection;

use super::{Registry, load_session};
use crate::efforts::{NewEffort, Origin};
use crate::store::effort::{self as stored, Change, Holder, WhichEfforts};

/// What was found out for a request where reading files may block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    /// The first phase of the skill.
    pub(crate) phase: Option<String>,
    pub(crate) dehydrated: Option<Dehydrated>,
    /// The file that was written.
    pub(crate) artifact: Option<ArtifactRow>,
}

impl Registry {
    /// Finds the effort of an event's session, before the event is applied. Gives what the window before
    /// leaves, where this event opens one.
    pub(super) fn bind(
        &mut self,
        database: &Connection,
        id: &str,
        event: &SessionEvent<'_>,
    ) -> Option<Left> {
        let session = &self.sessions.get(id)?.session;
        if self.efforts.is_empty() && session.work.effort.is_none() {
            return None;
        }
        let effort = self.resolve(session, event);
        let bound = effort.and_then(|effort| self.efforts.bound(effort));
        let opens = event.name == EventName::SessionStart && event.agent_id().is_none();
        let left = effort
            .filter(|_| opens)
            .and_then(|effort| self.left(database, effort));
        let live = self.sessions.get_mut(id)?;
        live.session.work.bind(bound);
        left
    }

    fn resolve(&self, session: &Session, event: &SessionEvent<'_>) -> Option<i64> {
        let envelope = event.envelope;
        let origin = Origin {
            project: event.project.or(session.project.as_deref())?,
            agent: envelope.variable("AGENT_ID"),
            launch: envelope.launch(),
            pane: envelope.variable("TMUX_PANE"),
            tmux_socket: envelope
                .variable("TMUX")
                .and_then(|tmux| tmux.split(',').next()),
            prev_session: session.prev_session_id.as_deref(),
        };
        let own = session.work.effort;
        let own = || own.filter(|effort| self.efforts.bound(*effort).is_some());
        let found = self.efforts.of_agent(&origin).or_else(own);
        let starts = event.name == EventName::SessionStart && event.agent_id().is_none();
        if found.is_some() || !starts {
            return found;
        }
        let process = (
            envelope.pid_is_claude.then_some(envelope.pid),
            envelope.pid_start,
        );
        let is_held = |effort: i64| {
            self.live().any(|(_, live)| {
                let other = &live.session;
                other.work.effort == Some(effort)
                    && other.session_id != session.session_id
                    && (other.pid, other.pid_start) != process
            })
        };
        self.efforts.of_origin(&origin, is_held)
    }

    /// What the last window of an effort leaves.
    fn left(&self, database: &Connection, effort: i64) -> Option<Left> {
        let window = self.efforts.window(effort)?;
        let live = self.sessions.get(&window.session_id);
        let session = live
            .map(|live| live.session.clone())
            .or_else(|| load_session(database, &window.session_id));
        let work = session.map(|session| session.work).unwrap_or_default();
        Some(Left {
            dehydrated: window.dehydrated.clone(),
            loaded: work
                .main()
                .map(|main| main.loaded.clone())
                .unwrap_or_default(),
        })
    }

    /// Takes what an event did besides to the tables, and gives what its judgement depends on.
    pub(super) fn worked(
        &mut self,
        id: &str,
        event: &SessionEvent<'_>,
        left: Option<Left>,
    ) -> Option<Box<EffortContext>> {
        let effort = self.sessions.get(id)?.session.work.effort?;
        let touched = self.take_effects(id, effort, event.at);
        let mut context = self.effort_context(id, event.agent_id(), event.head, event.envelope)?;
        (context.left, context.touched) = (left, touched);
        if directive::is_wanted(&context, &event.name) {
            context.has = self.sessions.get(id)?.session.work.files(event.agent_id());
        }
        Some(context)
    }

    /// What the judgement of an event depends on, where its session has an effort.
    pub(crate) fn effort_context(
        &self,
        id: &str,
        agent: Option<&str>,
        head: &Head<'_>,
        envelope: &Envelope,
    ) -> Option<Box<EffortContext>> {
        let work = &self.sessions.get(id)?.session.work;
        // An event after the session's end, or of an inner agent of Claude Code.
        work.agents.get(agent.unwrap_or(MAIN))?.window?;
        let facts = self.efforts.facts(work.effort?)?;
        let mut context = work.context(agent, facts);
        context.restarts = envelope.restarts();
        context.dialogue = dialogue(head);
        Some(Box::new(context))
    }

    /// Gives the folders that were touched for the first time.
    fn take_effects(&mut self, id: &str, effort: i64, at: i64) -> Vec<std::path::PathBuf> {
        let Some(live) = self.sessions.get_mut(id) else {
            return Vec::new();
        };
        let effects = live.session.work.take_effects();
        let session = &live.session;
        let holder = Holder {
            session: Some(session.session_id.clone()),
            launch: session.work.launch.clone(),
            pane: session.pane.clone(),
            tmux_socket: session.tmux_socket.clone(),
            agent: session.work.agent.clone(),
        };
        let status = match session.ended_at {
            Some(_) => "done",
            None => session.display().0.word(),
        };
        let mut touched = Vec::new();
        for effect in effects {
            match effect {
                Effect::Opened {
                    agent,
                    window,
                    at,
                    source,
                } => {
                    let holder = agent.is_none().then(|| holder.clone());
                    let row = WindowRow {
                        id: window,
                        effort,
                        session_id: id.to_owned(),
                        agent_id: agent,
                        prev: None,
                        source,
                        started_at: at,
                        ended_at: None,
                        dehydrated: None,
                    };
                    self.efforts.open_window(row, holder);
                }
                Effect::Ended { window, at } => self.efforts.end_window(window, at),
                Effect::Message { agent, kind, text } => {
                    if kind == "exhausted" {
                        self.efforts.exhausted(effort);
                    }
                    self.efforts.message(MessageRow {
                        effort,
                        at,
                        session_id: Some(id.to_owned()),
                        agent_id: agent,
                        kind: kind.to_owned(),
                        text,
                    });
                }
                Effect::Confirmed(files) => self.efforts.found(effort, files),
                Effect::Touched(folders) => touched = folders,
                Effect::Tell(line) => self.tell_others(id, effort, &holder, &line),
            }
        }
        if let (Some(agent), Some(row)) = (&holder.agent, self.efforts.row(effort)) {
            let project = row.project.clone();
            self.efforts.agent(&project, agent, effort, status, None);
        }
        touched
    }

    /// A line for the agent that started this one; where none is known, for those on the same task.
    fn tell_others(&mut self, id: &str, effort: i64, holder: &Holder, line: &str) {
        let Some(row) = self.efforts.row(effort) else {
            return;
        };
        let (task, project) = (row.task, row.project.clone());
        let agent = holder.agent.as_deref();
        let parent = agent.and_then(|agent| self.efforts.parent_of(&project, agent));
        let parent = parent.map(str::to_owned);
        let hears = |session: &Session| match &parent {
            Some(parent) => {
                session.work.agent.as_ref() == Some(parent) || session.session_id == *parent
            }
            None => {
                let theirs = session
                    .work
                    .effort
                    .and_then(|effort| self.efforts.row(effort));
                theirs.is_some_and(|row| row.task == task)
            }
        };
        let hearers: Vec<String> = self
            .live()
            .filter(|(other, live)| *other != id && hears(&live.session))
            .map(|(other, _)| other.clone())
            .collect();
        for other in hearers {
            self.update_session(&other, |session| {
                session.work.note(line.to_owned());
                true
            });
        }
    }

    /// What the effort said to an event, and whether the answer refused what the agent wanted.
    pub(crate) fn record_effort_message(
        &mut self,
        id: &str,
        agent: Option<&str>,
        event: EventId,
        said: &EffortSaid,
        refused: bool,
    ) {
        self.update_session(id, |session| {
            session.work.said(agent, event, said, refused);
            true
        });
    }

    /// What was inferred of a session may concern its effort.
    pub(super) fn inferred(&mut self, id: &str, at: i64) {
        let Some(live) = self.sessions.get_mut(id) else {
            return;
        };
        let session = &mut live.session;
        if let Some(effort) = session.work.effort {
            if session.ended_at.is_some() {
                session.work.end_windows(at);
            }
            self.take_effects(id, effort, at);
        }
    }

    /// What views show of a session's effort.
    pub(super) fn brief(&self, session: &Session) -> Option<EffortBrief> {
        let work = &session.work;
        let row = self.efforts.row(work.effort?)?;
        Some(EffortBrief {
            id: row.id,
            ordinal: row.ordinal,
            skill: row.skill.clone(),
            phase: row.phase.clone(),
            title: row.title.clone(),
            heartbeat: work.main().map_or(0, |main| main.heartbeat),
            context_pct: work.context_pct,
            handover: work.handover,
            exhausted: work.exhausted,
        })
    }

    /// Answers a request about work.
    pub(crate) fn answer_effort(
        &mut self,
        database: &Connection,
        ask: EffortAsk,
        prepared: Prepared,
        now: i64,
    ) -> AskReply {
        match self.do_effort(database, ask, prepared, now) {
            Ok(told) => AskReply::Effort(Box::new(told)),
            Err(Refused::No(why)) => AskReply::Refused(why),
            Err(Refused::Database(why)) => {
                AskReply::Refused(format!("could not read the database: {why}"))
            }
        }
    }

    fn do_effort(
        &mut self,
        database: &Connection,
        ask: EffortAsk,
        prepared: Prepared,
        now: i64,
    ) -> Result<EffortTold, Refused> {
        let caller = &ask.caller;
        match ask.what {
            EffortDo::TaskNew {
                folder,
                title,
                keywords,
            } => {
                let project = &caller.project;
                let task = self.efforts.task(project, &folder, title, keywords, now);
                self.told_task(database, task)
            }
            EffortDo::Tasks { all } => {
                let tasks = self.efforts.tasks();
                let of = |task: &TaskRow| all || task.project == caller.project;
                Ok(EffortTold::Tasks(tasks.filter(of).collect()))
            }
            EffortDo::TaskShow { task } => {
                let task = self.find_task(caller, task)?;
                self.told_task(database, task)
            }
            EffortDo::Start {
                skill,
                mode,
                task,
                title,
            } => {
                let task = match task {
                    Some(id) => self.task(id)?,
                    None => self.root_task(caller, now),
                };
                let ordinal = task.efforts.max(stored::last_ordinal(database, task.id)?) + 1;
                let new = NewEffort {
                    ordinal,
                    skill,
                    mode,
                    title: title.filter(|title| !title.trim().is_empty()),
                    phase: prepared.phase,
                    now,
                };
                let effort = self.efforts.start(&task, new, caller);
                self.take_up(caller, effort, "start", now);
                self.told(effort)
            }
            EffortDo::Phase { name } => {
                let effort = self.effort_of(caller)?;
                self.efforts.phase(effort, &name, now);
                self.record(caller, effort, "phase", name, now);
                self.told(effort)
            }
            EffortDo::Log { text } => {
                let effort = self.effort_of(caller)?;
                if let Some(session) = self.session_of(caller, effort) {
                    self.update_session(&session, |session| {
                        session.work.logged(&text);
                        true
                    });
                }
                self.record(caller, effort, "log", text, now);
                self.wrote(effort, prepared.artifact)
            }
            EffortDo::Write { .. } => {
                let effort = self.effort_of(caller)?;
                self.wrote(effort, prepared.artifact)
            }
            EffortDo::Dehydrate { .. } => {
                let effort = self.effort_of(caller)?;
                let context = prepared.dehydrated.unwrap_or_default();
                if !self.efforts.dehydrate(effort, context) {
                    let why =
                        "no session works on this effort, so there is no context to hand over";
                    return Err(Refused::No(why.to_owned()));
                }
                if let Some(session) = self.session_of(caller, effort) {
                    self.update_session(&session, |session| {
                        let work = &mut session.work;
                        let launch = work.launch.as_deref().unwrap_or_default();
                        work.handover |= launch.ends_with(":restart");
                        true
                    });
                }
                self.told(effort)
            }
            EffortDo::Resume => {
                let latest = || self.efforts.latest(&caller.project);
                let named = caller.effort.filter(|id| self.efforts.row(*id).is_some());
                let effort = match (caller.effort, named) {
                    (Some(id), None) => return Err(Refused::No(not_active(id))),
                    (_, named) => named
                        .or_else(|| self.effort_of(caller).ok())
                        .or_else(latest),
                };
                let effort = effort.ok_or_else(none_active)?;
                self.take_up(caller, effort, "resume", now);
                self.told(effort)
            }
            EffortDo::Finish => {
                let effort = self.effort_of(caller)?;
                self.finish(effort, now)
            }
            EffortDo::List { all } => {
                let rows = stored::efforts(database, WhichEfforts::All)?.into_iter();
                let of = |row: &EffortRow| all || row.project == caller.project;
                let rows = rows.map(|stored| self.live_row(stored.row)).filter(of);
                Ok(EffortTold::Efforts(rows.collect()))
            }
            EffortDo::Show { dialogue } => {
                let effort = match (caller.effort, self.effort_of(caller)) {
                    (None, Err(_)) => return Ok(EffortTold::None),
                    (Some(id), _) => id,
                    (None, Ok(id)) => id,
                };
                self.show(database, effort, dialogue)
            }
            EffortDo::Context => match self.effort_of(caller) {
                Ok(effort) => self.show(database, effort, false),
                Err(_) => Ok(EffortTold::None),
            },
        }
    }

    fn show(
        &self,
        database: &Connection,
        effort: i64,
        dialogue: bool,
    ) -> Result<EffortTold, Refused> {
        let found = stored::efforts(database, WhichEfforts::One(effort))?.pop();
        let row = found
            .ok_or_else(|| Refused::No(format!("there is no effort {effort}")))?
            .row;
        Ok(EffortTold::Shown {
            effort: self.live_row(row),
            windows: stored::windows(database, effort)?,
            messages: match dialogue {
                true => stored::messages(database, effort)?,
                false => Vec::new(),
            },
        })
    }

    /// The effort that a caller means: the one it names; its session's; else by `AGENT_ID`, launch and pane;
    /// a person without any of them: the project's latest active one.
    fn effort_of(&self, caller: &Caller) -> Result<i64, Refused> {
        if let Some(id) = caller.effort {
            let active = self.efforts.row(id).is_some();
            return active
                .then_some(id)
                .ok_or_else(|| Refused::No(not_active(id)));
        }
        let session = caller.session_id.as_deref().filter(|id| !id.is_empty());
        let live = session.and_then(|id| self.sessions.get(id));
        let origin = Origin {
            project: &caller.project,
            agent: caller.agent_id.as_deref(),
            ..Origin::default()
        };
        let own = live.and_then(|live| live.session.work.effort);
        let own = own.filter(|effort| self.efforts.row(*effort).is_some());
        let by_agent = || self.efforts.of_agent(&origin);
        let by_place = || match live {
            // An unrelated session in the same folder, or nested in a pane, has none.
            Some(_) => None,
            None if session.is_some() => self.efforts.at(caller),
            None => self
                .efforts
                .at(caller)
                .or_else(|| self.efforts.latest(&caller.project)),
        };
        own.or_else(by_agent)
            .or_else(by_place)
            .ok_or_else(none_active)
    }

    /// The session that a request about an effort concerns: the caller's, else the one that works on it.
    fn session_of(&self, caller: &Caller, effort: i64) -> Option<String> {
        let works = |id: &&str| {
            let live = self.sessions.get(*id);
            live.is_some_and(|live| live.session.work.effort == Some(effort))
        };
        let own = caller.session_id.as_deref().filter(works);
        let holder = || {
            self.efforts
                .row(effort)?
                .session_id
                .as_deref()
                .filter(works)
        };
        own.or_else(holder).map(str::to_owned)
    }

    /// The caller's session works on this effort from now on.
    fn take_up(&mut self, caller: &Caller, effort: i64, source: &str, now: i64) {
        let id = caller.session_id.as_deref().unwrap_or_default();
        let live = self.sessions.get(id);
        let own = live.and_then(|live| live.session.work.agent.clone());
        let agent = caller.agent_id.as_deref().filter(|agent| !agent.is_empty());
        // A coordinator starts it for another agent.
        let for_another = live.is_some() && agent.is_some() && agent != own.as_deref();
        if let Some(agent) = agent {
            let parent = for_another.then(|| own.clone().unwrap_or_else(|| id.to_owned()));
            let project = caller.project.clone();
            self.efforts
                .agent(&project, agent, effort, "done", parent.as_deref());
        }
        let bound = self.efforts.bound(effort);
        let Some(live) = self.sessions.get_mut(id).filter(|_| !for_another) else {
            return;
        };
        let work = &mut live.session.work;
        let windows: Vec<EventId> = match work.effort == Some(effort) {
            true => Vec::new(),
            false => work
                .agents
                .values()
                .filter_map(|agent| agent.window)
                .collect(),
        };
        work.bind(bound);
        work.begin(fresh_id(), now, source);
        for window in windows {
            self.efforts.end_window(window, now);
        }
        self.take_effects(id, effort, now);
        let id = id.to_owned();
        self.update_session(&id, |_| true);
    }

    fn finish(&mut self, effort: i64, now: i64) -> Result<EffortTold, Refused> {
        let row = self.told(effort)?;
        let ended = self.efforts.finish(effort, now);
        let at_work: Vec<String> = (self.sessions.iter())
            .filter(|(_, live)| live.session.work.effort == Some(effort))
            .map(|(id, _)| id.clone())
            .collect();
        for id in at_work {
            let live = self.sessions.get_mut(&id);
            let windows = live.map(|live| {
                let work = &mut live.session.work;
                let agents = std::mem::take(&mut work.agents);
                work.bind(None);
                agents.into_values().filter_map(|agent| agent.window)
            });
            for window in windows.into_iter().flatten() {
                self.efforts.end_window(window, now);
            }
            self.update_session(&id, |_| true);
        }
        Ok(match (row, ended) {
            (EffortTold::Effort(row), Some(ended)) => EffortTold::Effort(EffortRow {
                finished_at: ended.finished_at,
                held: false,
                ..row
            }),
            (row, _) => row,
        })
    }

    fn wrote(&mut self, effort: i64, artifact: Option<ArtifactRow>) -> Result<EffortTold, Refused> {
        let path = artifact.as_ref().map(|artifact| artifact.path.clone());
        if let Some(artifact) = artifact {
            self.efforts.artifact(effort, artifact);
        }
        let row = self.efforts.row(effort).cloned().ok_or_else(none_active)?;
        Ok(EffortTold::Written {
            effort: self.live_row(row),
            path: path.unwrap_or_default(),
        })
    }

    fn record(&mut self, caller: &Caller, effort: i64, kind: &str, text: String, at: i64) {
        self.efforts.message(MessageRow {
            effort,
            at,
            session_id: caller.session_id.clone(),
            agent_id: None,
            kind: kind.to_owned(),
            text,
        });
    }

    fn told(&self, effort: i64) -> Result<EffortTold, Refused> {
        let row = self.efforts.row(effort).cloned().ok_or_else(none_active)?;
        Ok(EffortTold::Effort(self.live_row(row)))
    }

    /// The row with what the session that works on it says.
    fn live_row(&self, row: EffortRow) -> EffortRow {
        let row = self.efforts.row(row.id).cloned().unwrap_or(row);
        let session = row.session_id.as_ref().and_then(|id| self.sessions.get(id));
        let session = session.map(|live| &live.session);
        let session = session.filter(|session| session.work.effort == Some(row.id));
        let work = session.map(|session| &session.work);
        EffortRow {
            held: session.is_some_and(|session| session.ended_at.is_none()),
            heartbeat: work
                .and_then(|work| work.main())
                .map_or(0, |main| main.heartbeat),
            context_pct: work.and_then(|work| work.context_pct),
            ..row
        }
    }

    fn root_task(&mut self, caller: &Caller, now: i64) -> TaskRow {
        let project = &caller.project;
        self.efforts.task(project, project, None, Vec::new(), now)
    }

    fn task(&self, id: i64) -> Result<TaskRow, Refused> {
        let found = self.efforts.task_by_id(id);
        found.ok_or_else(|| Refused::No(format!("there is no task {id}")))
    }

    fn find_task(&self, caller: &Caller, task: Option<i64>) -> Result<TaskRow, Refused> {
        if let Some(id) = task {
            return self.task(id);
        }
        if let Ok(effort) = self.effort_of(caller)
            && let Some(row) = self.efforts.row(effort)
        {
            return self.task(row.task);
        }
        let root = self
            .efforts
            .tasks()
            .find(|task| task.folder == caller.project);
        root.ok_or_else(|| Refused::No("this project has no task yet".to_owned()))
    }

    fn told_task(&self, database: &Connection, task: TaskRow) -> Result<EffortTold, Refused> {
        let rows = stored::efforts(database, WhichEfforts::Task(task.id))?.into_iter();
        Ok(EffortTold::Task {
            efforts: rows.map(|stored| self.live_row(stored.row)).collect(),
            task,
        })
    }

    /// What efforts want written with the next commit.
    pub(crate) fn effort_changes(&mut self) -> Vec<Change> {
        self.efforts.changes()
    }

    pub(crate) fn efforts_not_written(&mut self, changes: Vec<Change>) {
        self.efforts.not_written(changes);
    }
}

/// Why a request is not done.
#[derive(Debug)]
enum Refused {
    No(String),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Refused {
    fn from(why: rusqlite::Error) -> Self {
        Self::Database(why)
    }
}

fn none_active() -> Refused {
    Refused::No("no effort is active here".to_owned())
}

fn not_active(id: i64) -> String {
    format!("effort {id} is not active")
}

/// The id of a window that no event opens.
fn fresh_id() -> EventId {
    let random = || RandomState::new().build_hasher().finish();
    EventId::at(
        UNIX_EPOCH.elapsed().unwrap_or_default(),
        [random(), random()],
    )
}

#[cfg(test)]
mod tests;
