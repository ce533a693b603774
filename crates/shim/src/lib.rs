//! The hot path: stdin → socket → stdout. It judges nothing. Claude Code starts it for every event, so every
//! system call counts.

pub mod alone;
mod os;
pub mod wake;

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_wire::frame::{Decoder, MAX_PAYLOAD};
use becket_wire::process::parent_and_start;
use becket_wire::rpc::{
    BESIDE, Cut, Envelope, EventFrame, LAUNCH, Request, Response, carried, environment_block,
};
use becket_wire::{EventId, NoAnswer, Output, Place, Registration, Version, bounds};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with,
};

const HELP: &str = "
Claude Code starts this program for every hook event. It reads the event from
stdin, lets the daemon judge it, and prints the answer. `becket up` registers
it; you need not start it yourself. `becket --help` shows the commands for you.

Usage: becket-hook [--event EVENT] [--from SOURCE] [--home FOLDER] < event.json

  --event EVENT   the event that this registration is for
  --from SOURCE   the place of this registration: settings, plugin, run, sdk
  --home FOLDER   the becket home, if it is not ~/.becket
  --statusline    take the status line's JSON instead, and print the line
  --version, -V   print the version
  --help, -h      print this
";

/// Handles one event or status line, from stdin to the exit code.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut registration = Registration::read(args);
    // A user calls with a single argument, or from a terminal.
    if (registration.version || registration.help)
        && (std::env::args_os().len() == 2 || io::stdin().is_terminal())
    {
        let help = if registration.help { HELP } else { "" };
        print!("becket-hook {}\n{help}", Version::current());
        return ExitCode::SUCCESS;
    }
    let argument = registration.home.take();
    let Some(place) = Place::find(
        argument,
        path_variable("BECKET_HOME"),
        path_variable("HOME"),
    ) else {
        eprintln!("becket-hook: no home folder: neither --home, BECKET_HOME nor HOME is set");
        return ExitCode::FAILURE;
    };
    let (line, kind) = (registration.statusline, registration.kind());
    if line && registration.beside && registration.own_refresh {
        let Err(error) = alone::exec_becket(&place, &["statusline"], None);
        eprintln!("becket-hook: no becket beside this program: {error}");
        return ExitCode::FAILURE;
    }
    // Connecting comes first: the daemon wakes up while the shim reads.
    let wait = response_time(&place, line);
    let link = connect(&place, wait);
    let by_settings = line || registration.from.as_deref() == Some("settings");
    let envelope = ManuallyDrop::new(envelope(&place, registration));
    let frame = EventFrame::begin(&envelope).and_then(|mut frame| {
        let cut = read_payload(frame.buffer());
        frame.finish(kind, now().as_millis() as i64, cut)
    });
    // At exit the kernel frees all memory at once; freeing it piece by piece cost 45 µs.
    let Ok(frame) = frame.map(ManuallyDrop::new) else {
        eprintln!("becket-hook: the event does not fit into a frame");
        return ExitCode::FAILURE;
    };
    let call = &Call {
        place: &place,
        frame: &frame,
        wait,
        by_settings,
    };
    match call.ask(link) {
        Ok((output, daemon)) => {
            let code = print(&output);
            if daemon < Version::current() {
                wake::replace(&place);
            }
            code
        }
        Err((why, held)) => alone::answer(call, (!line).then_some(envelope.id), why, held),
    }
}

fn path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// Returns the time for the daemon's first response. It is short if the daemon missed a deadline a moment ago.
fn response_time(place: &Place, line: bool) -> Duration {
    if line {
        return bounds::STATUS_LINE;
    }
    let marked = fs::metadata(place.slow_mark()).and_then(|mark| mark.modified());
    if marked.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < bounds::SLOW_FOR)) {
        bounds::FIRST_RESPONSE_WHEN_SLOW
    } else {
        bounds::FIRST_RESPONSE
    }
}

pub fn connect(place: &Place, wait: Duration) -> Result<Link, NoAnswer> {
    if std::env::var_os("BECKET_NO_DAEMON").is_some_and(|value| !value.is_empty() && value != "0") {
        return Err(NoAnswer::Unwanted);
    }
    Link::connect(&place.socket(os::uid()), Instant::now() + wait)
}

fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Reads stdin to its end, within the limits of size and time.
pub fn read_payload(buffer: &mut Vec<u8>) -> Option<Cut> {
    let stdin = rustix::stdio::stdin();
    let bound = buffer.len() + MAX_PAYLOAD;
    let end = Instant::now() + bounds::STDIN_TOTAL;
    loop {
        let silence = Instant::now() + bounds::STDIN_SILENCE;
        if Instant::now() > end || !readable_until(stdin, silence) {
            return Some(Cut::NeverEnded);
        }
        buffer.reserve(2 << 10);
        match rustix::io::read(stdin, rustix::buffer::spare_capacity(buffer)) {
            Ok(0) => return None,
            Ok(_) if buffer.len() > bound => {
                buffer.truncate(bound);
                return Some(Cut::TooLong);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

pub fn envelope(place: &Place, registration: Registration) -> Envelope {
    let now = now();
    let claude = std::env::var("CLAUDE_PID")
        .ok()
        .and_then(|pid| pid.parse().ok());
    let pid = claude.unwrap_or_else(std::os::unix::process::parent_id);
    let process = parent_and_start_of(pid);
    let mut variables = carried(std::env::vars_os(), registration.carries());
    if registration.beside {
        variables.insert(BESIDE.to_owned(), String::new());
    }
    let launched = variables.contains_key(LAUNCH);
    Envelope {
        // std seeds each hasher from the system, each one differently.
        id: EventId::at(now, [(); 2].map(|()| RandomState::new().hash_one(0))),
        at: now.as_millis() as i64,
        version: Version::current(),
        variables,
        event: registration.event,
        from: registration.from,
        home: place.home().to_string_lossy().into_owned(),
        pid,
        pid_start: process.map(|(_, start)| start),
        pid_is_claude: claude.is_some(),
        pid_parent: process.filter(|_| launched).map(|(parent, _)| parent),
        cut: None,
    }
}

/// Returns the parent and the start time of a process. One read: the line is shorter than the buffer.
fn parent_and_start_of(pid: u32) -> Option<(u32, u64)> {
    let mut line = [0; 1024];
    let mut stat = File::open(format!("/proc/{pid}/stat")).ok()?;
    let len = stat.read(&mut line).ok()?;
    parent_and_start(&String::from_utf8_lossy(&line[..len]))
}

/// One call of the shim: the frame for the daemon, and the time for its first response.
pub(crate) struct Call<'a> {
    place: &'a Place,
    frame: &'a [u8],
    wait: Duration,
    /// True if the call comes from an entry in Claude Code's settings.
    by_settings: bool,
}

impl Call<'_> {
    /// Returns the answer and the daemon's version. The error tells why there is none, and if named hooks had
    /// begun.
    fn ask(&self, link: Result<Link, NoAnswer>) -> Result<(Output, Version), (NoAnswer, bool)> {
        let mut first = self.first_response(link);
        if let Err(NoAnswer::Refused(daemon)) = first {
            // An older daemon with another protocol makes room for this version's.
            if daemon < Version::current() && wake::replace(self.place) {
                first = self.first_response(connect(self.place, self.wait));
            }
        }
        let (mut link, mut response) = first.map_err(|missed| (missed, false))?;
        let mut held = false;
        while let Response::Hold { for_ms, need_env } = response {
            held |= !need_env;
            link.deadline = Instant::now() + Duration::from_millis(for_ms.into());
            response = hold(&mut link, need_env).map_err(|missed| (missed, held))?;
        }
        match response {
            Response::Answer { version, output } => Ok((output, version)),
            Response::Busy => Err((NoAnswer::Busy, held)),
            _ => Err((NoAnswer::Broken, held)),
        }
    }

    /// Returns true if no daemon is to be started: becket was unregistered, or the daemon was stopped and this
    /// is a status line, which comes every two seconds.
    fn is_stopped(&self) -> bool {
        wake::is_unregistered(self.place)
            || self.wait == bounds::STATUS_LINE && self.place.stopped_mark().exists()
    }

    fn first_response(&self, link: Result<Link, NoAnswer>) -> Result<(Link, Response), NoAnswer> {
        let link = match link {
            Err(NoAnswer::Absent) if self.by_settings && self.is_stopped() => Err(NoAnswer::Absent),
            Err(NoAnswer::Absent) => wake::start_and_connect(self.place, self.wait),
            link => link,
        };
        let response = link.and_then(|mut link| {
            link.deadline = Instant::now() + self.wait;
            link.send(self.frame)?;
            link.receive().map(|response| (link, response))
        });
        match response {
            Ok((_, Response::Refused { version })) => return Err(NoAnswer::Refused(version)),
            // The time for a status line is too short to prove a slow daemon.
            Err(NoAnswer::Slow) if self.wait != bounds::STATUS_LINE => {
                // The file stays empty: under `ulimit -f 0` a write would kill the shim.
                drop(wake::create(&self.place.slow_mark()));
            }
            _ => {}
        }
        response
    }
}

/// Waits for named hooks, after sending the environment that they run in.
fn hold(link: &mut Link, need_env: bool) -> Result<Response, NoAnswer> {
    if need_env {
        let request = Request::Environment(environment_block(std::env::vars_os()));
        link.send(&request.to_frame().map_err(|_| NoAnswer::Broken)?)?;
    }
    link.receive()
}

/// Prints the answer. A closed stdout is no error.
pub fn print(output: &Output) -> ExitCode {
    // Most answers are silent, and stdout makes a buffer even for nothing.
    if !output.stdout.is_empty() {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&output.stdout);
        drop(written.and_then(|()| stdout.flush()));
    }
    if !output.stderr.is_empty() {
        drop(io::stderr().write_all(&output.stderr));
    }
    ExitCode::from(output.exit)
}

/// The time in which the shim polls for the answer without going to sleep.
const AWAKE: Duration = Duration::from_micros(400);

/// One connection to the daemon, with a deadline that holds for connecting, sending and receiving.
#[derive(Debug)]
pub struct Link {
    pub socket: OwnedFd,
    decoder: Decoder,
    pub deadline: Instant,
}

impl Link {
    /// Connects, and checks that the peer is the same user.
    pub fn connect(path: &Path, deadline: Instant) -> Result<Self, NoAnswer> {
        let address = SocketAddrUnix::new(path).map_err(|_| NoAnswer::Absent)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|_| NoAnswer::Broken)?;
        let link = Self {
            socket,
            decoder: Decoder::new(),
            deadline,
        };
        // A blocking connect waits while the backlog is full; the send timeout bounds that too.
        link.bound_sending()?;
        match rustix::net::connect(&link.socket, &address) {
            Ok(()) if os::peer_is_us(&link.socket) => Ok(link),
            Ok(()) => Err(NoAnswer::Stranger),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => Err(NoAnswer::Absent),
            Err(Errno::AGAIN | Errno::INPROGRESS | Errno::TIMEDOUT) => Err(NoAnswer::Slow),
            Err(_) => Err(NoAnswer::Broken),
        }
    }

    fn bound_sending(&self) -> Result<(), NoAnswer> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoAnswer::Slow);
        }
        set_socket_timeout(&self.socket, Timeout::Send, Some(left)).map_err(|_| NoAnswer::Broken)
    }

    pub fn send(&mut self, mut frame: &[u8]) -> Result<(), NoAnswer> {
        while !frame.is_empty() {
            self.bound_sending()?;
            match send(&self.socket, frame, SendFlags::NOSIGNAL) {
                Ok(sent) => frame = &frame[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(NoAnswer::Slow),
                // The daemon hung up before it had read everything. It may have sent the reason.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(_) => return Err(NoAnswer::Broken),
            }
        }
        Ok(())
    }

    pub fn receive(&mut self) -> Result<Response, NoAnswer> {
        let mut buffer = [0; 512];
        // Most answers come within 0.4 ms, and waking a core that went to sleep takes 40 µs of that.
        let awake = Instant::now() + AWAKE;
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|_| NoAnswer::Broken)? {
                return Response::from_frame(frame).map_err(|_| NoAnswer::Broken);
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) if Instant::now() < awake => std::thread::yield_now(),
                Err(Errno::AGAIN) if readable_until(&self.socket, self.deadline) => {}
                Err(Errno::AGAIN) => return Err(NoAnswer::Slow),
                Err(Errno::INTR) => {}
                Ok((_, 0)) | Err(_) => return Err(NoAnswer::Broken),
                Ok((_, len)) => self.decoder.push(&buffer[..len]),
            }
        }
    }
}

/// Waits for input or its end. Returns false if neither came in time.
pub(crate) fn readable_until(fd: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}
