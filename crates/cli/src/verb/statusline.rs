//! `becket statusline`: the person's own status line and ours, where there was one before; and what
//! the shim becomes when no daemon makes ours.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use becket_engine::statusline::{Line, answer, figures};
use becket_hook::{connect, envelope, read_payload, wake};
use becket_wire::rpc::{Envelope, EventRequest, Request, Response, WRONG};
use becket_wire::{Missed, Place, Registration, bounds};

use crate::standalone::{read_frame, read_stdin};
use crate::world::{World, project_of};
use crate::{beside, settings};

/// Print the status line for Claude Code's JSON on stdin, beneath the one that you had before
///
/// It is what `becket-hook --statusline` becomes when `becket init` found a status line, which is run
/// with the same on stdin, and when no daemon answers.
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
            Some(why) => print(&[&alone(world, &why)?]),
            None => print_both(world),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The line of a frame that the daemon did not take.
fn alone(world: &World, why: &str) -> Result<Vec<u8>> {
    let Request::StatusLine(EventRequest {
        envelope, payload, ..
    }) = read_frame(&read_stdin()?)?
    else {
        anyhow::bail!("stdin holds no status line's frame");
    };
    Ok(without_daemon(world, &envelope, &payload, why))
}

fn print_both(world: &World) {
    let mut payload = Vec::new();
    let _ = read_payload(&mut payload);
    let theirs = settings::status_line_before(world).filter(|_| !beside::is_nested());
    let ran = theirs.map(|command| beside::run(&command, &payload));
    let ran = ran.unwrap_or_default();
    let mut envelope = envelope(
        &world.place,
        Registration {
            statusline: true,
            ..Registration::default()
        },
    );
    let wrong = ran.wrong.map(|wrong| (WRONG.to_owned(), wrong));
    envelope.variables.extend(wrong);
    let ours = ask(&world.place, &envelope, &payload)
        .unwrap_or_else(|missed| without_daemon(world, &envelope, &payload, &missed.to_string()));
    let end = if ran.shown.is_empty() { "" } else { "\n" };
    print(&[ran.shown.as_bytes(), end.as_bytes(), &ours]);
}

/// Has the daemon make the line; it is started if there is none.
fn ask(place: &Place, envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>, Missed> {
    let wait = bounds::STATUS_LINE;
    let request = Request::StatusLine(EventRequest {
        envelope: envelope.clone(),
        sent: envelope.at,
        payload: payload.to_vec(),
    });
    let frame = request.to_frame().map_err(|_| Missed::Broken)?;
    let mut link = match connect(place, wait) {
        Err(Missed::Absent) if !wake::is_unregistered(place) => {
            wake::start_and_connect(place, wait)?
        }
        link => link?,
    };
    link.deadline = Instant::now() + wait;
    link.send(&frame)?;
    match link.receive()? {
        Response::Answer { output, .. } => Ok(output.stdout),
        Response::Busy => Err(Missed::Busy),
        Response::Refused { version } => Err(Missed::Refused(version)),
        _ => Err(Missed::Broken),
    }
}

/// The line as far as the JSON itself tells it, and that there is no daemon.
fn without_daemon(world: &World, envelope: &Envelope, payload: &[u8], why: &str) -> Vec<u8> {
    let read = figures(payload);
    let cwd = read.as_ref().ok().and_then(|read| read.cwd.clone());
    let mut line = Line::of(read);
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
fn print(parts: &[&[u8]]) {
    let mut stdout = std::io::stdout().lock();
    drop(
        stdout
            .write_all(&parts.concat())
            .and_then(|()| stdout.flush()),
    );
}
