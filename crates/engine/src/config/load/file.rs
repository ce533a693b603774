//! One file of the config: what was last read of it, and whether it has changed since.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::Path;

use super::last_good::LastGood;
use super::{Layer, Source, Standing};
use crate::config::{ConfigError, LONGEST_FILE, Problem, Severity, parse_layer};
use crate::stamp::{Seen, is_absence, is_settled};
use crate::trust::hash_of;

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

    /// How it stands. A project's counts only if it is what the person has approved.
    pub fn standing(&self, trusted: bool) -> Standing {
        match self.state.standing {
            Standing::Absent => Standing::Absent,
            _ if self.is_foreign() && !trusted => Standing::NotTrusted,
            standing => standing,
        }
    }

    pub fn problems(&self) -> &[Problem] {
        &self.state.problems
    }

    /// The hash of what was read of it.
    pub fn hash(&self) -> Option<String> {
        Some(hash_of(self.text.as_ref()?.as_bytes()))
    }

    /// Its folder is not there, so nothing of it is. Says whether that is different now.
    pub fn is_gone(&mut self) -> bool {
        let changed = self.state != State::ABSENT;
        (self.seen, self.text, self.state) = (None, None, State::ABSENT);
        changed
    }

    /// Looks at the file, and reads it if it changed. Says whether anything is different now.
    pub fn refresh(&mut self, last_good: &LastGood) -> bool {
        let metadata = fs::metadata(&self.source.file);
        let seen = Seen::of(&metadata);
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
                    let error = ConfigError {
                        problems: vec![problem.in_file(&self.source.file)],
                        rest: None,
                    };
                    self.fall_back(error, last_good)
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
            Err(error) => return self.fall_back(error, last_good),
        };
        if !self.is_foreign() {
            last_good.keep(&self.source.file, text);
        }
        State {
            standing: Standing::InForce,
            problems: layer.warnings.clone(),
            layer: Some(layer),
        }
    }

    /// The last good copy in its place: the one in memory, else the one on disk; else what is left
    /// of it without the hooks that are wrong. A project's files have no copy: what was approved
    /// was this, and nothing older.
    fn fall_back(&self, error: ConfigError, last_good: &LastGood) -> State {
        let ConfigError { mut problems, rest } = error;
        let on_disk = || parse_layer(&self.source, &last_good.find(&self.source.file)?).ok();
        let copy = match self.is_foreign() {
            true => None,
            false => self.state.layer.clone().or_else(on_disk),
        };
        let (standing, layer, then) = match (copy, rest) {
            (Some(mut copy), _) => {
                copy.last_good = true;
                let then = "its last good copy stays in force";
                (Standing::LastGood, Some(copy), then)
            }
            (None, Some(rest)) => {
                let then = "this hook is left out, the rest of the file is in force";
                (Standing::InForce, Some(*rest), then)
            }
            (None, None) => (Standing::Broken, None, "nothing of this file is in force"),
        };
        let mut errors = problems.iter_mut();
        if let Some(first) = errors.find(|problem| problem.severity == Severity::Error) {
            first.hint = Some(match first.hint.take() {
                Some(hint) => format!("{hint}; {then}"),
                None => then.to_owned(),
            });
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

/// Reads a regular file of a sane size. Anything else is refused: to open a pipe would hang.
fn read(file: &Path, metadata: &Metadata) -> io::Result<String> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?
        .take(LONGEST_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Level;
    use crate::stamp::tests::{quickly, settle};

    /// Writes the file anew, and makes it look as if it had been seen so before.
    fn write_unseen(file: &mut File, text: &str) {
        fs::write(&file.source.file, text).unwrap();
        let metadata = fs::metadata(&file.source.file).unwrap();
        file.seen = Some(Seen::of(&Ok(metadata)));
    }

    #[test]
    fn a_file_is_read_again_only_if_its_stamp_is_new_or_too_young_to_be_relied_on() {
        let folder = tempfile::tempdir().unwrap();
        let last_good = LastGood::new(folder.path().join("copies"), false);
        let path = folder.path().join("config.toml");
        fs::write(&path, "store.keep_days = 1").unwrap();
        settle(&path);
        let mut file = File::new(Source {
            level: Level::User,
            file: path.clone(),
        });
        assert!(file.refresh(&last_good));
        write_unseen(&mut file, "store.keep_days = 2");
        assert!(!file.refresh(&last_good), "the stamp is the same");
        let mut days = 2;
        let (new, young) = quickly(|| {
            days += 2;
            fs::write(&path, format!("store.keep_days = {days}")).unwrap();
            let new = file.refresh(&last_good);
            write_unseen(&mut file, &format!("store.keep_days = {}", days + 1));
            (new, file.refresh(&last_good))
        });
        assert!(new, "the stamp is new");
        assert!(young, "the stamp was young");
    }
}
