//! `becket disable` and `becket enable`: find the session and the hooks of its project, then switch them with the
//! code that answers the slash commands.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::config::Snapshot;
use becket_engine::hooks::slash::{ALL, SlashContext, SlashReply, SlashVerb, act};
use becket_wire::id::parse_uuid;
use becket_wire::session::{SessionQuery, SessionRow};

use crate::failure::{Code, Failure};
use crate::session::source::SessionSource;
use crate::session::source::sessions_without_daemon;
use crate::session::{self, words};
use crate::ui::style::WARN;
use crate::ui::text::visible;
use crate::world::{World, own_session, project_of};

/// The most bytes of hook names that are read from stdin.
const MAX_STDIN: u64 = 64 << 10;

/// The arguments of `disable` and `enable`.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// The hooks: their names, or parts that only one has; - reads them from stdin (default: list them)
    #[arg(value_name = "NAME")]
    hook: Vec<String>,
    /// All hooks of this project
    #[arg(long, short, conflicts_with = "hook")]
    all: bool,
    /// The session: the first characters of its id, or its title (inside Claude Code: its own; else the
    /// one that lives in this project)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// For slash commands: always exit with 0
    #[arg(long)]
    slash: bool,
}

impl SwitchArgs {
    pub fn new(hook: Vec<String>, session: Option<String>) -> Self {
        Self {
            hook,
            session,
            all: false,
            slash: false,
        }
    }

    pub fn run(self, verb: SlashVerb, world: &World) -> Result<ExitCode> {
        let slash = self.slash;
        match self.act(verb, world) {
            Ok(reply) => {
                println!("{}", reply.lines);
                let code = if slash { 0 } else { reply.exit };
                Ok(ExitCode::from(code))
            }
            // A slash command shows its output to a person even if it fails.
            Err(error) if slash => {
                println!("❌ {error:#}");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        }
    }

    fn act(self, verb: SlashVerb, world: &World) -> Result<SlashReply> {
        let name = if self.all {
            ALL.to_owned()
        } else {
            read_names(&self.hook)?
        };
        let target = SwitchTarget::find(world, self.session.as_deref())?;
        let config = project_config(world, &target.project);
        let context = SlashContext {
            place: &world.place,
            session: &target.session,
            cwd: &world.cwd,
            agent_type: None,
            hooks: &config.hooks,
            guards: &config.guards,
        };
        Ok(act(verb, &name, &context))
    }
}

/// Reads the config of a project, and warns of its errors: they may be the reason why a hook is missing.
pub fn project_config(world: &World, project: &Path) -> Arc<Snapshot> {
    let config = world.loader(Some(project)).current();
    for error in config.errors() {
        let error = error.to_string();
        let first = visible(error.lines().next().unwrap_or_default());
        anstream::eprintln!("{WARN}warning:{WARN:#} {first} (`becket config check` shows it)");
    }
    config
}

/// Returns the names as typed, or from stdin. Returns an empty text if there are none.
pub fn read_names(typed: &[String]) -> Result<String> {
    if typed != ["-"] {
        return Ok(typed.join(" ").trim().to_owned());
    }
    let mut text = String::new();
    let mut stdin = io::stdin().lock().take(MAX_STDIN);
    let read = stdin.read_to_string(&mut text);
    read.context("could not read the name from stdin")?;
    Ok(text.trim().to_owned())
}

/// The most live sessions that an error lists.
const OFFERED: usize = 20;

/// The session that a switch is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTarget {
    pub session: String,
    /// The project of the session. For an unknown session, the project of the working folder.
    pub project: PathBuf,
}

impl SwitchTarget {
    /// Returns the named session, else the one that has started this call, else the only live one of this project.
    /// The error lists the live ones.
    pub fn find(world: &World, named: Option<&str>) -> Result<Self> {
        let named = named.filter(|id| !id.is_empty());
        match named.map(str::to_owned).or_else(own_session) {
            // A complete id needs no search.
            Some(id) if named.is_none() || parse_uuid(&id).is_some() => {
                let row = stored(world, &id);
                Ok(Self::of(world, id, row.as_ref()))
            }
            Some(beginning) => {
                let row = SessionSource::open(world).find(&beginning)?;
                Ok(Self::of(world, row.session_id.clone(), Some(&row)))
            }
            None => {
                let (rows, project) = living_here(world);
                let mut of_project = rows
                    .iter()
                    .filter(|row| row.project.as_deref().map(Path::new) == Some(&project));
                let (Some(row), None) = (of_project.next(), of_project.next()) else {
                    let what = "Which session? Pass --session ID";
                    return Err(Failure::new(Code::Usage, what).hint(offer(&rows)).into());
                };
                let about: String = words::about(row).chars().take(60).collect();
                let line = format!("session {}  {about}", row.session_id);
                anstream::eprintln!("{}", line.trim_end());
                Ok(Self::of(world, row.session_id.clone(), Some(row)))
            }
        }
    }

    /// Returns the named session, else the one that has started this call, and none if there is neither.
    pub fn find_if_named(world: &World, named: Option<&str>) -> Result<Option<Self>> {
        if named.is_none_or(str::is_empty) && own_session().is_none() {
            return Ok(None);
        }
        Self::find(world, named).map(Some)
    }

    fn of(world: &World, session: String, row: Option<&SessionRow>) -> Self {
        let project = row
            .and_then(|row| row.project.as_deref())
            .map(PathBuf::from);
        Self {
            session,
            project: project.unwrap_or_else(|| project_of(&world.cwd).to_path_buf()),
        }
    }
}

/// Reads the session's row from the database, without a daemon.
fn stored(world: &World, session: &str) -> Option<SessionRow> {
    let query = SessionQuery {
        session: Some(session.to_owned()),
        all: true,
        limit: None,
    };
    let rows = sessions_without_daemon(world, &query).ok()?;
    rows.into_iter()
        .find(|row| row.session_id.eq_ignore_ascii_case(session))
}

/// Returns the live sessions of this project and of folders below it, and the project.
fn living_here(world: &World) -> (Vec<SessionRow>, PathBuf) {
    let query = SessionQuery::default();
    let mut rows = SessionSource::open(world)
        .sessions(&query)
        .unwrap_or_default();
    let here = world.cwd.canonicalize();
    let here = here.unwrap_or_else(|_| world.cwd.clone());
    let project = project_of(&here);
    rows.retain(|row| is_in(row, project));
    session::sort(&mut rows);
    (rows, project.to_path_buf())
}

/// Returns true if the session works in this project or in a folder below it.
pub fn is_in(row: &SessionRow, project: &Path) -> bool {
    let place = row.project.as_deref().or(row.cwd.as_deref());
    place.is_some_and(|place| Path::new(place).starts_with(project))
}

/// Makes the hint that lists the live sessions.
fn offer(rows: &[SessionRow]) -> String {
    if rows.is_empty() {
        return "no session lives in this project (`becket sessions --all` shows the others)"
            .to_owned();
    }
    let mut hint = "these live in this project:".to_owned();
    for row in rows.iter().take(OFFERED) {
        let about: String = words::about(row).chars().take(60).collect();
        let line = format!("\n  {}  {}  {about}", row.session_id, words::state(row));
        hint += line.trim_end();
    }
    hint
}
