//! `becket run`: Claude Code as a child in this terminal, its session followed through the daemon.
//!
//! `arguments` makes its command line, `child` starts it, waits for its end and decides about a
//! restart, `follow` keeps the launch file (`launch_file`) current, and `window` opens all of that in
//! tmux.

pub mod arguments;
mod child;
mod follow;
pub mod launch_file;
pub mod window;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::lifecycle::now_ms;
use becket_wire::rpc::LAUNCH;
use becket_wire::session::{SessionQuery, SessionRow};

use crate::claude;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::tui::feed::{self, Message, QUEUE};
use crate::ui::time::clock;
use crate::unhooked_processes::NO_SESSIONS;
use crate::world::World;
pub use child::RestartPolicy;
use child::{
    Ending, Exit, MAX_RESTARTS, NextStep, Process, Restarts, SavedTerminal, SignalForwarder,
};
use follow::{AFTER_RESET, Followed, Follower, HANDOVER_GRACE};
pub use follow::{NoObserver, Observer};
use launch_file::LaunchFile;

/// The default time for the first session to start.
pub const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// The prompt for a session whose turn was cut off by a crash or a rate limit.
const CONTINUE_PROMPT: &str = "continue";
/// The prompt for a fresh Claude Code after a handover. The effort is in its context.
const EFFORT_PROMPT: &str = "Go on with the effort where the last context window left it.";

/// The options of a launch.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and arguments that follow `--`.
    pub words: Vec<OsString>,
    /// becket's own arguments for Claude Code, before the user's.
    pub options: Vec<OsString>,
    pub prompt: Option<String>,
    pub cwd: PathBuf,
    pub agent_id: Option<String>,
    pub establish_timeout: Duration,
    pub policy: RestartPolicy,
}

impl Launch {
    /// Runs Claude Code until it ends. Returns its exit code.
    pub fn run(self, world: &World, observer: &mut dyn Observer) -> Result<ExitCode> {
        let world = &World {
            cwd: self.cwd.clone(),
            ..world.clone()
        };
        let (named, words) = arguments::split(&self.words);
        must_have_terminal(&words)?;
        let path = std::env::var_os("PATH");
        let program = claude::find(named.as_deref(), path.as_deref(), &self.cwd)?;
        let mut words: Vec<OsString> = self.options.iter().cloned().chain(words).collect();
        if starts_session(&words) {
            let version = || claude::numbers(&claude::version_of(&program)?);
            if let Some([a, b, c]) = arguments::register(world, &mut words, version)? {
                print_message(&format!(
                    "Claude Code {a}.{b}.{c} is too old to be followed; it starts without becket"
                ));
                print_hint("claude update");
            }
        }
        launch_file::sweep(&world.place);
        if let Some((_, session)) = arguments::value(&words, "--resume") {
            must_be_closed(world, session)?;
        }
        let running = Running {
            launch: &self,
            world,
            program,
            words,
            launcher: Process::of(std::process::id()),
        };
        running.run_with_restarts(observer)
    }
}

fn starts_session(words: &[OsString]) -> bool {
    let first = words.first();
    first.is_none_or(|first| NO_SESSIONS.iter().all(|no| first != no))
}

/// Refuses a session that is open in another launch: two Claude Codes would write one transcript.
fn must_be_closed(world: &World, session: &str) -> Result<()> {
    let Some(launcher) = launch_file::launcher_of(&world.place, session) else {
        return Ok(());
    };
    let what = format!("the session {session} is open already, in becket run {launcher}");
    let hint = "leave it there first; becket shows where it runs";
    Err(Failure::new(Code::Failed, what).hint(hint).into())
}

/// Refuses an interactive Claude Code without a terminal.
fn must_have_terminal(words: &[OsString]) -> Result<()> {
    let prints = arguments::has(words, &["-p", "--print", "-h", "--help", "-v", "--version"]);
    let has_terminal = std::io::stdin().is_terminal() || std::io::stdout().is_terminal();
    if prints || has_terminal || !starts_session(words) {
        return Ok(());
    }
    let what = "Claude Code needs a terminal, and this is not one";
    let hint =
        "becket run --tmux opens it in a tmux window; becket run -- -p PROMPT prints an answer";
    Err(Failure::new(Code::Usage, what).hint(hint).into())
}

/// A launch with its complete command line.
struct Running<'a> {
    launch: &'a Launch,
    world: &'a World,
    program: PathBuf,
    /// Claude Code's arguments, without the prompt.
    words: Vec<OsString>,
    launcher: Process,
}

impl Running<'_> {
    fn run_with_restarts(&self, observer: &mut dyn Observer) -> Result<ExitCode> {
        let terminal = SavedTerminal::read();
        let signals = SignalForwarder::listen().context("could not listen to signals")?;
        let mut restarts = Restarts::default();
        let mut words = with_prompt(self.words.clone(), self.launch.prompt.as_deref());
        loop {
            let (exit, followed) = self.run_once(&words, &signals, observer)?;
            if matches!(exit, Exit::Signal(_)) {
                terminal.restore();
            }
            let ending = Ending {
                exit,
                followed,
                was_told_to_end: signals.was_told_to_end(),
            };
            let next = restarts.next(self.launch.policy, &ending, Instant::now());
            print_end(&ending, &next);
            let (after, limit) = match next {
                NextStep::Again { after, limit, .. } => (after, limit),
                NextStep::Fresh => {
                    terminal.restore();
                    words = arguments::words_to_continue(&self.words);
                    words = with_prompt(words, Some(EFFORT_PROMPT));
                    continue;
                }
                NextStep::End | NextStep::GiveUp => return Ok(ExitCode::from(exit.code())),
            };
            let at = (now_ms() + after.as_millis() as i64).max(limit.unwrap_or(0));
            self.show_wait(at);
            let goes_on = signals.wait_until(at);
            drop(std::fs::remove_file(
                self.world.place.launch(self.launcher.pid),
            ));
            if !goes_on {
                return Ok(ExitCode::from(exit.code()));
            }
            words = self.words_to_continue(&ending.followed);
        }
    }

    /// Runs one Claude Code from its start to its end.
    fn run_once(
        &self,
        words: &[OsString],
        signals: &SignalForwarder,
        observer: &mut dyn Observer,
    ) -> Result<(Exit, Followed)> {
        let Process { pid, start } = self.launcher;
        let restarts = self.launch.policy != RestartPolicy::Never;
        let mark = if restarts { ":restart" } else { "" };
        let mut variables = vec![(LAUNCH, format!("{pid}:{start}{mark}"))];
        if let Some(agent_id) = &self.launch.agent_id {
            variables.push(("AGENT_ID", agent_id.clone()));
        }
        let child = child::spawn(&self.program, words, &self.launch.cwd, &variables)?;
        signals.pass_to(Some(child));
        let follower = Follower {
            place: &self.world.place,
            launcher: self.launcher,
            child,
            cwd: &self.launch.cwd,
            agent_id: self.launch.agent_id.clone(),
            establish_timeout: self.launch.establish_timeout,
            resumes: self.launch.policy == RestartPolicy::AfterDeathOrLimit,
            starts_fresh: restarts,
            handover_grace: HANDOVER_GRACE,
            after_reset: AFTER_RESET,
        };
        let (to, heard) = sync_channel(QUEUE);
        let (watching, sender) = (self.world.clone(), to.clone());
        std::thread::spawn(move || feed::follow_sessions(&watching, &sender));
        let (exit, followed) = std::thread::scope(|scope| {
            let last_rows = || self.rows_at_the_end().unwrap_or_default();
            let following = scope.spawn(move || follower.run(&heard, observer, last_rows));
            let exit = child::wait(child);
            drop(to.send(Message::Leave));
            (exit, following.join().unwrap_or_default())
        });
        signals.pass_to(None);
        Ok((exit.context("could not wait for Claude Code")?, followed))
    }

    /// Returns the sessions of a running daemon, ended ones too. Starts no daemon.
    fn rows_at_the_end(&self) -> Option<Vec<SessionRow>> {
        let query = SessionQuery {
            all: true,
            limit: Some(20),
            ..SessionQuery::default()
        };
        Client::connect(self.world).ok()??.sessions(query).ok()
    }

    /// Writes a launch file for the wait, so that views list the launch.
    fn show_wait(&self, at: i64) {
        let file = LaunchFile {
            trouble: Some(format!("goes on with its session at {}", local_time(at))),
            ..LaunchFile::new(self.launcher, &self.launch.cwd)
        };
        drop(file.write(&self.world.place, self.launcher.pid));
    }

    /// Returns the arguments that continue the session, and its turn if that was cut off. A session
    /// without a transcript starts again.
    fn words_to_continue(&self, followed: &Followed) -> Vec<OsString> {
        let Some(session) = followed.session.as_ref().filter(|_| followed.resumable) else {
            return with_prompt(self.words.clone(), self.launch.prompt.as_deref());
        };
        let mut words = arguments::words_to_continue(&self.words);
        words.splice(0..0, ["--resume".into(), session.into()]);
        with_prompt(words, followed.cut_off.then_some(CONTINUE_PROMPT))
    }
}

/// Appends the prompt after `--`: an option that takes a list would take it as a value.
fn with_prompt(mut words: Vec<OsString>, prompt: Option<&str>) -> Vec<OsString> {
    if let Some(prompt) = prompt {
        if words.iter().all(|word| word != "--") {
            words.push("--".into());
        }
        words.push(prompt.into());
    }
    words
}

fn print_message(what: &str) {
    anstream::eprintln!("becket: {what}");
}

fn print_hint(what: &str) {
    anstream::eprintln!("hint: {what}");
}

/// Prints the messages for the user after the end of Claude Code.
fn print_end(ending: &Ending, next: &NextStep) {
    let followed = &ending.followed;
    if let Some(trouble) = &followed.trouble {
        print_message(trouble);
        print_hint("becket doctor; a wrapper script called claude must exec the real one");
    }
    if let Some(at) = followed.limit {
        print_message(&format!("the rate limit ends at {}", local_time(at)));
    }
    let how = match ending.exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    match next {
        NextStep::End => {}
        NextStep::Fresh => {
            print_message(
                "the context was handed over; a fresh Claude Code goes on with the effort",
            );
        }
        NextStep::GiveUp => {
            print_message(&format!(
                "Claude Code ended ({how}); gave up after {MAX_RESTARTS} restarts in 10 minutes"
            ));
            let session = followed.session.as_deref().unwrap_or_default();
            print_hint(&format!("becket run --resume {session}"));
        }
        NextStep::Again { limit: Some(_), .. } => {
            print_message("going on with the session after that; press Ctrl-C to stop");
        }
        NextStep::Again { nth, after, .. } => print_message(&format!(
            "Claude Code ended ({how}); restarting the session in {} s ({nth} of {MAX_RESTARTS}), press Ctrl-C to stop",
            after.as_secs()
        )),
    }
}

fn local_time(at: i64) -> String {
    let now = becket_engine::local_time::now();
    clock(at, &now)
}
