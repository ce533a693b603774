//! Follows one transcript as it grows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use becket_engine::transcript::{Tail, TranscriptFinding, UnreadLines};
use rustix::fs::OFlags;

/// The number of bytes that one look reads.
const AT_ONCE: u64 = 8 << 20;
/// The number of old bytes that are read where only the tokens of the turn are needed: in an attended session the
/// status line has context and cost. Claude Code 2.1.325 writes 115 KB after the reply of a short first turn.
pub(super) const OLD_BYTES: u64 = 1 << 20;
/// The number of looks after which a transcript that does not exist is reported as missing. Claude Code creates
/// it with the first reply.
pub(super) const MAX_FAILED_LOOKS: u32 = 60;

#[derive(Debug, Default)]
pub(super) struct FollowedTranscript {
    pub(super) tail: Tail,
    path: PathBuf,
    read: u64,
    /// True if reading began in the middle of a line and has not come to its end.
    midway: bool,
    /// True if the file existed at an earlier look.
    seen: bool,
    /// The number of looks since the file was last there.
    failed_looks: u32,
}

impl FollowedTranscript {
    /// Reads the new lines. Returns their findings, and a trouble if the file cannot be read. Tokens are counted since
    /// the prompt.
    pub(super) fn look(
        &mut self,
        path: &Path,
        whole: bool,
        prompted_at: Option<i64>,
    ) -> (Vec<TranscriptFinding>, Option<String>) {
        match self.read(path, whole, prompted_at) {
            Ok(findings) => {
                self.failed_looks = 0;
                (findings, unreadable(self.tail.unread()))
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                self.failed_looks = self.failed_looks.saturating_add(1);
                let is_missing = self.seen || self.failed_looks >= MAX_FAILED_LOOKS;
                let trouble = "its transcript is missing: interrupts and failed turns may not show";
                (Vec::new(), is_missing.then(|| trouble.to_owned()))
            }
            Err(why) => {
                self.failed_looks = 0;
                let trouble = format!("its transcript cannot be read: {why}");
                (Vec::new(), Some(trouble))
            }
        }
    }

    fn read(
        &mut self,
        path: &Path,
        whole: bool,
        prompted_at: Option<i64>,
    ) -> io::Result<Vec<TranscriptFinding>> {
        let mut file = open(path)?;
        self.seen = true;
        let len = file.metadata()?.len();
        if self.path != path || len < self.read {
            let start = if whole {
                0
            } else {
                len.saturating_sub(OLD_BYTES)
            };
            self.begin(path, start);
        }
        self.tail.count_since(prompted_at.unwrap_or(0));
        if len == self.read {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        self.read += file.take(AT_ONCE).read_to_end(&mut bytes)? as u64;
        let mut bytes = &bytes[..];
        if self.midway {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.midway = end.is_none();
            bytes = end.map_or(&[][..], |end| &bytes[end + 1..]);
        }
        Ok(self.tail.push(bytes))
    }

    /// Starts with another file, or with one that was truncated.
    fn begin(&mut self, path: &Path, at: u64) {
        self.path = path.to_owned();
        self.tail = Tail::default();
        self.read = at;
        self.midway = at > 0;
    }
}

/// Opens a regular file whose path comes from outside, without waiting for a writer if it is a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(io::Error::other(if kind.is_dir() {
        "it is a folder"
    } else {
        "it is not a file"
    }))
}

/// Describes the lines of a transcript that cannot be read. Returns none if there are none.
pub(crate) fn unreadable(unread: UnreadLines) -> Option<String> {
    let mut parts = Vec::new();
    for (count, fault) in [(unread.broken, "broken"), (unread.too_long, "too long")] {
        match count {
            0 => {}
            1 => parts.push(format!("1 line is {fault}")),
            _ => parts.push(format!("{count} lines are {fault}")),
        }
    }
    let parts = parts.join(", ");
    (!parts.is_empty()).then(|| format!("some of its transcript cannot be read: {parts}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn trouble(followed: &mut FollowedTranscript, path: &Path) -> String {
        followed.look(path, true, None).1.unwrap_or_default()
    }

    #[test]
    fn a_missing_transcript_is_reported_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut followed = FollowedTranscript::default();
        for _ in 1..MAX_FAILED_LOOKS {
            assert_eq!(trouble(&mut followed, &path), "");
        }
        assert!(trouble(&mut followed, &path).contains("missing"));
        fs::write(&path, "{}\n").unwrap();
        assert_eq!(trouble(&mut followed, &path), "");
        fs::remove_file(&path).unwrap();
        assert!(trouble(&mut followed, &path).contains("missing"));
    }

    #[test]
    fn lines_that_are_broken_or_too_long_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut followed = FollowedTranscript::default();
        let mut file = File::create(&path).unwrap();
        file.write_all(b"{\"type\":\"us").unwrap();
        assert_eq!(trouble(&mut followed, &path), "", "its end may yet come");
        file.write_all(b"\n\xff\x00\n{}\n").unwrap();
        let told = "some of its transcript cannot be read: 2 lines are broken";
        assert_eq!(trouble(&mut followed, &path), told);
        file.write_all(&vec![b' '; 5 << 20]).unwrap();
        file.write_all(b"\n").unwrap();
        let told = format!("{told}, 1 line is too long");
        assert_eq!(trouble(&mut followed, &path), told);
        fs::write(&path, "{}\n").unwrap();
        assert_eq!(trouble(&mut followed, &path), "", "it begins anew");
    }

    #[test]
    fn a_partial_first_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut followed = FollowedTranscript::default();
        let long = "x".repeat(2 * OLD_BYTES as usize);
        fs::write(&path, format!("{{\"text\":\"{long}")).unwrap();
        assert_eq!(followed.look(&path, false, None), (Vec::new(), None));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"end\"}\n").unwrap();
        assert_eq!(followed.look(&path, false, None), (Vec::new(), None));
    }

    #[test]
    fn a_pipe_a_folder_or_a_device_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let mut followed = FollowedTranscript::default();
        assert!(trouble(&mut followed, &pipe).ends_with("it is not a file"));
        assert!(trouble(&mut followed, folder.path()).ends_with("it is a folder"));
        assert!(trouble(&mut followed, Path::new("/dev/zero")).ends_with("it is not a file"));
    }
}
