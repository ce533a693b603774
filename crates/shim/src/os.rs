//! What differs between systems. Linux is supported; elsewhere the plain way is taken, untested.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

pub(crate) fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Ten random bytes, the tail of an event's id.
pub(crate) fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    #[cfg(target_os = "linux")]
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_ok();
    #[cfg(not(target_os = "linux"))]
    let filled = File::open("/dev/urandom")
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes))
        .is_ok();
    if !filled {
        // Never seen. A pid and a nanosecond clock still keep two ids apart.
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.subsec_nanos());
        bytes[..4].copy_from_slice(&now.to_le_bytes());
        bytes[4..8].copy_from_slice(&std::process::id().to_le_bytes());
    }
    bytes
}

/// When a process was started, in clock ticks since boot: field 22 of its stat line, counted from
/// the end of the name, which may hold anything.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

pub(crate) fn touched_within(path: &Path, span: Duration) -> bool {
    let touched = std::fs::metadata(path).and_then(|meta| meta.modified());
    touched.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age < span)
    })
}

/// Whether the other end of a socket is this user.
#[cfg(target_os = "linux")]
pub(crate) fn peer_is_us(socket: impl AsFd) -> bool {
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid.as_raw() == uid())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn peer_is_us(_: impl AsFd) -> bool {
    // The socket lies in a folder that only this user may enter.
    true
}

/// Waits until a file appears, but not past `until`. `there` looks again once the watch stands.
#[cfg(target_os = "linux")]
pub(crate) fn wait_for_file(path: &Path, until: Instant, there: impl Fn() -> bool) {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    let folder = path.parent().unwrap_or(path);
    let Ok(watch) = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) else {
        return;
    };
    if inotify::add_watch(&watch, folder, WatchFlags::MOVED_TO).is_err() {
        return;
    }
    let mut events = [0; 4096];
    while !there() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !crate::readable_within(&watch, left) {
            return;
        }
        let _ = rustix::io::read(&watch, &mut events[..]);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn wait_for_file(_: &Path, until: Instant, there: impl Fn() -> bool) {
    while !there() && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A file without a name that holds these bytes, as another program's stdin.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<Stdio> {
    #[cfg(target_os = "linux")]
    let mut file = File::from(rustix::fs::memfd_create(
        "becket-event",
        rustix::fs::MemfdFlags::CLOEXEC,
    )?);
    #[cfg(not(target_os = "linux"))]
    let mut file = {
        let path = std::env::temp_dir().join(format!("becket-event-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        file
    };
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
