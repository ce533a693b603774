//! Starts the daemon. The starter holds a lock until the daemon has reported; all others wait for that.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use becket_wire::bounds::START;
use becket_wire::place::UNREGISTERED;
use becket_wire::process::for_daemon;
use becket_wire::rpc::read_environment;
use becket_wire::{NoAnswer, Place, StartReport};
use rustix::fs::OFlags;

use crate::{Link, connect};

/// Starts the daemon, or waits for its starter, and connects. The daemon then has `wait` for its answer.
pub fn start_and_connect(place: &Place, wait: Duration) -> Result<Link, NoAnswer> {
    let until = Instant::now() + START;
    let _lock = start_lock(place, until).ok_or(NoAnswer::Absent)?;
    match connect(place, wait) {
        Err(NoAnswer::Absent) => start(place, until),
        other => return other,
    };
    connect(place, wait)
}

/// Returns true if `becket down` removed the entries of the settings: calls through the old entries start no
/// daemon.
pub fn is_unregistered(place: &Place) -> bool {
    std::fs::read(place.stopped_mark()).is_ok_and(|mark| mark == UNREGISTERED.as_bytes())
}

/// Starts this version's daemon beside an older one, which makes room for it. Returns true if it is ready.
pub fn replace(place: &Place) -> bool {
    let until = Instant::now() + START;
    start_lock(place, Instant::now()).is_some_and(|_lock| start(place, until) == StartReport::Ready)
}

/// Takes the start lock as soon as it is free.
pub fn start_lock(place: &Place, until: Instant) -> Option<File> {
    private_folder(&place.run()).ok()?;
    lock_until(create(&place.start_lock()).ok()?, until)
}

/// Makes an empty file that only its owner may read, or empties it. A link in its place is an error.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

/// Waits for a lock until `until`, on a thread, since locks have no deadline.
pub fn lock_until(file: File, until: Instant) -> Option<File> {
    if file.try_lock().is_ok() {
        return Some(file);
    }
    let (locked, wait) = channel();
    // A repository may set `RUST_MIN_STACK`.
    std::thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(move || file.lock().map(|()| locked.send(file)))
        .ok()?;
    let left = until.saturating_duration_since(Instant::now());
    wait.recv_timeout(left).ok()
}

/// Starts a daemon, and waits for its report until `until`. The caller holds the start lock.
pub fn start(place: &Place, until: Instant) -> StartReport {
    try_start(place, until).unwrap_or_else(|error| StartReport::Failed(error.to_string()))
}

fn try_start(place: &Place, until: Instant) -> io::Result<StartReport> {
    let (ours, theirs) = UnixStream::pair()?;
    Command::new(program()?)
        .args(["daemon", "run", "--detached", "--home"])
        .arg(place.home())
        .env_clear()
        .envs(environment(place))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()?;
    let left = until.saturating_duration_since(Instant::now());
    ours.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    // The daemon writes one line and hangs up.
    Ok(StartReport::read(&io::read_to_string(ours)?))
}

/// The environment of the daemon and of the standalone judge.
pub(crate) fn environment(place: &Place) -> Vec<(OsString, OsString)> {
    let seen = std::fs::read(place.environment()).unwrap_or_default();
    for_daemon(read_environment(&seen), std::env::var_os("LANG"))
}

/// Returns the path of `becket`, which is in the folder of this program.
pub(crate) fn program() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("becket"))
}

/// Makes a folder that only its owner may enter.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
