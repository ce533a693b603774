//! The status line: whether it is registered, and whether what is registered prints one.

use std::process::Command;

use anyhow::{Context, Result, bail};
use becket_engine::run;
use serde_json::json;

use super::Check;
use crate::canary::BOUNDS;
use crate::settings::{Inspection, Scope, SettingsFile, Standing, line_is_unwanted};
use crate::world::World;

const NAME: &str = "status line";

/// How the status line of the person's own settings stands, where becket is registered.
pub(super) fn registered(world: &World, file: &SettingsFile, inspection: &Inspection) -> Check {
    let path = file.path.display();
    match &inspection.status_line {
        Standing::Found(command) => match sample(command) {
            Ok(()) => Check::good(NAME, format!("prints a line, {path}")),
            Err(why) => Check::broken(NAME, format!("{why:#}"), "becket init"),
        },
        Standing::Different(_) => {
            let what = format!("it is not what this becket wants in {path}");
            Check::broken(NAME, what, "becket init")
        }
        _ if line_is_unwanted(world, &file.path) => Check::good(
            NAME,
            "left to you; `becket init --statusline` shows becket's",
        ),
        Standing::Missing | Standing::Theirs => {
            let what =
                format!("becket's is not registered in {path}, so context and cost come late");
            Check::warning(NAME, what, "becket init")
        }
    }
}

/// A status line of another file that hides the person's own.
pub(super) fn hidden(file: &SettingsFile, inspection: &Inspection) -> Option<Check> {
    let hides = file.scope != Scope::User && inspection.status_line == Standing::Theirs;
    let path = file.path.display();
    hides.then(|| {
        let what = format!("the one in {path} hides becket's here");
        Check::warning(NAME, what, format!("take statusLine out of {path}"))
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
    let done = run::command(&mut line, payload.to_string().as_bytes(), &BOUNDS);
    let done = done.context("could not start /bin/sh")?;
    if !done.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        bail!("`{command}` ended with {}: {said}", done.end());
    }
    Ok(())
}
