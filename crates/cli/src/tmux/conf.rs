//! Adds becket's lines to a tmux.conf and removes them again. The lines are marked, and only files that the user
//! named are changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_daemon::tmux::{TmuxError, TmuxServer, tmux_command};
use becket_wire::Place;

use crate::settings::edit_text;
use becket_engine::replace;

const BEGIN: &str = "# >>> becket: added by `becket up --tmux`, taken out by `becket down` >>>";
const END: &str = "# <<< becket <<<";

const HOOKS: [&str; 4] = [
    "pane-focus-in[77]",
    "window-pane-changed[77]",
    "session-window-changed[77]",
    "client-session-changed[77]",
];
const KEY: &str = "B";
const IN_STATUS: &str = " #{@becket}";

/// Returns the lines for a becket at this path with this home. Each of them may be run several times: tmux does so
/// whenever the user loads the file again.
pub fn lines(becket: &Path, home: &Path) -> String {
    let becket = format!("{} --home {}", quoted(becket), quoted(home));
    let seen = format!(
        "run-shell -b \\\"{becket} tmux seen --socket '#{{socket_path}}' --pane '#{{pane_id}}' >/dev/null 2>&1\\\""
    );
    let hooks = HOOKS.map(|hook| format!("set-hook -g {hook} \"{seen}\"\n"));
    let next = format!(
        "{becket} tmux next >/dev/null 2>&1 || tmux display-message 'becket: no session waits for you'"
    );
    let hooks = hooks.concat();
    format!(
        "{BEGIN}
set-option -g focus-events on
if-shell -F '#{{m:*@becket*,#{{status-right}}}}' '' \"set-option -ga status-right '{IN_STATUS}'\"
bind-key {KEY} run-shell -b \"{next}\"
{hooks}{END}
"
    )
}

/// Quotes a word for the shell, inside of double quotes of tmux.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let path = path
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('$', "\\$");
    format!("'{}'", path.replace('\'', r"'\\''").replace('#', "##"))
}

/// Puts becket's lines into a text: in the place of older ones, else at the end.
fn with(text: &str, lines: &str) -> String {
    match find_lines(text) {
        Some((from, to)) => [&text[..from], lines, &text[to..]].concat(),
        None if text.is_empty() || text.ends_with('\n') => [text, lines].concat(),
        None => [text, "\n", lines].concat(),
    }
}

/// Removes becket's lines from a text. Returns none if it has none.
fn without(text: &str) -> Option<String> {
    let (from, to) = find_lines(text)?;
    Some([&text[..from], &text[to..]].concat())
}

/// Returns the range of becket's lines. If the end mark is missing, only the first line counts: those after it may be
/// the user's.
fn find_lines(text: &str) -> Option<(usize, usize)> {
    let from = find_line(text, BEGIN, 0)?;
    let rest = line_end(text, from);
    let end = find_line(text, END, rest);
    Some((from, end.map_or(rest, |at| line_end(text, at))))
}

/// Finds the first line from this position on that begins with the mark.
fn find_line(text: &str, mark: &str, from: usize) -> Option<usize> {
    text[from..]
        .match_indices(mark)
        .map(|(at, _)| from + at)
        .find(|at| *at == 0 || text[..*at].ends_with('\n'))
}

/// Returns the position after the end of the line at this position.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Puts the lines into a file. Returns true if that changed the file.
pub fn add(place: &Place, file: &Path, lines: &str) -> Result<bool> {
    // Remembered before it is changed: a file without the lines does no harm in the list.
    remember(place, file)?;
    edit_text(file, 0o644, |text| Ok(Some(with(text, lines))))
}

/// Removes the lines from every file that `add` was called with. Returns the files that had them.
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

/// Returns true if the lines were added to a file.
pub fn is_added(place: &Place) -> bool {
    !remembered(place).is_empty()
}

/// Undoes the settings of the lines in a server that has read them.
pub fn unload(server: &TmuxServer) -> Result<(), TmuxError> {
    let mut commands = Vec::new();
    let status = server.run(&[tmux_command(&["show-options", "-gv", "status-right"])])?;
    let status = status.trim_end_matches('\n');
    if status.contains(IN_STATUS) {
        let rest = status.replace(IN_STATUS, "");
        commands.push(tmux_command(&["set-option", "-g", "status-right", &rest]));
    }
    // A key that is not bound is an error to tmux 3.3.
    let key = server.run(&[tmux_command(&["list-keys", "-T", "prefix", KEY])]);
    let key = key.unwrap_or_default();
    if key.contains("tmux next") {
        commands.push(tmux_command(&["unbind-key", KEY]));
    }
    for hook in HOOKS {
        let name = hook.trim_end_matches("[77]");
        let set = server.run(&[tmux_command(&["show-hooks", "-g", name])]);
        if set.is_ok_and(|set| set.contains("tmux seen")) {
            commands.push(tmux_command(&["set-hook", "-gu", hook]));
        }
    }
    if commands.is_empty() {
        return Ok(());
    }
    server.run(&commands).map(drop)
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
