//! One file of the config: what was last read of it, and whether it has changed since.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::last_good::LastGood;
use super::{Layer, Source, Standing};
use crate::config::{Problem, Severity, parse_layer};

/// Nobody writes a config that long.
const MAX_SIZE: u64 = 1 << 20;
/// A file that was written so shortly before it was read may be written again without a new time:
/// the clock of the file system ticks only every few milliseconds.
const SETTLED: Duration = Duration::from_millis(50);

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What a look at the file showed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Absent,
    Stamp(Stamp),
    Refused(io::ErrorKind),
}

/// What is known of the file, and what of it counts.
#[derive(Debug, PartialEq)]
struct State {
    standing: Standing,
    /// What it says, or what it said when it last was good.
    layer: Option<Layer>,
    problems: Vec<Problem>,
}

impl State {
    const ABSENT: Self = Self {
        standing: Standing::Absent,
        layer: None,
        problems: Vec::new(),
    };
}

#[derive(Debug)]
pub struct File {
    pub source: Source,
    /// Nothing before the first look.
    seen: Option<Seen>,
    /// The stamp can be relied on.
    settled: bool,
    text: Option<String>,
    state: State,
}

impl File {
    pub fn new(source: Source) -> Self {
        Self {
            source,
            seen: None,
            settled: false,
            text: None,
            state: State::ABSENT,
        }
    }

    /// What is in force of it, or would be.
    pub fn layer(&self) -> Option<&Layer> {
        self.state.layer.as_ref()
    }

    pub fn standing(&self) -> Standing {
        self.state.standing
    }

    pub fn problems(&self) -> &[Problem] {
        &self.state.problems
    }

    /// Looks at the file, and reads it if it changed. Says whether anything is different now.
    pub fn refresh(&mut self, last_good: &LastGood) -> bool {
        let metadata = fs::metadata(&self.source.file);
        let seen = match &metadata {
            Ok(metadata) => Seen::Stamp(Stamp::of(metadata)),
            Err(error) if is_absence(error) => Seen::Absent,
            Err(error) => Seen::Refused(error.kind()),
        };
        if self.settled && self.seen.as_ref() == Some(&seen) {
            return false;
        }
        self.settled = metadata.as_ref().map_or(true, is_settled);
        self.seen = Some(seen);
        let state = match metadata.and_then(|metadata| read(&self.source.file, &metadata)) {
            Ok(text) if self.text.as_ref() == Some(&text) => return false,
            Ok(text) => {
                let state = self.judge(&text, last_good);
                self.text = Some(text);
                state
            }
            Err(error) => {
                self.text = None;
                if is_absence(&error) {
                    State::ABSENT
                } else {
                    // What refused may pass without a trace in the stamp.
                    self.settled = false;
                    let problem = Problem::error("", format!("could not read it: {error}"));
                    self.fall_back(vec![problem.in_file(&self.source.file)], last_good)
                }
            }
        };
        let changed = state != self.state;
        self.state = state;
        changed
    }

    fn judge(&self, text: &str, last_good: &LastGood) -> State {
        let layer = match parse_layer(&self.source, text) {
            Ok(layer) => layer,
            Err(error) => return self.fall_back(error.problems, last_good),
        };
        if !self.is_foreign() {
            last_good.keep(&self.source.file, text);
        }
        State {
            standing: match self.is_foreign() {
                true => Standing::NotTrusted,
                false => Standing::InForce,
            },
            problems: layer.warnings.clone(),
            layer: Some(layer),
        }
    }

    /// The last good copy in its place: the one in memory, else the one on disk. A project's files
    /// have none, because they do not count.
    fn fall_back(&self, mut problems: Vec<Problem>, last_good: &LastGood) -> State {
        let on_disk = || parse_layer(&self.source, &last_good.find(&self.source.file)?).ok();
        let mut layer = match self.is_foreign() {
            true => None,
            false => self.state.layer.clone().or_else(on_disk),
        };
        let (standing, then) = match &mut layer {
            Some(layer) => {
                layer.last_good = true;
                (Standing::LastGood, "its last good copy stays in force")
            }
            None if self.is_foreign() => (Standing::NotTrusted, "the file is not trusted anyway"),
            None => (Standing::Broken, "nothing of this file is in force"),
        };
        let mut errors = problems.iter_mut();
        if let Some(first) = errors.find(|problem| problem.severity == Severity::Error) {
            first.hint = Some(then.to_owned());
        }
        State {
            standing,
            layer,
            problems,
        }
    }

    fn is_foreign(&self) -> bool {
        self.source.level.is_foreign()
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata
        .modified()
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > SETTLED)
}

/// Reads a regular file of a sane size. Anything else is refused: to open a pipe would hang.
fn read(file: &Path, metadata: &Metadata) -> io::Result<String> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?
        .take(MAX_SIZE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Level;

    fn set_time(file: &Path, modified: SystemTime) {
        let file = fs::File::options().append(true).open(file).unwrap();
        file.set_modified(modified).unwrap();
    }

    /// Writes the file anew, and makes it look as if it had been seen so before.
    fn write_unseen(file: &mut File, text: &str, modified: SystemTime) {
        fs::write(&file.source.file, text).unwrap();
        set_time(&file.source.file, modified);
        let metadata = fs::metadata(&file.source.file).unwrap();
        file.seen = Some(Seen::Stamp(Stamp::of(&metadata)));
    }

    #[test]
    fn a_file_is_read_again_only_if_its_stamp_is_new_or_too_young_to_be_relied_on() {
        let folder = tempfile::tempdir().unwrap();
        let last_good = LastGood::new(folder.path().join("copies"), false);
        let path = folder.path().join("config.toml");
        let old = SystemTime::now() - Duration::from_secs(100);
        // However slow this machine is, a time to come stays younger than any bound.
        let young = SystemTime::now() + Duration::from_secs(1000);
        fs::write(&path, "store.keep_days = 1").unwrap();
        set_time(&path, old);
        let mut file = File::new(Source {
            level: Level::User,
            file: path.clone(),
        });
        assert!(file.refresh(&last_good));
        write_unseen(&mut file, "store.keep_days = 2", old);
        assert!(!file.refresh(&last_good), "the stamp is the same");
        set_time(&path, young);
        assert!(file.refresh(&last_good), "the stamp is new");
        write_unseen(&mut file, "store.keep_days = 3", young);
        assert!(file.refresh(&last_good), "the stamp was young");
    }
}
