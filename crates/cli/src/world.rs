//! The surroundings of this call: environment, folders, and the programs beside this one. They are read once, and
//! handed on as values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_daemon::store;
use becket_engine::config::{Loader, Problem, parse_pairs};
use becket_engine::guard::memory::{self, Denied};
use becket_engine::replace;
use becket_wire::Place;
use becket_wire::rpc::Ask;

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::settings;
use crate::ui::text::visible;

/// The surroundings of this call.
#[derive(Debug, Clone)]
pub struct World {
    /// becket's home.
    pub place: Place,
    /// The folder of Claude Code's user settings: `$CLAUDE_CONFIG_DIR`, else `~/.claude`.
    pub claude_home: Option<PathBuf>,
    pub cwd: PathBuf,
    /// The folder of this program, links resolved. It holds `becket-hook`, too.
    pub programs: PathBuf,
    /// True if `BECKET_NO_DAEMON` is set: no daemon is started, and nothing is written to the database.
    pub no_daemon: bool,
    /// The config values that hold for this call only.
    pub overrides: ConfigOverrides,
}

/// The layers of the config that are not files.
#[derive(Debug, Clone, Default)]
pub struct ConfigOverrides {
    /// The variables `BECKET_*`.
    pub variables: BTreeMap<String, String>,
    /// The keys and values of `--set`.
    pub set: Vec<(String, String)>,
}

impl ConfigOverrides {
    fn read(set: Vec<(String, String)>) -> Result<Self> {
        let (_, errors) = parse_pairs(set.iter().map(|(key, value)| (&**key, &**value)));
        if let Some(Problem { message, hint, .. }) = errors.into_iter().next() {
            let failure = Failure::new(Code::Usage, format!("--set: {message}"));
            return Err(match hint {
                Some(hint) => failure.hint(hint).into(),
                None => failure.into(),
            });
        }
        // A value that is not UTF-8 stays in the list, so that it is reported as wrong. The shim does the same.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((
                    name.into_string().ok()?,
                    value.to_string_lossy().into_owned(),
                ))
            })
            .filter(|(name, _)| name.starts_with("BECKET_"));
        Ok(Self {
            variables: variables.collect(),
            set,
        })
    }
}

impl World {
    /// Reads the environment. `home` and `set` are the values of `--home` and `--set`.
    pub fn read(home: Option<PathBuf>, set: Vec<(String, String)>) -> Result<Self> {
        // A deleted working folder is no reason to fail: a hook must judge its event all the same.
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let user_home = folder_variable("HOME");
        let becket_home = folder_variable("BECKET_HOME");
        let given = home.map(|home| cwd.join(home));
        if given.is_none() {
            refuse_relative(becket_home.as_deref())?;
        }
        let place = Place::find(given, becket_home, user_home.clone()).ok_or_else(|| {
            Failure::new(
                Code::Usage,
                "no home folder: neither --home, BECKET_HOME nor HOME is set",
            )
            .hint("set HOME, or pass --home FOLDER")
        })?;
        let claude_home = folder_variable("CLAUDE_CONFIG_DIR")
            .or_else(|| Some(user_home.as_ref()?.join(".claude")));
        let program = std::env::current_exe().context("could not find this program's own file")?;
        let programs = program.parent().unwrap_or(Path::new("/")).to_path_buf();
        Ok(Self {
            place,
            claude_home,
            cwd,
            programs,
            no_daemon: variable("BECKET_NO_DAEMON").is_some_and(|value| value != "0"),
            overrides: ConfigOverrides::read(set)?,
        })
    }

    /// Returns a loader of all config layers for this call, with the files of the project, if there is one.
    pub fn loader(&self, project: Option<&Path>) -> Loader {
        let loader = match project {
            Some(project) => Loader::for_project(&self.place, project),
            None => Loader::read_only(&self.place),
        };
        let ConfigOverrides { variables, set } = &self.overrides;
        loader
            .with_variables(variables.iter().map(|(name, value)| (&**name, &**value)))
            .with_pairs(set.iter().map(|(key, value)| (&**key, &**value)))
    }

    /// Refuses `--set` for a verb whose effect outlives the command: it must follow from the config files alone.
    pub fn refuse_set(&self, verb: &str) -> Result<()> {
        if self.overrides.set.is_empty() {
            return Ok(());
        }
        let what = format!(
            "`becket {verb}` does not take --set: its effect is permanent, so it reads the config files only"
        );
        let failure = Failure::new(Code::Usage, what);
        let file = self.place.config();
        let hint = format!("write it into a config file, yours is {}", file.display());
        Err(failure.hint(hint).into())
    }

    /// Returns the path of the daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.socket(rustix::process::getuid().as_raw())
    }

    /// Refuses a verb for the user only, if Claude Code's variables are set, which a process keeps when it leaves
    /// its parent (`nohup … &`), or if a Claude Code that becket knows is among the parent processes.
    pub fn refuse_inside_claude(&self, verb: &str) -> Result<()> {
        let variable = ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"]
            .into_iter()
            .find(|name| variable(name).is_some());
        let sign = match variable {
            Some(name) => Some(format!("{name} is set")),
            None => self.claude_above().map(|pid| format!("process {pid}")),
        };
        let Some(sign) = sign else { return Ok(()) };
        let what = format!(
            "`becket {verb}` was called from inside Claude Code ({sign}); only you may call it"
        );
        let hint = format!("run `becket {verb}` in a terminal of your own");
        Err(Failure::new(Code::Failed, what).hint(hint).into())
    }

    /// Finds a Claude Code among the parent processes. A home that `--home` names may be new and have no sessions,
    /// so the homes that settings files register are read too.
    fn claude_above(&self) -> Option<u32> {
        let mut homes = vec![self.place.home().to_path_buf()];
        homes.extend(settings::registered_homes(self));
        homes.sort();
        homes.dedup();
        let worlds = homes.into_iter().map(|home| Self {
            place: Place::new(home),
            ..self.clone()
        });
        let mut known = worlds.filter_map(|world| world.known_process());
        known.next()
    }

    /// Returns the first process above this one that ran a session of this home.
    fn known_process(&self) -> Option<u32> {
        // An event that came a moment ago counts too.
        if let Ok(Some(mut client)) = Client::connect(self) {
            drop(client.execute(Ask::TakeIn));
        }
        store::claude_above(&self.place.database(), std::process::id())
    }

    /// Closes the home to other users, and reports it if the home was open, as one that was made by hand may be.
    pub fn close_home(&self) {
        let home = self.place.home();
        if let Ok(Some(mode)) = replace::close_to_others(home) {
            let home = visible(&home.to_string_lossy());
            anstream::eprintln!("note: {home} was open to others (mode {mode:o}); now it is 700");
        }
    }

    /// Returns the path of the shim that is registered with Claude Code.
    pub fn shim(&self) -> PathBuf {
        self.programs.join("becket-hook")
    }
}

/// Returns the value of a variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn folder_variable(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// Refuses a relative `BECKET_HOME`, which would be another home in every folder. The shim ignores such a value,
/// since an event must be judged all the same.
fn refuse_relative(home: Option<&Path>) -> Result<()> {
    let Some(home) = home.filter(|home| !home.is_absolute()) else {
        return Ok(());
    };
    let what = format!("BECKET_HOME is not an absolute path: {}", home.display());
    let hint = "set it to a path that begins with /, or pass --home FOLDER";
    Err(Failure::new(Code::Usage, what).hint(hint).into())
}

/// Returns the git root above a folder, else the folder itself.
pub fn project_of(cwd: &Path) -> &Path {
    cwd.ancestors()
        .find(|folder| folder.join(".git").exists())
        .unwrap_or(cwd)
}

/// Returns true if Claude Code has started this call and names its session.
pub fn is_inside_claude() -> bool {
    own_session().is_some()
}

/// Returns the denied calls of live sessions that a person can allow once. Returns none inside Claude Code: the
/// codes are not for the model.
pub fn denied_calls(world: &World) -> Vec<Denied> {
    if variable("CLAUDECODE").is_some() || is_inside_claude() {
        return Vec::new();
    }
    let mut denied = memory::denied(&world.place);
    // A session that was killed has no SessionEnd, which would have removed its calls.
    if !denied.is_empty()
        && let Ok(Some(database)) = store::open_to_read(&world.place.database())
    {
        denied.retain(|call| !store::has_ended(&database, &call.session_id).unwrap_or(false));
    }
    denied
}

/// Returns the session of the Claude Code that has started this call.
pub fn own_session() -> Option<String> {
    let id = std::env::var("CLAUDE_CODE_SESSION_ID").ok();
    id.filter(|id| !id.is_empty())
}

/// Returns the named session, else the session of the Claude Code that has started this call.
pub fn the_session(named: Option<String>) -> Result<String> {
    named
        .filter(|id| !id.is_empty())
        .or_else(own_session)
        .ok_or_else(|| {
            Failure::new(Code::Usage, "Which session? Pass its id")
                .hint("becket sessions shows the ids")
                .into()
        })
}
