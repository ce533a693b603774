//! The files of the slash commands: whether they are there, ours, and of this becket.

use std::path::Path;

use super::Check;
use super::registration::init;
use crate::commands::{self, Command};
use crate::settings::Scope;
use crate::world::World;

const NAME: &str = "commands";

/// A project's settings and a person's own for it share one folder: what either wrote is right.
pub(super) fn installed(world: &World, scope: Scope) -> Check {
    let scopes = match scope {
        Scope::Project | Scope::Local => vec![scope, Scope::Project, Scope::Local],
        scope => vec![scope],
    };
    let look = |scope| commands::install(world, scope, true);
    let looked: Result<Vec<_>, _> = scopes.into_iter().map(look).collect();
    match looked {
        Ok(all) => {
            let right = all.iter().find(|commands| commands.iter().all(is_right));
            tell(right.unwrap_or(&all[0]), scope)
        }
        Err(why) => Check::broken(NAME, format!("{why:#}"), init(scope)),
    }
}

fn is_right(command: &Command) -> bool {
    !command.changed() && !command.left_alone
}

fn tell(commands: &[Command], scope: Scope) -> Check {
    let folder = commands.first().and_then(|command| command.path.parent());
    let folder = folder.unwrap_or(Path::new("")).display();
    let those = |is_so: fn(&Command) -> bool| {
        let names = commands.iter().filter(|command| is_so(command));
        let names = names.filter_map(|command| command.path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(missing) = those(|command| command.before.is_none()) {
        let what = format!("missing in {folder}: {missing}");
        return Check::warning(NAME, what, init(scope));
    }
    if let Some(old) = those(Command::changed) {
        let what = format!("another becket's in {folder}: {old}");
        return Check::warning(NAME, what, init(scope));
    }
    if let Some(foreign) = those(|command| command.left_alone) {
        let what = format!("not as becket wrote it in {folder}: {foreign}");
        let mend = format!(
            "keep it if it is yours; else remove it, then `{}`",
            init(scope)
        );
        return Check::warning(NAME, what, mend);
    }
    Check::good(
        NAME,
        format!("/hook:disable, /hook:enable, /hook:status, {folder}"),
    )
}
