//! The command line. The arguments of a verb are in its file in `verb/`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becket_engine::hooks::slash;
use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::{Code, Failure};
use crate::switch::SwitchArgs;
use crate::verb;
use crate::world::World;

/// The place of the global options in a verb's help: after its own options.
const LAST: usize = 900;

/// The verbs in the order of the top-level help. Those that people rarely type are left out of it.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Every day",
        &[
            "sessions", "answer", "show", "events", "stats", "replay", "tmux",
        ],
    ),
    (
        "Hooks and guards",
        &[
            "hooks", "disable", "enable", "guard", "allow", "why", "trust",
        ],
    ),
    ("Work", &["run", "effort", "prd", "checkpoint"]),
    (
        "Set-up and repair",
        &["up", "down", "doctor", "demo", "config"],
    ),
];

/// See every Claude Code session in one place. Without a command: the live view
#[derive(Debug, Parser)]
#[command(name = "becket", version = version(), propagate_version = true, disable_help_subcommand = true)]
pub struct Args {
    /// Work with this becket home instead of ~/.becket
    #[arg(long, global = true, value_name = "FOLDER", display_order = LAST)]
    home: Option<PathBuf>,
    /// Set a key of the configuration for this command
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = parse_pair, display_order = LAST)]
    set: Vec<(String, String)>,
    /// Append what every draw of the live view took: microseconds of the clock and of the processor
    #[arg(long, hide = true, value_name = "FILE")]
    frame_times: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Up(verb::up::UpArgs),
    Demo(verb::demo::DemoArgs),
    #[command(hide = true)]
    Init(verb::init::InitArgs),
    #[command(alias = "uninit")]
    Down(verb::down::DownArgs),
    Doctor(verb::doctor::DoctorArgs),
    Sessions(verb::sessions::SessionsArgs),
    Show(verb::show::ShowArgs),
    Replay(verb::replay::ReplayArgs),
    Name(verb::name::NameArgs),
    Wait(verb::wait::WaitArgs),
    Events(verb::events::EventsArgs),
    Run(verb::run::RunArgs),
    Prd(verb::prd::Prd),
    Effort(verb::effort::Effort),
    #[command(hide = true)]
    Task(verb::task::Task),
    #[command(hide = true)]
    Log(verb::effort::Log),
    Checkpoint(verb::checkpoint::CheckpointArgs),
    Hooks(verb::hooks::HooksArgs),
    /// Switch a hook off for one session
    ///
    /// Only this session is affected, and no config is changed. Without a name: list the hooks of
    /// this project, and which of them do not run.
    Disable(SwitchArgs),
    /// Switch a hook on again for one session
    ///
    /// Takes `becket disable` back. A hook that the config switches off stays off, and the file that
    /// does so is named. Without a name: list the hooks of this project, and which do not run.
    Enable(SwitchArgs),
    Stats(verb::stats::StatsArgs),
    Why(verb::why::WhyArgs),
    Guard(verb::guard::GuardArgs),
    Allow(verb::allow::AllowArgs),
    Answer(verb::answer::AnswerArgs),
    Trust(verb::trust::TrustArgs),
    Tmux(verb::tmux::TmuxArgs),
    Daemon(verb::daemon::DaemonArgs),
    Config(verb::config::ConfigArgs),
    Gc(verb::gc::GcArgs),
    Completions(verb::completions::CompletionsArgs),
    Hook(verb::hook::HookArgs),
    Builtin(verb::builtin::BuiltinArgs),
    Statusline(verb::statusline::StatuslineArgs),
}

impl Verb {
    /// Returns the name of a verb whose effect outlives the command. Such a verb refuses `--set`, which holds for
    /// one command.
    fn name_if_lasting(&self) -> Option<&'static str> {
        match self {
            Self::Up(_) => Some("up"),
            Self::Init(_) => Some("init"),
            Self::Trust(_) => Some("trust"),
            Self::Daemon(_) => Some("daemon"),
            _ => None,
        }
    }
}

fn version() -> String {
    becket_wire::Version::current().to_string()
}

fn parse_pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.to_owned())),
        None => Err("expected KEY=VALUE"),
    }
}

/// Builds the command line, whose help lists the verbs in groups.
fn command() -> Command {
    let command = Args::command();
    let head = command.get_styles().get_header();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, verbs) in GROUPS {
        template += &format!("\n{head}{title}:{head:#}\n");
        for name in verbs {
            let verb = command.find_subcommand(name);
            let about = verb.and_then(Command::get_about);
            template += &format!("  {name:11}  {}\n", about.cloned().unwrap_or_default());
        }
    }
    template += &format!("\n{head}Options:{head:#}\n{{options}}\n");
    template += "\n`becket COMMAND --help` tells more.";
    command.help_template(template)
}

/// Words that people try first, and the command that they look for.
const GUESSES: [(&str, &str); 16] = [
    ("adopt", "becket hooks adopt"),
    ("coverage", "becket guard coverage"),
    ("help", "becket --help"),
    ("install", "becket up"),
    ("list", "becket sessions"),
    ("logs", "becket events"),
    ("ls", "becket sessions"),
    ("kill", "x in the live view ends a session"),
    ("profile", "becket hooks profile"),
    ("recent", "becket hooks recent"),
    ("search", "becket events --grep TEXT"),
    ("status", "becket sessions"),
    ("try", "becket hooks try"),
    (
        "uninstall",
        "becket down, then ./uninstall in becket's source",
    ),
    ("version", "becket --version"),
    ("view", "becket"),
];

/// Explains a command line that people often type and that becket does not take. Returns none for all others.
pub fn explain(error: &clap::Error, words: &[String]) -> Option<Failure> {
    match (error.kind(), words) {
        (ErrorKind::InvalidSubcommand, [word, ..]) => {
            let (_, command) = GUESSES.iter().find(|(guess, _)| guess == word)?;
            let failure = Failure::new(Code::Usage, format!("becket has no command `{word}`"));
            Some(failure.hint(*command))
        }
        (ErrorKind::UnknownArgument, [guard, test, command @ ..])
            if guard == "guard" && test == "test" && command.len() > 1 =>
        {
            let failure = Failure::new(Code::Usage, "quote the command");
            Some(failure.hint(format!("becket guard test '{}'", command.join(" "))))
        }
        _ => None,
    }
}

impl Args {
    pub fn read() -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    pub fn run(self) -> Result<ExitCode> {
        let world = World::read(self.home, self.set)?;
        let Some(verb) = self.verb else {
            return verb::view::run(&world, self.frame_times.as_deref());
        };
        if let Some(name) = verb.name_if_lasting() {
            world.refuse_set(name)?;
        }
        match verb {
            Verb::Init(verb) => verb.run(&world),
            Verb::Down(verb) => verb.run(&world),
            Verb::Up(verb) => verb.run(&world),
            Verb::Demo(verb) => verb.run(&world),
            Verb::Doctor(verb) => verb.run(&world),
            Verb::Sessions(verb) => verb.run(&world),
            Verb::Show(verb) => verb.run(&world),
            Verb::Replay(verb) => verb.run(&world),
            Verb::Name(verb) => verb.run(&world),
            Verb::Wait(verb) => verb.run(&world),
            Verb::Events(verb) => verb.run(&world),
            Verb::Run(verb) => verb.run(&world),
            Verb::Prd(verb) => verb.run(&world),
            Verb::Task(verb) => verb.run(&world),
            Verb::Effort(verb) => verb.run(&world),
            Verb::Log(verb) => verb.run(&world),
            Verb::Checkpoint(verb) => verb.run(&world),
            Verb::Hooks(verb) => verb.run(&world),
            Verb::Disable(args) => args.run(slash::SlashVerb::Disable, &world),
            Verb::Enable(args) => args.run(slash::SlashVerb::Enable, &world),
            Verb::Stats(verb) => verb.run(&world),
            Verb::Why(verb) => verb.run(&world),
            Verb::Guard(verb) => verb.run(&world),
            Verb::Allow(verb) => verb.run(&world),
            Verb::Answer(verb) => verb.run(&world),
            Verb::Trust(verb) => verb.run(&world),
            Verb::Tmux(verb) => verb.run(&world),
            Verb::Daemon(verb) => verb.run(&world),
            Verb::Config(verb) => verb.run(&world),
            Verb::Gc(verb) => verb.run(&world),
            Verb::Statusline(verb) => verb.run(&world),
            Verb::Builtin(verb) => verb.run(&world),
            Verb::Hook(_) => verb::hook::misplaced(),
            Verb::Completions(verb) => verb.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_help_page_lists_each_verb_once_but_the_rare_ones() {
        let command = Args::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut verbs: Vec<&str> = shown.map(Command::get_name).collect();
        let listed = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied();
        let rare = ["completions", "daemon", "wait", "name", "gc"];
        let mut listed: Vec<&str> = listed.chain(rare).collect();
        verbs.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, verbs);
    }

    #[test]
    fn a_command_that_people_try_first_gets_a_hint() {
        let hint = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let all = std::iter::once("becket").chain(line.split(' '));
            let error = command().try_get_matches_from(all).unwrap_err();
            explain(&error, &words)?.hinted().map(str::to_owned)
        };
        assert_eq!(hint("status").as_deref(), Some("becket sessions"));
        assert_eq!(hint("version").as_deref(), Some("becket --version"));
        let quoted = "becket guard test 'rm -rf ~'";
        assert_eq!(hint("guard test rm -rf ~").as_deref(), Some(quoted));
        assert_eq!(hint("sesions"), None, "clap knows a similar word");
        assert_eq!(hint("guard lst"), None);
    }

    #[test]
    fn the_help_fits_80_columns() {
        insta::assert_snapshot!(command().render_help());
        for line in command().render_help().to_string().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    fn check(command: &mut Command) {
        let help = command.render_long_help().to_string().to_lowercase();
        for word in ["whoever", "nobody", "somebody"] {
            assert!(!help.contains(word), "{word}: {help}");
        }
        command.get_subcommands_mut().for_each(check);
    }

    #[test]
    fn help_is_in_plain_words() {
        check(&mut Args::command());
    }
}
