//! Tasks, efforts, windows, agents and messages in the database.

use becket_wire::EventId;
use becket_wire::effort::{
    ArtifactRow, Dehydrated, EffortRow, MessageRow, PhaseRow, TaskRow, WindowRow,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Messages of one effort that are told.
const MAX_MESSAGES: u32 = 1000;

/// One row to be written. Each may be written twice, but for messages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Project {
        id: i64,
        path: String,
    },
    Task {
        project: i64,
        row: TaskRow,
    },
    Effort(Box<StoredEffort>),
    Window(Box<WindowRow>),
    WindowEnded {
        window: EventId,
        at: i64,
    },
    Dehydrated {
        window: EventId,
        context: Dehydrated,
    },
    Agent {
        project: i64,
        agent: StoredAgent,
    },
    Message(MessageRow),
}

/// An effort, and who works on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredEffort {
    pub(crate) row: EffortRow,
    pub(crate) holder: Holder,
    /// The last window of a main agent.
    pub(crate) last_window: Option<EventId>,
}

/// Where an effort is worked on, or was last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Holder {
    pub(crate) session: Option<String>,
    pub(crate) launch: Option<String>,
    pub(crate) pane: Option<String>,
    pub(crate) tmux_socket: Option<String>,
    /// `AGENT_ID`.
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredAgent {
    pub(crate) id: String,
    pub(crate) effort: i64,
    pub(crate) status: String,
    pub(crate) parent: Option<String>,
}

/// What the column `metadata` holds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Metadata {
    holder: Holder,
    artifacts: Vec<ArtifactRow>,
    exhausted: bool,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn of_json<T: DeserializeOwned + Default>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}

/// Writes what has changed, in its order.
pub(crate) fn write(connection: &Connection, changes: &[Change]) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            Change::Project { id, path } => connection
                .prepare_cached("INSERT OR REPLACE INTO projects (id, path) VALUES (?1, ?2)")?
                .execute(params![id, path])?,
            Change::Task { project, row } => connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO tasks (id, project_id, folder, title, keywords, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    row.id,
                    project,
                    row.folder,
                    row.title,
                    json(&row.keywords),
                    row.created_at
                ])?,
            Change::Effort(effort) => write_effort(connection, effort)?,
            Change::Window(row) => connection
                .prepare_cached(
                    "INSERT INTO windows (id, effort_id, session_id, agent_id, prev, source, started_at, ended_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
                )?
                .execute(params![
                    row.id.as_bytes(),
                    row.effort,
                    row.session_id,
                    row.agent_id,
                    row.prev.as_ref().map(EventId::as_bytes),
                    row.source,
                    row.started_at,
                    row.ended_at
                ])?,
            Change::WindowEnded { window, at } => connection
                .prepare_cached("UPDATE windows SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL")?
                .execute(params![window.as_bytes(), at])?,
            Change::Dehydrated { window, context } => connection
                .prepare_cached("UPDATE windows SET dehydrated = ?2 WHERE id = ?1")?
                .execute(params![window.as_bytes(), json(context)])?,
            Change::Agent { project, agent } => connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO agents (project_id, agent_id, effort_id, status, parent)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![project, agent.id, agent.effort, agent.status, agent.parent])?,
            Change::Message(row) => connection
                .prepare_cached(
                    "INSERT INTO messages (effort_id, at, session_id, agent_id, kind, text)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    row.effort,
                    row.at,
                    row.session_id,
                    row.agent_id,
                    row.kind,
                    row.text
                ])?,
        };
    }
    Ok(())
}

fn write_effort(connection: &Connection, effort: &StoredEffort) -> rusqlite::Result<usize> {
    let row = &effort.row;
    let metadata = Metadata {
        holder: effort.holder.clone(),
        artifacts: row.artifacts.clone(),
        exhausted: row.exhausted,
    };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO efforts (id, task_id, ordinal, skill, mode, title, phase, phases, directives,
             metadata, last_window, started_at, finished_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            row.id,
            row.task,
            row.ordinal,
            row.skill,
            row.mode,
            row.title,
            row.phase,
            json(&row.phases),
            json(&row.directives),
            json(&metadata),
            effort.last_window.as_ref().map(EventId::as_bytes),
            row.started_at,
            row.finished_at
        ])
}

/// The projects: number and path.
pub(crate) fn projects(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut select = connection.prepare("SELECT path, id FROM projects")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// All tasks, the oldest first.
pub(crate) fn tasks(connection: &Connection) -> rusqlite::Result<Vec<TaskRow>> {
    let mut select = connection.prepare(
        "SELECT t.id, p.path, t.folder, t.title, t.keywords, t.created_at, count(e.id),
         count(e.id) > count(e.finished_at)
         FROM tasks t JOIN projects p ON p.id = t.project_id LEFT JOIN efforts e ON e.task_id = t.id
         GROUP BY t.id ORDER BY t.id",
    )?;
    let rows = select.query_map([], |row| {
        Ok(TaskRow {
            id: row.get(0)?,
            project: row.get(1)?,
            folder: row.get(2)?,
            title: row.get(3)?,
            keywords: of_json(row.get_ref(4)?.as_str()?),
            created_at: row.get(5)?,
            efforts: row.get(6)?,
            active: row.get(7)?,
        })
    })?;
    rows.collect()
}

/// Which efforts are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WhichEfforts {
    Active,
    All,
    Task(i64),
    One(i64),
}

/// Efforts, the newest first.
pub(crate) fn efforts(
    connection: &Connection,
    which: WhichEfforts,
) -> rusqlite::Result<Vec<StoredEffort>> {
    let (condition, number) = match which {
        WhichEfforts::Active => ("e.finished_at IS NULL", 0),
        WhichEfforts::All => ("TRUE", 0),
        WhichEfforts::Task(task) => ("e.task_id = ?1", task),
        WhichEfforts::One(id) => ("e.id = ?1", id),
    };
    let mut select = connection.prepare_cached(&format!(
        "SELECT e.id, e.task_id, p.path, t.folder, e.ordinal, e.skill, e.mode, e.title, e.phase, e.phases,
         e.directives, e.metadata, e.last_window, e.started_at, e.finished_at
         FROM efforts e JOIN tasks t ON t.id = e.task_id JOIN projects p ON p.id = t.project_id
         WHERE ?1 = ?1 AND {condition} ORDER BY e.id DESC"
    ))?;
    let rows = select.query_map([number], read_effort)?;
    rows.collect()
}

fn read_effort(row: &Row<'_>) -> rusqlite::Result<StoredEffort> {
    let metadata: Metadata = of_json(row.get_ref(11)?.as_str()?);
    let phases: Vec<PhaseRow> = of_json(row.get_ref(9)?.as_str()?);
    Ok(StoredEffort {
        last_window: row.get::<_, Option<[u8; 16]>>(12)?.map(EventId::from_bytes),
        row: EffortRow {
            id: row.get(0)?,
            task: row.get(1)?,
            project: row.get(2)?,
            folder: row.get(3)?,
            ordinal: row.get(4)?,
            skill: row.get(5)?,
            mode: row.get(6)?,
            title: row.get(7)?,
            phase: row.get(8)?,
            phases,
            directives: of_json(row.get_ref(10)?.as_str()?),
            artifacts: metadata.artifacts,
            started_at: row.get(13)?,
            finished_at: row.get(14)?,
            session_id: metadata.holder.session.clone(),
            exhausted: metadata.exhausted,
            ..EffortRow::default()
        },
        holder: metadata.holder,
    })
}

/// The number of the last effort in a task, and of the last effort at all.
pub(crate) fn last_ordinal(connection: &Connection, task: i64) -> rusqlite::Result<u32> {
    let last = "SELECT coalesce(max(ordinal), 0) FROM efforts WHERE task_id = ?1";
    connection.query_row(last, [task], |row| row.get(0))
}

pub(crate) fn last_id(connection: &Connection, table: &str) -> rusqlite::Result<i64> {
    let last = format!("SELECT coalesce(max(id), 0) FROM {table}");
    connection.query_row(&last, [], |row| row.get(0))
}

/// The windows of an effort, the oldest first.
pub(crate) fn windows(connection: &Connection, effort: i64) -> rusqlite::Result<Vec<WindowRow>> {
    let mut select = connection.prepare_cached(&format!(
        "{WINDOW} WHERE effort_id = ?1 ORDER BY started_at, id"
    ))?;
    let rows = select.query_map([effort], read_window)?;
    rows.collect()
}

const WINDOW: &str = "SELECT id, effort_id, session_id, agent_id, prev, source, started_at, ended_at, dehydrated FROM windows";

pub(crate) fn window(connection: &Connection, id: EventId) -> rusqlite::Result<Option<WindowRow>> {
    connection
        .prepare_cached(&format!("{WINDOW} WHERE id = ?1"))?
        .query_row([id.as_bytes()], read_window)
        .optional()
}

fn read_window(row: &Row<'_>) -> rusqlite::Result<WindowRow> {
    let dehydrated: Option<String> = row.get(8)?;
    Ok(WindowRow {
        id: EventId::from_bytes(row.get(0)?),
        effort: row.get(1)?,
        session_id: row.get(2)?,
        agent_id: row.get(3)?,
        prev: row.get::<_, Option<[u8; 16]>>(4)?.map(EventId::from_bytes),
        source: row.get(5)?,
        started_at: row.get(6)?,
        ended_at: row.get(7)?,
        dehydrated: dehydrated.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

/// The agents of active efforts, each with the path of its project.
pub(crate) fn agents(connection: &Connection) -> rusqlite::Result<Vec<(String, StoredAgent)>> {
    let mut select = connection.prepare(
        "SELECT p.path, a.agent_id, a.effort_id, a.status, a.parent FROM agents a
         JOIN projects p ON p.id = a.project_id",
    )?;
    let rows = select.query_map([], |row| {
        let agent = StoredAgent {
            id: row.get(1)?,
            effort: row.get(2)?,
            status: row.get(3)?,
            parent: row.get(4)?,
        };
        Ok((row.get(0)?, agent))
    })?;
    rows.collect()
}

/// The last messages of an effort, the oldest first.
pub(crate) fn messages(connection: &Connection, effort: i64) -> rusqlite::Result<Vec<MessageRow>> {
    let mut select = connection.prepare(&format!(
        "SELECT effort_id, at, session_id, agent_id, kind, text FROM messages WHERE effort_id = ?1
         ORDER BY id DESC LIMIT {MAX_MESSAGES}"
    ))?;
    let rows = select.query_map([effort], |row| {
        Ok(MessageRow {
            effort: row.get(0)?,
            at: row.get(1)?,
            session_id: row.get(2)?,
            agent_id: row.get(3)?,
            kind: row.get(4)?,
            text: row.get(5)?,
        })
    })?;
    let mut rows: Vec<MessageRow> = rows.collect::<rusqlite::Result<_>>()?;
    rows.reverse();
    Ok(rows)
}

/// Whether an event is in the log.
pub(crate) fn knows_event(connection: &Connection, id: EventId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM events WHERE id = ?1")?
        .exists([id.as_bytes()])
}
