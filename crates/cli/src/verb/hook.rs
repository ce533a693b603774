//! `becket hook`: takes an event from Claude Code as the shim does, where the shim is not installed, and from the
//! shim itself where no daemon answers it.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_wire::{Place, Registration};

use crate::failure::{Code, Failure};
use crate::{signals, standalone};

/// Take one event from Claude Code, where the shim cannot
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct HookArgs {
    /// Judge the frame on stdin without a daemon, and say why there is none
    #[arg(long, value_name = "WHY", hide = true)]
    alone: Option<String>,
    /// The daemon had begun to run the named hooks: run none again
    #[arg(long, requires = "alone", hide = true)]
    held: bool,
    /// Run only the async hooks, and answer nothing
    #[arg(long, requires = "alone", hide = true)]
    behind: bool,
    /// The event that this registration is for
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// The place of this registration: settings, plugin, run, sdk
    #[arg(long, value_name = "SOURCE")]
    from: Option<String>,
}

/// Runs `becket hook` before clap reads the command line: clap exits with 2 for a wrong argument, which Claude Code
/// takes for a block. Returns none if the command is another verb.
pub fn run_if_called() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1).peekable();
    args.next_if(|verb| verb == "hook")?;
    // A person who types `hook` means `hooks`. Claude Code gives no terminal.
    if std::io::stdin().is_terminal() {
        return None;
    }
    becket_daemon::lifecycle::no_core_files();
    let args: Vec<OsString> = args.collect();
    if has(&args, "--help") || has(&args, "-h") {
        return None;
    }
    if !has(&args, "--alone") {
        if args.iter().any(|arg| is_set(&arg.to_string_lossy())) {
            eprintln!("becket: `becket hook` ignores --set: events are judged by the config files");
        }
        return Some(becket_hook::run(args.into_iter()));
    }
    let why = args.iter().skip_while(|arg| *arg != "--alone").nth(1);
    let why = why.map_or("unknown".into(), |why| why.to_string_lossy());
    let call = standalone::StandaloneCall {
        why: &why,
        held: has(&args, "--held"),
        behind: has(&args, "--behind"),
    };
    if !call.behind {
        // The shim waits, and Claude Code signals the shim alone.
        signals::terminate_with_parent();
    }
    let registration = Registration::read(args.iter().cloned());
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let place = Place::find(registration.home, variable("BECKET_HOME"), variable("HOME"));
    let exit = place
        .context("no home folder")
        .and_then(|place| standalone::run(&place, call));
    Some(exit.unwrap_or_else(|error| {
        eprintln!("becket: {error:#}");
        ExitCode::FAILURE
    }))
}

fn has(args: &[OsString], option: &str) -> bool {
    args.iter().any(|arg| arg == option)
}

fn is_set(arg: &str) -> bool {
    arg == "--set" || arg.starts_with("--set=")
}

/// Refuses a call that [`run_if_called`] did not take, because an option comes before the verb.
pub fn misplaced() -> Result<ExitCode> {
    let what = "the options of `becket hook` go after the word `hook`";
    let hint = "becket hook --event EVENT --home FOLDER";
    Err(Failure::new(Code::Failed, what).hint(hint).into())
}
