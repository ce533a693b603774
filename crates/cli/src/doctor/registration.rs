//! The settings files, and the canary through what they register.

use std::collections::HashSet;
use std::path::Path;

use becket_wire::rpc::Source;

use super::{Check, commands, line};
use crate::canary;
use crate::claude;
use crate::settings::{
    self, Inspection, Registration, Scope, SettingsFile, State as Entry, Strict,
};
use crate::world::World;

pub(super) fn settings(world: &World, daemon_answers: bool) -> Vec<Check> {
    let files = settings::files(world);
    let mut checks = Vec::new();
    let mut seen = Vec::new();
    let mut unreadable = false;
    for file in &files {
        match look(world, file) {
            Ok(Some(inspection)) => {
                checks.extend(overriding(file, &inspection));
                checks.extend(line::hidden(file, &inspection));
                if file.scope != Scope::Managed && inspection.any() {
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
    if seen.is_empty() && !unreadable {
        checks.push(Check::broken(
            "settings",
            "becket is not registered with Claude Code",
            "becket init",
        ));
    }
    // A project's two files have one folder of commands.
    let mut looked = HashSet::new();
    for (file, inspection) in seen {
        if file.scope == Scope::User {
            checks.push(line::registered(world, file, &inspection));
        }
        if looked.insert(file.path.parent()) {
            checks.push(commands::installed(world, file.scope));
        }
        checks.push(fly(world, file, &inspection, daemon_answers));
    }
    checks
}

fn name(file: &SettingsFile) -> String {
    format!("{} settings", file.scope)
}

pub(super) fn init(scope: Scope) -> String {
    match scope {
        Scope::User | Scope::Managed => "becket init".to_owned(),
        Scope::Project | Scope::Local => format!("becket init --{scope}"),
    }
}

fn look(world: &World, file: &SettingsFile) -> anyhow::Result<Option<Inspection>> {
    let Some(text) = settings::read(&file.path)? else {
        return Ok(None);
    };
    let registration = Registration {
        program: world.shim().to_string_lossy().into_owned(),
        home: world.place.home().to_string_lossy().into_owned(),
        strict: Strict::Keep,
        status_line: true,
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
    if file.scope == Scope::Managed && inspection.managed_hooks_only {
        let what = format!("allowManagedHooksOnly is true in {path}: your own hooks do not run");
        checks.push(Check::broken(
            &name(file),
            what,
            "ask whoever manages this machine",
        ));
    }
    checks
}

fn complete(file: &SettingsFile, inspection: &Inspection) -> Check {
    let path = file.path.display();
    let total = inspection.entries.len();
    let events = |state: Entry| {
        let of_state = inspection
            .entries
            .iter()
            .filter(|entry| entry.state == state);
        of_state.map(|entry| entry.event).collect::<Vec<_>>()
    };
    let (missing, different) = (events(Entry::Missing), events(Entry::Different));
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
        let what = format!(
            "{} of {total} entries are not what this becket wants ({}) in {path}",
            different.len(),
            list(&different)
        );
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
    match canary::send(world, program, &command.args, daemon_answers) {
        Ok(flight) => {
            let by = match flight.row.source {
                Source::Daemon => "by the daemon",
                Source::Replay => "in a replay",
                Source::Alone => "judged without a daemon",
            };
            let what = format!(
                "an event came through in {:.1} ms (as seen from here, {by})",
                flight.took.as_secs_f64() * 1e3
            );
            Check::good(&name, what)
        }
        Err(error) => Check::broken(&name, format!("{error:#}"), init(file.scope)),
    }
}
