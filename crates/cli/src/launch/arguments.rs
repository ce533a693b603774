//! Parses the command line of Claude Code into program, options and prompt, and adds becket's
//! registration to it (`--settings` with inline JSON) if no settings file has it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::claude::Numbers;
use crate::failure::{Code, Failure};
use crate::settings::{self, Strict};
use crate::world::World;

/// The options of Claude Code 2.1.325 that take no value. The word after any other option counts as
/// its value, so that a value is never taken for a prompt.
const FLAGS: [&str; 34] = [
    "--allow-dangerously-skip-permissions",
    "--ax-screen-reader",
    "--bare",
    "--background",
    "--bg",
    "--brief",
    "--chrome",
    "--continue",
    "--dangerously-skip-permissions",
    "--desktop",
    "--disable-slash-commands",
    "--exclude-dynamic-system-prompt-sections",
    "--fork-session",
    "--forward-subagent-text",
    "--help",
    "--ide",
    "--include-hook-events",
    "--include-partial-messages",
    "--init",
    "--init-only",
    "--maintenance",
    "--no-chrome",
    "--no-session-persistence",
    "--print",
    "--replay-user-messages",
    "--restricted",
    "--safe-mode",
    "--strict-mcp-config",
    "--tmux",
    "--verbose",
    "-c",
    "-h",
    "-p",
    "-v",
];

/// The options that choose the session to start with.
const BEGINNINGS: [&str; 7] = [
    "--resume",
    "-r",
    "--session-id",
    "--from-pr",
    "--continue",
    "-c",
    "--fork-session",
];

/// The options that take all words up to the next option.
const LISTS: [&str; 9] = [
    "--add-dir",
    "--allowedTools",
    "--allowed-tools",
    "--betas",
    "--disallowedTools",
    "--disallowed-tools",
    "--file",
    "--mcp-config",
    "--tools",
];

/// Splits the words after `--` into the program, if the base name of the first word is `claude`, and
/// its arguments.
pub fn split(words: &[OsString]) -> (Option<PathBuf>, Vec<OsString>) {
    if let Some((first, rest)) = words.split_first()
        && Path::new(first).file_name() == Some(OsStr::new("claude"))
    {
        return (Some(PathBuf::from(first)), rest.to_vec());
    }
    (None, words.to_vec())
}

/// Returns true if one of these options is given, with or without a value.
pub fn has(words: &[OsString], names: &[&str]) -> bool {
    before_end(words).iter().any(|word| {
        let word = word.to_string_lossy();
        names.contains(&word.split('=').next().unwrap_or_default())
    })
}

/// Returns the index and the value of an option. The last one counts.
pub fn value<'w>(words: &'w [OsString], name: &str) -> Option<(usize, &'w str)> {
    let words = before_end(words);
    let at = words.iter().rposition(|word| {
        let word = word.to_string_lossy();
        word == name || word.starts_with(&format!("{name}="))
    })?;
    match words[at].to_str()?.split_once('=') {
        Some((_, value)) => Some((at, value)),
        None => Some((at + 1, words.get(at + 1)?.to_str()?)),
    }
}

/// Returns the words without the options that choose a session and without the prompt, which was sent
/// already. Used to continue a session.
pub fn words_to_continue(words: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = before_end(words).iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        let mut values = Vec::new();
        if text.starts_with('-') && !text.contains('=') && !FLAGS.contains(&name) {
            let most = if LISTS.contains(&name) { usize::MAX } else { 1 };
            while values.len() < most
                && let Some(value) = rest.next_if(|word| !word.as_encoded_bytes().starts_with(b"-"))
            {
                values.push(value.clone());
            }
        }
        if text.starts_with('-') && !BEGINNINGS.contains(&name) {
            kept.push(word.clone());
            kept.extend(values);
        }
    }
    kept
}

/// Returns the words before a `--` of Claude Code's own. None after it is an option.
fn before_end(words: &[OsString]) -> &[OsString] {
    let end = words.iter().position(|word| word == "--");
    &words[..end.unwrap_or(words.len())]
}

const HINT: &str = "pass --settings a JSON object, or the path of a file with one";
/// The oldest Claude Code that starts a hook without a shell, as becket is registered.
const OLDEST: Numbers = [2, 1, 139];

/// Adds the registration to the arguments if no settings file has it. `world` must have the folder in
/// which Claude Code is started. `version` is called only if it is needed. Returns the version of a Claude
/// Code that is too old for hooks without a shell, and adds nothing then.
pub fn register(
    world: &World,
    words: &mut Vec<OsString>,
    version: impl FnOnce() -> Option<Numbers>,
) -> Result<Option<Numbers>> {
    // With this option Claude Code reads only some of its settings files.
    let sources = value(words, "--setting-sources").map(|(_, sources)| sources);
    if settings::is_registered_here(world, sources) {
        return Ok(None);
    }
    let version = version();
    if let Some(old) = version.filter(|version| *version < OLDEST) {
        return Ok(Some(old));
    }
    let registration = settings::registration_for(world, Strict::Keep, version)?;
    let (given, at) = match value(words, "--settings") {
        Some((at, given)) => (read(given, &world.cwd)?, Some(at)),
        None => (String::new(), None),
    };
    let merged = settings::with_registration(&given, &registration)
        .map_err(|why| Failure::new(Code::Usage, format!("--settings: {why}")).hint(HINT))?;
    match at {
        Some(at) if words[at].to_string_lossy().starts_with("--settings=") => {
            words[at] = format!("--settings={merged}").into();
        }
        Some(at) => words[at] = merged.into(),
        None => drop(words.splice(0..0, ["--settings".into(), merged.into()])),
    }
    Ok(None)
}

/// Reads the settings that the user gave: JSON, or the path of a file.
fn read(given: &str, cwd: &Path) -> Result<String> {
    if given.trim_start().starts_with('{') {
        return Ok(given.to_owned());
    }
    std::fs::read_to_string(cwd.join(given)).map_err(|why| {
        let shown: String = given.chars().take(80).collect();
        let what =
            format!("--settings is neither JSON nor a file that can be read: `{shown}`: {why}");
        Failure::new(Code::Usage, what).hint(HINT).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ')
            .filter(|word| !word.is_empty())
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn a_restart_drops_the_prompt_and_the_old_beginning() {
        for (before, after) in [
            ("fix it", ""),
            ("--model opus fix it", "--model opus"),
            ("--verbose fix", "--verbose"),
            ("-r 4711 --fork-session fix", ""),
            ("--resume=4711 -c --model=opus", "--model=opus"),
            (
                "--allowedTools Bash Read --ide fix",
                "--allowedTools Bash Read --ide",
            ),
            ("--model opus -- --fix", "--model opus"),
            ("--new-option value", "--new-option value"),
        ] {
            assert_eq!(words_to_continue(&words(before)), words(after), "{before}");
        }
    }
}
