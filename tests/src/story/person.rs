//! A person at the interactive program.

use std::ffi::OsString;
use std::ops::Deref;
use std::time::Duration;

use super::Story;
use crate::skip::Unavailable;
use crate::terminal::{Screen, Terminal};
use crate::wait::{self, PATIENCE};

/// Wide and high enough that nothing a test looks for is wrapped or scrolled away.
const SIZE: (u16, u16) = (140, 50);

/// Longer than a new dialog ignores its answer.
const DEAF: Duration = Duration::from_millis(500);

/// Someone who types, reads and answers.
#[derive(Debug)]
pub struct Person<'a> {
    terminal: Terminal,
    story: &'a Story,
}

impl Deref for Person<'_> {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl<'a> Person<'a> {
    /// Starts the program and waits for its prompt. The mode is `default`: `auto` would ask the
    /// real server.
    pub(super) fn sits_down(story: &'a Story, args: &[&str]) -> Result<Self, Unavailable> {
        let mut command = story.claude.command().to_vec();
        if !args.contains(&"--permission-mode") {
            command.extend(["--permission-mode", "default"].map(OsString::from));
        }
        command.extend(args.iter().map(OsString::from));
        Self::sits_at(story, &command)
    }

    /// The same for a command that starts the program.
    pub(super) fn sits_at(story: &'a Story, command: &[OsString]) -> Result<Self, Unavailable> {
        let person = Self::at(story, command)?;
        person.reads_warning();
        person.ready();
        Ok(person)
    }

    /// A command in a terminal; whether it starts the program, and when, is the test's to say.
    pub fn at(story: &'a Story, command: &[OsString]) -> Result<Self, Unavailable> {
        let (env, project) = (story.home.env(), story.home.project());
        let terminal = Terminal::start(command, env, &project, SIZE)?;
        Ok(Self { terminal, story })
    }

    /// A version that does not know all events that becket registers says so at its start.
    #[track_caller]
    fn reads_warning(&self) {
        let warns = |screen: &Screen| screen.contains("Settings Warning");
        let up = self.wait_for("a start", |screen| shows_prompt(screen) || warns(screen));
        if warns(&up) {
            self.chooses(1);
        }
    }

    /// Waits until the program takes input.
    #[track_caller]
    pub fn ready(&self) {
        self.wait_for("the prompt", shows_prompt);
    }

    /// Types a line and sends it. What is typed has to be on the screen first, or the program
    /// would take text and Enter for something pasted.
    #[track_caller]
    pub fn submits(&self, text: &str) {
        self.type_text(text);
        self.wait_text(text);
        self.press("Enter");
    }

    /// Chooses from the dialog on the screen: 1 is the first line.
    #[track_caller]
    pub fn chooses(&self, line: usize) {
        self.wait_text("❯ 1.");
        for next in 2..=line {
            self.press("Down");
            self.wait_text(&format!("❯ {next}."));
        }
        self.closes_dialog("Enter", shows_dialog);
    }

    /// Turns the dialog on the screen down.
    #[track_caller]
    pub fn refuses(&self) {
        self.wait_text("❯ 1.");
        self.closes_dialog("Escape", shows_dialog);
    }

    /// Closes the one dialog that shows this text, with one key.
    #[track_caller]
    pub fn closes(&self, text: &str, key: &str) {
        self.wait_text(text);
        self.closes_dialog(key, |screen| screen.contains(text));
    }

    /// The program ignores the answer for about 0.2 s after a dialog has come up, so that nobody
    /// agrees by accident, and nothing on the screen tells when it begins to listen. To press at
    /// once and again would be worse: a second Escape opens another dialog.
    #[track_caller]
    fn closes_dialog(&self, key: &str, shows: impl Fn(&Screen) -> bool) {
        let gone = || (!shows(&self.screen())).then_some(());
        wait::until(DEAF, gone);
        let closed = wait::until(PATIENCE, || {
            self.press(key);
            wait::until(Duration::from_secs(10), gone)
        });
        assert!(closed.is_some(), "the dialog stayed:\n{}", self.screen().0);
    }

    /// Presses Escape in the middle of a turn. A prompt that had no reply yet comes back into the
    /// input, to be changed: it is taken out.
    #[track_caller]
    pub fn interrupts(&self) {
        let busy = |screen: &Screen| screen.contains("esc to interrupt");
        self.wait_for("a turn under way", busy);
        self.press("Escape");
        self.wait_for("the turn ended", |screen| !busy(screen));
        self.press("C-u");
        self.ready();
    }

    /// Takes out of the input the prompt that comes back there, once it has.
    #[track_caller]
    pub fn takes_back(&self, prompt: &str) {
        let back = |screen: &Screen| input(screen) == Some(prompt);
        self.wait_for("the prompt back in the input", back);
        self.press("C-u");
        self.ready();
    }

    /// Leaves the program in an orderly way.
    #[track_caller]
    pub fn leaves(&self) {
        self.submits("/exit");
        // Where something still runs behind, the program asks first.
        let asks = |screen: &Screen| screen.contains("Exit and stop tasks");
        let next = wait::until(PATIENCE, || {
            let asked = asks(&self.screen()).then_some(true);
            asked.or_else(|| self.has_ended().then_some(false))
        });
        if next == Some(true) {
            let ended = || self.has_ended().then_some(());
            wait::until(DEAF, ended);
            wait::until(PATIENCE, || {
                self.press("Enter");
                wait::until(Duration::from_secs(10), ended)
            });
        }
        self.wait_end();
    }

    pub fn story(&self) -> &Story {
        self.story
    }
}

fn shows_prompt(screen: &Screen) -> bool {
    let input = screen.contains("? for shortcuts") || shows_input(screen);
    input && !screen.contains("esc to interrupt")
}

/// An empty line for the input. Where there is a status line, nothing else tells that it is there.
fn shows_input(screen: &Screen) -> bool {
    input(screen).is_some_and(str::is_empty)
}

/// What stands in the line for the input: right below a rule, and with another beneath it.
fn input(screen: &Screen) -> Option<&str> {
    let lines: Vec<&str> = screen.0.lines().map(str::trim).collect();
    let is_rule = |line: &str| !line.is_empty() && line.chars().all(|c| c == '─');
    let text = |line: &'_ str| line.strip_prefix(['❯', '>']).is_some();
    let is_input = |pair: &[&str]| is_rule(pair[0]) && text(pair[1]);
    let at = lines.windows(2).rposition(is_input)?;
    let ends = lines[at + 2..].iter().any(|line| is_rule(line));
    let text = lines[at + 1].trim_start_matches(['❯', '>']).trim();
    ends.then_some(text)
}

/// A dialog is a numbered list with a mark at one of its lines.
fn shows_dialog(screen: &Screen) -> bool {
    let marked = screen
        .0
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("❯ "));
    let mut numbers = marked.filter_map(|line| line.split_once('.'));
    numbers.any(|(number, _)| number.parse::<u8>().is_ok())
}
