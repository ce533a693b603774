//! becket's registration for one launch: `--settings` with inline JSON, where no settings file has it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use anyhow::Result;

use super::arguments;
use crate::claude::Numbers;
use crate::failure::{Code, Failure};
use crate::settings::{self, SettingsFile, Strict};
use crate::world::World;

const HINT: &str = "give --settings an object of JSON, or the path of a file with one";
/// The oldest Claude Code that starts a hook without a shell, as becket is registered.
const OLDEST: Numbers = [2, 1, 139];

#[derive(Debug, PartialEq, Eq)]
pub enum InlineRegistration {
    /// The arguments have it now, or a settings file has it.
    Done,
    /// This Claude Code is too old for hooks without a shell.
    TooOld(Numbers),
}

/// Adds the registration to the arguments, if it is needed. `world` looks from the folder where
/// Claude Code is started; `version` is asked for only then.
pub fn register(
    world: &World,
    words: &mut Vec<OsString>,
    version: impl FnOnce() -> Option<Numbers>,
) -> Result<InlineRegistration> {
    // With this option Claude Code reads some of its files only.
    let sources = arguments::value(words, "--setting-sources").map(|(_, sources)| sources);
    if is_registered_in_a_file(world, sources) {
        return Ok(InlineRegistration::Done);
    }
    let version = version();
    if let Some(old) = version.filter(|version| *version < OLDEST) {
        return Ok(InlineRegistration::TooOld(old));
    }
    let registration = settings::registration_for(world, Strict::Keep, version)?;
    let (given, at) = match arguments::value(words, "--settings") {
        Some((at, given)) => (read(given, &world.cwd)?, Some((at, given.to_owned()))),
        None => (String::new(), None),
    };
    let merged = settings::with_registration(&given, &registration)
        .map_err(|why| Failure::new(Code::Usage, format!("--settings: {why}")).hint(HINT))?;
    match at {
        Some((at, _)) if words[at].to_string_lossy().starts_with("--settings=") => {
            words[at] = format!("--settings={merged}").into();
        }
        Some((at, _)) => words[at] = merged.into(),
        None => drop(words.splice(0..0, ["--settings".into(), merged.into()])),
    }
    Ok(InlineRegistration::Done)
}

/// A file that cannot be read is Claude Code's to complain about.
fn is_registered_in_a_file(world: &World, sources: Option<&str>) -> bool {
    let home = world.place.home().to_string_lossy();
    let is_read = |file: &&SettingsFile| {
        let scope = file.scope.to_string();
        sources.is_none_or(|sources| sources.split(',').any(|source| source.trim() == scope))
    };
    settings::files(world).iter().filter(is_read).any(|file| {
        let text = settings::read(&file.path).ok().flatten();
        text.is_some_and(|text| settings::is_registered(&text, &home).unwrap_or(false))
    })
}

/// The settings that the user gave: JSON, or the file of that name.
fn read(given: &str, cwd: &Path) -> Result<String> {
    if given.trim_start().starts_with('{') {
        return Ok(given.to_owned());
    }
    std::fs::read_to_string(cwd.join(given)).map_err(|why| unusable(given, &why))
}

fn unusable(given: &str, why: &io::Error) -> anyhow::Error {
    let shown: String = given.chars().take(80).collect();
    let what = format!("--settings is neither JSON nor a file that can be read: `{shown}`: {why}");
    Failure::new(Code::Usage, what).hint(HINT).into()
}
