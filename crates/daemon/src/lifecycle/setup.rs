//! What a daemon does first: it leaves its starter's session and descriptors, opens its log, and puts
//! its socket in place. All its files are the owner's alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;

use becket_wire::Place;
use rustix::fs::OFlags;

use super::StartError;

/// Leaves the starter's session and folder, and closes whatever else was inherited. stdout is the
/// notify socket until the start is reported.
pub(super) fn leave_the_starter() -> io::Result<()> {
    // It fails for a leader of a group, which is cut loose already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    close_inherited();
    Ok(())
}

/// Claude Code starts hooks with descriptors of its own; a daemon that kept one would keep a
/// pipe open for ever.
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
    // The listing had a descriptor too, and has closed it itself.
    let is_open = |number: &i32| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    for number in numbers
        .into_iter()
        .filter(|number| *number > 2)
        .filter(is_open)
    {
        // SAFETY: this runs first, in the only thread, before anything else was opened: what is
        // open above 2 was inherited, and nothing in this process owns it.
        unsafe { rustix::io::close(number) };
    }
}

/// The start is reported: from here on stdout is not read.
pub(super) fn close_the_notice() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Opens a file of the daemon's own, which is made if it is missing. What is no regular file is an error.
pub(super) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let options = options.create(true).mode(0o600);
    let file = options.custom_flags(flags.bits().cast_signed()).open(path);
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    match file {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Err(why) if !is_link() => Err(why),
        _ => Err(io::Error::other("it is not a regular file; remove it")),
    }
}

/// The log is begun anew beyond this.
const LOG_BYTES: u64 = 4 << 20;

/// Opens the daemon's own log. No payload goes in there. A log that cannot be opened is no reason to fail.
pub(super) fn begin_log(place: &Place) {
    let path = place.daemon_log();
    match fs::symlink_metadata(&path) {
        // A link would lead the log into another file; a pipe would block.
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

/// How many connections may wait to be accepted (the kernel's own bound may be lower).
const BACKLOG: i32 = 4096;

/// Listens under another name first: a socket that can be seen can be connected to.
pub(super) fn listen(place: &Place, socket: &Path) -> Result<UnixListener, StartError> {
    let failed = |why| StartError::Listen {
        path: socket.to_owned(),
        why,
    };
    let folder = socket.parent().unwrap_or(Path::new("/"));
    make_folder(folder)?;
    let owner = fs::symlink_metadata(folder).map_err(failed)?;
    if !owner.is_dir() || owner.uid() != rustix::process::getuid().as_raw() {
        return Err(failed(io::Error::other(
            "its folder belongs to another user",
        )));
    }
    if folder != place.run() {
        drop(fs::write(
            place.socket_note(),
            socket.as_os_str().as_encoded_bytes(),
        ));
    }
    let fresh = folder.join("socket.new");
    drop(fs::remove_file(&fresh));
    let listener = UnixListener::bind(&fresh).map_err(failed)?;
    private(&fresh);
    rustix::net::listen(&listener, BACKLOG).map_err(|why| failed(why.into()))?;
    listener.set_nonblocking(true).map_err(failed)?;
    // We hold the lock, so what stands there is a dead daemon's.
    fs::rename(&fresh, socket).map_err(failed)?;
    Ok(listener)
}

pub(super) fn make_folder(path: &Path) -> Result<(), StartError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|why| StartError::Folder {
        path: path.to_owned(),
        why,
    })
}

/// Takes a file away from everybody but its owner.
pub(super) fn private(path: &Path) {
    drop(fs::set_permissions(path, fs::Permissions::from_mode(0o600)));
}

/// Which file stands there: another may have taken its place.
pub(super) fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}
