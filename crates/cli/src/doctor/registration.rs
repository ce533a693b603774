//! What doctor looks at in the settings files: the entries, the status line, the slash commands, and
//! an event sent through what they register.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_daemon::life::now_ms;
use becket_engine::process::{Bounds, run_command};
use becket_wire::log::CANARY;
use becket_wire::rpc::{EventQuery, EventRow, Source};
use serde_json::json;

use crate::client::Client;
use crate::doctor::Check;
use crate::settings::{
    self, EntryState, Inspection, Registration, SettingsFile, SettingsScope, StatusLineState,
    Strict, is_status_line_unwanted,
};
use crate::world::World;
use crate::{claude, commands, log};

/// What a registered command may take.
const BOUNDS: Bounds<'_> = Bounds {
    time: Some(Duration::from_secs(60)),
    bytes: 64 << 10,
    own_group: true,
    cancel: None,
};

pub(super) fn settings(world: &World, daemon_answers: bool) -> Vec<Check> {
    let files = settings::files(world);
    let mut checks = Vec::new();
    let mut seen = Vec::new();
    let (mut unreadable, mut plugin) = (false, false);
    for file in &files {
        match look(world, file) {
            Ok(Some(inspection)) => {
                plugin |= inspection.plugin;
                checks.extend(overriding(file, &inspection));
                checks.extend(hidden(file, &inspection));
                if file.scope != SettingsScope::Managed && inspection.any() {
                    checks.push(complete(file, &inspection));
                    seen.push((file, inspection));
                }
            }
            Ok(None) => {}
            Err(why) => {
                unreadable = true;
                checks.push(Check::broken(
                    &name(file),
                    format!("{}: {why:#}", file.path.display()),
                    format!("mend {} by hand", file.path.display()),
                ));
            }
        }
    }
    // A file that cannot be read may hold the registration: nothing to say about it then.
    if seen.is_empty() && plugin {
        let what = "only the plugin registers becket: a project's settings can lead it to another program or home";
        checks.push(Check::warning("settings", what, "becket init"));
    } else if seen.is_empty() && !unreadable {
        checks.push(Check::broken(
            "settings",
            "becket is not registered with Claude Code",
            "becket init",
        ));
    }
    // A project's two files have one folder of commands.
    let mut looked = HashSet::new();
    for (file, inspection) in seen {
        if file.scope == SettingsScope::User {
            checks.push(registered(world, file, &inspection));
        }
        if looked.insert(file.path.parent()) {
            checks.push(installed(world, file.scope));
        }
        checks.push(fly(world, file, &inspection, daemon_answers));
    }
    checks
}

fn name(file: &SettingsFile) -> String {
    format!("{} settings", file.scope)
}

pub(super) fn init(scope: SettingsScope) -> String {
    match scope {
        SettingsScope::User | SettingsScope::Managed => "becket init".to_owned(),
        SettingsScope::Project | SettingsScope::Local => format!("becket init --{scope}"),
    }
}

fn look(world: &World, file: &SettingsFile) -> Result<Option<Inspection>> {
    let Some(text) = settings::read(&file.path)? else {
        return Ok(None);
    };
    let registration = Registration {
        program: world.shim().to_string_lossy().into_owned(),
        home: world.place.home().to_string_lossy().into_owned(),
        strict: Strict::Keep,
        status_line: true,
        refresh: settings::refresh(world),
        refresh_written: None,
        claude: claude::version(),
        synchronous: settings::synchronous_events(world),
    };
    Ok(Some(settings::inspect(&text, &registration)?))
}

/// What makes every registration void.
fn overriding(file: &SettingsFile, inspection: &Inspection) -> Vec<Check> {
    let mut checks = Vec::new();
    let path = file.path.display();
    if inspection.disable_all_hooks {
        let what = format!("disableAllHooks is true in {path}: no hook runs");
        checks.push(Check::broken(
            &name(file),
            what,
            format!("take disableAllHooks out of {path}"),
        ));
    }
    if file.scope == SettingsScope::Managed && inspection.managed_hooks_only {
        let what = format!("allowManagedHooksOnly is true in {path}: your own hooks do not run");
        checks.push(Check::broken(
            &name(file),
            what,
            "ask the administrator of this machine",
        ));
    }
    checks
}

fn complete(file: &SettingsFile, inspection: &Inspection) -> Check {
    let path = file.path.display();
    let total = inspection.entries.len();
    let events = |state: EntryState| {
        let of_state = inspection
            .entries
            .iter()
            .filter(|entry| entry.state == state);
        of_state.map(|entry| entry.event).collect::<Vec<_>>()
    };
    let (missing, different) = (events(EntryState::Missing), events(EntryState::Different));
    let list = |events: &[&str]| match events {
        [some @ .., _, _] if some.len() > 3 => {
            format!("{} and {} more", some[..3].join(", "), events.len() - 3)
        }
        all => all.join(", "),
    };
    let strict = if inspection.strict { ", strict" } else { "" };
    if !missing.is_empty() {
        let what = format!(
            "{} of {total} events are not registered ({}) in {path}",
            missing.len(),
            list(&missing)
        );
        return Check::broken(&name(file), what, init(file.scope));
    }
    if !different.is_empty() {
        let how = match different.len() {
            1 => "hook entries was changed or is outdated",
            _ => "hook entries were changed or are outdated",
        };
        let (many, list) = (different.len(), list(&different));
        let what = format!("{many} of {total} {how} ({list}) in {path}");
        return Check::broken(&name(file), what, init(file.scope));
    }
    Check::good(&name(file), format!("{total} events{strict}, {path}"))
}

/// Sends an event through the command that stands in the file, as it stands there.
fn fly(world: &World, file: &SettingsFile, inspection: &Inspection, daemon_answers: bool) -> Check {
    let name = format!("canary ({})", file.scope);
    let command = inspection
        .entries
        .iter()
        .find_map(|entry| entry.command.as_ref());
    let Some(command) = command else {
        return Check::broken(&name, "no command is registered", init(file.scope));
    };
    let program = Path::new(&command.program);
    match send_canary(world, program, &command.args, daemon_answers) {
        Ok(flight) => {
            let by = match flight.row.source {
                Source::Daemon => "by the daemon",
                Source::Replay => "in a replay",
                Source::Alone => "judged without a daemon",
            };
            let what = format!(
                "an event came through in {:.1} ms ({by})",
                flight.took.as_secs_f64() * 1e3
            );
            Check::good(&name, what)
        }
        Err(error) => Check::broken(&name, format!("{error:#}"), init(file.scope)),
    }
}

const STATUS_LINE: &str = "status line";

/// How the status line of the person's own settings stands, where becket is registered.
pub(super) fn registered(world: &World, file: &SettingsFile, inspection: &Inspection) -> Check {
    let path = file.path.display();
    match &inspection.status_line {
        StatusLineState::Found(command) => match sample(command) {
            Ok(()) => Check::good(STATUS_LINE, format!("prints a line, {path}")),
            Err(why) => Check::broken(STATUS_LINE, format!("{why:#}"), "becket init"),
        },
        StatusLineState::Different(_) => {
            let what = format!("it was changed or is outdated in {path}");
            Check::broken(STATUS_LINE, what, "becket init")
        }
        _ if is_status_line_unwanted(world, &file.path) => Check::good(
            STATUS_LINE,
            "not registered; `becket init --statusline` adds becket's",
        ),
        StatusLineState::Missing | StatusLineState::Foreign => {
            let what =
                format!("becket's is not registered in {path}, so context and cost come late");
            Check::warning(STATUS_LINE, what, "becket init")
        }
    }
}

/// A status line of another file that hides the person's own.
pub(super) fn hidden(file: &SettingsFile, inspection: &Inspection) -> Option<Check> {
    let hides =
        file.scope != SettingsScope::User && inspection.status_line == StatusLineState::Foreign;
    let path = file.path.display();
    hides.then(|| {
        let what = format!("the one in {path} hides becket's here");
        Check::warning(STATUS_LINE, what, format!("take statusLine out of {path}"))
    })
}

/// Runs the command as Claude Code would, with a sample on stdin.
fn sample(command: &str) -> Result<()> {
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

/// A project's settings and a person's own for it share one folder: what either wrote is right.
pub(super) fn installed(world: &World, scope: SettingsScope) -> Check {
    let scopes = match scope {
        SettingsScope::Project | SettingsScope::Local => {
            vec![scope, SettingsScope::Project, SettingsScope::Local]
        }
        scope => vec![scope],
    };
    let look = |scope| commands::install(world, scope, true);
    let looked: Result<Vec<_>, _> = scopes.into_iter().map(look).collect();
    match looked {
        Ok(all) => {
            let right = all.iter().find(|commands| commands.iter().all(is_right));
            tell_commands(right.unwrap_or(&all[0]), scope)
        }
        Err(why) => Check::broken(COMMANDS, format!("{why:#}"), init(scope)),
    }
}

fn is_right(command: &commands::CommandFile) -> bool {
    !command.change.changed() && !command.left_alone
}

fn tell_commands(commands: &[commands::CommandFile], scope: SettingsScope) -> Check {
    let first = commands
        .first()
        .map(|command| command.change.file.as_path());
    let folder = first.and_then(|hook| hook.parent()?.parent());
    let folder = folder.unwrap_or(Path::new(""));
    let name = |command: &commands::CommandFile| {
        let name = command.change.file.strip_prefix(folder).ok()?;
        Some(name.to_string_lossy().into_owned())
    };
    let those = |is_so: fn(&commands::CommandFile) -> bool| {
        let names = commands.iter().filter(|command| is_so(command));
        let names: Vec<_> = names.filter_map(name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let is_switch = |command: &&commands::CommandFile| command.change.file.parent() != Some(folder);
    let shown = folder.display();
    if let Some(missing) = those(|command| command.change.before.is_none()) {
        let what = format!("missing in {shown}: {missing}");
        return Check::warning(COMMANDS, what, init(scope));
    }
    if let Some(old) = those(|command| command.change.changed()) {
        let what = format!("written by another becket in {shown}: {old}");
        return Check::warning(COMMANDS, what, init(scope));
    }
    // A user's own command of a skill's name is no trouble.
    let foreign = commands.iter().filter(is_switch);
    let foreign: Vec<_> = foreign
        .filter(|command| command.left_alone)
        .filter_map(name)
        .collect();
    if !foreign.is_empty() {
        let foreign = foreign.join(", ");
        let what = format!("changed in {shown}: {foreign}");
        let mend = format!(
            "keep it if it is yours; else remove it, then `{}`",
            init(scope)
        );
        return Check::warning(COMMANDS, what, mend);
    }
    Check::good(
        COMMANDS,
        format!("/hook:disable, /hook:enable, /hook:status, {shown}/hook"),
    )
}

/// How a canary came back.
#[derive(Debug)]
pub struct Flight {
    /// From the start of the hook process to its end.
    pub took: Duration,
    pub row: EventRow,
}

/// Runs the registered command line as Claude Code would: event on stdin, no terminal, own folder.
/// Where no daemon answers, the event is looked for in database and spool.
pub fn send_canary(
    world: &World,
    program: &Path,
    args: &[String],
    daemon_answers: bool,
) -> Result<Flight> {
    let nonce = format!("{}-{}", std::process::id(), now_ms());
    let payload = json!({"hook_event_name": CANARY, "session_id": "becket-canary", "cwd": "/", "nonce": nonce});
    let since = now_ms();
    let began = Instant::now();
    let mut hook = Command::new(program);
    hook.args(args)
        .env_clear()
        .envs(world.no_daemon.then_some(("BECKET_NO_DAEMON", "1")))
        .envs(
            ["HOME", "PATH"]
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
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
    Ok(Flight { took, row })
}

fn find(world: &World, since: i64, nonce: &str, daemon_answers: bool) -> Result<EventRow> {
    let query = EventQuery {
        event: Some(CANARY.to_owned()),
        since: Some(since),
        ..EventQuery::default()
    };
    let is_ours = |row: &EventRow| {
        let payload = row
            .payload
            .as_deref()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok());
        payload.is_some_and(|payload| payload["nonce"] == nonce)
    };
    let rows = if daemon_answers {
        Client::connect_or_start(world)?.events(query)?
    } else {
        log::read(world, query)?
    };
    let found = rows.into_iter().find(is_ours);
    found.context("the event was sent and is not in the database")
}
