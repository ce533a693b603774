//! The edge of the config: reads the files, and reads them again when they changed. An unchanged
//! set of files costs one stat each, because the daemon asks on every event.

mod file;
mod last_good;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use becket_wire::Place;

use super::hook::Around;
use super::layer::{Layer, Level, RawTable, Source};
use super::merge::{Effective, Setting, merge};
use super::problem::{Problem, Severity};
use super::said::{parse_pairs, parse_variables};
use super::{Config, hook};
use crate::hooks::Hook;
use crate::trust::{Approved, Pins, Project, Trust, Watch};
use file::File;
use last_good::LastGood;

/// The files of the config, lowest first.
#[derive(Debug, Clone)]
pub struct Files {
    pub system: PathBuf,
    pub user: PathBuf,
    pub project: Option<PathBuf>,
    pub managed: PathBuf,
}

impl Files {
    pub fn of(place: &Place) -> Self {
        Self {
            system: PathBuf::from("/etc/becket/config.toml"),
            user: place.config(),
            project: None,
            managed: PathBuf::from("/etc/becket/managed.toml"),
        }
    }

    /// The project's `.becket/`. In the user's home that is becket's own home and no project's.
    fn folder(&self) -> Option<PathBuf> {
        let folder = self.project.as_ref()?.join(".becket");
        (!is_folder_of(&folder, &self.user)).then_some(folder)
    }

    fn sources(&self) -> Vec<Source> {
        let source = |level, file: PathBuf| Source { level, file };
        let mut sources = vec![
            source(Level::System, self.system.clone()),
            source(Level::User, self.user.clone()),
        ];
        if let Some(folder) = self.folder() {
            sources.push(source(Level::Project, folder.join("config.toml")));
            sources.push(source(Level::Local, folder.join("local.toml")));
        }
        sources.push(source(Level::Managed, self.managed.clone()));
        sources
    }
}

fn is_folder_of(folder: &Path, file: &Path) -> bool {
    let Some(parent) = file.parent() else {
        return false;
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real(folder) == real(parent)
}

/// How a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Absent,
    InForce,
    /// It is a project's, and the user has not said that it counts.
    NotTrusted,
    /// It is broken; its last good copy is in force.
    LastGood,
    /// It is broken, and there is no good copy of it.
    Broken,
}

/// One file of the config, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub source: Source,
    pub standing: Standing,
}

/// The config at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub config: Config,
    /// Every value with what set it.
    pub settings: BTreeMap<String, Setting>,
    /// The named hooks in the order in which they are declared, those that are off and those that
    /// nobody trusts included.
    pub hooks: Vec<Arc<Hook>>,
    pub files: Vec<Report>,
    pub problems: Vec<Problem>,
    /// The project that it is for, and whether that counts.
    pub project: Option<Project>,
    /// Another one for every state of the config that this process saw, in whatever project.
    pub generation: u64,
}

impl Snapshot {
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        let is_error = |problem: &&Problem| problem.severity == Severity::Error;
        self.problems.iter().filter(is_error)
    }
}

/// Reads the config, and reads it again when it changed.
#[derive(Debug)]
pub struct Loader {
    files: Vec<File>,
    last_good: LastGood,
    /// What does not change while this process lives: environment and command line.
    fixed: Vec<Layer>,
    fixed_problems: Vec<Problem>,
    watch: Option<Watch>,
    /// What would be approved.
    assumed: Option<Arc<Approved>>,
    current: Option<Arc<Snapshot>>,
}

impl Loader {
    /// The files of becket's home, and of a project. `may_write` keeps a copy of each file that parses:
    /// only the daemon does.
    pub fn new(place: &Place, project: Option<&Path>, may_write: bool) -> Self {
        let mut files = Files::of(place);
        files.project = project.map(Path::to_path_buf);
        Self::with_files(&files, place, may_write)
    }

    /// Read only, without a project.
    pub fn read_only(place: &Place) -> Self {
        Self::new(place, None, false)
    }

    /// Read only, with the files of a project.
    pub fn for_project(place: &Place, project: &Path) -> Self {
        Self::new(place, Some(project), false)
    }

    /// With files that stand elsewhere.
    pub fn with_files(files: &Files, place: &Place, may_write: bool) -> Self {
        let own = files.folder().is_some();
        let watch = |project: &PathBuf| Watch::new(place, project, own);
        Self {
            watch: files.project.as_ref().map(watch),
            files: files.sources().into_iter().map(File::new).collect(),
            last_good: LastGood::new(place.last_good(), may_write),
            fixed: Vec::new(),
            fixed_problems: Vec::new(),
            assumed: None,
            current: None,
        }
    }

    /// Shows what would hold if these pins were approved.
    pub fn as_if_approved(mut self, pins: Pins) -> Self {
        self.assumed = self.watch.as_ref().map(|watch| watch.assume(pins));
        self
    }

    /// Adds what the environment says.
    pub fn with_variables<'a>(
        self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.with(parse_variables(variables))
    }

    /// Adds what the command line says: pairs of key and value.
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

    /// The config as it is now.
    pub fn current(&mut self) -> Arc<Snapshot> {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        // Trust first: what is read after that is compared with what was approved.
        let mut changed = self.watch.as_mut().is_some_and(Watch::refresh);
        let bare = self.watch.as_ref().is_none_or(Watch::is_bare);
        for file in &mut self.files {
            changed |= match bare && file.source.level.is_foreign() {
                true => file.is_gone(),
                false => file.refresh(&self.last_good),
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

    /// The project as it was approved, if what was read of it is that.
    fn approved(&self) -> Option<&Arc<Approved>> {
        let watch = self.watch.as_ref()?;
        let project = self.assumed.as_ref().or_else(|| watch.approved())?;
        let pins = project.pins();
        let approved = |file: &File| match (file.hash(), file.source.level) {
            (None, _) => file.standing(true) == Standing::Absent,
            (Some(hash), Level::Project) => pins.has(".becket/config.toml", &hash),
            (Some(hash), Level::Local) => pins.has(".becket/local.toml", &hash),
            _ => true,
        };
        let mut foreign = self.files.iter().filter(|it| it.source.level.is_foreign());
        foreign.all(approved).then_some(project)
    }

    fn snapshot(&self, generation: u64) -> Snapshot {
        let approved = self.approved();
        let trusted = approved.is_some();
        let counts = |file: &&File| file.standing(trusted) != Standing::NotTrusted;
        let in_force = self.files.iter().filter(counts).filter_map(File::layer);
        let Effective {
            config,
            mut settings,
            warnings,
        } = merge(in_force.chain(&self.fixed));
        let others = self.files.iter().filter(|file| !counts(file));
        let others = others.filter_map(File::layer).flat_map(|it| &it.tables);
        let untrusted: Vec<RawTable> = others
            .filter(|table| table.section == "hooks")
            .cloned()
            .collect();
        let around = Around {
            folder: self.watch.as_ref().and_then(Watch::folder),
            approved,
        };
        let named = hook::read(&config.hooks, &untrusted, &around);
        settings.extend(named.settings);
        let mut problems: Vec<Problem> = Vec::new();
        for file in &self.files {
            problems.extend(file.problems().iter().cloned().map(|mut problem| {
                // What does not count is no trouble.
                if !counts(&file) {
                    problem.severity = Severity::Warning;
                }
                problem
            }));
        }
        problems.extend_from_slice(&self.fixed_problems);
        problems.extend(warnings);
        problems.extend(named.problems);
        let unread = self.watch.as_ref().and_then(|watch| watch.trouble.as_ref());
        problems.extend(unread.map(|why| {
            let hint = "`becket trust` sets it aside and begins anew".to_owned();
            Problem::error("trust", format!("{why}, so no project is trusted")).hint(Some(hint))
        }));
        let report = |file: &File| Report {
            source: file.source.clone(),
            standing: file.standing(trusted),
        };
        Snapshot {
            config,
            settings,
            hooks: named.hooks,
            files: self.files.iter().map(report).collect(),
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
