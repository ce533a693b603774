//! A real tmux with a shell in its pane, and in the shell something that stands for Claude Code.

use std::ffi::OsString;

use becket_tests::skip::skip;
use becket_tests::terminal::{Screen, Terminal};
use becket_tests::wait::{self, PATIENCE};
use becket_wire::process::parent_and_start;
use becket_wire::session::Status;

use super::*;

/// Repeats what it reads, and says goodbye when it is asked to end.
const CLAUDE: &str = r#"sh -c 'trap "echo by""e; exit" TERM; echo "I am $$ now"; while read line; do echo "got <$line>"; done'"#;

struct Scene {
    terminal: Terminal,
    row: SessionRow,
}

fn start(name: &str) -> Option<Scene> {
    start_with(name, CLAUDE)
}

fn start_with(name: &str, claude: &str) -> Option<Scene> {
    let shell = ["/bin/bash", "--norc", "--noprofile", "-i"].map(OsString::from);
    let env = [("PS1".to_owned(), "shell$ ".to_owned())];
    let terminal = match Terminal::start(&shell, &env, Path::new("/"), (100, 24)) {
        Ok(terminal) => terminal,
        Err(why) => {
            skip(name, &why);
            return None;
        }
    };
    terminal.wait_text("$");
    terminal.type_text(claude);
    terminal.press("Enter");
    let said = terminal.wait_for("its pid", |screen| pid(&screen.0).is_some());
    let pid = pid(&said.0);
    let row = SessionRow {
        pid,
        pid_start: pid.and_then(started),
        tmux_pane: Some("%0".to_owned()),
        tmux_socket: Some(terminal.socket().to_string_lossy().into_owned()),
        ..SessionRow::default()
    };
    Some(Scene { terminal, row })
}

fn pid(screen: &str) -> Option<u32> {
    let mut lines = screen.lines();
    lines.find_map(|line| line.strip_prefix("I am ")?.split(' ').next()?.parse().ok())
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(parent_and_start(&stat)?.1)
}

fn failure(result: Result<()>) -> String {
    result.expect_err("a refusal").to_string()
}

impl Scene {
    fn with(&self, change: impl FnOnce(&mut SessionRow)) -> SessionRow {
        let mut row = self.row.clone();
        change(&mut row);
        row
    }

    /// Nothing of it may stand on the screen: neither run nor typed.
    #[track_caller]
    fn never_reached(&self, text: &str) {
        self.terminal.type_text("echo the ''end");
        self.terminal.press("Enter");
        let screen = self.terminal.wait_text("the end");
        assert!(!screen.contains(text), "{}", screen.0);
    }
}

#[test]
fn a_line_reaches_claude_as_it_is() {
    let Some(scene) = start("a_line_reaches_claude_as_it_is") else {
        return;
    };
    send_line(&scene.row, "fix it; $HOME #{pane_id} Enter;").expect("sent");
    scene
        .terminal
        .wait_text("got <fix it; $HOME #{pane_id} Enter;>");
    send_line(&scene.row, "-l ünïcode").expect("sent");
    scene.terminal.wait_text("got <-l ünïcode>");
    send_line(&scene.row, "-l ünïcode").expect("sent again");
    let twice = |screen: &Screen| screen.0.matches("got <-l ünïcode>").count() == 2;
    scene.terminal.wait_for("it twice", twice);
}

#[test]
fn a_pane_that_is_scrolled_back_gets_the_line_all_the_same() {
    let Some(scene) = start("a_pane_that_is_scrolled_back_gets_the_line_all_the_same") else {
        return;
    };
    scene.terminal.tmux_says(&["copy-mode", "-t", "%0"]);
    send_line(&scene.row, "q hello").expect("sent");
    scene.terminal.wait_text("got <q hello>");
}

#[test]
fn nothing_reaches_the_shell_once_claude_has_ended() {
    let Some(scene) = start("nothing_reaches_the_shell_once_claude_has_ended") else {
        return;
    };
    scene.terminal.press("C-d");
    let gone = || started(scene.row.pid?).is_none().then_some(());
    wait::until(PATIENCE, gone).expect("its end");
    assert!(failure(send_line(&scene.row, "echo ran-in-shell")).contains("has ended"));
    assert!(failure(interrupt(&scene.row)).contains("has ended"));
    assert!(failure(end(&scene.row)).contains("has ended"));
    scene.never_reached("ran-in-shell");
}

#[test]
fn nothing_reaches_the_shell_while_claude_is_in_the_background() {
    let Some(scene) = start("nothing_reaches_the_shell_while_claude_is_in_the_background") else {
        return;
    };
    scene.terminal.press("C-z");
    scene.terminal.wait_text("Stopped");
    let told = failure(send_line(&scene.row, "echo ran-in-shell"));
    assert!(told.contains("not in front"), "{told}");
    assert!(failure(interrupt(&scene.row)).contains("not in front"));
    scene.never_reached("ran-in-shell");
}

#[test]
fn another_pane_or_another_process_is_refused() {
    let Some(scene) = start("another_pane_or_another_process_is_refused") else {
        return;
    };
    scene
        .terminal
        .tmux_says(&["split-window", "-d", "-t", "%0", "cat"]);
    let refused = |row: &SessionRow| failure(send_line(row, "astray"));
    let other_pane = scene.with(|row| row.tmux_pane = Some("%1".to_owned()));
    assert!(refused(&other_pane).contains("not in front"));
    let other_start = scene.with(|row| row.pid_start = row.pid_start.map(|start| start + 1));
    assert!(refused(&other_start).contains("has ended"));
    assert!(failure(end(&other_start)).contains("has ended"));
    let no_pane = scene.with(|row| row.tmux_pane = Some("%99".to_owned()));
    assert_eq!(refused(&no_pane), "the pane %99 is gone");
    let no_server = scene.with(|row| row.tmux_socket = Some("/nowhere/socket".to_owned()));
    assert!(refused(&no_server).contains("/nowhere/socket is gone"));
    let unknown = scene.with(|row| row.tmux_pane = None);
    assert!(refused(&unknown).contains("no tmux pane is known"));
    let strange = scene.with(|row| row.tmux_pane = Some("{last}".to_owned()));
    assert!(refused(&strange).contains("no tmux pane is known"));
    scene
        .terminal
        .tmux_says(&["set-option", "-w", "-t", "%0", "synchronize-panes", "on"]);
    assert!(refused(&scene.row).contains("synchronized"));
    scene
        .terminal
        .tmux_says(&["set-option", "-w", "-t", "%0", "synchronize-panes", "off"]);
    send_line(&scene.row, "right").expect("sent");
    let screen = scene.terminal.wait_text("got <right>");
    assert!(!screen.contains("astray"), "{}", screen.0);
}

#[test]
fn enter_is_not_pressed_where_the_text_does_not_appear() {
    let quiet = r#"sh -c 'stty -echo; echo "I am $$ now"; read line; echo "got <$line>"'"#;
    let name = "enter_is_not_pressed_where_the_text_does_not_appear";
    let Some(scene) = start_with(name, quiet) else {
        return;
    };
    let told = failure(send_line(&scene.row, "yes"));
    assert!(told.contains("Enter was not pressed"), "{told}");
    scene.terminal.type_text("!");
    scene.terminal.press("Enter");
    scene.terminal.wait_text("got <yes!>");
}

#[test]
fn a_dialog_gets_no_line() {
    let row = SessionRow {
        tmux_pane: Some("%0".to_owned()),
        tmux_socket: Some("/nowhere".to_owned()),
        status: Status::Attention {
            reason: "Permission for Bash".to_owned(),
        },
        ..SessionRow::default()
    };
    assert!(failure(send_line(&row, "go on")).contains("Permission for Bash"));
}

#[test]
fn a_line_is_one_line() {
    for wrong in [
        "",
        "  ",
        "a\nb",
        "a\rb",
        "\u{1b}[A",
        "a\u{7f}",
        &"x".repeat(9000),
    ] {
        assert!(must_be_a_line(wrong).is_err(), "{wrong:?}");
    }
    must_be_a_line("fix it; please").expect("a line");
}

#[test]
fn interrupt_is_escape() {
    let cat = r#"sh -c 'echo "I am $$ now"; exec cat -v'"#;
    let Some(scene) = start_with("interrupt_is_escape", cat) else {
        return;
    };
    interrupt(&scene.row).expect("sent");
    scene.terminal.wait_text("^[");
}

#[test]
fn end_asks_claude_to_end() {
    let Some(scene) = start("end_asks_claude_to_end") else {
        return;
    };
    end(&scene.row).expect("sent");
    // A shell runs its trap when the line is read.
    scene.terminal.press("Enter");
    scene.terminal.wait_text("bye");
}

#[test]
fn tmux_is_known_by_its_variable() {
    let here = CurrentTmux::new(Some("/tmp/a,b/default,123,0"), Some("%3".to_owned()));
    assert_eq!(here.socket.as_deref(), Some(Path::new("/tmp/a,b/default")));
    assert_eq!(here.pane.as_deref(), Some("%3"));
    assert!(
        CurrentTmux::new(None, Some("x".to_owned()))
            .must_be_inside()
            .is_err()
    );
}
