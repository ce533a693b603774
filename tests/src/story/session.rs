//! Sessions as `becket sessions --json` lists them, and the person at the terminal.

use std::ffi::OsString;
use std::ops::{Deref, Index};
use std::process::Output;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::Story;
use crate::skip::Unavailable;
use crate::terminal::{Screen, Terminal};
use crate::wait::{self, PATIENCE};
use crate::world::World;

/// One session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session(pub Value);

impl Index<&str> for Session {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        &self.0[field]
    }
}

impl Session {
    /// Returns a field as text; empty if null.
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    pub fn id(&self) -> &str {
        self.text("session_id")
    }

    /// Returns a time field, in milliseconds since 1970.
    #[track_caller]
    pub fn at(&self, field: &str) -> i64 {
        let moment: Result<jiff::Timestamp, _> = self.text(field).parse();
        let moment = moment.unwrap_or_else(|why| panic!("{field} is no moment ({why}): {self:?}"));
        moment.as_millisecond()
    }

    /// Returns the main agent's status in one word: `working(Bash)`.
    pub fn status(&self) -> String {
        word(&self.0)
    }

    /// Returns the displayed state.
    pub fn display(&self) -> &str {
        self.text("display")
    }

    /// Returns the subagents, as sessions with some of the fields.
    pub fn agents(&self) -> Vec<Self> {
        let agents = self.0["agents"].as_array().cloned().unwrap_or_default();
        agents.into_iter().map(Self).collect()
    }
}

fn word(row: &Value) -> String {
    let status = row["status"].as_str().unwrap_or_default();
    match row["detail"].as_str().or(row["reason"].as_str()) {
        Some(more) => format!("{status}({more})"),
        None => status.to_owned(),
    }
}

/// Returns the current time, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

/// A running `becket wait`.
#[derive(Debug)]
pub struct Waiting(JoinHandle<(Output, i64)>);

impl Waiting {
    /// Waits for the end and returns the printed session and the time of the end.
    #[track_caller]
    pub fn wait(self) -> (Session, i64) {
        let (output, at) = self.0.join().expect("wait for becket wait");
        assert!(output.status.success(), "becket wait: {output:?}");
        let row = serde_json::from_slice(&output.stdout).expect("a session as JSON");
        (Session(row), at)
    }
}

impl Story {
    /// Returns the world of becket.
    #[track_caller]
    pub fn becket(&self) -> &World {
        let mut worlds = self.registered.iter().filter_map(|one| one.world());
        worlds.next().expect("becket is registered in this story")
    }

    /// Returns the live sessions.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Session> {
        self.listed(&["sessions", "--json"])
    }

    /// Returns all sessions, also ended ones and Claude Code processes without becket.
    #[track_caller]
    pub fn all_sessions(&self) -> Vec<Session> {
        self.listed(&["sessions", "--all", "--json"])
    }

    fn listed(&self, args: &[&str]) -> Vec<Session> {
        let rows = serde_json::from_str(&self.becket().run(args));
        let rows: Vec<Value> = rows.expect("an array of sessions");
        rows.into_iter().map(Session).collect()
    }

    /// Returns the session with this id, live or ended.
    #[track_caller]
    pub fn session(&self, id: &str) -> Session {
        let row = self.becket().run(&["show", id, "--json"]);
        Session(serde_json::from_str(&row).expect("a session as JSON"))
    }

    /// Waits until `fits` accepts a live session.
    #[track_caller]
    pub fn wait_session(&self, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
        self.wait_listed(what, || self.sessions(), fits)
    }

    /// Waits until `fits` accepts a session, live or ended.
    #[track_caller]
    pub fn wait_any_session(&self, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
        self.wait_listed(what, || self.all_sessions(), fits)
    }

    /// Waits until `fits` accepts a live session, and fails if that took longer than `bound` since `began`.
    #[track_caller]
    pub fn wait_session_within(
        &self,
        (began, bound): (Instant, Duration),
        what: &str,
        fits: impl Fn(&Session) -> bool,
    ) -> Session {
        let session = self.wait_session(what, fits);
        let took = began.elapsed();
        println!("{what} after {took:.1?}");
        assert!(took < bound, "{what} took {took:?}");
        session
    }

    #[track_caller]
    fn wait_listed(
        &self,
        what: &str,
        list: impl Fn() -> Vec<Session>,
        fits: impl Fn(&Session) -> bool,
    ) -> Session {
        let found = wait::until(PATIENCE, || list().into_iter().find(&fits));
        match found {
            Some(session) => session,
            None => panic!(
                "no session was ever {what}: {:#?}\n{}",
                list(),
                self.summary()
            ),
        }
    }

    /// Starts `becket wait ID --for GOAL`.
    pub fn waits(&self, id: &str, goal: &str) -> Waiting {
        let mut wait =
            self.becket()
                .becket(["wait", id, "--for", goal, "--timeout", "60s", "--json"]);
        Waiting(std::thread::spawn(move || {
            let output = wait.output().expect("becket wait runs");
            (output, now_ms())
        }))
    }
}

/// A size at which nothing that a test looks for is wrapped or scrolled away.
const SIZE: (u16, u16) = (140, 50);

/// A time longer than a new dialog ignores its answer.
const DEAF: Duration = Duration::from_millis(500);

/// A person who types, reads and answers.
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
    /// Starts Claude Code and waits for its prompt. The mode is `default`, because `auto` would ask the
    /// real server.
    pub(super) fn start(story: &'a Story, args: &[&str]) -> Result<Self, Unavailable> {
        let mut command = story.claude.command().to_vec();
        if !args.contains(&"--permission-mode") {
            command.extend(["--permission-mode", "default"].map(OsString::from));
        }
        command.extend(args.iter().map(OsString::from));
        Self::start_command(story, &command)
    }

    /// Runs a command that starts Claude Code and waits for its prompt.
    pub(super) fn start_command(
        story: &'a Story,
        command: &[OsString],
    ) -> Result<Self, Unavailable> {
        let person = Self::at(story, command)?;
        person.confirm_warning();
        person.ready();
        Ok(person)
    }

    /// Runs a command in a terminal and waits for nothing.
    pub fn at(story: &'a Story, command: &[OsString]) -> Result<Self, Unavailable> {
        let (env, project) = (story.home.env(), story.home.project());
        let terminal = Terminal::start(command, env, &project, SIZE)?;
        Ok(Self { terminal, story })
    }

    /// Confirms the warning of a version that does not know all events that becket registers.
    #[track_caller]
    fn confirm_warning(&self) {
        let warns = |screen: &Screen| screen.contains("Settings Warning");
        let up = self.wait_for("a start", |screen| shows_prompt(screen) || warns(screen));
        if warns(&up) {
            self.chooses(1);
        }
    }

    /// Waits until Claude Code takes input.
    #[track_caller]
    pub fn ready(&self) {
        self.wait_for("the prompt", shows_prompt);
    }

    /// Types a line and sends it. The text has to be on the screen first, or Claude Code would take text
    /// and Enter for a paste. The prompt of an interrupted turn may have come back into the input late.
    #[track_caller]
    pub fn submits(&self, text: &str) {
        if input(&self.screen()).is_some_and(|typed| !typed.is_empty()) {
            self.press("C-u");
        }
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

    /// Says yes to every dialog until the screen shows `text`, and returns the number of calls that were
    /// asked about. If auto mode cannot check a call, it shows that once, and then asks with `No` first.
    #[track_caller]
    pub fn agrees_until(&self, text: &str) -> usize {
        const NO_CHECK: &str = "Enter to stay in auto mode";
        let asks_no_first = |screen: &Screen| screen.contains("❯ No\n");
        let mut asked = 0;
        loop {
            let what = format!("a dialog, or {text:?}");
            let screen = self.wait_for(&what, |screen| {
                let dialog = shows_dialog(screen) || asks_no_first(screen);
                dialog || screen.contains(NO_CHECK) || screen.contains(text)
            });
            if screen.contains(NO_CHECK) {
                self.closes(NO_CHECK, "Enter");
                continue;
            }
            if shows_dialog(&screen) {
                self.chooses(1);
            } else if asks_no_first(&screen) {
                self.press("Down");
                self.closes("❯ Yes\n", "Enter");
            } else {
                return asked;
            }
            asked += 1;
        }
    }

    /// Refuses the dialog on the screen.
    #[track_caller]
    pub fn refuses(&self) {
        self.wait_text("❯ 1.");
        self.closes_dialog("Escape", shows_dialog);
    }

    /// Closes the dialog that shows this text, with one key.
    #[track_caller]
    pub fn closes(&self, text: &str, key: &str) {
        self.wait_text(text);
        self.closes_dialog(key, |screen| screen.contains(text));
    }

    /// Presses `key` until the dialog is gone. Claude Code ignores the answer for about 0.2 s after a
    /// dialog has come up, to prevent accidents, and the screen does not show when it begins to listen.
    /// Pressing twice at once would be worse: a second Escape opens another dialog.
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

    /// Presses Escape during a turn. A prompt that had no reply yet comes back into the input and is
    /// deleted.
    #[track_caller]
    pub fn interrupts(&self) {
        let busy = |screen: &Screen| screen.contains("esc to interrupt");
        self.wait_for("a turn under way", busy);
        self.press("Escape");
        self.wait_for("the turn ended", |screen| !busy(screen));
        self.press("C-u");
        self.ready();
    }

    /// Quits Claude Code.
    #[track_caller]
    pub fn leaves(&self) {
        self.submits("/exit");
        // Claude Code asks first while something runs in the background.
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

/// Returns true if the input line is empty. With a status line, nothing else shows that the input is there.
fn shows_input(screen: &Screen) -> bool {
    input(screen).is_some_and(str::is_empty)
}

/// Returns the text of the input line: right below a rule, with another beneath it.
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

/// Returns true for a numbered list with a mark at one of its lines.
fn shows_dialog(screen: &Screen) -> bool {
    let marked = screen
        .0
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("❯ "));
    let mut numbers = marked.filter_map(|line| line.split_once('.'));
    numbers.any(|(number, _)| number.parse::<u8>().is_ok())
}
