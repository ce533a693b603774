//! The configuration of each project, read again when its files change: one stat per file and event. All
//! threads that prepare events share it; a project whose file system hangs delays only its own events.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use becket_wire::Place;

use super::{Loader, Snapshot};
use crate::mask::Masker;
use crate::process::ThreadFile;

/// The number of projects in the cache; the least recently used is dropped first.
const MAX_PROJECTS: usize = 128;
/// The time after which a look into a folder counts as stalled if its thread sleeps: the file system does not
/// answer.
const STALLED: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct ConfigCache {
    place: Place,
    key: [u8; 32],
    /// The user's home, for `~` of guards.
    user_home: Arc<Path>,
    /// True to keep a copy of each file that parses. Only the daemon does.
    may_write: bool,
    projects: Mutex<Projects>,
    /// The looks that are under way in each folder.
    looks: Mutex<HashMap<PathBuf, BTreeMap<u64, RunningLook>>>,
}

/// The start of a look into a folder, and the thread that looks.
#[derive(Debug)]
struct RunningLook {
    began: Instant,
    thread: ThreadFile,
}

impl RunningLook {
    fn hangs(&self, now: Instant) -> bool {
        now.duration_since(self.began) > STALLED && self.thread.sleeps()
    }
}

/// A look into a folder that is under way.
#[derive(Debug)]
pub(crate) struct FolderLook<'a> {
    cache: &'a ConfigCache,
    folder: PathBuf,
    number: u64,
}

impl Drop for FolderLook<'_> {
    fn drop(&mut self) {
        let looks = self.cache.looks.lock();
        let mut looks = looks.unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = looks.get_mut(&self.folder) {
            here.remove(&self.number);
            if here.is_empty() {
                looks.remove(&self.folder);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Projects {
    by_folder: HashMap<Option<PathBuf>, (u64, Arc<Mutex<ProjectConfig>>)>,
    uses: u64,
}

#[derive(Debug)]
struct ProjectConfig {
    loader: Loader,
    /// The masker for the configuration of this generation.
    masker: Option<(u64, Arc<Masker>)>,
}

impl ConfigCache {
    /// Makes a cache. `key` is the key for the hashes of masked secrets.
    pub fn new(place: &Place, key: [u8; 32], may_write: bool) -> Self {
        Self {
            place: place.clone(),
            key,
            user_home: Arc::from(Path::new("/")),
            may_write,
            projects: Mutex::default(),
            looks: Mutex::default(),
        }
    }

    /// Sets the user's home.
    pub fn with_user_home(mut self, home: Option<PathBuf>) -> Self {
        if let Some(home) = home {
            self.user_home = home.into();
        }
        self
    }

    pub fn user_home(&self) -> &Arc<Path> {
        &self.user_home
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Begins a look into a folder. Returns none if an earlier one hangs there, so that only that one's thread
    /// is lost, not one for each event.
    pub(crate) fn look_into(&self, folder: &Path, now: Instant) -> Option<FolderLook<'_>> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let here = looks.entry(folder.to_path_buf()).or_default();
        let oldest = here.values().next();
        if oldest.is_some_and(|look| look.hangs(now)) {
            return None;
        }
        let number = here.keys().next_back().map_or(0, |last| last + 1);
        let thread = ThreadFile::current();
        here.insert(number, RunningLook { began: now, thread });
        Some(FolderLook {
            cache: self,
            folder: folder.to_path_buf(),
            number,
        })
    }

    /// Returns the configuration in force in a project, or outside of any.
    pub fn current(&self, project: Option<&Path>) -> (Arc<Snapshot>, Arc<Masker>) {
        let current = self.of(project);
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        let config = current.loader.current();
        let masker = match &current.masker {
            Some((generation, masker)) if *generation == config.generation => Arc::clone(masker),
            _ => {
                let masker = Arc::new(Masker::from_config(self.key, &config.config));
                current.masker = Some((config.generation, Arc::clone(&masker)));
                masker
            }
        };
        (config, masker)
    }

    fn of(&self, project: Option<&Path>) -> Arc<Mutex<ProjectConfig>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.uses += 1;
        let uses = projects.uses;
        let folder = project.map(Path::to_path_buf);
        if let Some((used, current)) = projects.by_folder.get_mut(&folder) {
            *used = uses;
            return Arc::clone(current);
        }
        if projects.by_folder.len() >= MAX_PROJECTS {
            let oldest = projects.by_folder.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(folder, _)| folder.clone());
            projects.by_folder.remove(&oldest.unwrap_or_default());
        }
        let current = Arc::new(Mutex::new(ProjectConfig {
            loader: Loader::new(&self.place, project, self.may_write),
            masker: None,
        }));
        let entry = (uses, Arc::clone(&current));
        projects.by_folder.insert(folder, entry);
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_hangs_takes_few_threads() {
        let home = tempfile::tempdir().unwrap();
        let cache = ConfigCache::new(&Place::new(home.path()), [7; 32], false);
        let (folder, now) = (Path::new("/stalled"), Instant::now());
        let later = now + 2 * STALLED;
        let computes = cache.look_into(folder, now).unwrap();
        assert!(cache.look_into(folder, later).is_some(), "this thread runs");
        drop(computes);
        // A thread that has ended runs no more than one that hangs.
        let hangs = std::thread::scope(|scope| {
            let look = scope.spawn(|| cache.look_into(folder, now));
            look.join().unwrap().unwrap()
        });
        let soon = cache.look_into(folder, now + STALLED);
        assert!(soon.is_some(), "it may only be slow");
        drop(soon);
        while cache.look_into(folder, later).is_some() {
            std::thread::yield_now();
        }
        assert!(cache.look_into(Path::new("/other"), later).is_some());
        drop(hangs);
        assert!(cache.look_into(folder, later).is_some(), "it answers again");
    }

    #[test]
    fn a_change_counts_at_once_and_an_old_project_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        let cache = ConfigCache::new(&place, [7; 32], false);
        let keep_days = || cache.current(None).0.config.store.keep_days;
        let before = keep_days();
        std::fs::write(place.config(), "[store]\nkeep_days = 3\n").unwrap();
        assert_ne!(keep_days(), before);
        for n in 0..=MAX_PROJECTS {
            cache.current(Some(&home.path().join(n.to_string())));
        }
        assert_eq!(cache.projects.lock().unwrap().by_folder.len(), MAX_PROJECTS);
        assert_eq!(cache.current(None).0.config.store.keep_days, 3);
    }
}
