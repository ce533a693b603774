//! Checks the settings files of Claude Code: the hook entries, the status line, the slash commands, and
//! a canary event sent through the registered command.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_daemon::lifecycle::now_ms;
use becket_engine::process::{Bounds, run_command};
use becket_wire::log::CANARY;
use becket_wire::rpc::{EventQuery, EventRow, Source};
use serde_json::json;

use crate::client::Client;
use crate::commands::{self, CommandFile};
use crate::doctor::DoctorCheck;
use crate::log;
use crate::settings::{
    self, EntryState, Inspection, SettingsFile, SettingsScope, StatusLineState, Strict,
    is_status_line_unwanted,
};
use crate::world::World;

/// The bounds of a registered command.
const BOUNDS: Bounds<'_> = Bounds {
    time: Some(Duration::from_secs(60)),
    bytes: 64 << 10,
    own_group: true,
    cancel: None,
};

pub(super) fn settings(world: &World, daemon_answers: bool) -> Vec<DoctorCheck> {
    let files = settings::files(world);
    let mut checks = Vec::new();
    let mut seen = Vec::new();
    let (mut unreadable, mut plugin) = (false, false);
    for file in &files {
        match inspect_file(world, file) {
            Ok(Some(inspection)) => {
                plugin |= inspection.plugin;
                checks.extend(check_overrides(file, &inspection));
                checks.extend(check_hiding_status_line(file, &inspection));
                if file.scope != SettingsScope::Managed && inspection.any() {
                    checks.push(check_entries(file, &inspection));
                    seen.push((file, inspection));
                }
            }
            Ok(None) => {}
            Err(why) => {
                unreadable = true;
                let path = file.path.display();
                let (what, fix) = (format!("{path}: {why:#}"), format!("fix {path} by hand"));
                checks.push(DoctorCheck::broken(&name(file), what, fix));
            }
        }
    }
    // A file that cannot be read may have the registration, so its absence is not certain.
    if seen.is_empty() && plugin {
        let what = "only the plugin registers becket: a project's settings can lead it to another program or home";
        checks.push(DoctorCheck::warning("settings", what, "becket up"));
    } else if seen.is_empty() && !unreadable {
        let what = "becket is not registered with Claude Code";
        checks.push(DoctorCheck::broken("settings", what, "becket up"));
    }
    // The two settings files of a project share one folder of commands.
    let mut looked = HashSet::new();
    for (file, inspection) in seen {
        if file.scope == SettingsScope::User {
            checks.push(check_status_line(world, file, &inspection));
        }
        if looked.insert(file.path.parent()) {
            checks.push(check_installed_commands(world, file.scope));
        }
        checks.push(check_canary(world, file, &inspection, daemon_answers));
    }
    checks
}

fn name(file: &SettingsFile) -> String {
    format!("{} settings", file.scope)
}

fn init_command(scope: SettingsScope) -> String {
    match scope {
        SettingsScope::User | SettingsScope::Managed => "becket up".to_owned(),
        SettingsScope::Project | SettingsScope::Local => {
            format!("becket up --only-register --{scope}")
        }
    }
}

fn inspect_file(world: &World, file: &SettingsFile) -> Result<Option<Inspection>> {
    let Some(text) = settings::read(&file.path)? else {
        return Ok(None);
    };
    let registration = settings::registration_of(world, Strict::Keep)?;
    Ok(Some(settings::inspect(&text, &registration)?))
}

/// Checks for settings that disable every registration.
fn check_overrides(file: &SettingsFile, inspection: &Inspection) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let path = file.path.display();
    if inspection.disable_all_hooks {
        let what = format!("disableAllHooks is true in {path}: no hook runs");
        let fix = format!("take disableAllHooks out of {path}");
        checks.push(DoctorCheck::broken(&name(file), what, fix));
    }
    if file.scope == SettingsScope::Managed && inspection.managed_hooks_only {
        let what = format!("allowManagedHooksOnly is true in {path}: your own hooks do not run");
        let fix = "ask the administrator of this machine";
        checks.push(DoctorCheck::broken(&name(file), what, fix));
    }
    checks
}

fn check_entries(file: &SettingsFile, inspection: &Inspection) -> DoctorCheck {
    let path = file.path.display();
    let total = inspection.entries.len();
    let missing = events_in_state(inspection, EntryState::Missing);
    let different = events_in_state(inspection, EntryState::Different);
    let what = if !missing.is_empty() {
        let (many, list) = (missing.len(), first_names(&missing));
        format!("{many} of {total} events are not registered ({list}) in {path}")
    } else if !different.is_empty() {
        let how = match different.len() {
            1 => "hook entries was changed or is outdated",
            _ => "hook entries were changed or are outdated",
        };
        let (many, list) = (different.len(), first_names(&different));
        format!("{many} of {total} {how} ({list}) in {path}")
    } else {
        let strict = if inspection.strict { ", strict" } else { "" };
        return DoctorCheck::good(&name(file), format!("{total} events{strict}, {path}"));
    };
    DoctorCheck::broken(&name(file), what, init_command(file.scope))
}

fn events_in_state(inspection: &Inspection, state: EntryState) -> Vec<&'static str> {
    let entries = inspection.entries.iter();
    entries
        .filter(|entry| entry.state == state)
        .map(|entry| entry.event)
        .collect()
}

/// Lists all names, or the first three and the number of the others.
fn first_names(names: &[&str]) -> String {
    match names {
        [some @ .., _, _] if some.len() > 3 => {
            format!("{} and {} more", some[..3].join(", "), names.len() - 3)
        }
        all => all.join(", "),
    }
}

/// Sends an event through the command as it is written in the file.
fn check_canary(
    world: &World,
    file: &SettingsFile,
    inspection: &Inspection,
    daemon_answers: bool,
) -> DoctorCheck {
    let name = format!("canary ({})", file.scope);
    let mut entries = inspection.entries.iter();
    let Some(command) = entries.find_map(|entry| entry.command.as_ref()) else {
        return DoctorCheck::broken(&name, "no command is registered", init_command(file.scope));
    };
    let program = Path::new(&command.program);
    match send_canary(world, program, &command.args, daemon_answers) {
        Ok(canary) => {
            let by = match canary.row.source {
                Source::Daemon => "by the daemon",
                Source::Replay => "in a replay",
                Source::Alone => "judged without a daemon",
            };
            let took = canary.took.as_secs_f64() * 1e3;
            let what = format!("an event came through in {took:.1} ms ({by})");
            DoctorCheck::good(&name, what)
        }
        Err(error) => DoctorCheck::broken(&name, format!("{error:#}"), init_command(file.scope)),
    }
}

const STATUS_LINE: &str = "status line";

/// Checks the status line in the user's own settings, where becket is registered.
fn check_status_line(world: &World, file: &SettingsFile, inspection: &Inspection) -> DoctorCheck {
    let path = file.path.display();
    match &inspection.status_line {
        StatusLineState::Found(command) => match run_status_line(command) {
            Ok(()) => DoctorCheck::good(STATUS_LINE, format!("prints a line, {path}")),
            Err(why) => DoctorCheck::broken(STATUS_LINE, format!("{why:#}"), "becket up"),
        },
        StatusLineState::Different(_) => {
            let what = format!("it was changed or is outdated in {path}");
            DoctorCheck::broken(STATUS_LINE, what, "becket up")
        }
        _ if is_status_line_unwanted(world, &file.path) => {
            let what = "not registered; `becket up --only-register --statusline` adds becket's";
            DoctorCheck::good(STATUS_LINE, what)
        }
        StatusLineState::Missing | StatusLineState::Foreign => {
            let what =
                format!("becket's is not registered in {path}, so context and cost come late");
            DoctorCheck::warning(STATUS_LINE, what, "becket up")
        }
    }
}

/// Warns of a status line in another file that hides the user's own.
fn check_hiding_status_line(file: &SettingsFile, inspection: &Inspection) -> Option<DoctorCheck> {
    let hides =
        file.scope != SettingsScope::User && inspection.status_line == StatusLineState::Foreign;
    let path = file.path.display();
    hides.then(|| {
        let what = format!("the one in {path} hides becket's here");
        DoctorCheck::warning(STATUS_LINE, what, format!("take statusLine out of {path}"))
    })
}

/// Runs the status line command as Claude Code would, with a sample on stdin.
fn run_status_line(command: &str) -> Result<()> {
    let payload = json!({
        "session_id": "becket-canary",
        "cwd": "/",
        "model": {"id": "canary", "display_name": "canary"},
        "workspace": {"project_dir": "/canary"},
    });
    let mut line = Command::new("/bin/sh");
    line.args(["-c", command])
        .env("COLUMNS", "80")
        .current_dir("/");
    let done = run_command(&mut line, payload.to_string().as_bytes(), &BOUNDS);
    let done = done.context("could not start /bin/sh")?;
    if !done.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        bail!("`{command}` ended with {}: {said}", done.end());
    }
    Ok(())
}

const COMMANDS: &str = "commands";

/// Checks the slash commands. A project's shared and local settings have one folder of commands, and
/// the commands of either are right.
fn check_installed_commands(world: &World, scope: SettingsScope) -> DoctorCheck {
    let mut scopes = vec![scope];
    if matches!(scope, SettingsScope::Project | SettingsScope::Local) {
        scopes.extend([SettingsScope::Project, SettingsScope::Local]);
    }
    let scopes = scopes.into_iter();
    let inspected = scopes.map(|scope| commands::install(world, scope, true));
    match inspected.collect::<Result<Vec<_>>>() {
        Ok(all) => {
            let right = all.iter().find(|commands| commands.iter().all(is_right));
            check_commands(right.unwrap_or(&all[0]), scope)
        }
        Err(why) => DoctorCheck::broken(COMMANDS, format!("{why:#}"), init_command(scope)),
    }
}

fn is_right(command: &CommandFile) -> bool {
    !command.change.changed() && !command.left_alone
}

fn check_commands(commands: &[CommandFile], scope: SettingsScope) -> DoctorCheck {
    let first = commands.first();
    let folder = first.and_then(|hook| hook.change.file.parent()?.parent());
    let folder = folder.unwrap_or(Path::new(""));
    let shown = folder.display();
    let missing = names_of(commands, folder, |command| command.change.before.is_none());
    if !missing.is_empty() {
        let what = format!("missing in {shown}: {missing}");
        return DoctorCheck::warning(COMMANDS, what, init_command(scope));
    }
    let outdated = names_of(commands, folder, |command| command.change.changed());
    if !outdated.is_empty() {
        let what = format!("written by another becket in {shown}: {outdated}");
        return DoctorCheck::warning(COMMANDS, what, init_command(scope));
    }
    // A user's own command with the name of a skill is no problem.
    let foreign = names_of(commands, folder, |command| {
        command.left_alone && command.change.file.parent() != Some(folder)
    });
    if !foreign.is_empty() {
        let what = format!("changed in {shown}: {foreign}");
        let init = init_command(scope);
        let fix = format!("keep it if it is yours; else remove it, then `{init}`");
        return DoctorCheck::warning(COMMANDS, what, fix);
    }
    let what = format!("/hook:disable, /hook:enable, /hook:status, {shown}/hook");
    DoctorCheck::good(COMMANDS, what)
}

/// Lists the selected commands by their paths below `folder`.
fn names_of(
    commands: &[CommandFile],
    folder: &Path,
    is_selected: impl Fn(&CommandFile) -> bool,
) -> String {
    let selected = commands.iter().filter(|command| is_selected(command));
    let paths = selected.filter_map(|command| command.change.file.strip_prefix(folder).ok());
    let names: Vec<_> = paths.map(Path::to_string_lossy).collect();
    names.join(", ")
}

/// The result of a canary event.
#[derive(Debug)]
pub struct CanaryResult {
    /// From the start of the hook process to its end.
    pub took: Duration,
    pub row: EventRow,
}

/// Runs the registered command line as Claude Code would: event on stdin, no terminal, own folder.
/// Then finds the event in the log of the daemon, or in database and spool if no daemon answers.
pub fn send_canary(
    world: &World,
    program: &Path,
    args: &[String],
    daemon_answers: bool,
) -> Result<CanaryResult> {
    let nonce = format!("{}-{}", std::process::id(), now_ms());
    let payload = json!({"hook_event_name": CANARY, "session_id": "becket-canary", "cwd": "/", "nonce": nonce});
    let since = now_ms();
    let began = Instant::now();
    let kept = ["HOME", "PATH"].into_iter();
    let mut hook = Command::new(program);
    hook.args(args)
        .env_clear()
        .envs(world.no_daemon.then_some(("BECKET_NO_DAEMON", "1")))
        .envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir("/");
    let done = run_command(&mut hook, payload.to_string().as_bytes(), &BOUNDS);
    let done = done.with_context(|| format!("could not start {}", program.display()))?;
    let took = began.elapsed();
    if !done.success() || !done.stdout.is_empty() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        bail!(
            "{} must print nothing and exit with 0, but ended with {}: {said}",
            program.display(),
            done.end()
        );
    }
    let row = find(world, since, &nonce, daemon_answers)?;
    Ok(CanaryResult { took, row })
}

fn find(world: &World, since: i64, nonce: &str, daemon_answers: bool) -> Result<EventRow> {
    let query = EventQuery {
        event: Some(CANARY.to_owned()),
        since: Some(since),
        ..EventQuery::default()
    };
    let rows = if daemon_answers {
        Client::connect_or_start(world)?.events(query)?
    } else {
        log::read(world, query)?
    };
    let found = rows.into_iter().find(|row| {
        let bytes = row.payload.as_deref().unwrap_or_default();
        let payload: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
        payload["nonce"] == nonce
    });
    found.context("the event was sent and is not in the database")
}
