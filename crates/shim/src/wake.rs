//! Connects to the daemon, or starts it. Whoever starts it holds the start lock and hears from it
//! through a notify socket; everybody else waits for the socket to appear. Nobody polls.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use becket_wire::{Notice, Place};

use crate::link::{Link, Missed};
use crate::os;

/// How long a hook call waits for a daemon that is being started.
const PATIENCE: Duration = Duration::from_millis(300);

/// Connects; where nobody listens, starts the daemon and connects then.
pub fn connect_or_start(place: &Place, deadline: Instant) -> Result<Link, Missed> {
    let socket = place.socket(os::uid());
    match Link::connect(&socket, deadline) {
        Err(Missed::Absent) => {}
        other => return other,
    }
    let patience = Instant::now() + PATIENCE;
    match start_lock(place) {
        Some(_lock) => match Link::connect(&socket, deadline) {
            Err(Missed::Absent) => {
                start(place, patience);
            }
            other => return other,
        },
        None => os::wait_for_file(&socket, patience, || {
            !matches!(Link::connect(&socket, deadline), Err(Missed::Absent))
        }),
    }
    Link::connect(&socket, deadline)
}

/// Starts our daemon beside an older one, which makes room for it. True if ours is ready.
pub fn replace(place: &Place) -> bool {
    start_lock(place).is_some_and(|_lock| start(place, Instant::now() + PATIENCE) == Notice::Ready)
}

/// Starts a daemon, and waits for its notice until then. The caller holds the start lock.
pub fn start(place: &Place, patience: Instant) -> Notice {
    try_start(place, patience).unwrap_or_else(|error| Notice::Failed(error.to_string()))
}

fn try_start(place: &Place, patience: Instant) -> std::io::Result<Notice> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let kept = ["HOME", "PATH", "LANG", "TZ"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new(program()?)
        .args(["daemon", "run", "--detached", "--home"])
        .arg(place.home())
        .env_clear()
        .envs(kept)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = Vec::new();
    let mut buffer = [0; 512];
    while !line.ends_with(b"\n") {
        let left = patience.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Notice::Failed("it was not ready in time".to_owned()));
        }
        ours.set_read_timeout(Some(left))?;
        match ours.read(&mut buffer)? {
            0 => break,
            len => line.extend_from_slice(&buffer[..len]),
        }
    }
    Ok(Notice::read(&String::from_utf8_lossy(&line)))
}

/// `becket`, which stands beside this program.
pub fn program() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("becket"))
}

/// Takes the start lock, if nobody has it.
pub fn start_lock(place: &Place) -> Option<File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place.run())
        .ok()?;
    let mut options = OpenOptions::new();
    let lock = options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(place.start_lock())
        .ok()?;
    lock.try_lock().ok().map(|()| lock)
}
