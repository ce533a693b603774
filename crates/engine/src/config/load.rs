//! Reads the config files, and reads them again when they changed. An unchanged set of files costs one stat
//! each, because the daemon asks on every event.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use becket_wire::Place;
use becket_wire::place::fnv1a;
use serde::Serialize;

use super::guard;
use super::hook::HookProject;
use super::layer::{Layer, Level, RawTable, Source};
use super::merge::{Effective, Setting, merge};
use super::overrides::{parse_pairs, parse_variables};
use super::problem::{Problem, Severity};
use super::{Config, ConfigError, LONGEST_FILE, hook, parse_layer, skill};
use crate::effort::skill::Skills;
use crate::guard::rule::Rules;
use crate::hooks::Hook;
use crate::replace;
use crate::stamp::{FileStamp, is_absence, is_settled, read_text};
use crate::trust::{Approved, Pins, Project, Trust, Watch, hash_of};

/// The files of the config, lowest first.
#[derive(Debug, Clone)]
pub struct ConfigFiles {
    pub system: PathBuf,
    pub user: PathBuf,
    pub project: Option<PathBuf>,
    pub managed: PathBuf,
}

impl ConfigFiles {
    pub fn of(place: &Place) -> Self {
        Self {
            system: PathBuf::from("/etc/becket/config.toml"),
            user: place.config(),
            project: None,
            managed: PathBuf::from("/etc/becket/managed.toml"),
        }
    }

    /// Returns the project's `.becket/`. In the user's home this is becket's own home and belongs to no
    /// project.
    fn folder(&self) -> Option<PathBuf> {
        let folder = self.project.as_ref()?.join(".becket");
        (!is_folder_of(&folder, &self.user)).then_some(folder)
    }

    fn sources(&self) -> Vec<Source> {
        let mut files = vec![
            (Level::System, self.system.clone()),
            (Level::User, self.user.clone()),
        ];
        if let Some(folder) = self.folder() {
            files.push((Level::Project, folder.join("config.toml")));
            files.push((Level::Local, folder.join("local.toml")));
        }
        files.push((Level::Managed, self.managed.clone()));
        let sources = files
            .into_iter()
            .map(|(level, file)| Source { level, file });
        sources.collect()
    }
}

fn is_folder_of(folder: &Path, file: &Path) -> bool {
    let Some(parent) = file.parent() else {
        return false;
    };
    real_path(folder) == real_path(parent)
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The state of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileStatus {
    Absent,
    InForce,
    /// It belongs to a project that the user has not trusted.
    NotTrusted,
    /// The file is broken; its last good copy is in force.
    LastGood,
    /// The file is broken, and there is no good copy of it.
    Broken,
}

/// One file of the config, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    pub source: Source,
    pub status: FileStatus,
}

/// The config at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub config: Config,
    /// Every value with its origin.
    pub settings: BTreeMap<String, Setting>,
    /// The hooks in the order of their declaration, including those that are off or untrusted.
    pub hooks: Vec<Arc<Hook>>,
    /// The guards, including those that are off: those of the user and the project, then the default pack.
    pub guards: Rules,
    /// The skills, including becket's own.
    pub skills: Skills,
    pub files: Vec<FileReport>,
    pub problems: Vec<Problem>,
    /// The project, and its trust.
    pub project: Option<Project>,
    /// A number that differs for each state of the config in this process, over all projects.
    pub generation: u64,
}

impl Snapshot {
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        let problems = self.problems.iter();
        problems.filter(|problem| problem.severity == Severity::Error)
    }

    /// Returns the hooks that would run if the project were trusted.
    pub fn untrusted_hooks(&self) -> impl Iterator<Item = &str> {
        let hooks = self.hooks.iter();
        let untrusted = hooks.filter(|hook| hook.untrusted && hook.off.is_none());
        untrusted.map(|hook| &*hook.name)
    }
}

/// Reads the config, and reads it again when it changed.
#[derive(Debug)]
pub struct Loader {
    files: Vec<ConfigFile>,
    last_good: LastGood,
    /// The layers that do not change while this process lives: environment and command line.
    fixed: Vec<Layer>,
    fixed_problems: Vec<Problem>,
    watch: Option<Watch>,
    /// The approval to assume.
    assumed: Option<Arc<Approved>>,
    current: Option<Arc<Snapshot>>,
}

impl Loader {
    /// Makes a loader for the files of becket's home and of a project. `may_write` keeps a copy of each file
    /// that parses: only the daemon does.
    pub fn new(place: &Place, project: Option<&Path>, may_write: bool) -> Self {
        let mut files = ConfigFiles::of(place);
        files.project = project.map(Path::to_path_buf);
        Self::with_files(&files, place, may_write)
    }

    /// Makes a loader that writes nothing, without a project.
    pub fn read_only(place: &Place) -> Self {
        Self::new(place, None, false)
    }

    /// Makes a loader that writes nothing, with the files of a project.
    pub fn for_project(place: &Place, project: &Path) -> Self {
        Self::new(place, Some(project), false)
    }

    /// Makes a loader for files in other places.
    pub fn with_files(files: &ConfigFiles, place: &Place, may_write: bool) -> Self {
        let has_folder = files.folder().is_some();
        let project = files.project.as_ref();
        Self {
            watch: project.map(|project| Watch::new(place, project, has_folder)),
            files: files.sources().into_iter().map(ConfigFile::new).collect(),
            last_good: LastGood {
                folder: place.last_good(),
                may_write,
            },
            fixed: Vec::new(),
            fixed_problems: Vec::new(),
            assumed: None,
            current: None,
        }
    }

    /// Assumes that these pins are approved.
    pub fn as_if_approved(mut self, pins: Pins) -> Self {
        self.assumed = self.watch.as_ref().map(|watch| watch.assume(pins));
        self
    }

    /// Adds the variables of the environment.
    pub fn with_variables<'a>(
        self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.with(parse_variables(variables))
    }

    /// Adds the pairs of key and value of the command line.
    pub fn with_pairs<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.with(parse_pairs(pairs))
    }

    fn with(mut self, (layer, problems): (Layer, Vec<Problem>)) -> Self {
        self.fixed_problems.extend(problems);
        self.fixed_problems.extend_from_slice(&layer.warnings);
        self.fixed.push(layer);
        self.current = None;
        self
    }

    /// Returns the current config.
    pub fn current(&mut self) -> Arc<Snapshot> {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        // Trust comes first: the files that are read after it are compared with the approved ones.
        let mut changed = self.watch.as_mut().is_some_and(Watch::refresh);
        let bare = self.watch.as_ref().is_none_or(Watch::is_bare);
        for file in &mut self.files {
            changed |= if bare && file.source.level.is_foreign() {
                file.set_absent()
            } else {
                file.refresh(&self.last_good)
            };
        }
        match &self.current {
            Some(current) if !changed => Arc::clone(current),
            _ => {
                let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
                let snapshot = Arc::new(self.snapshot(generation));
                self.current = Some(Arc::clone(&snapshot));
                snapshot
            }
        }
    }

    /// Returns the approved project, if the files that were read are the approved ones.
    fn approved(&self) -> Option<&Arc<Approved>> {
        let watch = self.watch.as_ref()?;
        let project = self.assumed.as_ref().or_else(|| watch.approved())?;
        let pins = project.pins();
        let mut foreign = self.files.iter().filter(|it| it.source.level.is_foreign());
        let are_approved = foreign.all(|file| match (file.hash(), file.source.level) {
            (None, _) => file.status(true) == FileStatus::Absent,
            (Some(hash), Level::Project) => pins.has(".becket/config.toml", &hash),
            (Some(hash), Level::Local) => pins.has(".becket/local.toml", &hash),
            _ => true,
        });
        are_approved.then_some(project)
    }

    fn snapshot(&self, generation: u64) -> Snapshot {
        let approved = self.approved();
        let trusted = approved.is_some();
        let counts = |file: &&ConfigFile| file.status(trusted) != FileStatus::NotTrusted;
        let in_force = self
            .files
            .iter()
            .filter(counts)
            .filter_map(ConfigFile::layer);
        let Effective {
            mut config,
            mut settings,
            warnings,
        } = merge(in_force.chain(&self.fixed));
        let others = self.files.iter().filter(|file| !counts(file));
        let others = others
            .filter_map(ConfigFile::layer)
            .flat_map(|it| it.tables.iter().cloned());
        let (untrusted, others): (Vec<RawTable>, Vec<RawTable>) =
            others.partition(|table| table.section == "hooks");
        let hook_project = HookProject {
            folder: self.watch.as_ref().and_then(Watch::folder),
            approved,
            changed: !trusted && self.watch.as_ref().is_some_and(Watch::was_approved),
        };
        let named = hook::read(&config.hooks, &untrusted, &hook_project);
        settings.extend(named.settings);
        let mut tables = config.guards.clone();
        for file in self.files.iter().filter(counts) {
            tables.extend(file.closed_guards());
        }
        let guards = guard::read(&tables);
        settings.extend(guards.settings);
        let skills = skill::read(&config.skills);
        settings.extend(skills.settings);
        config
            .guards
            .retain(|table| !guards.refused.contains(table));
        let mut problems: Vec<Problem> = Vec::new();
        for file in &self.files {
            problems.extend(file.problems().iter().cloned().map(|mut problem| {
                // A file that is not in force only warns.
                if !counts(&file) {
                    problem.severity = Severity::Warning;
                }
                problem
            }));
        }
        problems.extend_from_slice(&self.fixed_problems);
        problems.extend(warnings);
        problems.extend(named.problems);
        let mut new = warnings_if_trusted(tables, others);
        new.retain(|problem| !guards.problems.contains(problem));
        problems.extend(new);
        problems.extend(guards.problems);
        problems.extend(skills.problems);
        let unread = self.watch.as_ref().and_then(|watch| watch.trouble.as_ref());
        problems.extend(unread.map(|why| {
            let hint = "`becket trust` moves it aside and starts a new one".to_owned();
            Problem::error("trust", format!("{why}, so no project is trusted")).hint(Some(hint))
        }));
        let files = self.files.iter().map(|file| FileReport {
            source: file.source.clone(),
            status: file.status(trusted),
        });
        Snapshot {
            config,
            settings,
            hooks: named.hooks,
            guards: Rules::new(guards.rules),
            skills: skills.skills,
            files: files.collect(),
            problems,
            project: self.watch.as_ref().map(|watch| Project {
                trust: match (watch.project().trust, trusted) {
                    (Trust::Yes, false) => Trust::Changed,
                    (trust, _) => trust,
                },
                ..watch.project().clone()
            }),
            generation,
        }
    }
}

/// Returns the warnings about guards that trusting the project would bring: its author checks before trusting
/// it.
fn warnings_if_trusted(mut tables: Vec<RawTable>, untrusted: Vec<RawTable>) -> Vec<Problem> {
    tables.extend(untrusted.into_iter().filter(|it| it.section == "guards"));
    let mut problems = guard::read(&tables).problems;
    problems.retain(|problem| problem.severity == Severity::Warning);
    problems
}

/// The state of a file, and its part in force.
#[derive(Debug, PartialEq)]
struct FileState {
    status: FileStatus,
    /// The layer of the file, or of its last good copy.
    layer: Option<Layer>,
    problems: Vec<Problem>,
}

impl FileState {
    const ABSENT: Self = Self {
        status: FileStatus::Absent,
        layer: None,
        problems: Vec::new(),
    };
}

#[derive(Debug)]
struct ConfigFile {
    source: Source,
    /// The stamp of the last look; none before the first.
    seen: Option<FileStamp>,
    /// True if the stamp is reliable.
    settled: bool,
    text: Option<String>,
    state: FileState,
}

impl ConfigFile {
    fn new(source: Source) -> Self {
        Self {
            source,
            seen: None,
            settled: false,
            text: None,
            state: FileState::ABSENT,
        }
    }

    /// Returns the layer that is or would be in force.
    fn layer(&self) -> Option<&Layer> {
        self.state.layer.as_ref()
    }

    /// Returns the state of the file. A project's file is in force only if the user has approved it.
    fn status(&self, trusted: bool) -> FileStatus {
        match self.state.status {
            FileStatus::Absent => FileStatus::Absent,
            _ if self.is_foreign() && !trusted => FileStatus::NotTrusted,
            status => status,
        }
    }

    fn problems(&self) -> &[Problem] {
        &self.state.problems
    }

    /// Returns the guards that deny because nothing of this file is in force.
    fn closed_guards(&self) -> Vec<RawTable> {
        match (&self.state.status, &self.text) {
            (FileStatus::Broken, Some(text)) => guard::closed_in(&self.source, text),
            _ => Vec::new(),
        }
    }

    /// Returns the hash of the text that was read.
    fn hash(&self) -> Option<String> {
        Some(hash_of(self.text.as_ref()?.as_bytes()))
    }

    /// Marks the file as absent, because its folder is. Returns true if that is a change.
    fn set_absent(&mut self) -> bool {
        let changed = self.state != FileState::ABSENT;
        (self.seen, self.text, self.state) = (None, None, FileState::ABSENT);
        changed
    }

    /// Looks at the file, and reads it if it changed. Returns true if the state changed.
    fn refresh(&mut self, last_good: &LastGood) -> bool {
        let metadata = fs::metadata(&self.source.file);
        let seen = FileStamp::of(&metadata);
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
                    FileState::ABSENT
                } else {
                    // The error may go away without a trace in the stamp.
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

    fn judge(&self, text: &str, last_good: &LastGood) -> FileState {
        let layer = match parse_layer(&self.source, text) {
            Ok(layer) => layer,
            Err(error) => return self.fall_back(error, last_good),
        };
        if !self.is_foreign() {
            last_good.keep(&self.source.file, text);
        }
        FileState {
            status: FileStatus::InForce,
            problems: layer.warnings.clone(),
            layer: Some(layer),
        }
    }

    /// Makes the state of a faulty file: its last good copy, the one in memory, else the one on disk; else the
    /// file without the faulty hooks. A project's files have no copy: the user approved this version, and
    /// nothing older.
    fn fall_back(&self, error: ConfigError, last_good: &LastGood) -> FileState {
        let ConfigError { mut problems, rest } = error;
        let copy = if self.is_foreign() {
            None
        } else {
            let in_memory = self.state.layer.clone();
            in_memory
                .or_else(|| parse_layer(&self.source, &last_good.find(&self.source.file)?).ok())
        };
        let (status, layer, then) = match (copy, rest) {
            (Some(mut copy), _) => {
                copy.last_good = true;
                let then = "the last version of this file without errors stays in force";
                (FileStatus::LastGood, Some(copy), then)
            }
            (None, Some(rest)) => {
                let then = "it is left out, the rest of the file is in force";
                (FileStatus::InForce, Some(*rest), then)
            }
            (None, None) => (FileStatus::Broken, None, "nothing of this file is in force"),
        };
        let mut errors = problems.iter_mut();
        if let Some(first) = errors.find(|problem| problem.severity == Severity::Error) {
            first.hint = Some(match first.hint.take() {
                Some(hint) => format!("{hint}; {then}"),
                None => then.to_owned(),
            });
        }
        FileState {
            status,
            layer,
            problems,
        }
    }

    fn is_foreign(&self) -> bool {
        self.source.level.is_foreign()
    }
}

/// Reads a regular file of a sane size. It refuses any other file, because opening a pipe would hang.
fn read(file: &Path, metadata: &Metadata) -> io::Result<String> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_text(file, LONGEST_FILE)
}

/// The copies of the config files that last parsed. They are in force while a file is broken.
#[derive(Debug)]
struct LastGood {
    folder: PathBuf,
    may_write: bool,
}

impl LastGood {
    /// Returns the copy of a file, if there is one.
    fn find(&self, file: &Path) -> Option<String> {
        fs::read_to_string(self.copy_of(file)).ok()
    }

    /// Keeps a copy. Errors are ignored: the config loads without a copy, and other parts report a full disk or
    /// a read-only home.
    fn keep(&self, file: &Path, text: &str) {
        if self.may_write && self.find(file).as_deref() != Some(text) {
            drop(replace::store(
                &self.copy_of(file),
                text.as_bytes(),
                LONGEST_FILE,
            ));
        }
    }

    fn copy_of(&self, file: &Path) -> PathBuf {
        let name = fnv1a(file.as_os_str().as_bytes());
        self.folder.join(format!("{name:016x}.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::tests::{quickly, settle};

    /// Writes the file anew, and makes it look as if it had been seen so before.
    fn write_unseen(file: &mut ConfigFile, text: &str) {
        fs::write(&file.source.file, text).unwrap();
        let metadata = fs::metadata(&file.source.file).unwrap();
        file.seen = Some(FileStamp::of(&Ok(metadata)));
    }

    #[test]
    fn a_file_is_read_again_only_if_its_stamp_is_new_or_too_young_to_be_relied_on() {
        let folder = tempfile::tempdir().unwrap();
        let last_good = LastGood {
            folder: folder.path().join("copies"),
            may_write: false,
        };
        let path = folder.path().join("config.toml");
        fs::write(&path, "store.keep_days = 1").unwrap();
        settle(&path);
        let mut file = ConfigFile::new(Source {
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
