//! What a built-in remembers of a session, in the folder that it has for that. What cannot be
//! written is forgotten: a hook says something twice rather than fail.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::replace::make_folder;

/// No memory is larger.
const LARGEST: u64 = 1 << 20;

/// The text of this name.
pub fn recall(folder: &Path, name: &str) -> Option<String> {
    let file = folder.join(name);
    let small = fs::metadata(&file)
        .ok()
        .filter(|file| file.is_file() && file.len() <= LARGEST);
    small.and_then(|_| fs::read_to_string(file).ok())
}

pub fn is_known(folder: &Path, name: &str, text: &str) -> bool {
    recall(folder, name).is_some_and(|known| known == text)
}

/// Keeps a text under this name, in place of the one before.
pub fn keep(folder: &Path, name: &str, text: &str) {
    let kept = || {
        make_folder(folder, 0o700).ok()?;
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        file.persist(folder.join(name)).ok()
    };
    let _ = kept();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_known() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        assert_eq!(recall(&folder, "x"), None);
        keep(&folder, "x", "one");
        keep(&folder, "x", "two");
        assert_eq!(recall(&folder, "x").as_deref(), Some("two"));
        assert!(is_known(&folder, "x", "two") && !is_known(&folder, "x", "one"));
        keep(Path::new("/dev/null/x"), "x", "lost");
    }
}
