//! The hot path: stdin → socket → stdout. It decides nothing. Claude Code starts it for every
//! event, so every system call here is one too many.

pub mod alone;
pub mod link;
mod os;
pub mod wake;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use becket_wire::frame::MAX_PAYLOAD;
use becket_wire::rpc::{CARRIED, Cut, Envelope, Request, Response, encode_event};
use becket_wire::{EventId, Output, Place, Version};
use rustix::event::{PollFd, PollFlags, poll};

use link::{Link, Missed};

/// How long the daemon may take to its first word.
const FIRST_WORD: Duration = Duration::from_secs(1);
/// The same, when it has missed that deadline a moment ago.
const FIRST_WORD_WHEN_SLOW: Duration = Duration::from_millis(50);
/// How long the mark of a missed deadline counts.
const SLOW_FOR: Duration = Duration::from_secs(10);
/// How long stdin may keep silent without ending.
const STDIN_SILENCE: Duration = Duration::from_secs(5);

/// What the registration says.
#[derive(Debug, Default)]
struct Registration {
    event: Option<String>,
    from: Option<String>,
    home: Option<PathBuf>,
}

/// One event, from stdin to the exit code.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut registration = Registration::default();
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        match &*arg {
            "--event" => registration.event = args.next(),
            "--from" => registration.from = args.next(),
            "--home" => registration.home = args.next().map(PathBuf::from),
            "--version" => {
                println!("becket-hook {}", Version::current());
                return ExitCode::SUCCESS;
            }
            // A newer registration may say more than this program understands.
            _ => {}
        }
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let Some(place) = Place::find(
        registration.home.take(),
        variable("BECKET_HOME"),
        variable("HOME"),
    ) else {
        eprintln!("becket-hook: no home folder: neither --home, BECKET_HOME nor HOME is set");
        return ExitCode::FAILURE;
    };
    let (payload, cut) = read_payload();
    let envelope = envelope(&place, registration, cut);
    // The payload is within its bound and the envelope is small, so this cannot fail.
    let Ok(frame) = encode_event(&envelope, &payload) else {
        eprintln!("becket-hook: the event does not fit into a frame");
        return ExitCode::FAILURE;
    };
    drop(payload);
    match ask(&place, &frame) {
        Ok((output, daemon)) => {
            let code = print(&output);
            if daemon < Version::current() {
                wake::replace(&place);
            }
            code
        }
        Err((missed, held)) => alone::go(&place, envelope.id, &frame, &missed, held),
    }
}

/// Reads stdin to its end, within the bounds of size and silence.
fn read_payload() -> (Vec<u8>, Option<Cut>) {
    let stdin = rustix::stdio::stdin();
    let mut payload = Vec::with_capacity(16 << 10);
    loop {
        if !readable_within(&stdin, STDIN_SILENCE) {
            return (payload, Some(Cut::NeverEnded));
        }
        if payload.capacity() - payload.len() < 4 << 10 {
            payload.reserve(payload.capacity());
        }
        match rustix::io::read(stdin, rustix::buffer::spare_capacity(&mut payload)) {
            Ok(0) => return (payload, None),
            Ok(_) if payload.len() > MAX_PAYLOAD => {
                payload.truncate(MAX_PAYLOAD);
                return (payload, Some(Cut::TooLong));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (payload, None),
        }
    }
}

fn readable_within(fd: impl std::os::fd::AsFd, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

fn envelope(place: &Place, registration: Registration, cut: Option<Cut>) -> Envelope {
    let at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64);
    let claude = std::env::var("CLAUDE_PID")
        .ok()
        .and_then(|pid| pid.parse().ok());
    let pid = claude
        .or_else(|| Some(rustix::process::getppid()?.as_raw_nonzero().get() as u32))
        .unwrap_or(0);
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?;
        let wanted = CARRIED.contains(&name) || name.starts_with("BECKET_");
        wanted.then(|| (name.to_owned(), value.to_string_lossy().into_owned()))
    });
    Envelope {
        id: EventId::new(at, os::random()),
        at,
        version: Version::current(),
        event: registration.event,
        from: registration.from,
        home: place.home().to_string_lossy().into_owned(),
        pid,
        pid_start: os::start_time(pid),
        pid_is_claude: claude.is_some(),
        variables: variables.collect(),
        cut,
    }
}

/// Asks the daemon. The error says whether it had already promised an answer (`Hold`).
fn ask(place: &Place, frame: &[u8]) -> Result<(Output, Version), (Missed, bool)> {
    let not_held = |missed| (missed, false);
    if std::env::var_os("BECKET_NO_DAEMON").is_some_and(|value| !value.is_empty() && value != "0") {
        return Err(not_held(Missed::Unwanted));
    }
    let wait = if os::touched_within(&place.slow_mark(), SLOW_FOR) {
        FIRST_WORD_WHEN_SLOW
    } else {
        FIRST_WORD
    };
    let asked = first_word(place, frame, Instant::now() + wait);
    let asked = match asked {
        // An older daemon that does not speak our protocol makes room for ours.
        Err(Missed::Refused(daemon)) if daemon < Version::current() && wake::replace(place) => {
            first_word(place, frame, Instant::now() + wait)
        }
        asked => asked,
    };
    if matches!(asked, Err(Missed::Slow)) {
        drop(std::fs::write(place.slow_mark(), "a deadline was missed\n"));
    }
    let (mut link, mut word) = asked.map_err(not_held)?;
    let mut held = false;
    loop {
        match word {
            Response::Answer { version, output } => return Ok((output, version)),
            Response::Hold { for_ms, need_env } => {
                held = true;
                link.until(Instant::now() + Duration::from_millis(for_ms.into()));
                if need_env {
                    let request = Request::Environment(environment()).to_frame();
                    link.send(&request.map_err(|_| (Missed::Broken, held))?)
                        .map_err(|missed| (missed, held))?;
                }
                word = link.receive().map_err(|missed| (missed, held))?;
            }
            Response::Busy => return Err((Missed::Busy, held)),
            Response::Refused { version } => return Err((Missed::Refused(version), held)),
            Response::Told(_) | Response::Row(_) | Response::Yielding => {
                return Err((Missed::Broken, held));
            }
        }
    }
}

fn first_word(place: &Place, frame: &[u8], deadline: Instant) -> Result<(Link, Response), Missed> {
    let mut link = wake::connect_or_start(place, deadline)?;
    link.send(frame)?;
    match link.receive()? {
        Response::Refused { version } => Err(Missed::Refused(version)),
        word => Ok((link, word)),
    }
}

fn environment() -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let mut block = Vec::new();
    for (name, value) in std::env::vars_os() {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            block.extend_from_slice(part);
        }
    }
    block
}

/// Prints the answer. A reader that has gone away changes nothing.
pub fn print(output: &Output) -> ExitCode {
    if !output.stdout.is_empty() {
        drop(
            io::stdout()
                .write_all(&output.stdout)
                .and_then(|()| io::stdout().flush()),
        );
    }
    if !output.stderr.is_empty() {
        drop(io::stderr().write_all(&output.stderr));
    }
    ExitCode::from(output.exit)
}
