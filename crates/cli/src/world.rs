//! What the outside gave this call: environment, folders, the programs beside us. Read once, at
//! the edge; everything else takes it as values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_daemon::store;
use becket_engine::config::{Loader, Problem, parse_pairs};
use becket_engine::guard::memory::{self, Denied};
use becket_engine::replace;
use becket_wire::Place;
use becket_wire::process::parent_and_start;
use becket_wire::rpc::Ask;

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::settings;
use crate::ui::text::visible;

#[derive(Debug, Clone)]
pub struct World {
    pub place: Place,
    /// Where Claude Code keeps its user settings: `$CLAUDE_CONFIG_DIR`, else `~/.claude`.
    pub claude_home: Option<PathBuf>,
    pub cwd: PathBuf,
    /// The folder of this program, links resolved: `becket-hook` stands beside it.
    pub programs: PathBuf,
    /// `BECKET_NO_DAEMON=1`: nothing is started, nothing is written to the database.
    pub no_daemon: bool,
    /// What the config is besides its files, for this call alone.
    pub overrides: ConfigOverrides,
}

/// The layers of the config that are no file.
#[derive(Debug, Clone, Default)]
pub struct ConfigOverrides {
    /// The variables `BECKET_*`.
    pub variables: BTreeMap<String, String>,
    /// `--set`: keys and their values.
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
        // What is no text is no value either, and has to be told: the shim hands it on likewise.
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, text(value))))
            .filter(|(name, _)| name.starts_with("BECKET_"));
        Ok(Self {
            variables: variables.collect(),
            set,
        })
    }
}

impl World {
    /// Looks around. `home` and `set` are what `--home` and `--set` said.
    pub fn read(home: Option<PathBuf>, set: Vec<(String, String)>) -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        // A folder that was removed under us is no reason to fail: a hook must judge all the same.
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let user_home = folder("HOME");
        let said = home.map(|home| cwd.join(home));
        if said.is_none() {
            refuse_relative(folder("BECKET_HOME"))?;
        }
        let place =
            Place::find(said, folder("BECKET_HOME"), user_home.clone()).ok_or_else(|| {
                Failure::new(
                    Code::Usage,
                    "no home folder: neither --home, BECKET_HOME nor HOME is set",
                )
                .hint("set HOME, or pass --home FOLDER")
            })?;
        let claude_home =
            folder("CLAUDE_CONFIG_DIR").or_else(|| Some(user_home.as_ref()?.join(".claude")));
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

    /// The config of a project, or of none, as it counts for this call: every layer.
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

    /// Some verbs leave something behind that goes by the config: a value for one command is not for
    /// them.
    pub fn refuse_set(&self, verb: &str) -> Result<()> {
        if self.overrides.set.is_empty() {
            return Ok(());
        }
        let what = format!(
            "`becket {verb}` does not take --set: what it does stays, so it reads the config files only"
        );
        let failure = Failure::new(Code::Usage, what);
        let file = self.place.config();
        let hint = format!("write it into a config file, yours is {}", file.display());
        Err(failure.hint(hint).into())
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.place.socket(rustix::process::getuid().as_raw())
    }

    /// Some verbs are for the user only. They refuse where Claude Code's variables are set, which a
    /// process keeps when it leaves its parent (`nohup … &`), and below a Claude Code that becket knows.
    pub fn refuse_inside_claude(&self, verb: &str) -> Result<()> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let variable = ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"]
            .into_iter()
            .find(is_set);
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

    /// Finds the Claude Code above this process. A home that `--home` names may be new and know no
    /// session, so the homes that settings files register are asked too.
    fn claude_above(&self) -> Option<u32> {
        let ancestors = ancestors();
        let mut homes = vec![self.place.home().to_path_buf()];
        homes.extend(settings::registered_homes(self));
        homes.sort();
        homes.dedup();
        let worlds = homes.into_iter().map(|home| Self {
            place: Place::new(home),
            ..self.clone()
        });
        let mut known = worlds.filter_map(|world| world.known_process(&ancestors));
        known.next()
    }

    /// Returns the first of these processes that ran a session of this home.
    fn known_process(&self, processes: &[(u32, u64)]) -> Option<u32> {
        // An event that came a moment ago counts too.
        if let Ok(Some(mut client)) = Client::connect(self) {
            drop(client.execute(Ask::TakeIn));
        }
        let connection = store::open_to_read(&self.place.database()).ok()??;
        let is_known = |&&(pid, start): &&(u32, u64)| {
            store::knows_process(&connection, pid, start).unwrap_or(false)
        };
        processes.iter().find(is_known).map(|(pid, _)| *pid)
    }

    /// A home that was made by hand may be open to others: closes it, and says so.
    pub fn close_home(&self) {
        let home = self.place.home();
        if let Ok(Some(mode)) = replace::close_to_others(home) {
            let home = visible(&home.to_string_lossy());
            anstream::eprintln!("note: {home} was open to others (mode {mode:o}); now it is 700");
        }
    }

    /// The shim that gets registered with Claude Code.
    pub fn shim(&self) -> PathBuf {
        self.programs.join("becket-hook")
    }
}

/// In every folder it would be another home. The shim passes over it, since an event must be judged
/// all the same; a person has to know.
fn refuse_relative(home: Option<PathBuf>) -> Result<()> {
    match home.filter(|home| !home.is_absolute()) {
        None => Ok(()),
        Some(home) => {
            let what = format!("BECKET_HOME is not an absolute path: {}", home.display());
            let hint = "set it to a path that begins with /, or pass --home FOLDER";
            Err(Failure::new(Code::Usage, what).hint(hint).into())
        }
    }
}

/// The git root above a folder, else the folder itself.
pub fn project_of(cwd: &Path) -> &Path {
    let has_git = |folder: &&Path| folder.join(".git").exists();
    cwd.ancestors().find(has_git).unwrap_or(cwd)
}

/// Whether Claude Code has started this call, and says in which session.
pub fn is_inside_claude() -> bool {
    own_session().is_some()
}

/// The calls that guards denied and that a person can allow once, but for those of sessions that have
/// ended. None where Claude Code would read it: the codes are not for the model.
pub fn denied_calls(world: &World) -> Vec<Denied> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("CLAUDECODE") || is_inside_claude() {
        return Vec::new();
    }
    let mut denied = memory::denied(&world.place);
    // One that was killed has no SessionEnd, which would have removed its calls.
    if !denied.is_empty()
        && let Ok(Some(database)) = store::open_to_read(&world.place.database())
    {
        let has_ended = |id: &str| store::has_ended(&database, id).unwrap_or(false);
        denied.retain(|denied| !has_ended(&denied.session_id));
    }
    denied
}

/// The session of the Claude Code that has started this call.
pub fn own_session() -> Option<String> {
    let id = std::env::var("CLAUDE_CODE_SESSION_ID").ok();
    id.filter(|id| !id.is_empty())
}

/// The session that was named, else the one that this call comes from: Claude Code says it to what
/// it starts.
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

/// The processes above this one, with their start times.
fn ancestors() -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let mut pid = std::process::id();
    // A loop cannot happen; a bound costs nothing.
    while pid > 1 && found.len() < 256 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((parent, start)) = parent_and_start(&stat) else {
            break;
        };
        found.push((pid, start));
        pid = parent;
    }
    found
}
