//! The switch on the command line: which session is meant, which hooks its project has, and what
//! was asked, done by the same hands that answer the slash commands.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::config::Snapshot;
use becket_engine::hooks::slash::{ALL, Acted, Scene, Verb, act};
use becket_wire::id::parse_uuid;
use becket_wire::session::{SessionQuery, SessionRow};

use crate::failure::{Code, Failure};
use crate::session::source::SessionSource;
use crate::session::source::sessions_without_daemon;
use crate::session::{self, words};
use crate::ui::style::WARN;
use crate::ui::text::visible;
use crate::world::{World, own_session, project_of};

/// No hook has a longer name.
const LONGEST: u64 = 64 << 10;

/// What `disable` and `enable` take.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// The hooks: their names, or parts that only one has; - reads them from stdin (default: list them)
    #[arg(value_name = "NAME")]
    hook: Vec<String>,
    /// All hooks of this project
    #[arg(long, short, conflicts_with = "hook")]
    all: bool,
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own; else the
    /// one that lives in this project)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// For slash commands: always exit with 0
    #[arg(long)]
    slash: bool,
}

impl SwitchArgs {
    pub fn run(self, verb: Verb, world: &World) -> Result<ExitCode> {
        let slash = self.slash;
        match self.act(verb, world) {
            Ok(acted) => {
                println!("{}", acted.lines);
                let code = if slash { 0 } else { acted.exit };
                Ok(ExitCode::from(code))
            }
            // What a slash command prints is read by a person all the same.
            Err(error) if slash => {
                println!("❌ {error:#}");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        }
    }

    fn act(self, verb: Verb, world: &World) -> Result<Acted> {
        let name = match self.all {
            true => ALL.to_owned(),
            false => names(&self.hook)?,
        };
        let meant = Meant::find(world, self.session.as_deref())?;
        let config = configured(world, &meant.project);
        let scene = Scene {
            place: &world.place,
            session: &meant.session,
            cwd: &world.cwd,
            agent_type: None,
            hooks: &config.hooks,
            guards: &config.guards,
        };
        Ok(act(verb, &name, &scene))
    }
}

/// The config of a project. What is wrong with it is told: a hook that is not
/// there may be one that does not count.
pub fn configured(world: &World, project: &Path) -> Arc<Snapshot> {
    let config = world.loader(Some(project)).current();
    for error in config.errors() {
        let said = error.to_string();
        let first = visible(said.lines().next().unwrap_or_default());
        anstream::eprintln!("{WARN}warning:{WARN:#} {first} (`becket config check` shows it)");
    }
    config
}

/// The names as they were typed, or as stdin has them; empty if there are none.
pub fn names(typed: &[String]) -> Result<String> {
    if typed != ["-"] {
        return Ok(typed.join(" ").trim().to_owned());
    }
    let mut text = String::new();
    let mut stdin = io::stdin().lock().take(LONGEST);
    let read = stdin.read_to_string(&mut text);
    read.context("could not read the name from stdin")?;
    Ok(text.trim().to_owned())
}

/// So many live sessions are offered.
const OFFERED: usize = 20;

/// The session that a switch is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    pub session: String,
    /// Where it works; an unknown one: where we stand.
    pub project: PathBuf,
}

impl Meant {
    /// The one that was named, else the one that calls us, else the only one that lives in this project.
    /// None is an error that says which live.
    pub fn find(world: &World, named: Option<&str>) -> Result<Self> {
        let named = named.filter(|id| !id.is_empty());
        match named.map(str::to_owned).or_else(own_session) {
            // A whole id needs no look-up.
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
                let is_here =
                    |row: &&SessionRow| row.project.as_deref().map(Path::new) == Some(&project);
                let mut exactly = rows.iter().filter(is_here);
                let (Some(row), None) = (exactly.next(), exactly.next()) else {
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

    /// The same, for who can do without.
    pub fn if_any(world: &World, named: Option<&str>) -> Result<Option<Self>> {
        if named.is_none_or(str::is_empty) && own_session().is_none() {
            return Ok(None);
        }
        Self::find(world, named).map(Some)
    }

    fn of(world: &World, session: String, row: Option<&SessionRow>) -> Self {
        let here = || project_of(&world.cwd).to_path_buf();
        let project = row
            .and_then(|row| row.project.as_deref())
            .map(PathBuf::from);
        Self {
            session,
            project: project.unwrap_or_else(here),
        }
    }
}

/// What the database knows of it. No daemon is needed for that, and none is started.
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

/// The sessions that live in this project or below it, and the project.
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

fn is_in(row: &SessionRow, project: &Path) -> bool {
    let place = row.project.as_deref().or(row.cwd.as_deref());
    place.is_some_and(|place| Path::new(place).starts_with(project))
}

fn offer(rows: &[SessionRow]) -> String {
    if rows.is_empty() {
        return "no session lives in this project (`becket sessions --all` shows the others)"
            .to_owned();
    }
    let line = |row: &SessionRow| {
        let about = words::about(row);
        let about: String = about.chars().take(60).collect();
        format!("\n  {}  {}  {about}", row.session_id, words::state(row))
            .trim_end()
            .to_owned()
    };
    let lines: String = rows.iter().take(OFFERED).map(line).collect();
    format!("these live in this project:{lines}")
}
