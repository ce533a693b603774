//! becket's lines in a tmux.conf: marked, added once, taken out again. Only files that
//! the user named are touched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_daemon::tmux::{TmuxError, TmuxServer, tmux_command};
use becket_wire::Place;

use crate::settings::edit_text;
use becket_engine::replace;

const BEGIN: &str = "# >>> becket: added by `becket init --tmux`, taken out by `becket uninit` >>>";
const END: &str = "# <<< becket <<<";

const HOOKS: [&str; 4] = [
    "pane-focus-in[77]",
    "window-pane-changed[77]",
    "session-window-changed[77]",
    "client-session-changed[77]",
];
const KEY: &str = "B";
const IN_STATUS: &str = " #{@becket}";

/// The lines, for a becket at this path with this home. Each can be read again and again: tmux
/// does so whenever the person loads the file anew.
pub fn lines(becket: &Path, home: &Path) -> String {
    let becket = format!("{} --home {}", quoted(becket), quoted(home));
    let seen = format!(
        "run-shell -b \\\"{becket} tmux seen --socket '#{{socket_path}}' --pane '#{{pane_id}}' >/dev/null 2>&1\\\""
    );
    let hooks = HOOKS.map(|hook| format!("set-hook -g {hook} \"{seen}\"\n"));
    let next = format!(
        "{becket} tmux next >/dev/null 2>&1 || tmux display-message 'becket: no session waits for you'"
    );
    [
        format!("{BEGIN}\n"),
        "set-option -g focus-events on\n".to_owned(),
        format!(
            "if-shell -F '#{{m:*@becket*,#{{status-right}}}}' '' \"set-option -ga status-right '{IN_STATUS}'\"\n"
        ),
        format!("bind-key {KEY} run-shell -b \"{next}\"\n"),
        hooks.concat(),
        format!("{END}\n"),
    ]
    .concat()
}

/// A word for the shell, inside double quotes of tmux's.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let path = path
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('$', "\\$");
    format!("'{}'", path.replace('\'', r"'\\''").replace('#', "##"))
}

/// The text with our lines in it: where they were before, else at its end.
fn with(text: &str, lines: &str) -> String {
    match ours(text) {
        Some((from, to)) => [&text[..from], lines, &text[to..]].concat(),
        None if text.is_empty() || text.ends_with('\n') => [text, lines].concat(),
        None => [text, "\n", lines].concat(),
    }
}

/// The text without our lines; none if they are not there.
fn without(text: &str) -> Option<String> {
    let (from, to) = ours(text)?;
    Some([&text[..from], &text[to..]].concat())
}

/// Where our lines begin and end. A beginning whose end is gone is the one line alone: what comes
/// after it may be the user's.
fn ours(text: &str) -> Option<(usize, usize)> {
    let starts_line = |at: usize| at == 0 || text[..at].ends_with('\n');
    let (from, _) = text.match_indices(BEGIN).find(|(at, _)| starts_line(*at))?;
    let line_end = |at: usize| text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
    let rest = line_end(from);
    let end = text[rest..]
        .match_indices(END)
        .find(|(at, _)| starts_line(rest + at));
    Some((from, end.map_or(rest, |(at, _)| line_end(rest + at))))
}

/// Puts the lines into a file; whether that changed it.
pub fn add(place: &Place, file: &Path, lines: &str) -> Result<bool> {
    // Remembered first: to look into a file in vain does no harm.
    remember(place, file)?;
    edit_text(file, 0o644, |text| Ok(Some(with(text, lines))))
}

/// Takes the lines out of every file that `add` was given; the files that held them.
pub fn take_out(place: &Place) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for file in remembered(place) {
        if edit_text(&file, 0o644, |text| Ok(without(text)))? {
            changed.push(file);
        }
    }
    match fs::remove_file(record(place)) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(why).context("could not forget the tmux files")
        }
        _ => Ok(changed),
    }
}

/// Whether a file holds them.
pub fn is_added(place: &Place) -> bool {
    !remembered(place).is_empty()
}

/// Takes what the lines have set off a server that has read them.
pub fn unload(server: &TmuxServer) -> Result<(), TmuxError> {
    let ask = |of: &[&str]| server.run(&[tmux_command(of)]);
    let mut commands = Vec::new();
    let status = ask(&["show-options", "-gv", "status-right"])?;
    let status = status.trim_end_matches('\n');
    if status.contains(IN_STATUS) {
        let without = status.replace(IN_STATUS, "");
        commands.push(tmux_command(&[
            "set-option",
            "-g",
            "status-right",
            &without,
        ]));
    }
    // A key that is not bound is an error to tmux 3.3.
    let key = ask(&["list-keys", "-T", "prefix", KEY]).unwrap_or_default();
    if key.contains("tmux next") {
        commands.push(tmux_command(&["unbind-key", KEY]));
    }
    for hook in HOOKS {
        let name = hook.trim_end_matches("[77]");
        let set = ask(&["show-hooks", "-g", name]).unwrap_or_default();
        if set.contains("tmux seen") {
            commands.push(tmux_command(&["set-hook", "-gu", hook]));
        }
    }
    match commands.is_empty() {
        true => Ok(()),
        false => server.run(&commands).map(drop),
    }
}

fn record(place: &Place) -> PathBuf {
    place.home().join("backup/tmux-files")
}

fn remembered(place: &Place) -> Vec<PathBuf> {
    let list = fs::read_to_string(record(place)).unwrap_or_default();
    list.lines().map(PathBuf::from).collect()
}

fn remember(place: &Place, file: &Path) -> Result<()> {
    if remembered(place).iter().any(|known| known == file) {
        return Ok(());
    }
    let folder = place.home().join("backup");
    replace::make_folder(&folder, 0o700)
        .with_context(|| format!("could not make {}", folder.display()))?;
    let line = format!("{}\n", file.display());
    edit_text(&record(place), 0o600, |text| {
        Ok(Some(format!("{text}{line}")))
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some() -> String {
        lines(Path::new("/opt/becket"), Path::new("/home/you/.becket"))
    }

    #[test]
    fn the_lines_as_a_person_sees_them() {
        insta::assert_snapshot!(some());
    }

    #[test]
    fn are_added_once_and_kept_where_they_are() {
        let once = with("set -g mouse on", &some());
        assert_eq!(with(&once, &some()), once);
        let below = format!("{once}bind x kill-pane\n");
        let newer = some().replace("/opt/becket", "/usr/bin/becket");
        let again = with(&below, &newer);
        assert_eq!(again.matches(BEGIN).count(), 1);
        assert!(again.ends_with("bind x kill-pane\n") && again.contains("/usr/bin/becket"));
    }

    #[test]
    fn files_are_remembered_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("home"));
        let file = folder.path().join("tmux.conf");
        fs::write(&file, "set -g mouse on\n").unwrap();
        assert!(add(&place, &file, &some()).unwrap());
        assert!(!add(&place, &file, &some()).unwrap());
        assert_eq!(remembered(&place), [file.as_path()]);
        assert_eq!(take_out(&place).unwrap(), [file.as_path()]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "set -g mouse on\n");
        assert!(take_out(&place).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn what_was_added_is_taken_out_again(text in "([a-z#<> ]{0,12}\n){0,6}") {
            let added = with(&text, &some());
            prop_assert_eq!(without(&added), Some(text));
        }
    }
}
