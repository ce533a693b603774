//! The checks of `becket doctor`: one function for each part, with a result and a fix.

mod mod_checks;
pub mod settings_checks;

use std::collections::BTreeMap;
use std::fs;
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
            state: CheckState::Warning,
            fix: Some(fix.into()),
            ..Self::good(name, what)
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
    let mut checks = vec![becket(world), shim(world), claude()];
    checks.extend(folders(world));
    // Without a home the other checks have no object, and doctor makes none.
    if !world.place.home().exists() {
        return checks;
    }
    let snapshot = world.loader(None).current();
    checks.push(config(&snapshot));
    checks.extend(trust(world));
    let (answers, daemon) = daemon(world, &snapshot);
    checks.extend(daemon);
    checks.extend(masking(world));
    checks.extend(database(world));
    checks.extend(lost_events(world));
    checks.push(spool(world));
    // Without an answer each of these would wait for the daemon again.
    if answers || world.no_daemon {
        checks.extend(failing_hooks(world));
        checks.extend(leftovers(world));
    }
    checks.extend(settings_checks::settings(world, answers));
    checks.extend(mod_checks::mods(world));
    // After doctor's own event: calls before the first event do not count.
    if answers || world.no_daemon {
        checks.extend(coverage(world));
    }
    checks
}

/// Names the files that are not needed any more, if there are some.
fn leftovers(world: &World) -> Option<DoctorCheck> {
    let summary = gc::summary(world).ok()??;
    Some(DoctorCheck::good("old files", summary))
}

fn becket(world: &World) -> DoctorCheck {
    let program = world.programs.join("becket");
    let what = format!("{}, {}", Version::current(), program.display());
    DoctorCheck::good("becket", what)
}

/// Checks that the shim is in becket's folder and has becket's version.
fn shim(world: &World) -> DoctorCheck {
    let ours = Version::current();
    let shim = world.shim();
    let path = shim.display();
    let what = match version_of(&shim) {
        Some(said) if said == format!("becket-hook {ours}") => {
            return DoctorCheck::good("shim", format!("{said}, {path}"));
        }
        Some(said) => format!("{path} says `{said}`, and this is becket {ours}"),
        None if shim.exists() => format!("{path} does not run"),
        None => format!("{path} is missing"),
    };
    DoctorCheck::broken("shim", what, "./install (in becket's source)")
}

/// Checks Claude Code. A missing one is only a warning: becket can be set up first.
fn claude() -> DoctorCheck {
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
    fs::metadata(path).map_or(0, |meta| meta.mode())
}

/// Returns true if the real folder of a file is closed to other users.
fn is_out_of_reach(file: &Path) -> bool {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    real.parent()
        .is_some_and(|folder| mode_of(folder) & 0o077 == 0)
}

/// Checks that the home and its content exist, belong to the user, are closed to others, and can be
/// written.
fn folders(world: &World) -> Vec<DoctorCheck> {
    let place = &world.place;
    let home = place.home().display();
    let name = "home";
    let Ok(meta) = fs::metadata(place.home()) else {
        let what = format!("{home} does not exist");
        return vec![DoctorCheck::broken(name, what, "becket up")];
    };
    let (uid, owner) = (rustix::process::getuid().as_raw(), meta.uid());
    if owner != uid {
        let what = format!("{home} belongs to user {owner}, not to you");
        let fix = format!("sudo chown -R {uid} {home}");
        return vec![DoctorCheck::broken(name, what, fix)];
    }
    let mut checks = Vec::new();
    for (path, wanted, state) in [
        (place.home().to_owned(), 0o700, CheckState::Broken),
        (place.run(), 0o700, CheckState::Broken),
        (place.spool(), 0o700, CheckState::Broken),
        (place.log(), 0o700, CheckState::Broken),
        (place.sessions(), 0o700, CheckState::Broken),
        (place.database(), 0o600, CheckState::Warning),
        (place.config(), 0o600, CheckState::Warning),
        (place.mask_key(), 0o600, CheckState::Warning),
    ] {
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
        let what = format!("nothing can be written to {home}: {why}");
        let fix = "make room on the disk, or make the folder writable";
        checks.push(DoctorCheck::broken(name, what, fix));
    }
    if checks.is_empty() {
        checks.push(DoctorCheck::good(name, format!("{home}, yours alone")));
    }
    checks
}

fn config(snapshot: &Snapshot) -> DoctorCheck {
    let fix = "becket config check";
    if let Some(first) = snapshot.errors().next() {
        return DoctorCheck::broken("config", first.to_string(), fix);
    }
    match snapshot.problems.first() {
        Some(first) => DoctorCheck::warning("config", first.to_string(), fix),
        None => DoctorCheck::good("config", "in order"),
    }
}

/// Checks the trust of the current project. Returns None if the project needs no trust.
fn trust(world: &World) -> Option<DoctorCheck> {
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
    let origin = origin.unwrap_or_default();
    let what = format!("off in {origin}: secrets are stored unmasked");
    let fix = "set mask.enabled = true there";
    Some(DoctorCheck::warning("masking", what, fix))
}

/// Checks the daemon, which is started if needed. Returns true if it answered.
fn daemon(world: &World, config: &Snapshot) -> (bool, Vec<DoctorCheck>) {
    if world.no_daemon {
        let what = "not used: BECKET_NO_DAEMON is set, so every event is judged without it";
        let fix = "unset BECKET_NO_DAEMON";
        return (false, vec![DoctorCheck::warning("daemon", what, fix)]);
    }
    let status = match Client::connect_or_start(world).and_then(|mut client| client.status()) {
        Ok(status) => status,
        Err(error) => {
            let fix = daemon_fix(world, &error);
            let check = DoctorCheck::broken("daemon", format!("{error:#}"), fix);
            return (false, vec![check]);
        }
    };
    let since = timestamp(status.started_at);
    let what = format!("{}, pid {}, since {since}", status.version, status.pid);
    let running = if status.version < Version::current() {
        let what = format!("{what}; older than this becket");
        DoctorCheck::warning("daemon", what, RESTART)
    } else {
        DoctorCheck::good("daemon", what)
    };
    let mut checks = vec![running, DoctorCheck::good("socket", status.socket)];
    let known: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
    for trouble in status.troubles {
        if !known.contains(&trouble) {
            checks.push(DoctorCheck::warning(
                "trouble",
                trouble,
                look_into_log(world),
            ));
        }
    }
    let normal = ["taken in from the spool", "lost"];
    let odd: Vec<String> = counts(&status.counts)
        .into_iter()
        .filter(|(name, count)| *count > 0 && !normal.contains(name))
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    if !odd.is_empty() {
        let fix = "becket events shows what came";
        checks.push(DoctorCheck::warning("since its start", odd.join(", "), fix));
    }
    (true, checks)
}

const RESTART: &str = "becket daemon stop && becket daemon start";

fn look_into_log(world: &World) -> String {
    format!("look into {}", world.place.daemon_log().display())
}

/// Returns the fix for a daemon that does not answer. A hung one may be killed: everything that it
/// answered is stored.
fn daemon_fix(world: &World, error: &anyhow::Error) -> String {
    let failure = error.downcast_ref::<Failure>();
    let hint = failure.and_then(Failure::hinted);
    if let Some(hint) = hint.filter(|hint| hint.starts_with("kill")) {
        return hint.to_owned();
    }
    let hung = failure.is_some_and(Failure::is_late);
    match fs::read_to_string(world.place.life_lock()) {
        Ok(pid) if hung => format!("kill -9 {}; then: becket daemon start", pid.trim()),
        _ => look_into_log(world),
    }
}

/// The age of the faults that count, in milliseconds: 7 days.
const FAULTS_OF: i64 = 7 * 24 * 60 * 60 * 1000;

fn database(world: &World) -> Vec<DoctorCheck> {
    let path = world.place.database();
    let shown = path.display();
    let name = "database";
    let opened = match store::open_to_read(&path) {
        Ok(Some(connection)) => connection,
        Ok(None) => {
            let what = format!("{shown} does not exist yet");
            return vec![DoctorCheck::warning(name, what, "becket up")];
        }
        Err(why) => {
            let check = DoctorCheck::broken(name, why.to_string(), "becket daemon start");
            return vec![check];
        }
    };
    let mut checks = vec![match store::count_events(&opened) {
        Ok(events) => {
            let events = text::count(events as usize, "event", "events");
            let megabytes = fs::metadata(&path).map_or(0, |meta| meta.len()) as f64 / 1e6;
            DoctorCheck::good(name, format!("{events}, {megabytes:.1} MB, {shown}"))
        }
        Err(why) => DoctorCheck::broken(name, format!("{shown}: {why}"), RESTART),
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
        let fix = "look at the mods below";
        checks.push(DoctorCheck::broken("denials", what, fix));
    }
    if let Ok(Some(faults)) = store::faults(&opened, now_ms() - FAULTS_OF) {
        let what = format!(
            "{} with a fault in the last 7 days, the newest at {}: {}",
            text::count(faults.count as usize, "event", "events"),
            timestamp(faults.at),
            faults.fault
        );
        let fix = "becket events --limit 500 shows it";
        checks.push(DoctorCheck::warning("events", what, fix));
    }
    let entries = fs::read_dir(world.place.home()).into_iter().flatten();
    for entry in entries.flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        // The files `-wal` and `-shm` belong to the database beside them.
        if file_name.starts_with("becket.db.damaged-")
            && !["-wal", "-shm"].iter().any(|end| file_name.ends_with(end))
        {
            let file = entry.path();
            let what = format!("a damaged database was set aside as {}", file.display());
            let fix = format!("rm {}* once you do not need it", file.display());
            checks.push(DoctorCheck::warning(name, what, fix));
        }
    }
    checks
}

/// Checks that guards saw the tool calls of the last day. Returns None if there were none.
fn coverage(world: &World) -> Option<DoctorCheck> {
    let name = "coverage";
    Some(match last_day(world) {
        Ok((0, _)) => return None,
        Ok((calls, None)) => {
            let calls = text::count(calls as usize, "tool call", "tool calls");
            let what = format!("guards saw every call of the last 24 hours: {calls}");
            DoctorCheck::good(name, what)
        }
        Ok((_, Some(what))) => DoctorCheck::warning(name, what, "becket guard coverage shows them"),
        Err(why) => {
            let what = format!("the calls could not be compared: {why:#}");
            DoctorCheck::warning(name, what, "becket guard coverage")
        }
    })
}

/// The number of last runs of a hook that are checked.
const LAST_RUNS: usize = 5;
/// The age of the runs that are checked, in milliseconds: a day.
const RUNS_OF: i64 = 24 * 60 * 60 * 1000;

/// The outcomes of runs that were ended or go on. They say nothing about the hook.
const UNFINISHED: [RunOutcome; 5] = [
    RunOutcome::Cancelled,
    RunOutcome::Running,
    RunOutcome::Async,
    RunOutcome::CutOff,
    RunOutcome::Orphaned,
];

/// Warns of hooks that failed in all of their last runs.
fn failing_hooks(world: &World) -> Vec<DoctorCheck> {
    let query = RunQuery {
        since: Some(now_ms() - RUNS_OF),
        ..RunQuery::default()
    };
    let found = Runs::open(world).and_then(|runs| runs.find(&query));
    let mut by_hook: BTreeMap<String, Vec<RunRow>> = BTreeMap::new();
    for LoggedRun { run, .. } in found.unwrap_or_default() {
        let last = by_hook.entry(run.hook.clone()).or_default();
        if last.len() < LAST_RUNS && !UNFINISHED.contains(&run.outcome) {
            last.push(run);
        }
    }
    let mut checks = Vec::new();
    for (hook, last) in by_hook {
        let Some(newest) = last.first() else { continue };
        if last.iter().any(|run| run.outcome == RunOutcome::Ok) {
            continue;
        }
        let often = match last.len() {
            1 => "its last run".to_owned(),
            many => format!("all of its last {many} runs"),
        };
        let why = text::one_line(newest.note.as_deref().unwrap_or(newest.outcome.as_str()));
        let what = format!("{hook} failed in {often}: {why}");
        let fix = format!("becket hooks recent --hook {hook} shows them");
        checks.push(DoctorCheck::warning("hooks", what, fix));
    }
    checks
}

/// Warns of events that could be written neither to the database nor to the spool.
fn lost_events(world: &World) -> Option<DoctorCheck> {
    let lost = lost::total(&world.place);
    if lost == 0 {
        return None;
    }
    let what = format!(
        "{} could not be kept anywhere: the disk or the spool was full, or read-only",
        text::count(lost as usize, "event", "events")
    );
    let files = lost::files_to_delete(&world.place).into_iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    let fix = format!("make room on the disk; then: rm {}", files.join(" "));
    Some(DoctorCheck::broken("events", what, fix))
}

fn spool(world: &World) -> DoctorCheck {
    let place = &world.place;
    let spool_bad = place.spool_bad();
    let bad = fs::read_dir(&spool_bad).map_or(0, Iterator::count);
    if bad > 0 {
        let (bad, folder) = (text::count(bad, "file", "files"), spool_bad.display());
        let what = format!("{bad} without an event, put into {folder}");
        let fix = format!("look at them, then rm -r {folder}");
        return DoctorCheck::warning("spool", what, fix);
    }
    let (files, bytes) = spool::usage(&place.spool());
    if files > 0 {
        let files = text::count(files, "file", "files");
        let what = format!("not taken in yet: {files} ({:.1} MB)", bytes as f64 / 1e6);
        return DoctorCheck::warning("spool", what, "becket daemon start");
    }
    DoctorCheck::good("spool", "empty")
}
