//! The checks of `becket doctor`: one function for each part, with a result and a fix.

mod mod_checks;
pub mod settings_checks;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becket_daemon::lifecycle::now_ms;
use becket_daemon::store::{self, LoggedRun, RunQuery, lost, spool};
use becket_engine::config::{Loader, Snapshot};
use becket_engine::trust::Trust;
use becket_wire::Version;
use becket_wire::hook_run::{RunOutcome, RunRow};
use serde::Serialize;

use crate::claude::{self, version_of};
use crate::client::Client;
use crate::coverage::last_day;
use crate::failure::Failure;
use crate::hook_runs::query::Runs;
use crate::ui::style::counts;
use crate::ui::text;
use crate::ui::time::timestamp;
use crate::verb::gc;
use crate::world::{World, project_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Good,
    Warning,
    Broken,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub struct DoctorCheck {
    pub name: String,
    pub state: CheckState,
    pub what: String,
    /// The command that fixes the problem.
    #[serde(rename = "mend")]
    pub fix: Option<String>,
}

impl DoctorCheck {
    fn good(name: &str, what: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: CheckState::Good,
            what: what.into(),
            fix: None,
        }
    }

    fn warning(name: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: CheckState::Warning,
            what: what.into(),
            fix: Some(fix.into()),
        }
    }

    fn broken(name: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: CheckState::Broken,
            ..Self::warning(name, what, fix)
        }
    }
}

/// Runs all checks, in the order in which one part depends on another.
pub fn examine(world: &World) -> Vec<DoctorCheck> {
    let mut checks = programs(world);
    checks.push(claude());
    checks.extend(folders(world));
    // Without a home the other checks have no object, and doctor makes none.
    if world.place.home().exists() {
        let snapshot = world.loader(None).current();
        checks.push(config(&snapshot));
        checks.extend(trust(world));
        let (answers, daemon) = daemon(world, &snapshot);
        checks.extend(daemon);
        checks.extend(database(world));
        checks.extend(lost_events(world));
        checks.push(spool(world));
        // Without an answer each of these would wait for the daemon again.
        if answers || world.no_daemon {
            checks.extend(failing_hooks(world));
        }
        checks.extend(settings_checks::settings(world, answers));
        checks.extend(leftovers(world));
        checks.extend(mod_checks::mods(world));
        // After doctor's own event: calls before the first event do not count.
        if answers || world.no_daemon {
            checks.extend(coverage(world));
        }
    }
    checks
}

/// Names the files that are not needed any more, if there are some.
fn leftovers(world: &World) -> Option<DoctorCheck> {
    let summary = gc::summary(world).ok()??;
    Some(DoctorCheck::good("old files", summary))
}

/// Checks that both programs are in one folder and have one version.
pub(super) fn programs(world: &World) -> Vec<DoctorCheck> {
    let ours = Version::current();
    let shim = world.shim();
    let check = match version_of(&shim) {
        None if !shim.exists() => DoctorCheck::broken(
            "shim",
            format!("{} is missing", shim.display()),
            "./install (in becket's source)",
        ),
        None => DoctorCheck::broken(
            "shim",
            format!("{} does not run", shim.display()),
            "./install (in becket's source)",
        ),
        Some(said) if said != format!("becket-hook {ours}") => DoctorCheck::broken(
            "shim",
            format!(
                "{} says `{said}`, and this is becket {ours}",
                shim.display()
            ),
            "./install (in becket's source)",
        ),
        Some(said) => DoctorCheck::good("shim", format!("{said}, {}", shim.display())),
    };
    vec![
        DoctorCheck::good(
            "becket",
            format!("{ours}, {}", world.programs.join("becket").display()),
        ),
        check,
    ]
}

/// Checks Claude Code. A missing one is only a warning: becket can be set up first.
pub(super) fn claude() -> DoctorCheck {
    let name = "Claude Code";
    let Some(said) = claude::printed_version() else {
        let what = "`claude` is not on PATH";
        return DoctorCheck::warning(name, what, "npm install -g @anthropic-ai/claude-code");
    };
    match claude::too_old(&said, false) {
        Some(old) if old.is_useless => DoctorCheck::broken(name, old.why, "claude update"),
        Some(old) => DoctorCheck::warning(name, old.why, "claude update"),
        None => DoctorCheck::good(name, said),
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0, |meta| meta.mode())
}

/// Returns true if the real folder of a file is closed to other users.
fn is_out_of_reach(file: &Path) -> bool {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    real.parent()
        .is_some_and(|folder| mode_of(folder) & 0o077 == 0)
}

/// Checks that the home and its content exist, belong to the user, are closed to others, and can be
/// written.
pub(super) fn folders(world: &World) -> Vec<DoctorCheck> {
    let place = &world.place;
    let home = place.home();
    let name = "home";
    let Ok(meta) = std::fs::metadata(home) else {
        return vec![DoctorCheck::broken(
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
        return vec![DoctorCheck::broken(
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
    let folders = folders
        .into_iter()
        .map(|path| (path, 0o700, CheckState::Broken));
    let files = files
        .into_iter()
        .map(|path| (path, 0o600, CheckState::Warning));
    for (path, wanted, state) in folders.chain(files) {
        let mode = mode_of(&path);
        // Editors make files readable for all. In a closed folder that does no harm.
        let out_of_reach = path == place.config() && is_out_of_reach(&path);
        if mode & 0o077 != 0 && !out_of_reach {
            let path = path.display();
            let what = format!("{path} is open to others (mode {:o})", mode & 0o777);
            let fix = format!("chmod {wanted:o} {path}");
            checks.push(DoctorCheck {
                state,
                ..DoctorCheck::warning(name, what, fix)
            });
        }
    }
    // On a full disk a file can often be created but not written.
    let written = tempfile::NamedTempFile::new_in(place.home())
        .and_then(|mut file| file.write_all(&[0; 4096]));
    if let Err(why) = written {
        let what = format!("nothing can be written to {}: {why}", home.display());
        checks.push(DoctorCheck::broken(
            name,
            what,
            "make room on the disk, or make the folder writable",
        ));
    }
    if checks.is_empty() {
        checks.push(DoctorCheck::good(
            name,
            format!("{}, yours alone", home.display()),
        ));
    }
    checks
}

/// The age of the faults that count, in milliseconds: 7 days.
const FAULTS_OF: i64 = 7 * 24 * 60 * 60 * 1000;

pub(super) fn config(snapshot: &Snapshot) -> DoctorCheck {
    let errors: Vec<String> = snapshot.errors().map(ToString::to_string).collect();
    match (errors.first(), snapshot.problems.first()) {
        (Some(first), _) => DoctorCheck::broken("config", first.clone(), "becket config check"),
        (None, Some(first)) => {
            DoctorCheck::warning("config", first.to_string(), "becket config check")
        }
        (None, None) => DoctorCheck::good("config", "in order"),
    }
}

/// Checks the trust of the current project. Returns None if the project needs no trust.
pub(super) fn trust(world: &World) -> Option<DoctorCheck> {
    let snapshot = world.loader(Some(project_of(&world.cwd))).current();
    let project = snapshot.project.as_ref()?;
    if let Some(says) = project.message() {
        let what = says.split_once(". Run").map_or(&*says, |(first, _)| first);
        return Some(DoctorCheck::warning("trust", what, "becket trust"));
    }
    let waiting: Vec<&str> = snapshot.untrusted_hooks().collect();
    if !waiting.is_empty() && project.can_be_trusted() {
        let what = format!(
            "this project is not trusted, so these hooks start none of its tools: {}",
            waiting.join(", ")
        );
        return Some(DoctorCheck::warning("trust", what, "becket trust"));
    }
    let trusted = project.trust == Trust::Yes;
    trusted.then(|| DoctorCheck::good("trust", format!("{} is trusted", project.folder.display())))
}

/// Warns if the configuration switches masking off.
fn masking(world: &World) -> Option<DoctorCheck> {
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
    Some(DoctorCheck::warning(
        "masking",
        what,
        "set mask.enabled = true there",
    ))
}

/// Checks the daemon, which is started if needed. Returns true if it answered.
pub(super) fn daemon(world: &World, config: &Snapshot) -> (bool, Vec<DoctorCheck>) {
    if world.no_daemon {
        let what = "not used: BECKET_NO_DAEMON is set, so every event is judged without it";
        let unused = DoctorCheck::warning("daemon", what, "unset BECKET_NO_DAEMON");
        let mut checks = vec![unused];
        checks.extend(masking(world));
        return (false, checks);
    }
    let status = Client::connect_or_start(world).and_then(|mut client| client.status());
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            let broken =
                DoctorCheck::broken("daemon", format!("{error:#}"), daemon_fix(world, &error));
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
        timestamp(status.started_at)
    );
    checks.push(if status.version < Version::current() {
        DoctorCheck::warning(
            "daemon",
            format!("{what}; older than this becket"),
            "becket daemon stop && becket daemon start",
        )
    } else {
        DoctorCheck::good("daemon", what)
    });
    checks.push(DoctorCheck::good("socket", status.socket.clone()));
    checks.extend(masking(world));
    let told: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
    for trouble in status
        .troubles
        .iter()
        .filter(|trouble| !told.contains(trouble))
    {
        checks.push(DoctorCheck::warning(
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
        checks.push(DoctorCheck::warning(
            "since its start",
            odd.join(", "),
            "becket events shows what came",
        ));
    }
    (true, checks)
}

/// Returns the fix for a daemon that does not answer. A hung one may be killed: everything that it
/// answered is stored.
fn daemon_fix(world: &World, error: &anyhow::Error) -> String {
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

pub(super) fn database(world: &World) -> Vec<DoctorCheck> {
    let path = world.place.database();
    let opened = match store::open_to_read(&path) {
        Ok(Some(connection)) => connection,
        Ok(None) => {
            return vec![DoctorCheck::warning(
                "database",
                format!("{} does not exist yet", path.display()),
                "becket up",
            )];
        }
        Err(why) => {
            return vec![DoctorCheck::broken(
                "database",
                why.to_string(),
                "becket daemon start",
            )];
        }
    };
    let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let mut checks = vec![match store::count_events(&opened) {
        Ok(events) => DoctorCheck::good(
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
        Err(why) => DoctorCheck::broken(
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
            timestamp(newest.at),
            text::one_line(&newest.tool),
            newest.session
        );
        checks.push(DoctorCheck::broken(
            "denials",
            what,
            "look at the mods below",
        ));
    }
    if let Ok(Some(faults)) = store::faults(&opened, now_ms() - FAULTS_OF) {
        let what = format!(
            "{} with a fault in the last 7 days, the newest at {}: {}",
            text::count(faults.count as usize, "event", "events"),
            timestamp(faults.at),
            faults.fault
        );
        checks.push(DoctorCheck::warning(
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
        checks.push(DoctorCheck::warning(
            "database",
            what,
            format!("rm {}* once you do not need it", file.display()),
        ));
    }
    checks
}

/// Checks that guards saw the tool calls of the last day. Returns None if there were none.
fn coverage(world: &World) -> Option<DoctorCheck> {
    let name = "coverage";
    match last_day(world) {
        Ok((0, _)) => None,
        Ok((calls, None)) => {
            let calls = text::count(calls as usize, "tool call", "tool calls");
            let what = format!("guards saw every call of the last 24 hours: {calls}");
            Some(DoctorCheck::good(name, what))
        }
        Ok((_, Some(what))) => Some(DoctorCheck::warning(
            name,
            what,
            "becket guard coverage shows them",
        )),
        Err(why) => {
            let what = format!("the calls could not be compared: {why:#}");
            Some(DoctorCheck::warning(name, what, "becket guard coverage"))
        }
    }
}

/// The number of last runs of a hook that are checked.
const LAST_RUNS: usize = 5;
/// The age of the runs that are checked, in milliseconds: a day.
const RUNS_OF: i64 = 24 * 60 * 60 * 1000;

/// Warns of hooks that failed in all of their last runs.
fn failing_hooks(world: &World) -> Vec<DoctorCheck> {
    let query = RunQuery {
        since: Some(now_ms() - RUNS_OF),
        ..RunQuery::default()
    };
    let found = Runs::open(world).and_then(|runs| runs.find(&query));
    let mut by_hook: BTreeMap<String, Vec<RunRow>> = BTreeMap::new();
    // Runs with these outcomes were ended or go on. They say nothing about the hook.
    let unfinished = [
        RunOutcome::Cancelled,
        RunOutcome::Running,
        RunOutcome::Async,
        RunOutcome::CutOff,
        RunOutcome::Orphaned,
    ];
    for LoggedRun { run, .. } in found.unwrap_or_default() {
        let last = by_hook.entry(run.hook.clone()).or_default();
        if last.len() < LAST_RUNS && !unfinished.contains(&run.outcome) {
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
        let fix = format!("becket hooks recent --hook {hook} shows them");
        failed.then(|| DoctorCheck::warning("hooks", what, fix))
    });
    failing.collect()
}

/// Warns of events that could be written neither to the database nor to the spool.
fn lost_events(world: &World) -> Option<DoctorCheck> {
    let place = &world.place;
    let lost = lost::total(place);
    let what = text::count(
        usize::try_from(lost).unwrap_or(usize::MAX),
        "event",
        "events",
    );
    let files = lost::files_to_delete(place).into_iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    let what =
        format!("{what} could not be kept anywhere: the disk or the spool was full, or read-only");
    let fix = format!("make room on the disk; then: rm {}", files.join(" "));
    (lost > 0).then(|| DoctorCheck::broken("events", what, fix))
}

pub(super) fn spool(world: &World) -> DoctorCheck {
    let place = &world.place;
    let (files, bytes) = spool::usage(&place.spool());
    let bad = std::fs::read_dir(place.spool_bad()).map_or(0, Iterator::count);
    if bad > 0 {
        let what = format!(
            "{} without an event, put into {}",
            text::count(bad, "file", "files"),
            place.spool_bad().display()
        );
        return DoctorCheck::warning(
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
        return DoctorCheck::warning("spool", what, "becket daemon start");
    }
    DoctorCheck::good("spool", "empty")
}
