//! `becket up`: registers becket with Claude Code.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::commands::{self, CommandFile};
use crate::settings::{self, SettingsOutcome, SettingsScope, StatusLine, Strict};
use crate::tmux::conf;
use crate::ui::style::WARN;
use crate::ui::text::visible;
use crate::world::World;

/// Register becket with Claude Code
///
/// The same as `becket up --only-register`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    pub options: RegisterOptions,
    #[command(flatten)]
    preview: RegisterPreview,
    #[command(flatten)]
    pub tmux: TmuxLines,
}

/// The parts of the registration that may be switched.
#[derive(Debug, clap::Args)]
pub struct RegisterOptions {
    /// Block tool calls when becket-hook is missing or crashes
    #[arg(long, overrides_with = "no_strict")]
    pub strict: bool,
    /// Take --strict back
    #[arg(long, overrides_with = "strict")]
    no_strict: bool,
    /// Show becket's status line, beneath the one that you had (the default)
    #[arg(long, overrides_with = "no_statusline", conflicts_with_all = ["project", "local"])]
    statusline: bool,
    /// Do not register becket's status line
    #[arg(long, overrides_with = "statusline")]
    no_statusline: bool,
}

/// The ways to print the registration.
#[derive(Debug, clap::Args)]
struct RegisterPreview {
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The options that print or write the lines for tmux.
#[derive(Debug, clap::Args)]
pub struct TmuxLines {
    /// Print the lines for tmux.conf instead, and register nothing
    #[arg(long, conflicts_with_all = ["ScopeArgs", "RegisterOptions", "RegisterPreview"])]
    tmux: bool,
    /// With --tmux: put the lines into this file
    #[arg(long, value_name = "FILE", requires = "tmux")]
    write: Option<PathBuf>,
}

/// The options that choose the settings file.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct ScopeArgs {
    /// Your own settings, for all projects (the default)
    #[arg(long)]
    user: bool,
    /// The project's settings, shared with everybody who works on it
    #[arg(long)]
    project: bool,
    /// Your own settings for this project
    #[arg(long)]
    local: bool,
}

impl ScopeArgs {
    pub fn scope(&self) -> SettingsScope {
        if self.project {
            SettingsScope::Project
        } else if self.local {
            SettingsScope::Local
        } else {
            SettingsScope::User
        }
    }
}

impl RegisterOptions {
    pub fn strict(&self) -> Strict {
        if self.strict {
            Strict::On
        } else if self.no_strict {
            Strict::Off
        } else {
            Strict::Keep
        }
    }

    pub fn status_line(&self) -> StatusLine {
        if self.statusline {
            StatusLine::On
        } else if self.no_statusline {
            StatusLine::Off
        } else {
            StatusLine::Keep
        }
    }
}

impl InitArgs {
    /// Registers, or prints the lines for tmux. Neither asks anything.
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if self.tmux.tmux {
            return self.tmux.run(world);
        }
        let RegisterPreview { dry_run, json } = self.preview;
        // A call that changes nothing is allowed inside Claude Code.
        if !dry_run {
            world.refuse_inside_claude("up")?;
        }
        let (strict, status_line) = (self.options.strict(), self.options.status_line());
        let scope = self.scope.scope();
        let outcome = settings::init(world, scope, strict, status_line, dry_run)?;
        let events = outcome.inspection.entries.len();
        let commands = install(world, scope, dry_run);
        if !dry_run {
            world.close_home();
        }
        if json {
            let mut report = report(&outcome, events, dry_run);
            report["strict"] = json!(outcome.inspection.strict);
            report["status_line"] = json!(outcome.inspection.status_line.is_becket());
            report["disable_all_hooks"] = json!(outcome.inspection.disable_all_hooks);
            report["commands"] = commands_json(&commands);
            anstream::println!("{report}");
        } else if dry_run
            && (outcome.change.changed() || commands.iter().any(|command| command.change.changed()))
        {
            outcome.change.print_diff();
            print_command_diffs(&commands);
        } else {
            tell(&outcome, events);
            tell_installed(&commands);
            tell_next(&outcome);
        }
        if !json {
            warn_if_hooks_are_off(&outcome);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Warns if Claude Code's settings switch all hooks off.
pub fn warn_if_hooks_are_off(outcome: &SettingsOutcome) {
    if outcome.inspection.disable_all_hooks {
        anstream::eprintln!(
            "{WARN}warning:{WARN:#} disableAllHooks is true in {}: no hook runs, nor do becket's",
            visible(&outcome.change.file.to_string_lossy())
        );
    }
}

impl TmuxLines {
    pub fn is_wanted(&self) -> bool {
        self.tmux
    }

    pub fn run(&self, world: &World) -> Result<ExitCode> {
        let lines = conf::lines(&world.programs.join("becket"), world.place.home());
        let Some(file) = &self.write else {
            anstream::print!("{lines}");
            return Ok(ExitCode::SUCCESS);
        };
        world.refuse_inside_claude("up")?;
        let file = world.cwd.join(file);
        let shown = visible(&file.to_string_lossy());
        if conf::add(&world.place, &file, &lines)? {
            anstream::println!("added becket's lines to {shown}");
            anstream::println!("next: tmux source-file {shown}");
        } else {
            anstream::println!("becket's lines are in {shown} already");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn tell(outcome: &SettingsOutcome, events: usize) {
    let file = visible(&outcome.change.file.to_string_lossy());
    let strict = if outcome.inspection.strict {
        ", strict"
    } else {
        ""
    };
    if !outcome.change.changed() {
        anstream::println!("already registered for {events} events{strict} in {file}");
        return;
    }
    anstream::println!("registered for {events} events{strict} in {file}");
    tell_backup(outcome);
    if outcome.inspection.status_line.is_beside() {
        anstream::println!("your own status line is kept: becket's is shown beneath it");
    }
    if outcome.scope == SettingsScope::Project {
        anstream::println!(
            "note: this file is shared and names programs of your machine; --local writes your own file"
        );
    }
}

fn tell_next(outcome: &SettingsOutcome) {
    if outcome.change.changed() {
        anstream::println!(
            "next: start Claude Code as always; `becket doctor` proves that its events arrive"
        );
    }
}

pub fn tell_backup(outcome: &SettingsOutcome) {
    if let Some(backup) = &outcome.change.backup {
        anstream::println!(
            "the file as it was before: {}",
            visible(&backup.to_string_lossy())
        );
    }
}

pub fn report(outcome: &SettingsOutcome, events: usize, dry_run: bool) -> serde_json::Value {
    let mut report = outcome.change.report(dry_run);
    report["scope"] = json!(outcome.scope.to_string());
    report["events"] = json!(events);
    report["dry_run"] = json!(dry_run);
    report
}

/// Installs the slash commands. becket works without them, so a failure is only a warning.
pub fn install(world: &World, scope: SettingsScope, dry_run: bool) -> Vec<CommandFile> {
    commands::install(world, scope, dry_run).unwrap_or_else(|why| {
        anstream::eprintln!("{WARN}warning:{WARN:#} no slash commands: {why:#}");
        Vec::new()
    })
}

pub fn tell_installed(commands: &[CommandFile]) {
    if let Some((names, folder)) = commands::changed(commands) {
        let folder = visible(&folder.to_string_lossy());
        anstream::println!("wrote {names} to {folder}");
    }
    tell_left_alone(commands);
}

pub fn tell_left_alone(commands: &[CommandFile]) {
    for command in commands.iter().filter(|command| command.left_alone) {
        let file = visible(&command.change.file.to_string_lossy());
        anstream::println!("left {file} alone: it is yours, or was changed");
    }
}

pub fn print_command_diffs(commands: &[CommandFile]) {
    for command in commands {
        command.change.print_diff();
    }
    tell_left_alone(commands);
}

pub fn commands_json(commands: &[CommandFile]) -> serde_json::Value {
    let commands = commands.iter();
    commands
        .map(|command| {
            json!({
                "file": command.change.file,
                "changed": command.change.changed(),
                "left_alone": command.left_alone,
            })
        })
        .collect()
}
