//! The configuration of each project, read again when its files change: one stat per file and event.
//! Shared by all threads that prepare events; a project whose file system hangs holds up only its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use becket_wire::Place;

use super::{Loader, Snapshot};
use crate::mask::Masker;

/// Projects kept at hand; the one used longest ago is dropped first.
const MAX_PROJECTS: usize = 128;

#[derive(Debug)]
pub struct ConfigCache {
    place: Place,
    key: [u8; 32],
    /// Keeps a copy of each file that parses. Only the daemon does.
    may_write: bool,
    projects: Mutex<Projects>,
}

#[derive(Debug, Default)]
struct Projects {
    by_folder: HashMap<Option<PathBuf>, (u64, Arc<Mutex<Current>>)>,
    uses: u64,
}

#[derive(Debug)]
struct Current {
    loader: Loader,
    /// Made for the configuration of this generation.
    masker: Option<(u64, Arc<Masker>)>,
}

impl ConfigCache {
    /// `key` is what masked secrets are hashed with.
    pub fn new(place: &Place, key: [u8; 32], may_write: bool) -> Self {
        Self {
            place: place.clone(),
            key,
            may_write,
            projects: Mutex::default(),
        }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What holds in a project now, or outside of any.
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

    fn of(&self, project: Option<&Path>) -> Arc<Mutex<Current>> {
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
        let current = Arc::new(Mutex::new(Current {
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
