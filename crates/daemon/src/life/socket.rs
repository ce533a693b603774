//! The socket in its place, and the files around it: the owner's alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use becket_wire::Place;

use super::LifeError;

/// How many connections may wait to be accepted (the kernel's own bound may be lower).
const BACKLOG: i32 = 4096;

/// Listens under another name first: a socket that can be seen can be connected to.
pub(super) fn listen(place: &Place, socket: &Path) -> Result<UnixListener, LifeError> {
    let failed = |why| LifeError::Listen {
        path: socket.to_owned(),
        why,
    };
    let folder = socket.parent().unwrap_or(Path::new("/"));
    make_folder(folder)?;
    let owner = fs::symlink_metadata(folder).map_err(failed)?;
    if !owner.is_dir() || owner.uid() != rustix::process::getuid().as_raw() {
        return Err(failed(io::Error::other(
            "its folder belongs to somebody else",
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
    // We hold the lock, so whatever stands there belongs to nobody.
    fs::rename(&fresh, socket).map_err(failed)?;
    Ok(listener)
}

pub(super) fn make_folder(path: &Path) -> Result<(), LifeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|why| LifeError::Folder {
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
