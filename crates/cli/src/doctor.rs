//! What doctor looks at: one function a part, each giving a line, and a way to mend it.

mod mods;
pub mod registration;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becket_daemon::life::now_ms;
use becket_daemon::store::{self, FoundRun, RunQuery, lost, spool};
use becket_engine::config::{Loader, Snapshot};
use becket_engine::trust::Trust;
use becket_wire::Version;
use becket_wire::hook_run::{RunOutcome, RunRow};
use serde::Serialize;

use crate::claude::{self, version_of};
use crate::client::Client;
use crate::coverage::last_day;
use crate::failure::Failure;
use crate::run::source::Runs;
use crate::ui::style::counts;
use crate::ui::text;
use crate::ui::time::moment;
use crate::world::{World, project_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Good,
    Warning,
    Broken,
}

/// One part, and how it is.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: String,
    pub state: State,
    pub what: String,
    /// The command that mends it.
    pub mend: Option<String>,
}

impl Check {
    fn good(name: &str, what: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Good,
            what: what.into(),
            mend: None,
        }
    }

    fn warning(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Warning,
            what: what.into(),
            mend: Some(mend.into()),
        }
    }

    fn broken(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Broken,
            ..Self::warning(name, what, mend)
        }
    }
}

/// Looks at everything, in the order in which one part stands on another.
pub fn examine(world: &World) -> Vec<Check> {
    let mut checks = programs(world);
    checks.push(claude());
    checks.extend(folders(world));
    // Doctor makes no home.
    if world.place.home().exists() {
        let snapshot = world.loader(None).current();
        checks.push(config(&snapshot));
        checks.extend(trust(world));
        let (answers, daemon) = daemon(world, &snapshot);
        checks.extend(daemon);
        checks.extend(database(world));
        checks.extend(lost_events(world));
        checks.push(spool(world));
        // A daemon that does not answer is waited for once.
        if answers || world.no_daemon {
            checks.extend(failing_hooks(world));
        }
        checks.extend(registration::settings(world, answers));
        checks.extend(mods::mods(world));
        // After doctor's own event: calls before the first event do not count.
        if answers || world.no_daemon {
            checks.extend(coverage(world));
        }
    }
    checks
}

/// Both programs, side by side and of one version.
pub(super) fn programs(world: &World) -> Vec<Check> {
    let ours = Version::current();
    let shim = world.shim();
    let check = match version_of(&shim) {
        None if !shim.exists() => Check::broken(
            "shim",
            format!("{} is missing", shim.display()),
            "./install (in becket's source)",
        ),
        None => Check::broken(
            "shim",
            format!("{} does not run", shim.display()),
            "./install (in becket's source)",
        ),
        Some(said) if said != format!("becket-hook {ours}") => Check::broken(
            "shim",
            format!(
                "{} says `{said}`, and this is becket {ours}",
                shim.display()
            ),
            "./install (in becket's source)",
        ),
        Some(said) => Check::good("shim", format!("{said}, {}", shim.display())),
    };
    vec![
        Check::good(
            "becket",
            format!("{ours}, {}", world.programs.join("becket").display()),
        ),
        check,
    ]
}

/// Claude Code itself. becket can be set up before it.
pub(super) fn claude() -> Check {
    let name = "Claude Code";
    let Some(said) = claude::says() else {
        let what = "`claude` is not on PATH";
        return Check::warning(name, what, "npm install -g @anthropic-ai/claude-code");
    };
    match claude::too_old(&said, false) {
        Some(old) if old.is_useless => Check::broken(name, old.why, "claude update"),
        Some(old) => Check::warning(name, old.why, "claude update"),
        None => Check::good(name, said),
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0, |meta| meta.mode())
}

/// Whether the folder that the file really stands in is closed to others.
fn is_out_of_reach(file: &Path) -> bool {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    real.parent()
        .is_some_and(|folder| mode_of(folder) & 0o077 == 0)
}

/// The home and what is in it: there, ours, closed to others, and writable.
pub(super) fn folders(world: &World) -> Vec<Check> {
    let place = &world.place;
    let home = place.home();
    let name = "home";
    let Ok(meta) = std::fs::metadata(home) else {
        return vec![Check::broken(
            name,
            format!("{} does not exist", home.display()),
            "becket up",
        )];
    };
    let uid = rustix::process::getuid().as_raw();
    if meta.uid() != uid {
        let what = format!(
            "{} belongs to user {}, not to you",
            home.display(),
            meta.uid()
        );
        return vec![Check::broken(
            name,
            what,
            format!("sudo chown -R {uid} {}", home.display()),
        )];
    }
    let mut checks = Vec::new();
    let folders = [
        home.to_owned(),
        place.run(),
        place.spool(),
        place.log(),
        place.sessions(),
    ];
    let files = [place.database(), place.config(), place.mask_key()];
    let folders = folders.into_iter().map(|path| (path, 0o700, State::Broken));
    let files = files.into_iter().map(|path| (path, 0o600, State::Warning));
    for (path, wanted, state) in folders.chain(files) {
        let mode = mode_of(&path);
        // A person's editor makes it as it makes all files; in a closed folder that is well.
        let out_of_reach = path == place.config() && is_out_of_reach(&path);
        if mode & 0o077 != 0 && !out_of_reach {
            let path = path.display();
            let what = format!("{path} is open to others (mode {:o})", mode & 0o777);
            let mend = format!("chmod {wanted:o} {path}");
            checks.push(Check {
                state,
                ..Check::warning(name, what, mend)
            });
        }
    }
    // On a full disk a file can often be made, and nothing put into it.
    let written = tempfile::NamedTempFile::new_in(place.home())
        .and_then(|mut file| file.write_all(&[0; 4096]));
    if let Err(why) = written {
        let what = format!("nothing can be written to {}: {why}", home.display());
        checks.push(Check::broken(
            name,
            what,
            "make room on the disk, or make the folder writable",
        ));
    }
    if checks.is_empty() {
        checks.push(Check::good(
            name,
            format!("{}, yours alone", home.display()),
        ));
    }
    checks
}

/// Faults of so long count, in milliseconds: 7 days.
const FAULTS_OF: i64 = 7 * 24 * 60 * 60 * 1000;

pub(super) fn config(snapshot: &Snapshot) -> Check {
    let errors: Vec<String> = snapshot.errors().map(ToString::to_string).collect();
    match (errors.first(), snapshot.problems.first()) {
        (Some(first), _) => Check::broken("config", first.clone(), "becket config check"),
        (None, Some(first)) => Check::warning("config", first.to_string(), "becket config check"),
        (None, None) => Check::good("config", "in order"),
    }
}

/// Whether the project that doctor was called in counts; nothing where that makes no difference.
pub(super) fn trust(world: &World) -> Option<Check> {
    let snapshot = world.loader(Some(project_of(&world.cwd))).current();
    let project = snapshot.project.as_ref()?;
    if let Some(says) = project.says() {
        let what = says.split_once(". Run").map_or(&*says, |(first, _)| first);
        return Some(Check::warning("trust", what, "becket trust"));
    }
    let waiting: Vec<&str> = snapshot.untrusted_hooks().collect();
    if !waiting.is_empty() && project.can_be_trusted() {
        let what = format!(
            "this project is not trusted, so these hooks start none of its tools: {}",
            waiting.join(", ")
        );
        return Some(Check::warning("trust", what, "becket trust"));
    }
    let trusted = project.trust == Trust::Yes;
    trusted.then(|| Check::good("trust", format!("{} is trusted", project.folder.display())))
}

/// Whether the files switch masking off.
fn masking(world: &World) -> Option<Check> {
    let config = Loader::read_only(&world.place).current();
    if config.config.mask.enabled {
        return None;
    }
    let setting = config.settings.get("mask.enabled");
    let origin = setting.map(|setting| setting.origin.to_string());
    let what = format!(
        "off in {}: secrets are stored unmasked",
        origin.unwrap_or_default()
    );
    Some(Check::warning(
        "masking",
        what,
        "set mask.enabled = true there",
    ))
}

/// The daemon: started if need be, and asked how it is. Says whether it answered.
pub(super) fn daemon(world: &World, config: &Snapshot) -> (bool, Vec<Check>) {
    if world.no_daemon {
        let what = "not used: BECKET_NO_DAEMON is set, so every event is judged without it";
        let unused = Check::warning("daemon", what, "unset BECKET_NO_DAEMON");
        let mut checks = vec![unused];
        checks.extend(masking(world));
        return (false, checks);
    }
    let status = Client::connect_or_start(world).and_then(|mut client| client.status());
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            let broken = Check::broken("daemon", format!("{error:#}"), awake(world, &error));
            let mut checks = vec![broken];
            checks.extend(masking(world));
            return (false, checks);
        }
    };
    let mut checks = Vec::new();
    let what = format!(
        "{}, pid {}, since {}",
        status.version,
        status.pid,
        moment(status.started_at)
    );
    checks.push(if status.version < Version::current() {
        Check::warning(
            "daemon",
            format!("{what}; older than this becket"),
            "becket daemon stop && becket daemon start",
        )
    } else {
        Check::good("daemon", what)
    });
    checks.push(Check::good("socket", status.socket.clone()));
    checks.extend(masking(world));
    let told: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
    for trouble in status
        .troubles
        .iter()
        .filter(|trouble| !told.contains(trouble))
    {
        checks.push(Check::warning(
            "trouble",
            trouble.clone(),
            format!("look into {}", world.place.daemon_log().display()),
        ));
    }
    let passed = ["taken in from the spool", "lost"];
    let odd = counts(&status.counts)
        .into_iter()
        .filter(|(name, count)| *count > 0 && !passed.contains(name));
    let odd: Vec<String> = odd
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    if !odd.is_empty() {
        checks.push(Check::warning(
            "since its start",
            odd.join(", "),
            "becket events shows what came",
        ));
    }
    (true, checks)
}

/// How to get a daemon that answers: what it answered for is kept, so a hung one may be killed.
fn awake(world: &World, error: &anyhow::Error) -> String {
    let failure = error.downcast_ref::<Failure>();
    if let Some(hint) = failure
        .and_then(Failure::hinted)
        .filter(|hint| hint.starts_with("kill"))
    {
        return hint.to_owned();
    }
    let hung = failure.is_some_and(Failure::is_late);
    match std::fs::read_to_string(world.place.life_lock()) {
        Ok(pid) if hung => format!("kill -9 {}; then: becket daemon start", pid.trim()),
        _ => format!("look into {}", world.place.daemon_log().display()),
    }
}

pub(super) fn database(world: &World) -> Vec<Check> {
    let path = world.place.database();
    let opened = match store::open_to_read(&path) {
        Ok(Some(connection)) => connection,
        Ok(None) => {
            return vec![Check::warning(
                "database",
                format!("{} does not exist yet", path.display()),
                "becket up",
            )];
        }
        Err(why) => {
            return vec![Check::broken(
                "database",
                why.to_string(),
                "becket daemon start",
            )];
        }
    };
    let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let mut checks = vec![match store::count(&opened) {
        Ok(events) => Check::good(
            "database",
            format!(
                "{}, {:.1} MB, {}",
                text::count(
                    usize::try_from(events).unwrap_or(usize::MAX),
                    "event",
                    "events"
                ),
                size as f64 / 1e6,
                path.display()
            ),
        ),
        Err(why) => Check::broken(
            "database",
            format!("{}: {why}", path.display()),
            "becket daemon stop && becket daemon start",
        ),
    }];
    if let Ok(ran) = store::ran_denied(&opened, now_ms() - FAULTS_OF)
        && let Some(newest) = ran.last()
    {
        let what = format!(
            "{} that becket had denied ran in the last 7 days, the newest at {}: {} of session {}",
            text::count(ran.len(), "call", "calls"),
            moment(newest.at),
            text::one_line(&newest.tool),
            newest.session
        );
        checks.push(Check::broken("denials", what, "look at the mods below"));
    }
    if let Ok(Some(faults)) = store::faults(&opened, now_ms() - FAULTS_OF) {
        let what = format!(
            "{} with a fault in the last 7 days, the newest at {}: {}",
            text::count(faults.count as usize, "event", "events"),
            moment(faults.at),
            faults.fault
        );
        checks.push(Check::warning(
            "events",
            what,
            "becket events --limit 500 shows it",
        ));
    }
    let damaged = std::fs::read_dir(world.place.home())
        .into_iter()
        .flatten()
        .flatten();
    let damaged = damaged.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("becket.db.damaged-")
    });
    for entry in damaged.filter(|entry| !entry.file_name().to_string_lossy().ends_with(['l', 'm']))
    {
        let file = entry.path();
        let what = format!("a damaged database was set aside as {}", file.display());
        checks.push(Check::warning(
            "database",
            what,
            format!("rm {}* once you do not need it", file.display()),
        ));
    }
    checks
}

/// Whether guards saw the tool calls of the last day. Nothing where there were none.
fn coverage(world: &World) -> Option<Check> {
    let name = "coverage";
    match last_day(world) {
        Ok((0, _)) => None,
        Ok((calls, None)) => {
            let calls = text::count(calls as usize, "tool call", "tool calls");
            let what = format!("guards saw every call of the last 24 hours: {calls}");
            Some(Check::good(name, what))
        }
        Ok((_, Some(what))) => Some(Check::warning(name, what, "becket coverage shows them")),
        Err(why) => {
            let what = format!("the calls could not be compared: {why:#}");
            Some(Check::warning(name, what, "becket coverage"))
        }
    }
}

/// A hook's last so many runs of the last day are looked at, in milliseconds.
const LAST_RUNS: usize = 5;
const RUNS_OF: i64 = 24 * 60 * 60 * 1000;

/// The hooks that failed in all of their last runs.
fn failing_hooks(world: &World) -> Vec<Check> {
    let query = RunQuery {
        since: Some(now_ms() - RUNS_OF),
        ..RunQuery::default()
    };
    let found = Runs::open(world).and_then(|runs| runs.find(&query));
    let mut by_hook: BTreeMap<String, Vec<RunRow>> = BTreeMap::new();
    // The others were ended, or go on: they say nothing of the hook.
    let tells = |run: &RunRow| {
        !matches!(
            run.outcome,
            RunOutcome::Cancelled
                | RunOutcome::Running
                | RunOutcome::Async
                | RunOutcome::CutOff
                | RunOutcome::Orphaned
        )
    };
    for FoundRun { run, .. } in found.unwrap_or_default() {
        let last = by_hook.entry(run.hook.clone()).or_default();
        if last.len() < LAST_RUNS && tells(&run) {
            last.push(run);
        }
    }
    let failing = by_hook.into_iter().filter_map(|(hook, last)| {
        let newest = last.first()?;
        let failed = last.iter().all(|run| run.outcome != RunOutcome::Ok);
        let often = match last.len() {
            1 => "its last run".to_owned(),
            many => format!("all of its last {many} runs"),
        };
        let why = text::one_line(newest.note.as_deref().unwrap_or(newest.outcome.as_str()));
        let what = format!("{hook} failed in {often}: {why}");
        let mend = format!("becket recent --hook {hook} shows them");
        failed.then(|| Check::warning("hooks", what, mend))
    });
    failing.collect()
}

/// The events that neither the database nor the spool took.
fn lost_events(world: &World) -> Option<Check> {
    let place = &world.place;
    let lost = lost::counted(place);
    let what = text::count(
        usize::try_from(lost).unwrap_or(usize::MAX),
        "event",
        "events",
    );
    let files = lost::to_forget(place).into_iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    let what =
        format!("{what} could not be kept anywhere: the disk or the spool was full, or read-only");
    let mend = format!("make room on the disk; then: rm {}", files.join(" "));
    (lost > 0).then(|| Check::broken("events", what, mend))
}

pub(super) fn spool(world: &World) -> Check {
    let place = &world.place;
    let (files, bytes) = spool::usage(&place.spool());
    let bad = std::fs::read_dir(place.spool_bad()).map_or(0, Iterator::count);
    if bad > 0 {
        let what = format!(
            "{} without an event, put into {}",
            text::count(bad, "file", "files"),
            place.spool_bad().display()
        );
        return Check::warning(
            "spool",
            what,
            format!("look at them, then rm -r {}", place.spool_bad().display()),
        );
    }
    if files > 0 {
        let what = format!(
            "not taken in yet: {} ({:.1} MB)",
            text::count(files, "file", "files"),
            bytes as f64 / 1e6
        );
        return Check::warning("spool", what, "becket daemon start");
    }
    Check::good("spool", "empty")
}
