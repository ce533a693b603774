//! `becket sessions`: lists the sessions and their states.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use becket_engine::session::json;
use becket_wire::session::{Display, SessionQuery, SessionRow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::launch::launch_file;
use crate::session::source::SessionSource;
use crate::session::table::table;
use crate::switch::is_in;
use crate::ui::style::Look;
use crate::ui::text;
use crate::world::{World, project_of};
use crate::{session, unhooked_processes};

/// The number of ended sessions that a person gets without --limit, the newest. Scripts get all.
const DEFAULT_LIMIT: u32 = 20;

/// List the sessions, those that need you first
#[derive(Debug, clap::Args)]
pub struct SessionsArgs {
    /// Also those that have ended, and Claude Code processes without becket's hooks
    #[arg(long, short)]
    all: bool,
    /// Only those that are in one of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = displays())]
    display: Vec<Display>,
    /// Only this project; without FOLDER, the one you are in
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Of those that have ended only the newest N (default: 20; with --json all)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// Print only ids and titles, one per line
    #[arg(long, conflicts_with = "json")]
    names: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn displays() -> impl TypedValueParser<Value = Display> {
    // The words of the JSON are accepted, too.
    let values = Display::ALL.map(|one| PossibleValue::new(one.label()).alias(one.word()));
    PossibleValuesParser::new(values).map(|word| {
        let mut all = Display::ALL.into_iter();
        let named = all.find(|one| one.word() == word || one.label() == word);
        named.unwrap_or_default()
    })
}

impl SessionsArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let query = SessionQuery {
            session: None,
            all: self.all,
            limit: self.limit.or((!self.json).then_some(DEFAULT_LIMIT)),
        };
        let mut source = if self.names {
            // The completion of a word starts no daemon.
            SessionSource::open_quietly(world)
        } else {
            SessionSource::open(world)
        };
        let mut rows = source.sessions(&query)?;
        if !self.names {
            rows.extend(launch_file::without_session(&world.place));
        }
        if self.all {
            rows.extend(unhooked_processes::find(&rows));
        }
        let any = !rows.is_empty();
        let project = self.project.as_deref().map(|folder| project(world, folder));
        rows.retain(|row| {
            project.as_deref().is_none_or(|project| is_in(row, project))
                && (self.display.is_empty() || is_shown_as(row, &self.display))
        });
        session::sort(&mut rows);
        if self.names {
            print!("{}", names(&rows));
        } else if self.json {
            let rows: Vec<_> = rows.iter().map(json).collect();
            println!("{}", text::json(&rows)?);
        } else if !rows.is_empty() {
            anstream::print!("{}", table(&rows, &Look::of_stdout()));
        } else if any {
            println!("No session matches.");
        } else {
            println!("{}", unhooked_processes::why_no_sessions(world));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Lists the shortest unique ids, each with a tab and the title, for the completions of shells.
fn names(rows: &[SessionRow]) -> String {
    let ids = session::words::ids(rows);
    let mut out = String::new();
    for row in rows {
        out += &ids[&*row.session_id];
        if let Some(title) = &row.title {
            out.push('\t');
            out += &text::one_line(title);
        }
        out.push('\n');
    }
    out
}

fn is_shown_as(row: &SessionRow, wanted: &[Display]) -> bool {
    row.hooked && row.ended_at.is_none() && wanted.contains(&row.display)
}

/// Returns the project of a folder, with links resolved as in the rows of sessions.
pub fn project(world: &World, folder: &Path) -> PathBuf {
    let folder = world.cwd.join(folder);
    let folder = folder.canonicalize().unwrap_or(folder);
    project_of(&folder).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_what_is_below_it() {
        let row = |project: Option<&str>, cwd: &str| SessionRow {
            project: project.map(str::to_owned),
            cwd: Some(cwd.to_owned()),
            ..SessionRow::default()
        };
        let api = Path::new("/w/api");
        assert!(is_in(&row(Some("/w/api"), "/elsewhere"), api));
        assert!(is_in(&row(None, "/w/api/src"), api));
        assert!(!is_in(&row(Some("/w/api-2"), "/w/api"), api));
    }
}
