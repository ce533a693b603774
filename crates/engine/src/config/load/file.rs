//! One file of the config: what was last read of it, and whether it has changed since.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use super::last_good::LastGood;
use super::{Layer, Level, Problem, Source, Standing};
use crate::config::parse_layer;

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

#[derive(Debug)]
pub struct File {
    pub source: Source,
    /// Nothing before the first look.
    seen: Option<Seen>,
    settled: bool,
    text: Option<String>,
    /// What it says, or what it said when it last was good.
    layer: Option<Layer>,
    problems: Vec<Problem>,
    standing: Standing,
}

impl File {
    pub fn new(source: Source) -> Self {
        Self {
            source,
            seen: None,
            settled: true,
            text: None,
            layer: None,
            problems: Vec::new(),
            standing: Standing::Absent,
        }
    }

    /// What is in force of it.
    pub fn layer(&self) -> Option<&Layer> {
        self.layer.as_ref()
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What is wrong with it. A layer that is in force has its warnings.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let good = matches!(self.standing, Standing::InForce | Standing::NotTrusted);
        let layer = self.layer.as_ref().filter(|_| good);
        let warnings = layer.map_or(&[][..], |layer| &layer.warnings);
        self.problems.iter().chain(warnings)
    }

    /// Looks at the file, and reads it if it changed. Says whether anything is different now.
    pub fn refresh(&mut self, last_good: &LastGood) -> bool {
        let seen = match fs::metadata(&self.source.file) {
            Ok(metadata) => Seen::Stamp(Stamp::of(&metadata)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Seen::Absent,
                kind => Seen::Refused(kind),
            },
        };
        if self.settled && self.seen.as_ref() == Some(&seen) {
            return false;
        }
        let first = self.seen.is_none();
        self.settled = true;
        match seen {
            Seen::Absent => {
                self.seen = Some(Seen::Absent);
                self.vanished() && !first
            }
            Seen::Refused(kind) => {
                self.seen = Some(seen);
                self.text = None;
                self.broken(vec![self.unreadable(&kind.into())], last_good);
                true
            }
            Seen::Stamp(_) => self.read(last_good),
        }
    }

    fn read(&mut self, last_good: &LastGood) -> bool {
        let text = match self.open() {
            Ok(text) => text,
            Err(error) => {
                // The next look tries again: what refused may pass without a trace in the stamp.
                self.settled = false;
                let problems = vec![self.unreadable(&error)];
                let known = self.text.is_none() && self.problems.first().map(|p| &p.message) == problems.first().map(|p| &p.message);
                self.text = None;
                self.broken(problems, last_good);
                return !known;
            }
        };
        if self.text.as_ref() == Some(&text) {
            return false;
        }
        match parse_layer(&self.source, &text) {
            Ok(layer) => {
                self.standing = self.good_standing();
                if self.standing == Standing::InForce {
                    last_good.keep(&self.source.file, &text);
                }
                self.layer = Some(layer);
                self.problems = Vec::new();
            }
            Err(error) => self.broken(error.problems, last_good),
        }
        self.text = Some(text);
        true
    }

    /// Reads a regular file of a sane size; anything else (a pipe would hang) is refused.
    fn open(&mut self) -> io::Result<String> {
        let other = |why: &str| Err(io::Error::other(why.to_owned()));
        if !fs::metadata(&self.source.file)?.is_file() {
            self.seen = None;
            return other("it is no regular file");
        }
        let file = fs::File::open(&self.source.file)?;
        let metadata = file.metadata()?;
        self.seen = Some(Seen::Stamp(Stamp::of(&metadata)));
        let age = metadata
            .modified()
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        self.settled = age.is_some_and(|age| age > SETTLED);
        let mut bytes = Vec::new();
        file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_SIZE {
            return other("it is longer than 1 MiB");
        }
        String::from_utf8(bytes).or_else(|_| other("it is not UTF-8"))
    }

    fn unreadable(&self, error: &io::Error) -> Problem {
        Problem::error("", format!("could not read it: {error}")).in_file(&self.source.file)
    }

    fn vanished(&mut self) -> bool {
        let was_there = self.standing != Standing::Absent;
        self.standing = Standing::Absent;
        self.text = None;
        self.layer = None;
        self.problems = Vec::new();
        was_there
    }

    fn good_standing(&self) -> Standing {
        match self.source.level {
            Level::Project | Level::Local => Standing::NotTrusted,
            _ => Standing::InForce,
        }
    }

    /// Falls back to the last good copy: the one in memory, else the one on disk.
    fn broken(&mut self, mut problems: Vec<Problem>, last_good: &LastGood) {
        if self.good_standing() == Standing::NotTrusted {
            self.standing = Standing::NotTrusted;
            self.layer = None;
            self.problems = problems;
            return;
        }
        if self.layer.is_none() {
            let text = last_good.find(&self.source.file);
            self.layer = text.and_then(|text| parse_layer(&self.source, &text).ok());
        }
        let then = match &mut self.layer {
            Some(layer) => {
                layer.last_good = true;
                self.standing = Standing::LastGood;
                "its last good copy stays in force"
            }
            None => {
                self.standing = Standing::Broken;
                "nothing of this file is in force"
            }
        };
        if let Some(first) = problems.iter_mut().find(|problem| problem.severity == crate::config::Severity::Error) {
            first.hint = Some(then.to_owned());
        }
        self.problems = problems;
    }
}
