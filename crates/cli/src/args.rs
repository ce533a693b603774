//! The command line, as typed. Each verb's own arguments stand in its file in `verb/`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becket_engine::config::KEYS;
use becket_engine::hooks::slash;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Parser, Subcommand};

use crate::switch::SwitchArgs;
use crate::verb;
use crate::world::World;

/// The hook runtime for Claude Code. Without a command: the live view of all sessions
#[derive(Debug, Parser)]
#[command(name = "becket", version = version(), propagate_version = true, disable_help_subcommand = true)]
pub struct Args {
    /// Work with this becket home instead of ~/.becket
    #[arg(long, global = true, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Set a key of the configuration for this command
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = Pair, hide_possible_values = true)]
    set: Vec<(String, String)>,
    /// Append what every draw of the live view took: microseconds of the clock and of the processor
    #[arg(long, hide = true, value_name = "FILE")]
    frame_times: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Up(verb::up::Up),
    Demo(verb::demo::Demo),
    Init(verb::init::Init),
    Uninit(verb::uninit::Uninit),
    Adopt(verb::adopt::Adopt),
    Doctor(verb::doctor::Doctor),
    Sessions(verb::sessions::Sessions),
    Show(verb::show::Show),
    Replay(verb::replay::Replay),
    Name(verb::name::Name),
    Wait(verb::wait::Wait),
    Events(verb::events::Events),
    Run(verb::run::Run),
    Prd(verb::prd::Prd),
    Task(verb::task::Task),
    Effort(verb::effort::Effort),
    Log(verb::effort::Log),
    Checkpoint(verb::checkpoint::Checkpoint),
    Hooks(verb::hooks::Hooks),
    /// Switch a hook off for one session
    ///
    /// Nothing but this session is concerned, and no config is changed. Without a name: the hooks
    /// that this project's config names, and which of them do not run.
    Disable(SwitchArgs),
    /// Switch a hook on again for one session
    ///
    /// Takes `becket disable` back. A hook that the config switches off stays off: what switches it
    /// off is said. Without a name: the hooks that this project's config names, and which of them do
    /// not run.
    Enable(SwitchArgs),
    Stats(verb::stats::Stats),
    Recent(verb::recent::Recent),
    Profile(verb::profile::Profile),
    Try(verb::try_hook::Try),
    Why(verb::why::Why),
    Guard(verb::guard::Guard),
    Trust(verb::trust::Trust),
    Tmux(verb::tmux::Tmux),
    Daemon(verb::daemon::Daemon),
    Config(verb::config::Config),
    Gc(verb::gc::Gc),
    Completions(verb::completions::Completions),
    Hook(verb::hook::Hook),
    Builtin(verb::builtin::Builtin),
    Statusline(verb::statusline::Statusline),
}

impl Verb {
    /// The name of a verb whose work goes by the config and stays: what counts for one command has no
    /// part in that.
    fn outlives_itself(&self) -> Option<&'static str> {
        match self {
            Self::Up(_) => Some("up"),
            Self::Init(_) => Some("init"),
            Self::Adopt(_) => Some("adopt"),
            Self::Trust(_) => Some("trust"),
            Self::Daemon(_) => Some("daemon"),
            _ => None,
        }
    }
}

fn version() -> String {
    becket_wire::Version::current().to_string()
}

/// `KEY=VALUE`. Shells complete the key.
#[derive(Clone)]
struct Pair;

impl TypedValueParser for Pair {
    type Value = (String, String);

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        text: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        TypedValueParser::parse_ref(&pair, command, option, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let keys = KEYS.iter().filter(|key| !key.path.ends_with('*'));
        let begun = keys.map(|key| PossibleValue::new(format!("{}=", key.path)));
        Some(Box::new(begun))
    }
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.to_owned())),
        None => Err("expected KEY=VALUE"),
    }
}

impl Args {
    pub fn run(self) -> Result<ExitCode> {
        let world = World::read(self.home, self.set)?;
        let Some(verb) = self.verb else {
            return verb::view::run(&world, self.frame_times.as_deref());
        };
        if let Some(name) = verb.outlives_itself() {
            world.refuse_set(name)?;
        }
        match verb {
            Verb::Init(verb) => verb.run(&world),
            Verb::Uninit(verb) => verb.run(&world),
            Verb::Adopt(verb) => verb.run(&world),
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
            Verb::Disable(args) => args.run(slash::Verb::Disable, &world),
            Verb::Enable(args) => args.run(slash::Verb::Enable, &world),
            Verb::Stats(verb) => verb.run(&world),
            Verb::Recent(verb) => verb.run(&world),
            Verb::Profile(verb) => verb.run(&world),
            Verb::Try(verb) => verb.run(&world),
            Verb::Why(verb) => verb.run(&world),
            Verb::Guard(verb) => verb.run(&world),
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
    use clap::CommandFactory;

    use super::*;

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
