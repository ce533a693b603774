//! `becket statusline`: prints the status line that the user had before and becket's beneath it. The shim becomes
//! this program where no daemon makes the line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_engine::statusline::{StatusLineContent, answer, beneath, figures};
use becket_wire::Registration;
use becket_wire::rpc::{BESIDE, Envelope, EventRequest, Request, SHOWN, WRONG};

use crate::client::{self, envelope, read_payload};
use crate::previous_status_line::{self, CommandOutput};
use crate::settings;
use crate::standalone::{read_frame, read_stdin};
use crate::world::{World, project_of};

/// Print the status line for Claude Code's JSON on stdin, beneath the one that you had before
///
/// It is what `becket-hook --statusline` becomes when `becket up` found a status line that has to
/// run, with the same on stdin, and when no daemon answers.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct StatuslineArgs {
    /// Print the line of the frame on stdin, and say why no daemon did
    #[arg(long, value_name = "WHY", hide = true)]
    alone: Option<String>,
}

impl StatuslineArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.alone {
            Some(why) => alone(world, &why)?,
            None => {
                let mut payload = Vec::new();
                let _ = read_payload(&mut payload);
                let registration = Registration {
                    statusline: true,
                    ..Registration::default()
                };
                print_both(world, envelope(&world.place, registration), &payload);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the line of a frame that the daemon did not answer.
fn alone(world: &World, why: &str) -> Result<()> {
    let Request::StatusLine(EventRequest {
        mut envelope,
        payload,
        ..
    }) = read_frame(&read_stdin()?)?
    else {
        anyhow::bail!("stdin holds no status line's frame");
    };
    if envelope.variables.remove(BESIDE).is_some() {
        print_both(world, envelope, &payload);
    } else {
        print(&without_daemon(world, &envelope, &payload, why));
    }
    Ok(())
}

/// Runs the user's own status line, and prints becket's beneath it. The daemon keeps the output of the user's
/// for the next refresh.
fn print_both(world: &World, mut envelope: Envelope, payload: &[u8]) {
    let previous = match settings::status_line_before(world) {
        Some(command) if !previous_status_line::is_nested() => {
            previous_status_line::run(&command, payload)
        }
        _ => CommandOutput::default(),
    };
    let wrong = previous.wrong.map(|wrong| (WRONG.to_owned(), wrong));
    envelope.variables.extend(wrong);
    (envelope.variables).insert(SHOWN.to_owned(), previous.shown.clone());
    let ours = client::status_line(&world.place, &envelope, payload)
        .unwrap_or_else(|missed| without_daemon(world, &envelope, payload, &missed.to_string()));
    print(&beneath(&previous.shown, &ours));
}

/// Makes the line from the JSON alone, and adds that there is no daemon.
fn without_daemon(world: &World, envelope: &Envelope, payload: &[u8], why: &str) -> Vec<u8> {
    let figures = figures(payload);
    let cwd = figures.as_ref().ok().and_then(|it| it.cwd.clone());
    let mut line = StatusLineContent::of(figures);
    let why = match why {
        "busy" => "becket: the daemon is busy",
        "refused" => "becket: the daemon has another version",
        "stranger" => "becket: the socket is another user's",
        "unwanted" => "becket: BECKET_NO_DAEMON is set",
        _ => "becket: the daemon does not answer",
    };
    line.wrong.push(why.to_owned());
    let project = cwd.as_ref().map(|cwd| project_of(Path::new(cwd)));
    let config = world.loader(project).current();
    answer(line, envelope, &config).stdout
}

/// Prints the lines. A reader that has gone away is no error.
fn print(lines: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(lines).and_then(|()| stdout.flush()));
}
