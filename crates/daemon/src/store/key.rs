//! The random key that masked secrets are hashed with. It is made once for each home: becket recognizes the same
//! secret again, and others cannot guess it from the hash.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use becket_engine::replace::make_folder;
use becket_wire::Place;

/// Reads the key, if there is one.
pub fn existing_mask_key(place: &Place) -> Option<[u8; 32]> {
    fs::read(place.mask_key())
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
}

/// Reads the key, or makes one.
pub fn mask_key(place: &Place) -> io::Result<[u8; 32]> {
    if let Some(key) = existing_mask_key(place) {
        return Ok(key);
    }
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    make_folder(&place.run(), 0o700)?;
    let path = place.mask_key();
    let temp = path.with_extension(format!("{}.tmp", std::process::id()));
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&temp)?
        .write_all(&key)?;
    // A hard link never replaces a file: if two processes make a key at once, the first key counts.
    let linked = fs::hard_link(&temp, &path);
    drop(fs::remove_file(&temp));
    match (linked, existing_mask_key(place)) {
        (_, Some(key)) => Ok(key),
        (Err(why), None) => Err(why),
        (Ok(()), None) => Err(io::Error::other("the key is damaged")),
    }
}
