//! Replaces files that other programs may write too. Links are followed and kept, mode and owner
//! stay, no reader ever sees half a file, and text that another program wrote in between is not lost.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::stamp::{open_regular, read_open};

/// The number of links in a row that are followed: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The number of attempts to replace a file that other programs keep writing.
const MAX_ATTEMPTS: usize = 20;

/// The age from which a temporary file has no writer any more: no write takes this long.
const ABANDONED: Duration = Duration::from_secs(60);

/// A file as it was when it was read. It need not exist.
#[derive(Debug)]
pub struct Snapshot {
    /// The path as given.
    asked: PathBuf,
    /// The path after all links.
    path: PathBuf,
    bytes: Option<Vec<u8>>,
    metadata: Option<Metadata>,
}

/// The result of an attempt to replace a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    Done,
    /// Another program wrote the file after it was read, so nothing was done.
    Conflict,
}

impl Snapshot {
    /// Reads a file of at most `limit` bytes. A larger file and one that is not a regular file are
    /// errors.
    pub fn read(asked: &Path, limit: u64) -> io::Result<Self> {
        let path = resolve(asked)?;
        // A link that changes between `resolve` and this read is noticed when the file is replaced.
        let (bytes, metadata) = match read_file(&path, limit) {
            Ok((bytes, metadata)) => (Some(bytes), Some(metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => (None, None),
            Err(error) => return Err(error),
        };
        Ok(Self {
            asked: asked.to_path_buf(),
            path,
            bytes,
            metadata,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns true if no user may write the file. becket then does not replace it either, although
    /// a rename could.
    pub fn is_read_only(&self) -> bool {
        let mode = self.metadata.as_ref().map(Metadata::mode);
        mode.is_some_and(|mode| mode & 0o222 == 0)
    }

    /// Replaces the file, or creates it with `mode` (before the umask).
    pub fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<Attempt> {
        self.sweep();
        let temporary = self.temporary(bytes, mode)?;
        if self.has_changed()? {
            return Ok(Attempt::Conflict);
        }
        let persisted = match self.bytes {
            Some(_) => temporary.persist(&self.path),
            None => temporary.persist_noclobber(&self.path),
        };
        if let Err(error) = persisted {
            return match error.error.kind() {
                ErrorKind::AlreadyExists => Ok(Attempt::Conflict),
                _ => Err(error.into()),
            };
        }
        sync_folder(self.folder())?;
        Ok(Attempt::Done)
    }

    /// Replaces the file with `bytes`, or removes it if there are none.
    pub fn replace_or_remove(&self, bytes: Option<&[u8]>, mode: u32) -> io::Result<Attempt> {
        match bytes {
            Some(bytes) => self.replace(bytes, mode),
            None => self.remove(),
        }
    }

    /// Removes the file. A link to it stays.
    pub fn remove(&self) -> io::Result<Attempt> {
        if self.has_changed()? {
            return Ok(Attempt::Conflict);
        }
        fs::remove_file(&self.path)?;
        sync_folder(self.folder())?;
        Ok(Attempt::Done)
    }

    /// Writes a copy beside the file, with the same mode and owner, under a name that is free.
    pub fn copy_beside(&self, suffix: &str) -> io::Result<Option<PathBuf>> {
        let Some(bytes) = &self.bytes else {
            return Ok(None);
        };
        let mut number = 1;
        loop {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(suffix);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let path = self.path.with_file_name(name);
            // The copy appears complete or not at all: a full disk leaves no empty one.
            match self.temporary(bytes, 0o600)?.persist_noclobber(&path) {
                Ok(_) => return Ok(Some(path)),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The prefix and suffix of the names of becket's temporary files.
    fn temporary_name(&self) -> (String, &'static str) {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        (format!(".{name}.becket-"), ".tmp")
    }

    /// Writes `bytes` to a temporary file beside this one, with its mode and owner.
    fn temporary(&self, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
        let (prefix, suffix) = self.temporary_name();
        let mut temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(suffix)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(self.folder())?;
        temporary.write_all(bytes)?;
        self.keep_owner_and_mode(temporary.as_file())?;
        temporary.as_file().sync_all()?;
        Ok(temporary)
    }

    /// Removes the temporary files of processes that were killed.
    fn sweep(&self) {
        let (prefix, suffix) = self.temporary_name();
        for entry in fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(&prefix) || !name.ends_with(suffix) {
                continue;
            }
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED)) {
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    fn keep_owner_and_mode(&self, file: &File) -> io::Result<()> {
        let Some(old) = &self.metadata else {
            return Ok(());
        };
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))
    }

    fn has_changed(&self) -> io::Result<bool> {
        let limit = self.bytes.as_ref().map_or(0, Vec::len) as u64;
        match Self::read(&self.asked, limit) {
            Ok(now) => Ok(now.path != self.path || now.bytes != self.bytes),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Calls `attempt` until it returns a value, and at most 20 times. It returns `None` if another
/// program wrote a file first.
pub fn retry<T, E>(mut attempt: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

/// Writes a file of becket's own for this user alone, and makes its folder. The file that was there
/// may hold at most `limit` bytes.
pub fn store(file: &Path, bytes: &[u8], limit: u64) -> io::Result<()> {
    make_folder(file.parent().unwrap_or(Path::new("/")), 0o700)?;
    let stored = retry(|| {
        let attempt = Snapshot::read(file, limit)?.replace(bytes, 0o600)?;
        io::Result::Ok((attempt == Attempt::Done).then_some(()))
    })?;
    stored.ok_or_else(|| io::Error::other("another process keeps writing it"))
}

/// Follows links to the file itself, which need not exist.
pub fn resolve(asked: &Path) -> io::Result<PathBuf> {
    let mut path = asked.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            // Not a link, or no file.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(in_real_folder(path));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many links, each to the next"))
}

fn in_real_folder(path: PathBuf) -> PathBuf {
    match (path.parent().map(fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path,
    }
}

fn read_file(path: &Path, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let file = open_regular(path)?;
    let metadata = file.metadata()?;
    Ok((read_open(file, limit)?, metadata))
}

/// Makes a folder and those above it. Returns true if it was missing.
pub fn make_folder(folder: &Path, mode: u32) -> io::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)?;
    Ok(true)
}

/// Closes a folder of this user to all other users. Returns the mode that it had, if that was open.
/// A folder for everyone, like /tmp, stays as it is.
pub fn close_to_others(folder: &Path) -> io::Result<Option<u32>> {
    let metadata = fs::metadata(folder)?;
    let mode = metadata.mode() & 0o7777;
    let is_own = metadata.uid() == rustix::process::getuid().as_raw();
    if mode & 0o077 == 0 || mode & 0o1000 != 0 || !is_own {
        return Ok(None);
    }
    fs::set_permissions(folder, Permissions::from_mode(mode & !0o077))?;
    Ok(Some(mode))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Takes the lock of this file, or gives up after `wait`. Makes the file and its folder. The lock is
/// held until the file is dropped or the process dies.
pub fn lock(path: &Path, wait: Duration) -> io::Result<File> {
    make_folder(path.parent().unwrap_or(Path::new("/")), 0o700)?;
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path)?;
    let (send, receive) = mpsc::channel();
    // The kernel's lock knows no deadline, so a thread waits for it. If it gets the lock too late,
    // the lock goes with the channel.
    std::thread::spawn(move || {
        let result = file.lock().map(|()| file);
        drop(send.send(result));
    });
    match receive.recv_timeout(wait) {
        Ok(result) => result,
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn links_are_kept_and_their_target_is_replaced_with_its_mode() {
        let folder = folder();
        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("a"), "old").unwrap();
        fs::set_permissions(real.join("a"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real/a", folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("c")).unwrap();

        let snapshot = Snapshot::read(&folder.path().join("c"), 100).unwrap();
        assert_eq!(snapshot.replace(b"new", 0o600).unwrap(), Attempt::Done);
        assert_eq!(fs::read(real.join("a")).unwrap(), b"new");
        assert_eq!(fs::metadata(real.join("a")).unwrap().mode() & 0o7777, 0o640);
        assert!(folder.path().join("c").is_symlink());
        assert_eq!(names(&real), ["a"], "no temporary file is left");
    }

    #[test]
    fn the_target_of_a_link_to_nothing_is_made() {
        let folder = folder();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("missing", &link).unwrap();
        let snapshot = Snapshot::read(&link, 100).unwrap();
        assert_eq!(snapshot.bytes(), None);
        snapshot.replace(b"new", 0o600).unwrap();
        assert_eq!(fs::read(folder.path().join("missing")).unwrap(), b"new");
        let metadata = fs::metadata(&link).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o600);
    }

    #[test]
    fn links_in_a_circle_a_pipe_and_a_large_file_are_errors() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("y", path("x")).unwrap();
        std::os::unix::fs::symlink("x", path("y")).unwrap();
        assert!(Snapshot::read(&path("x"), 100).is_err());
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        assert!(Snapshot::read(&path("zero"), 100).is_err());
        fs::write(path("large"), [0; 101]).unwrap();
        let error = Snapshot::read(&path("large"), 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_write_in_between_is_not_lost() {
        let folder = folder();
        let file = folder.path().join("a");
        let new = Snapshot::read(&file, 100).unwrap();
        fs::write(&file, "theirs").unwrap();
        assert_eq!(new.replace(b"ours", 0o600).unwrap(), Attempt::Conflict);

        let old = Snapshot::read(&file, 100).unwrap();
        fs::write(&file, "theirs, and more").unwrap();
        assert_eq!(old.replace(b"ours", 0o600).unwrap(), Attempt::Conflict);
        assert_eq!(old.remove().unwrap(), Attempt::Conflict);
        assert_eq!(fs::read(&file).unwrap(), b"theirs, and more");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn copies_beside_never_overwrite_each_other() {
        let folder = folder();
        let file = folder.path().join("a");
        fs::write(&file, "text").unwrap();
        let snapshot = Snapshot::read(&file, 100).unwrap();
        snapshot.copy_beside(".copy").unwrap();
        snapshot.copy_beside(".copy").unwrap();
        assert_eq!(names(folder.path()), ["a", "a.copy", "a.copy-2"]);
    }

    #[test]
    fn only_old_temporary_files_are_removed() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        for name in [
            "a",
            ".a.becket-old.tmp",
            ".a.becket-new.tmp",
            ".b.becket-x.tmp",
        ] {
            File::create(path(name)).unwrap();
        }
        for name in [".a.becket-old.tmp", ".b.becket-x.tmp"] {
            let file = File::options().write(true).open(path(name)).unwrap();
            let then = std::time::SystemTime::now() - 2 * ABANDONED;
            file.set_modified(then).unwrap();
        }
        let snapshot = Snapshot::read(&path("a"), 100).unwrap();
        snapshot.replace(b"new", 0o600).unwrap();
        let left = [".a.becket-new.tmp", ".b.becket-x.tmp", "a"];
        assert_eq!(names(folder.path()), left);
    }

    #[test]
    fn a_folder_is_closed_to_others() {
        let folder = folder();
        let set = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(close_to_others(folder.path()).unwrap(), Some(0o755));
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(close_to_others(folder.path()).unwrap(), None);
        set(0o1777);
        assert_eq!(close_to_others(folder.path()).unwrap(), None);
    }

    #[test]
    fn waiting_for_a_lock_ends() {
        let folder = folder();
        let path = folder.path().join("lock");
        let held = lock(&path, Duration::from_secs(60)).unwrap();
        let error = lock(&path, Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || lock(&path, Duration::from_secs(60)).is_ok()
        });
        drop(held);
        assert!(waiter.join().unwrap());
    }
}
