//! `becket gc`: lists files that are not needed any more, and deletes them after a yes.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use becket_wire::id::parse_uuid;
use becket_wire::session::SessionQuery;
use serde_json::{Value, json};

use crate::session::source::SessionSource;
use crate::ui;
use crate::ui::style::DIM;
use crate::ui::text::count;
use crate::ui::time::{span, timestamp};
use crate::world::{World, own_session};

/// The number of days after which an untouched file is not needed any more.
const DAYS: u32 = 30;

/// List files that are not needed any more, and offer to delete them
///
/// becket never deletes these by itself. What is listed: the switches and the memory of hooks of
/// sessions that have long ended, damaged switch files that were set aside, long outputs of hooks, and
/// files that were not written to their end.
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// Only what has not been touched for N days
    #[arg(long, value_name = "N", default_value_t = DAYS)]
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
        let leftovers = find(world, self.days)?;
        if self.json {
            let list: Vec<Value> = leftovers.iter().map(|it| it.json(self.yes)).collect();
            if self.yes {
                remove(&leftovers)?;
            }
            println!("{}", ui::text::json(&list)?);
            return Ok(ExitCode::SUCCESS);
        }
        if leftovers.is_empty() {
            println!("Nothing to delete.");
            return Ok(ExitCode::SUCCESS);
        }
        for leftover in &leftovers {
            anstream::println!(
                "{}  {DIM}{}, {}{DIM:#}",
                leftover.path.display(),
                leftover.kind.description(),
                leftover.age()
            );
        }
        let things = count(leftovers.len(), "thing", "things");
        if self.yes || (ui::is_attended() && ui::agrees(&format!("Delete {things}?"))?) {
            remove(&leftovers)?;
            println!("Deleted {things}.");
        } else if !ui::is_attended() {
            println!("Nothing was deleted: --yes deletes {things}.");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Describes the leftovers for doctor. Returns none if there are none.
pub fn summary(world: &World) -> Result<Option<String>> {
    let leftovers = find(world, DAYS)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for leftover in &leftovers {
        *counts.entry(leftover.kind.description()).or_default() += 1;
    }
    let kinds = counts
        .iter()
        .map(|(kind, count)| format!("{count} × {kind}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    Ok((!leftovers.is_empty()).then(|| format!("{kinds}: `becket gc` deletes them")))
}

impl Leftover {
    fn json(&self, deleted: bool) -> Value {
        json!({
            "path": self.path,
            "what": self.kind.word(),
            "session_id": self.session,
            "last_touched": timestamp(self.touched),
            "deleted": deleted,
        })
    }

    fn age(&self) -> String {
        let now = jiff::Timestamp::now().as_millisecond();
        format!("untouched for {}", span(now.saturating_sub(self.touched)))
    }
}

fn remove(leftovers: &[Leftover]) -> Result<()> {
    for leftover in leftovers {
        let path = &leftover.path;
        let removed = if leftover.is_folder {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        match removed {
            // Another process has removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("could not remove {}", path.display()))?,
        }
    }
    Ok(())
}

const DAY_MS: i64 = 24 * 3600 * 1000;

/// A file or folder that is not needed any more.
#[derive(Debug)]
struct Leftover {
    path: PathBuf,
    kind: LeftoverKind,
    session: Option<String>,
    /// The time of the last change, in milliseconds since 1970.
    touched: i64,
    is_folder: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftoverKind {
    Switches,
    Memory,
    Damaged,
    LongText,
    HalfWritten,
}

impl LeftoverKind {
    /// Returns the word for scripts.
    fn word(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::Memory => "memory",
            Self::Damaged => "damaged",
            Self::LongText => "said",
            Self::HalfWritten => "half_written",
        }
    }

    /// Returns the description for people.
    fn description(self) -> &'static str {
        match self {
            Self::Switches => "switches of a session that has ended",
            Self::Memory => "memory of hooks for a session that has ended",
            Self::Damaged => "damaged switches, set aside",
            Self::LongText => "output of a hook that was too long for an answer",
            Self::HalfWritten => "a file that was not written to its end",
        }
    }
}

/// Finds the leftovers that are untouched for this number of days and belong to no live session.
fn find(world: &World, days: u32) -> Result<Vec<Leftover>> {
    let live = live_sessions(world)?;
    let before = jiff::Timestamp::now().as_millisecond() - i64::from(days) * DAY_MS;
    let mut found: Vec<Leftover> = entries(&world.place.sessions())?
        .iter()
        .filter_map(switches)
        .collect();
    let memory = world.place.run().join("hooks");
    found.extend(entries(&memory)?.iter().filter_map(hook_memory));
    let long_texts = world.place.run().join("said");
    found.extend(entries(&long_texts)?.iter().filter_map(long_text));
    found.retain(|it| {
        let is_live = it.session.as_ref().is_some_and(|id| live.contains(id));
        !is_live && it.touched <= before
    });
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns the ids of all sessions that are known to live.
fn live_sessions(world: &World) -> Result<HashSet<String>> {
    let rows = SessionSource::open(world).sessions(&SessionQuery::default())?;
    let ids = rows.into_iter().map(|row| row.session_id);
    // The session that has started this call lives, even if the daemon does not know it.
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

fn switches(entry: &DirEntry) -> Option<Leftover> {
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
    // A file with another name is not becket's.
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

fn hook_memory(entry: &DirEntry) -> Option<Leftover> {
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

/// Returns the time of the last change in a folder, up to a depth of 8: hooks do not nest deeply.
fn newest(folder: &Path, depth: usize) -> Option<i64> {
    let own = fs::symlink_metadata(folder).ok()?.modified().ok()?;
    let mut newest_of_all = ms(own);
    if depth < 8 {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let touched = if metadata.is_dir() {
                newest(&entry.path(), depth + 1)
            } else {
                metadata.modified().ok().map(ms)
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
