//! The differences between systems. Linux is supported; other systems get the simple way, untested.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;

pub(crate) fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Returns true if the peer of a socket is this user. Other systems rely on the permissions of the socket's
/// folder.
pub(crate) fn peer_is_us(socket: impl AsFd) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::net::sockopt::socket_peercred(socket)
        .is_ok_and(|peer| peer.uid.as_raw() == uid());
    #[cfg(not(target_os = "linux"))]
    return socket.as_fd().try_clone_to_owned().is_ok();
}

/// Returns an error if writing these bytes would kill this process, because a file may not grow so long
/// (`ulimit -f`).
pub(crate) fn may_write(bytes: &[u8]) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if most < bytes.len() as u64 => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Makes a file without a name that contains these bytes.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<File> {
    may_write(bytes)?;
    #[cfg(target_os = "linux")]
    let fd = rustix::fs::memfd_create("becket-event", rustix::fs::MemfdFlags::CLOEXEC)?;
    #[cfg(not(target_os = "linux"))]
    let fd = {
        let path = std::env::temp_dir().join(format!("becket-event-{}", std::process::id()));
        let file = File::create_new(&path);
        std::fs::remove_file(&path).and(file)?
    };
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
