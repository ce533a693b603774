//! `becket gc`: what nobody needs any more, listed, and deleted on yes.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use becket_engine::session;
use becket_wire::id::parse_uuid;
use becket_wire::session::{SessionQuery, SessionRow};
use serde_json::{Value, json};

use crate::session::source::SessionSource;
use crate::ui;
use crate::ui::style::DIM;
use crate::ui::text::{count, one_line};
use crate::ui::time::{moment, span};
use crate::world::{World, own_session};

/// List files that are not needed any more, and offer to delete them
///
/// becket never deletes these by itself. LeftoverKind is listed: the switches and the memory of hooks of
/// sessions that have long ended, damaged switch files that were set aside, long texts of hooks, and
/// files that were left half written.
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// Only what has not been touched for N days
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl GcArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let left = leftovers(world, self.days)?;
        if self.json {
            let delete = self.yes;
            let list: Vec<Value> = left.iter().map(|left| left.json(delete)).collect();
            if delete {
                remove(&left)?;
            }
            println!("{}", ui::text::json(&list)?);
            return Ok(ExitCode::SUCCESS);
        }
        tell_lost_sessions(world)?;
        if left.is_empty() {
            println!("Nothing to delete.");
            return Ok(ExitCode::SUCCESS);
        }
        for left in &left {
            anstream::println!(
                "{}  {DIM}{}, {}{DIM:#}",
                left.path.display(),
                left.kind.words().1,
                age(left)
            );
        }
        let things = count(left.len(), "thing", "things");
        if self.yes || (ui::is_attended() && ui::agrees(&format!("Delete {things}?"))?) {
            remove(&left)?;
            println!("Deleted {things}.");
        } else if !ui::is_attended() {
            println!("Nothing was deleted: --yes deletes {things}.");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// So many sessions that ended without a word are listed, the newest.
const LOST: u32 = 20;

/// Lists the sessions that becket itself ended, since no process of theirs was known. Their rows stay.
fn tell_lost_sessions(world: &World) -> Result<()> {
    let query = SessionQuery {
        all: true,
        limit: Some(LOST),
        ..SessionQuery::default()
    };
    let mut rows = SessionSource::open(world).sessions(&query)?;
    let is_lost = |row: &SessionRow| {
        row.pid.is_none() && row.end_reason.as_deref() == Some(session::PROCESS_GONE)
    };
    rows.retain(is_lost);
    for row in &rows {
        let project = row.project.as_deref().or(row.cwd.as_deref());
        let project = one_line(project.unwrap_or_default());
        let id = one_line(&row.session_id);
        anstream::println!(
            "session {id}  {DIM}ended: no process, no event for an hour; its events stay  {project}{DIM:#}"
        );
    }
    Ok(())
}

impl Leftover {
    fn json(&self, deleted: bool) -> Value {
        json!({
            "path": self.path,
            "what": self.kind.words().0,
            "session_id": self.session,
            "last_touched": moment(self.touched),
            "deleted": deleted,
        })
    }
}

fn age(left: &Leftover) -> String {
    let now = jiff::Timestamp::now().as_millisecond();
    format!("untouched for {}", span(now.saturating_sub(left.touched)))
}

fn remove(left: &[Leftover]) -> Result<()> {
    for left in left {
        let path = &left.path;
        let removed = if left.is_folder {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        match removed {
            // Another process removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("could not remove {}", path.display()))?,
        }
    }
    Ok(())
}

const DAY_MS: i64 = 24 * 3600 * 1000;

/// One thing that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub path: PathBuf,
    pub kind: LeftoverKind,
    pub session: Option<String>,
    /// Milliseconds since 1970.
    pub touched: i64,
    pub is_folder: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverKind {
    Switches,
    Memory,
    Damaged,
    LongText,
    HalfWritten,
}

impl LeftoverKind {
    /// For scripts, and for people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Switches => ("switches", "switches of a session that has ended"),
            Self::Memory => ("memory", "what hooks remember of a session that has ended"),
            Self::Damaged => ("damaged", "damaged switches, set aside"),
            Self::LongText => ("said", "what a hook said, too long for an answer"),
            Self::HalfWritten => ("half_written", "left half written"),
        }
    }
}

/// Everything untouched for so many days, and that no live session has.
pub fn leftovers(world: &World, days: u32) -> Result<Vec<Leftover>> {
    let live = live(world)?;
    let before = jiff::Timestamp::now().as_millisecond() - i64::from(days) * DAY_MS;
    let is_free = |left: &Leftover| {
        let lives = left.session.as_ref().is_some_and(|id| live.contains(id));
        !lives && left.touched <= before
    };
    let mut found: Vec<Leftover> = entries(&world.place.sessions())?
        .iter()
        .filter_map(of_switches)
        .collect();
    let memory = world.place.run().join("hooks");
    found.extend(entries(&memory)?.iter().filter_map(of_memory));
    let said = world.place.run().join("said");
    found.extend(entries(&said)?.iter().filter_map(long_text));
    found.retain(is_free);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The ids of the sessions that live, as far as anybody knows.
fn live(world: &World) -> Result<HashSet<String>> {
    let rows = SessionSource::open(world).sessions(&SessionQuery::default())?;
    let ids = rows.into_iter().map(|row| row.session_id);
    // Who calls us lives, known or not.
    let ids = ids.chain(own_session());
    Ok(ids.map(|id| id.to_ascii_lowercase()).collect())
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries =
                entries.with_context(|| format!("could not read {}", folder.display()))?;
            Ok(entries.flatten().collect())
        }
    }
}

fn of_switches(entry: &DirEntry) -> Option<Leftover> {
    let name = entry.file_name().into_string().ok()?;
    let (session, kind) = if let Some(id) = name.strip_suffix(".json") {
        (Some(id), LeftoverKind::Switches)
    } else if let Some((id, _)) = name.split_once(".json.damaged-") {
        (Some(id), LeftoverKind::Damaged)
    } else if name.starts_with('.') && name.ends_with(".tmp") {
        (None, LeftoverKind::HalfWritten)
    } else {
        return None;
    };
    // LeftoverKind has another name is not ours.
    if session.is_some_and(|id| parse_uuid(id).is_none()) {
        return None;
    }
    let metadata = entry.metadata().ok().filter(|it| !it.is_dir())?;
    Some(Leftover {
        path: entry.path(),
        kind,
        // A file that was set aside is of no use to its session either.
        session: session
            .filter(|_| kind == LeftoverKind::Switches)
            .map(str::to_ascii_lowercase),
        touched: ms(metadata.modified().ok()?),
        is_folder: false,
    })
}

fn long_text(entry: &DirEntry) -> Option<Leftover> {
    let name = entry.file_name().into_string().ok()?;
    parse_uuid(name.strip_suffix(".txt")?)?;
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    Some(Leftover {
        path: entry.path(),
        kind: LeftoverKind::LongText,
        session: None,
        touched: ms(metadata.modified().ok()?),
        is_folder: false,
    })
}

fn of_memory(entry: &DirEntry) -> Option<Leftover> {
    let name = entry.file_name().into_string().ok()?;
    parse_uuid(&name)?;
    entry.metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(Leftover {
        path: entry.path(),
        kind: LeftoverKind::Memory,
        session: Some(name.to_ascii_lowercase()),
        touched: newest(&entry.path(), 0)?,
        is_folder: true,
    })
}

/// When anything in a folder was last touched. Hooks do not nest deeply.
fn newest(folder: &Path, depth: usize) -> Option<i64> {
    let own = fs::symlink_metadata(folder).ok()?.modified().ok()?;
    let mut newest_of_all = ms(own);
    if depth < 8 {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let touched = match metadata.is_dir() {
                true => newest(&entry.path(), depth + 1),
                false => metadata.modified().ok().map(ms),
            };
            newest_of_all = newest_of_all.max(touched.unwrap_or(newest_of_all));
        }
    }
    Some(newest_of_all)
}

fn ms(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
