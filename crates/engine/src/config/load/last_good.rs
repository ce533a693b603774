//! Copies of the config files that last parsed: what holds while a file is broken.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use becket_wire::place::fnv1a;

#[derive(Debug)]
pub struct LastGood {
    folder: PathBuf,
    may_write: bool,
}

impl LastGood {
    pub fn new(folder: PathBuf, may_write: bool) -> Self {
        Self { folder, may_write }
    }

    /// The copy of a file, if there is one.
    pub fn find(&self, file: &Path) -> Option<String> {
        fs::read_to_string(self.copy_of(file)).ok()
    }

    /// Keeps a copy. Without one the config still loads: a full disk or a read-only home is told
    /// elsewhere.
    pub fn keep(&self, file: &Path, text: &str) {
        if self.may_write && self.find(file).as_deref() != Some(text) {
            drop(self.write(&self.copy_of(file), text));
        }
    }

    fn copy_of(&self, file: &Path) -> PathBuf {
        let name = fnv1a(file.as_os_str().as_bytes());
        self.folder.join(format!("{name:016x}.toml"))
    }

    fn write(&self, copy: &Path, text: &str) -> io::Result<()> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = copy.with_extension(format!("{}-{count}.tmp", std::process::id()));
        let written = self
            .fill(&temporary, text)
            .and_then(|()| fs::rename(&temporary, copy));
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        written
    }

    /// The copy must never be found empty: an empty config is a good one.
    fn fill(&self, temporary: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}
