//! `becket completions`: prints a script for a shell, and writes man pages. The script calls becket for each
//! completion: clap knows the words of the command line, this file the names of sessions, hooks and keys.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::config::KEYS;
use becket_wire::session::SessionQuery;
use clap::{Arg, Command, CommandFactory};
use clap_complete::env::Shells;
use clap_complete::{
    ArgValueCandidates, ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell,
};

use crate::args::Args;
use crate::session::source::SessionSource;
use crate::session::{self, words};
use crate::ui::text::one_line;
use crate::world::{World, project_of};

/// The variable that names the shell whose line is completed.
const SHELL: &str = "COMPLETE";

/// The end of the script for zsh, which calls a file of its `fpath` for the first completion.
const ZSH: &str = r#"
if [[ "$funcstack[1]" == _becket ]]; then
    _clap_dynamic_completer_becket "$@"
fi
"#;

/// A part of the help of each argument that takes a session's title, too.
const TITLE: &str = "its title";

/// Print completions for a shell, or write the man pages
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell (default: the one in SHELL)
    #[arg(value_enum)]
    shell: Option<Shell>,
    /// Write the man pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

impl CompletionsArgs {
    pub fn run(self) -> Result<ExitCode> {
        if let Some(folder) = self.man {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("could not make {}", folder.display()))?;
            let mut command = Args::command();
            command.build();
            clap_mangen::generate_to(command, &folder)
                .with_context(|| format!("could not write man pages to {}", folder.display()))?;
            println!("The man pages are in {}.", folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        let shell = self.shell.or_else(Shell::from_env).unwrap_or(Shell::Bash);
        let shells = Shells::builtins();
        let script = shells.completer(&shell.to_string());
        let script = script.with_context(|| format!("there are no completions for {shell}"))?;
        let mut out = Vec::new();
        script.write_registration(SHELL, "becket", "becket", "becket", &mut out)?;
        if shell == Shell::Zsh {
            out.extend_from_slice(ZSH.as_bytes());
        }
        std::io::stdout().write_all(&out)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Completes a line for the script of a shell, and prints no errors into it. Returns none if no script called becket.
pub fn complete_if_called() -> Option<ExitCode> {
    // The variable alone is not enough: a project's settings may set it for a hook.
    std::env::args_os().nth(1).filter(|first| first == "--")?;
    let mut line: Vec<OsString> = std::env::args_os().collect();
    join_options(&mut line);
    let Ok(world) = World::read(home(&line), Vec::new()) else {
        return Some(ExitCode::FAILURE);
    };
    let names = Names {
        is_bash: std::env::var_os(SHELL).is_some_and(|shell| shell == "bash"),
        world: Arc::new(world),
    };
    let completions = CompleteEnv::with_factory(|| names.add_to(Args::command())).var(SHELL);
    match completions.try_complete(line, Some(&names.world.cwd)) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Puts each option right before its value: in bash, `--option=value` is three words. Their number stays, since
/// bash says which one it completes.
fn join_options(line: &mut [OsString]) {
    for nth in 1..line.len().saturating_sub(1) {
        if line[nth] == "=" {
            line[nth] = std::mem::replace(&mut line[nth - 1], "--help".into());
        }
    }
}

/// Returns the value of `--home` in this line.
fn home(line: &[OsString]) -> Option<PathBuf> {
    let mut words = line.iter().map(|word| word.to_string_lossy());
    let word = words.find(|word| word.starts_with("--home"))?;
    match word.strip_prefix("--home=") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => words.next().map(|folder| PathBuf::from(&*folder)),
    }
}

/// The names that clap does not know.
#[derive(Debug, Clone)]
struct Names {
    world: Arc<World>,
    is_bash: bool,
}

impl Names {
    /// Adds the candidates for values to the arguments of a command and of all commands below it.
    fn add_to(&self, command: Command) -> Command {
        let command = command.mut_args(|arg| self.add_to_argument(arg));
        command.mut_subcommands(|verb| self.add_to(verb))
    }

    /// Adds the candidates that belong to the id of an argument.
    fn add_to_argument(&self, arg: Arg) -> Arg {
        let names = self.clone();
        match arg.get_id().as_str() {
            "hook" => arg.add(ArgValueCandidates::new(move || names.hooks())),
            "session" => {
                let help = arg.get_help().map(ToString::to_string);
                let takes_title = help.is_some_and(|help| help.contains(TITLE));
                arg.add(ArgValueCompleter::new(move |word: &OsStr| {
                    names.sessions(word, takes_title)
                }))
            }
            "set" => arg.add(ArgValueCandidates::new(keys)),
            _ => arg,
        }
    }

    fn hooks(&self) -> Vec<CompletionCandidate> {
        let project = project_of(&self.world.cwd);
        let config = self.world.loader(Some(project)).current();
        let names = config.hooks.iter().map(|hook| &hook.name);
        names.map(CompletionCandidate::new).collect()
    }

    /// Returns the live sessions whose id begins with a word; without any, those whose title does. Starts no daemon.
    fn sessions(&self, word: &OsStr, takes_title: bool) -> Vec<CompletionCandidate> {
        // Shells pass the word as it was typed.
        let word = word.to_string_lossy().replace('\\', "");
        let word = word.trim_start_matches(['"', '\'']);
        let rows = SessionSource::open_quietly(&self.world).sessions(&SessionQuery::default());
        let mut rows = rows.unwrap_or_default();
        session::sort(&mut rows);
        let ids = words::ids(&rows);
        let (mut found, mut titled) = (Vec::new(), Vec::new());
        for row in &rows {
            let id = &ids[&*row.session_id];
            let title = row.title.as_deref().map(one_line);
            let by_id = CompletionCandidate::new(id).help(title.as_ref().map(Into::into));
            if id.starts_with(word) {
                found.push(by_id);
            } else if let Some(title) = title.filter(|title| title.starts_with(word)) {
                if self.is_bash {
                    // bash would not quote a title.
                    titled.push(by_id);
                } else if takes_title {
                    titled.push(CompletionCandidate::new(title).help(Some(id.into())));
                }
            }
        }
        if found.is_empty() { titled } else { found }
    }
}

/// Returns the keys of the configuration. A value follows each.
fn keys() -> Vec<CompletionCandidate> {
    let keys = KEYS.iter().filter(|key| !key.path.contains('*'));
    keys.map(|key| CompletionCandidate::new(format!("{}=", key.path)))
        .collect()
}
