//! The command line of Claude Code: which words are the program, its options, its prompt.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Options of Claude Code 2.1.325 that take no value. The word after any other option is taken for
/// its value, so that a prompt is never mistaken for one.
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

/// Options that say which session to begin with.
const BEGINNINGS: [&str; 7] = [
    "--resume",
    "-r",
    "--session-id",
    "--from-pr",
    "--continue",
    "-c",
    "--fork-session",
];

/// Options that take all words up to the next option.
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

/// What stands after `--`: the program, if the first word's base name is `claude`, and its arguments.
pub fn split(words: &[OsString]) -> (Option<PathBuf>, Vec<OsString>) {
    let is_program = |word: &OsString| Path::new(word).file_name() == Some(OsStr::new("claude"));
    match words.split_first() {
        Some((first, rest)) if is_program(first) => (Some(PathBuf::from(first)), rest.to_vec()),
        _ => (None, words.to_vec()),
    }
}

/// Whether this option is given, with or without a value.
pub fn has(words: &[OsString], names: &[&str]) -> bool {
    before_end(words).iter().any(|word| {
        let word = word.to_string_lossy();
        names.contains(&word.split('=').next().unwrap_or_default())
    })
}

/// The place of an option's value among the words, and the value. The last one counts.
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

/// The words of a start that goes on with a session: without what says how to begin, and without the
/// prompt, which was sent already.
pub fn to_go_on(words: &[OsString]) -> Vec<OsString> {
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

/// After a `--` of Claude Code's own, nothing is an option.
fn before_end(words: &[OsString]) -> &[OsString] {
    let end = words.iter().position(|word| word == "--");
    &words[..end.unwrap_or(words.len())]
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
    fn the_first_word_is_the_program_if_it_is_called_so() {
        let split = |line| split(&words(line));
        assert_eq!(split("claude -p x"), (Some("claude".into()), words("-p x")));
        assert_eq!(split("/opt/claude x").0, Some("/opt/claude".into()));
        assert_eq!(split("./claude-2 x"), (None, words("./claude-2 x")));
        assert_eq!(split(""), (None, words("")));
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let line = words("--settings a.json -p --settings=b.json x");
        assert_eq!(value(&line, "--settings"), Some((3, "b.json")));
        assert_eq!(value(&words("--settings a"), "--settings"), Some((1, "a")));
        assert_eq!(value(&words("-- --settings a"), "--settings"), None);
        assert_eq!(value(&words("--settings"), "--settings"), None);
        assert!(has(&line, &["-p", "--print"]) && !has(&line, &["--model"]));
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
            assert_eq!(to_go_on(&words(before)), words(after), "{before}");
        }
    }
}
