//! `becket down`: removes becket from Claude Code's settings.

use std::collections::BTreeSet;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::tmux::{TmuxServer, clean};

use becket_wire::session::{SessionQuery, SessionRow};
use serde_json::json;

use super::daemon;
use super::init::{
    ScopeArgs, commands_json, print_command_diffs, report, tell_backup, tell_left_alone,
};
use crate::commands::{self, CommandFile};
use crate::session::source::sessions_without_daemon;
use crate::settings::{self, EntryState, SettingsOutcome, SettingsScope};
use crate::tmux::{CurrentTmux, conf};
use crate::ui::style::WARN;
use crate::ui::text::visible;
use crate::world::World;
use crate::{adopt, client};

/// Take becket out of Claude Code's settings
///
/// Removes becket's own entries from a settings file and leaves the rest as it is. If nothing else
/// was changed since `becket up`, the file is again what it was before, byte for byte. The slash
/// commands that it wrote go too, unless you changed them, and the lines that
/// `becket up --tmux --write` added. When no settings file names becket any more, the daemon ends, and
/// tmux shows nothing of becket.
#[derive(Debug, clap::Args)]
pub struct DownArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl DownArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if !self.dry_run {
            world.refuse_inside_claude("down")?;
        }
        let scope = self.scope.scope();
        // A dry run first: a settings file that cannot be read is an error before anything is removed.
        settings::uninit(world, scope, true)?;
        let commands = commands::take_back(world, scope, self.dry_run)?;
        let outcome = settings::uninit(world, scope, self.dry_run)?;
        let tmux = if self.dry_run || outcome.scope != SettingsScope::User {
            Vec::new()
        } else {
            conf::take_out(&world.place)?
        };
        let is_last =
            outcome.scope == SettingsScope::User && !settings::is_any_registered(&world.place);
        let ended = !self.dry_run && is_last && end_for_good(world);
        let entries = &outcome.inspection.entries;
        let events = entries.len() - outcome.inspection.count(EntryState::Missing);
        if self.json {
            let mut report = report(&outcome, events, self.dry_run);
            report["removed_file"] =
                json!(outcome.change.changed() && outcome.change.after.is_none());
            report["tmux_files"] = json!(tmux);
            report["daemon_ended"] = json!(ended);
            report["commands"] = commands_json(&commands);
            anstream::println!("{report}");
        } else if self.dry_run
            && (outcome.change.changed() || commands::changed(&commands).is_some())
        {
            outcome.change.print_diff();
            print_command_diffs(&commands);
        } else {
            tell(world, &outcome, &commands, events, ended);
        }
        if !self.dry_run
            && outcome.change.changed()
            && adopt::is_any_adopted(&world.place, &outcome.change.file)
        {
            anstream::eprintln!(
                "{WARN}warning:{WARN:#} hooks that were adopted from {} do not run without becket: `becket hooks adopt --undo` gives them back",
                visible(&outcome.change.file.to_string_lossy())
            );
        }
        for file in tmux.iter().filter(|_| !self.json) {
            let file = visible(&file.to_string_lossy());
            anstream::println!("took becket's lines out of {file}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Ends the daemon, keeps the entries that a running Claude Code still has from starting another one, and cleans
/// the tmux servers. Returns true if a daemon ran.
fn end_for_good(world: &World) -> bool {
    let rows = stored_sessions(world);
    let mut ended = false;
    // An entry may start a daemon between the end and the mark.
    for _ in 0..3 {
        let had_ended = daemon::end(world);
        client::mark_unregistered(&world.place);
        match had_ended {
            Ok(true) => ended = true,
            Ok(false) => break,
            Err(why) => {
                anstream::eprintln!("{WARN}warning:{WARN:#} {why:#}");
                break;
            }
        }
    }
    let known = rows
        .into_iter()
        .filter_map(|row| row.tmux_socket.map(PathBuf::from));
    let sockets: BTreeSet<PathBuf> = known.chain(CurrentTmux::read().socket).collect();
    for socket in sockets {
        let server = TmuxServer::new(socket);
        // A server that has ended needs no cleaning.
        drop(clean(&server).and_then(|()| conf::unload(&server)));
    }
    ended
}

fn stored_sessions(world: &World) -> Vec<SessionRow> {
    let query = SessionQuery {
        all: true,
        ..SessionQuery::default()
    };
    sessions_without_daemon(world, &query).unwrap_or_default()
}

fn tell(
    world: &World,
    outcome: &SettingsOutcome,
    commands: &[CommandFile],
    events: usize,
    ended: bool,
) {
    let file = visible(&outcome.change.file.to_string_lossy());
    if !outcome.change.changed() {
        anstream::println!("becket is not registered in {file}");
        tell_taken_back(commands, ended);
        return;
    }
    match outcome.change.after {
        Some(_) => anstream::println!("took {events} events out of {file}"),
        None => anstream::println!("removed {file}, which held nothing else"),
    }
    tell_backup(outcome);
    tell_taken_back(commands, ended);
    anstream::println!(
        "what was recorded stays in {}",
        visible(&world.place.home().to_string_lossy())
    );
    if outcome.scope == SettingsScope::User {
        anstream::println!(
            "the programs stay in {}: `./uninstall` in becket's source removes them, with man pages and completions",
            visible(&world.programs.to_string_lossy())
        );
    }
}

fn tell_taken_back(commands: &[CommandFile], ended: bool) {
    if let Some((_, folder)) = commands::changed(commands) {
        let folder = visible(&folder.to_string_lossy());
        anstream::println!("took the slash commands out of {folder}");
    }
    tell_left_alone(commands);
    if ended {
        anstream::println!("ended the daemon");
    }
}
