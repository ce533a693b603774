//! `becket statusline`: the person's own status line and ours, where there was one before; and what
//! the shim becomes when no daemon makes ours.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use becket_engine::statusline::{StatusLineContent, answer, beneath, figures};
use becket_hook::{connect, envelope, read_payload, wake};
use becket_wire::rpc::{BESIDE, Envelope, EventRequest, Request, Response, SHOWN, WRONG};
use becket_wire::{NoAnswer, Place, Registration, bounds};

use crate::standalone::{read_frame, read_stdin};
use crate::world::{World, project_of};
use crate::{beside, settings};

/// Print the status line for Claude Code's JSON on stdin, beneath the one that you had before
///
/// It is what `becket-hook --statusline` becomes when `becket init` found a status line that has to
/// run, with the same on stdin, and when no daemon answers.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Statusline {
    /// Print the line of the frame on stdin, and say why no daemon did
    #[arg(long, value_name = "WHY", hide = true)]
    alone: Option<String>,
}

impl Statusline {
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

/// Runs the user's own status line, and prints becket's beneath it. The daemon keeps the output of
/// the former for the next refresh.
fn print_both(world: &World, mut envelope: Envelope, payload: &[u8]) {
    let theirs = settings::status_line_before(world).filter(|_| !beside::is_nested());
    let ran = theirs.map(|command| beside::run(&command, payload));
    let ran = ran.unwrap_or_default();
    let wrong = ran.wrong.map(|wrong| (WRONG.to_owned(), wrong));
    envelope.variables.extend(wrong);
    (envelope.variables).insert(SHOWN.to_owned(), ran.shown.clone());
    let ours = ask(&world.place, &envelope, payload)
        .unwrap_or_else(|missed| without_daemon(world, &envelope, payload, &missed.to_string()));
    print(&beneath(&ran.shown, &ours));
}

/// Has the daemon make the line; it is started if there is none.
fn ask(place: &Place, envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>, NoAnswer> {
    let wait = bounds::STATUS_LINE;
    let request = Request::StatusLine(EventRequest {
        envelope: envelope.clone(),
        sent: envelope.at,
        payload: payload.to_vec(),
    });
    let frame = request.to_frame().map_err(|_| NoAnswer::Broken)?;
    let mut link = match connect(place, wait) {
        Err(NoAnswer::Absent) if !place.stopped_mark().exists() => {
            wake::start_and_connect(place, wait)?
        }
        link => link?,
    };
    link.deadline = Instant::now() + wait;
    link.send(&frame)?;
    match link.receive()? {
        Response::Answer { output, .. } => Ok(output.stdout),
        Response::Busy => Err(NoAnswer::Busy),
        Response::Refused { version } => Err(NoAnswer::Refused(version)),
        _ => Err(NoAnswer::Broken),
    }
}

/// The line as far as the JSON itself tells it, and that there is no daemon.
fn without_daemon(world: &World, envelope: &Envelope, payload: &[u8], why: &str) -> Vec<u8> {
    let read = figures(payload);
    let cwd = read.as_ref().ok().and_then(|read| read.cwd.clone());
    let mut line = StatusLineContent::of(read);
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

/// A reader that has gone away changes nothing.
fn print(lines: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(lines).and_then(|()| stdout.flush()));
}
