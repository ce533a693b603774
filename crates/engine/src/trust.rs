//! Whether a project's `.becket/` counts: what it would run, pinned by content, approved once.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The hash of a content, in letters.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}
