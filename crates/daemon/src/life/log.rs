//! The daemon's own log: a plain file, begun anew when it has grown. No payload goes in there.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use becket_wire::Place;

const MAX_BYTES: u64 = 4 << 20;

/// Opens the log. A log that cannot be opened stops nobody.
pub(super) fn begin(place: &Place) {
    let path = place.daemon_log();
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > MAX_BYTES) {
        drop(fs::rename(&path, path.with_extension("log.1")));
    }
    if let Ok(file) = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
    {
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_target(false)
            .with_writer(Mutex::new(file));
        drop(log.try_init());
    }
}
