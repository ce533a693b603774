//! Tasks and active efforts, owned by the core thread: which effort an event belongs to, and what is to be
//! written with the next commit.

use std::collections::{BTreeMap, HashMap};

use becket_engine::effort::skill::LOADING;
use becket_engine::effort::{Bound, EffortFacts};
use becket_wire::EventId;
use becket_wire::effort::{
    ArtifactRow, Caller, Dehydrated, EffortRow, MessageRow, PhaseRow, TaskRow, WindowRow,
};
use rusqlite::Connection;
use tracing::warn;

use crate::store::effort::{
    self as stored, Change, Holder, StoredAgent, StoredEffort, WhichEfforts,
};

/// Directive files that an effort remembers.
const MAX_DIRECTIVES: usize = 200;
const MAX_PHASES: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Efforts {
    projects: HashMap<String, i64>,
    tasks: BTreeMap<i64, TaskRow>,
    active: BTreeMap<i64, Active>,
    /// By project and `AGENT_ID`.
    agents: HashMap<(String, String), StoredAgent>,
    last_effort: i64,
    changes: Vec<Change>,
}

/// An active effort.
#[derive(Debug, Clone)]
struct Active {
    stored: StoredEffort,
    /// The last window of a main agent.
    window: Option<WindowRow>,
}

impl Active {
    fn row(&self) -> &EffortRow {
        &self.stored.row
    }
}

/// Where a session or a request comes from, as far as it tells an effort.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    pub(crate) project: &'a str,
    pub(crate) agent: Option<&'a str>,
    pub(crate) launch: Option<&'a str>,
    pub(crate) pane: Option<&'a str>,
    pub(crate) tmux_socket: Option<&'a str>,
    /// The session that it goes on from.
    pub(crate) prev_session: Option<&'a str>,
}

impl Efforts {
    pub(crate) fn open(database: &Connection) -> Self {
        Self::read(database).unwrap_or_else(|why| {
            warn!(%why, "could not read efforts");
            Self::default()
        })
    }

    fn read(database: &Connection) -> rusqlite::Result<Self> {
        let tasks = stored::tasks(database)?.into_iter();
        let agents = stored::agents(database)?.into_iter();
        let mut active = BTreeMap::new();
        for effort in stored::efforts(database, WhichEfforts::Active)? {
            let window = match effort.last_window {
                Some(id) => stored::window(database, id)?,
                None => None,
            };
            let one = Active {
                stored: effort,
                window,
            };
            active.insert(one.row().id, one);
        }
        Ok(Self {
            projects: stored::projects(database)?.into_iter().collect(),
            tasks: tasks.map(|task| (task.id, task)).collect(),
            active,
            agents: agents
                .map(|(project, agent)| ((project, agent.id.clone()), agent))
                .collect(),
            last_effort: stored::last_id(database, "efforts")?,
            changes: Vec::new(),
        })
    }

    /// What is to be written now. It counts as written, unless it comes back.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// These could not be written: with the next commit, then, before what came since.
    pub(crate) fn not_written(&mut self, mut changes: Vec<Change>) {
        changes.append(&mut self.changes);
        self.changes = changes;
    }

    /// The database was begun anew: all that is known is to be written.
    pub(crate) fn write_all(&mut self) {
        let projects = self.projects.iter().map(|(path, id)| Change::Project {
            id: *id,
            path: path.clone(),
        });
        let tasks = self.tasks.values().map(|row| Change::Task {
            project: self.projects.get(&row.project).copied().unwrap_or(0),
            row: row.clone(),
        });
        let efforts = self.active.values().flat_map(|effort| {
            let window = effort
                .window
                .clone()
                .map(|row| Change::Window(Box::new(row)));
            let stored = Change::Effort(Box::new(effort.stored.clone()));
            window.into_iter().chain([stored])
        });
        let changes: Vec<Change> = projects.chain(tasks).chain(efforts).collect();
        self.changes.extend(changes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    pub(crate) fn bound(&self, effort: i64) -> Option<Bound> {
        let row = self.active.get(&effort)?.row();
        Some(Bound {
            effort,
            loading: row.phase.as_deref() == Some(LOADING),
            phase_since: row
                .phases
                .last()
                .map_or(row.started_at, |phase| phase.since),
        })
    }

    pub(crate) fn facts(&self, effort: i64) -> Option<EffortFacts> {
        self.active.get(&effort).map(|effort| facts(effort.row()))
    }

    pub(crate) fn row(&self, effort: i64) -> Option<&EffortRow> {
        self.active.get(&effort).map(Active::row)
    }

    /// The last main window of an effort.
    pub(crate) fn window(&self, effort: i64) -> Option<&WindowRow> {
        self.active.get(&effort)?.window.as_ref()
    }

    /// The effort of this agent, by its `AGENT_ID`.
    pub(crate) fn of_agent(&self, origin: &Origin<'_>) -> Option<i64> {
        let key = (origin.project.to_owned(), origin.agent?.to_owned());
        let effort = self.agents.get(&key)?.effort;
        self.active.contains_key(&effort).then_some(effort)
    }

    /// The effort that this launch, this pane or this chain of sessions works on; else the project's latest,
    /// but none that `is_held` by another process or that belongs to another `AGENT_ID`.
    pub(crate) fn of_origin(
        &self,
        origin: &Origin<'_>,
        is_held: impl Fn(i64) -> bool,
    ) -> Option<i64> {
        let own = |effort: &&Active| effort.row().project == origin.project;
        let efforts = || self.active.values().rev().filter(own);
        let same = |ours: Option<&str>, theirs: &Option<String>| {
            ours.is_some() && ours == theirs.as_deref()
        };
        let by_launch = |effort: &&Active| same(origin.launch, &effort.stored.holder.launch);
        let by_chain = |effort: &&Active| same(origin.prev_session, &effort.stored.holder.session);
        let by_pane = |effort: &&Active| {
            let holder = &effort.stored.holder;
            same(origin.pane, &holder.pane)
                && origin.tmux_socket == holder.tmux_socket.as_deref()
                && !is_held(effort.row().id)
        };
        let is_free = |effort: &&Active| {
            let theirs = effort.stored.holder.agent.as_deref();
            let stranger = origin.agent.is_some() && theirs.is_some() && theirs != origin.agent;
            !stranger && !is_held(effort.row().id)
        };
        let found = efforts()
            .find(by_launch)
            .or_else(|| efforts().find(by_chain))
            .or_else(|| efforts().find(by_pane))
            .or_else(|| efforts().find(is_free));
        found.map(|effort| effort.row().id)
    }

    /// A window of a main agent, or of a subagent, is opened.
    pub(crate) fn open_window(&mut self, mut row: WindowRow, holder: Option<Holder>) {
        let Some(effort) = self.active.get_mut(&row.effort) else {
            return;
        };
        if row.agent_id.is_none() {
            let before = effort.window.take();
            // An intake that failed comes again.
            row.prev = match &before {
                Some(before) if before.id == row.id => before.prev,
                Some(before) => Some(before.id),
                None => None,
            };
            if let Some(before) = before.filter(|before| before.id != row.id) {
                let (window, at) = (before.id, row.started_at);
                self.changes.push(Change::WindowEnded { window, at });
            }
            effort.window = Some(row.clone());
            effort.stored.last_window = Some(row.id);
            effort.stored.row.session_id = Some(row.session_id.clone());
            effort.stored.row.exhausted = false;
        }
        self.changes.push(Change::Window(Box::new(row.clone())));
        if let Some(holder) = holder {
            let project = effort.stored.row.project.clone();
            if let Some(agent) = &holder.agent {
                self.agent(&project, agent, row.effort, "working", None);
            }
            if let Some(effort) = self.active.get_mut(&row.effort) {
                effort.stored.holder = holder;
            }
        }
        self.changed(row.effort);
    }

    pub(crate) fn end_window(&mut self, window: EventId, at: i64) {
        self.changes.push(Change::WindowEnded { window, at });
    }

    /// An agent is known by its `AGENT_ID`, or does something else now.
    pub(crate) fn agent(
        &mut self,
        project: &str,
        agent: &str,
        effort: i64,
        status: &str,
        parent: Option<&str>,
    ) {
        let key = (project.to_owned(), agent.to_owned());
        let known = self.agents.get(&key);
        let parent = parent.map(str::to_owned);
        let now = StoredAgent {
            id: agent.to_owned(),
            effort,
            status: status.to_owned(),
            parent: parent.or_else(|| known?.parent.clone()),
        };
        if known == Some(&now) {
            return;
        }
        let project = self.project(project);
        self.changes.push(Change::Agent {
            project,
            agent: now.clone(),
        });
        self.agents.insert(key, now);
    }

    pub(crate) fn parent_of(&self, project: &str, agent: &str) -> Option<&str> {
        let key = (project.to_owned(), agent.to_owned());
        self.agents.get(&key)?.parent.as_deref()
    }

    pub(crate) fn message(&mut self, row: MessageRow) {
        self.changes.push(Change::Message(row));
    }

    /// These directive files have arrived.
    pub(crate) fn found(&mut self, effort: i64, files: Vec<String>) {
        let Some(active) = self.active.get_mut(&effort) else {
            return;
        };
        let known = &mut active.stored.row.directives;
        let before = known.len();
        for file in files {
            if !known.contains(&file) && known.len() < MAX_DIRECTIVES {
                known.push(file);
            }
        }
        if known.len() > before {
            self.changed(effort);
        }
    }

    pub(crate) fn exhausted(&mut self, effort: i64) {
        self.update(effort, |stored| stored.row.exhausted = true);
    }

    fn update(&mut self, effort: i64, change: impl FnOnce(&mut StoredEffort)) {
        if let Some(active) = self.active.get_mut(&effort) {
            change(&mut active.stored);
            self.changed(effort);
        }
    }

    fn changed(&mut self, effort: i64) {
        if let Some(active) = self.active.get(&effort) {
            let stored = Box::new(active.stored.clone());
            self.changes.push(Change::Effort(stored));
        }
    }

    fn project(&mut self, path: &str) -> i64 {
        if let Some(id) = self.projects.get(path) {
            return *id;
        }
        let id = self.projects.values().max().copied().unwrap_or(0) + 1;
        self.projects.insert(path.to_owned(), id);
        let path = path.to_owned();
        self.changes.push(Change::Project { id, path });
        id
    }

    /// The task of this folder, made if there is none yet. Title and keywords are taken over if there are any.
    pub(crate) fn task(
        &mut self,
        project: &str,
        folder: &str,
        title: Option<String>,
        keywords: Vec<String>,
        now: i64,
    ) -> TaskRow {
        let project_id = self.project(project);
        let known = self.tasks.values().find(|task| task.folder == folder);
        let mut row = known.cloned().unwrap_or_else(|| TaskRow {
            id: self.tasks.keys().last().copied().unwrap_or(0) + 1,
            project: project.to_owned(),
            folder: folder.to_owned(),
            created_at: now,
            ..TaskRow::default()
        });
        let is_new = known.is_none();
        let says_more = title.is_some() || !keywords.is_empty();
        row.title = title.or(row.title);
        if !keywords.is_empty() {
            row.keywords = keywords;
        }
        if is_new || says_more {
            self.tasks.insert(row.id, row.clone());
            self.changes.push(Change::Task {
                project: project_id,
                row: row.clone(),
            });
        }
        self.with_efforts(row)
    }

    fn with_efforts(&self, row: TaskRow) -> TaskRow {
        let active = self
            .active
            .values()
            .any(|effort| effort.row().task == row.id);
        TaskRow { active, ..row }
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = TaskRow> {
        let tasks = self.tasks.values().cloned();
        tasks.map(|task| self.with_efforts(task))
    }

    pub(crate) fn task_by_id(&self, id: i64) -> Option<TaskRow> {
        self.tasks
            .get(&id)
            .cloned()
            .map(|task| self.with_efforts(task))
    }

    /// A new effort of this task.
    pub(crate) fn start(&mut self, task: &TaskRow, new: NewEffort, caller: &Caller) -> i64 {
        self.last_effort += 1;
        let id = self.last_effort;
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let holder = Holder {
            session: None,
            launch: text(&caller.launch),
            pane: text(&caller.pane),
            tmux_socket: text(&caller.tmux_socket),
            agent: text(&caller.agent_id),
        };
        let phases = new.phase.iter().map(|name| PhaseRow {
            name: name.clone(),
            since: new.now,
        });
        let row = EffortRow {
            id,
            task: task.id,
            project: task.project.clone(),
            folder: task.folder.clone(),
            ordinal: new.ordinal,
            skill: new.skill,
            mode: new.mode,
            title: new.title.or_else(|| task.title.clone()),
            phases: phases.collect(),
            phase: new.phase,
            started_at: new.now,
            ..EffortRow::default()
        };
        let stored = StoredEffort {
            row,
            holder,
            last_window: None,
        };
        if let Some(task) = self.tasks.get_mut(&task.id) {
            task.efforts += 1;
        }
        let active = Active {
            stored,
            window: None,
        };
        self.active.insert(id, active);
        self.changed(id);
        id
    }

    pub(crate) fn phase(&mut self, effort: i64, name: &str, now: i64) {
        self.update(effort, |stored| {
            stored.row.phase = Some(name.to_owned());
            let phases = &mut stored.row.phases;
            phases.push(PhaseRow {
                name: name.to_owned(),
                since: now,
            });
            if phases.len() > MAX_PHASES {
                phases.remove(1);
            }
        });
    }

    pub(crate) fn artifact(&mut self, effort: i64, mut artifact: ArtifactRow) {
        let known = self.row(effort).and_then(|row| {
            let mut all = row.artifacts.iter();
            all.find(|one| one.path == artifact.path && one.kind == artifact.kind)
        });
        if let Some(known) = known {
            artifact.created |= known.created;
            // The log is known after its first entry.
            let is_log = artifact.kind == becket_wire::effort::Artifact::Log;
            if is_log && artifact.created == known.created {
                return;
            }
        }
        self.update(effort, |stored| {
            let artifacts = &mut stored.row.artifacts;
            artifacts.retain(|one| one.path != artifact.path);
            artifacts.push(artifact);
        });
    }

    /// Stores what the effort's present window leaves to the next. False if it has none.
    pub(crate) fn dehydrate(&mut self, effort: i64, context: Dehydrated) -> bool {
        let window = self.active.get_mut(&effort);
        let Some(row) = window.and_then(|effort| effort.window.as_mut()) else {
            return false;
        };
        row.dehydrated = Some(context.clone());
        let window = row.id;
        self.changes.push(Change::Dehydrated { window, context });
        true
    }

    /// The effort is over. Gives it as it was.
    pub(crate) fn finish(&mut self, effort: i64, now: i64) -> Option<EffortRow> {
        self.update(effort, |stored| stored.row.finished_at = Some(now));
        let ended = self.active.remove(&effort)?;
        if let Some(window) = &ended.window {
            self.end_window(window.id, now);
        }
        Some(ended.stored.row)
    }

    /// The project's latest active effort.
    pub(crate) fn latest(&self, project: &str) -> Option<i64> {
        let mut efforts = self.active.values().rev();
        efforts
            .find(|effort| effort.row().project == project)
            .map(|effort| effort.row().id)
    }

    /// The active effort whose last window was opened for this launch, or in this pane.
    pub(crate) fn at(&self, caller: &Caller) -> Option<i64> {
        let nothing = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
        let at = |effort: &&Active| {
            let holder = &effort.stored.holder;
            let launch = !nothing(&caller.launch) && caller.launch == holder.launch;
            let pane = !nothing(&caller.pane)
                && caller.pane == holder.pane
                && caller.tmux_socket == holder.tmux_socket;
            effort.row().project == caller.project && (launch || pane)
        };
        self.active
            .values()
            .rev()
            .find(at)
            .map(|effort| effort.row().id)
    }
}

/// What an effort begins with.
#[derive(Debug, Default)]
pub(crate) struct NewEffort {
    pub(crate) ordinal: u32,
    pub(crate) skill: String,
    pub(crate) mode: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) phase: Option<String>,
    pub(crate) now: i64,
}

pub(crate) fn facts(row: &EffortRow) -> EffortFacts {
    EffortFacts {
        id: row.id,
        ordinal: row.ordinal,
        skill: row.skill.clone(),
        title: row.title.clone(),
        phase: row.phase.clone(),
        project: row.project.as_str().into(),
        folder: row.folder.as_str().into(),
        created: (row.artifacts.iter().filter(|it| it.created))
            .map(|it| it.path.as_str().into())
            .collect(),
    }
}
