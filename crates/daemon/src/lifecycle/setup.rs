//! The first steps of a daemon: it leaves the session and the descriptors of the process that started it, opens its
//! log, and creates its socket. All its files are private to the owner.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;

use becket_engine::replace;
use becket_wire::Place;
use rustix::fs::OFlags;

use super::StartError;

/// Leaves the session and the folder of the starting process, and closes inherited descriptors. stdout is the
/// notify socket until the start is reported.
pub(super) fn leave_the_starter() -> io::Result<()> {
    // It fails for the leader of a process group, which is detached already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    close_inherited();
    Ok(())
}

/// Closes inherited descriptors. Claude Code starts hooks with descriptors of its own, and a daemon that kept one
/// would keep a pipe open for ever.
#[expect(
    unsafe_code,
    reason = "closing a descriptor that is not owned here has no safe form"
)]
fn close_inherited() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = open
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // The listing had a descriptor too, which is closed already.
    for number in numbers {
        let is_open = fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
        if number <= 2 || !is_open {
            continue;
        }
        // SAFETY: this runs first, in the only thread, before anything else was opened: what is
        // open above 2 was inherited, and nothing in this process owns it.
        unsafe { rustix::io::close(number) };
    }
}

/// Sends stdout and stderr to /dev/null. The start is reported, so the other side does not read any more.
pub(super) fn close_the_notice() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Opens or creates a file of the daemon. Anything but a regular file is an error.
pub(super) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let options = options.create(true).mode(0o600);
    let file = options.custom_flags(flags.bits().cast_signed()).open(path);
    match file {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Err(why) if !is_link(path) => Err(why),
        _ => Err(io::Error::other("it is not a regular file; remove it")),
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// The size beyond which the log is rotated.
const LOG_BYTES: u64 = 4 << 20;

/// Opens the daemon's log. It contains no payloads. The daemon runs without it if it cannot be opened.
pub(super) fn begin_log(place: &Place) {
    let path = place.daemon_log();
    match fs::symlink_metadata(&path) {
        // A link would redirect the log into another file; a pipe would block.
        Ok(found) if !found.is_file() => drop(fs::remove_file(&path)),
        Ok(found) if found.len() > LOG_BYTES => {
            drop(fs::rename(&path, path.with_extension("log.1")));
        }
        _ => {}
    }
    if let Ok(file) = open_own(&path, OpenOptions::new().append(true)) {
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_target(false)
            .with_writer(Mutex::new(file));
        drop(log.try_init());
    }
}

/// The number of connections that may wait to be accepted. The kernel's own limit may be lower.
const BACKLOG: i32 = 4096;

/// Creates the socket under another name and renames it, so that a socket that exists can be connected to.
pub(super) fn listen(place: &Place, socket: &Path) -> Result<UnixListener, StartError> {
    let folder = socket.parent().unwrap_or(Path::new("/"));
    make_folder(folder)?;
    listen_in(place, folder, socket).map_err(|why| StartError::at("listen on", socket, why))
}

fn listen_in(place: &Place, folder: &Path, socket: &Path) -> io::Result<UnixListener> {
    let owner = fs::symlink_metadata(folder)?;
    if !owner.is_dir() || owner.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other("its folder belongs to another user"));
    }
    if folder != place.run() {
        drop(fs::write(
            place.socket_note(),
            socket.as_os_str().as_encoded_bytes(),
        ));
    }
    let fresh = folder.join("socket.new");
    drop(fs::remove_file(&fresh));
    let listener = UnixListener::bind(&fresh)?;
    private(&fresh);
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    // We hold the lock, so a socket with this name is of a dead daemon.
    fs::rename(&fresh, socket)?;
    Ok(listener)
}

pub(super) fn make_folder(path: &Path) -> Result<(), StartError> {
    let made = replace::make_folder(path, 0o700).map(drop);
    made.map_err(|why| StartError::at("make the folder", path, why))
}

/// Makes a file readable and writable for its owner only.
pub(super) fn private(path: &Path) {
    drop(fs::set_permissions(path, fs::Permissions::from_mode(0o600)));
}
