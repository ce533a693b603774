//! The lock that allows one daemon for each home. A newer build asks the running daemon to yield.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use becket_wire::frame::Decoder;
use becket_wire::rpc::{Request, Response};
use becket_wire::{PROTOCOL, Place, Version};

use super::StartError;
use super::setup::open_own;

/// The time that a daemon has to answer a request to yield, and the time that it has to end then.
const ANSWER: Duration = Duration::from_secs(2);
const MAKE_ROOM: Duration = Duration::from_secs(10);
/// The time that a daemon has to end if it is ending already: it waits for its hooks first.
const DRAINED: Duration = Duration::from_secs(40);
const TAKE_LOCK: &str = "take the lock";
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The answer of the daemon that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHolder {
    /// It ends.
    Yielding,
    /// It stays, because it is as new as this build or newer.
    By(Version),
    /// It does not answer.
    Silent,
}

/// Takes the lock, at once or from an older daemon that yields.
pub(super) fn acquire(place: &Place, version: Version) -> Result<File, StartError> {
    let path = place.life_lock();
    let pid = std::process::id().to_string();
    let lock = open(&path)?;
    match lock.try_lock() {
        Ok(()) => return Ok(sign(lock, &pid)),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(why)) => return Err(StartError::at(TAKE_LOCK, &path, why)),
    }
    let waiting = wait_for(lock);
    let mut next = None;
    let began = Instant::now();
    let mut until = began + MAKE_ROOM;
    loop {
        match yield_to(place, version) {
            LockHolder::By(running) => return Err(StartError::Running(running)),
            LockHolder::Yielding if next.is_none() => {
                until = began + DRAINED;
                let lock = open(&place.next_lock())?;
                match lock.try_lock() {
                    Ok(()) => next = Some(sign(lock, &version.to_string())),
                    // Another process waits for the daemon to end. Waiting behind it only makes sense with a newer version.
                    Err(_) => {
                        let waits = io::read_to_string(lock).unwrap_or_default();
                        let waits = waits.trim().parse::<Version>().ok();
                        if let Some(waits) = waits.filter(|waits| *waits >= version) {
                            return Err(StartError::Running(waits));
                        }
                    }
                }
            }
            // A daemon that no longer listens may be about to end. Another process may then take the lock before
            // us, so the question is repeated.
            LockHolder::Yielding | LockHolder::Silent => {}
        }
        match waiting.recv_timeout(ASK_AGAIN) {
            Ok(lock) => return Ok(sign(lock, &pid)),
            Err(_) if Instant::now() < until => {}
            Err(_) => return Err(StartError::Hung(path)),
        }
    }
}

fn open(path: &Path) -> Result<File, StartError> {
    let lock = open_own(path, OpenOptions::new().read(true).write(true));
    lock.map_err(|why| StartError::at(TAKE_LOCK, path, why))
}

/// Writes a text into the locked file: the pid, for people, or the version, for other processes that wait.
fn sign(mut lock: File, text: &str) -> File {
    drop(
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{text}")),
    );
    lock
}

/// Waits for the lock in a thread, since locking has no timeout.
fn wait_for(lock: File) -> Receiver<File> {
    let (done, waiting) = channel();
    std::thread::spawn(move || {
        if lock.lock().is_ok() {
            drop(done.send(lock));
        }
    });
    waiting
}

/// Asks the running daemon to yield to this version.
pub fn yield_to(place: &Place, version: Version) -> LockHolder {
    match ask(place, version) {
        Ok(Some(Response::Yielding)) => LockHolder::Yielding,
        Ok(Some(Response::Refused { version })) => LockHolder::By(version),
        _ => LockHolder::Silent,
    }
}

fn ask(place: &Place, version: Version) -> io::Result<Option<Response>> {
    let mut stream = UnixStream::connect(place.socket(rustix::process::getuid().as_raw()))?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    let request = Request::Yield {
        protocol: PROTOCOL,
        version,
    }
    .to_frame()
    .map_err(io::Error::other)?;
    stream.write_all(&request)?;
    let mut decoder = Decoder::new();
    let mut buffer = [0; 512];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            return Ok(Response::from_frame(frame).ok());
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            len => decoder.push(&buffer[..len]),
        }
    }
}
