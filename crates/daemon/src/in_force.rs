//! The config that is in force, for each project its own, and the masker that it asks for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::config::{Loader, Snapshot};
use becket_engine::mask::Masker;

/// However busy it is, and whatever the clock does: the files are looked at so often at least.
const AT_LEAST_EVERY: Duration = Duration::from_millis(100);
/// For so many projects the config is kept at hand; whoever was quiet longest goes first.
const PROJECTS: usize = 128;

/// Makes the loader of a project.
type Open = Box<dyn Fn(&Path) -> Loader + Send>;

pub(crate) struct InForce {
    key: [u8; 32],
    open: Open,
    /// Where no project is known.
    base: Held,
    projects: HashMap<PathBuf, Held>,
    /// Counts the questions.
    asked: u64,
}

/// One config, as it was at the last look.
struct Held {
    loader: Loader,
    config: Arc<Snapshot>,
    masker: Arc<Masker>,
    /// When the files were looked at last, by both clocks.
    looked: (i64, Instant),
    /// When it was last asked for.
    asked: u64,
}

impl InForce {
    pub(crate) fn new(loader: Loader, open: Open, key: [u8; 32], now_ms: i64) -> Self {
        Self {
            key,
            open,
            base: Held::new(loader, key, now_ms, Instant::now()),
            projects: HashMap::new(),
            asked: 0,
        }
    }

    /// As it was at the last look, without any project's.
    pub(crate) fn config(&self) -> Arc<Snapshot> {
        Arc::clone(&self.base.config)
    }

    pub(crate) fn masker(&self) -> Arc<Masker> {
        Arc::clone(&self.base.masker)
    }

    /// What holds for an event that began at that time in that project. A look that was later than
    /// that has seen every change that the event could rely on, so under load not every event costs
    /// one.
    pub(crate) fn for_event(
        &mut self,
        began_ms: i64,
        now_ms: i64,
        now: Instant,
        project: Option<&Path>,
    ) -> (Arc<Snapshot>, Arc<Masker>) {
        let key = self.key;
        let held = match project {
            None => &mut self.base,
            Some(project) => self.held(project, now_ms, now),
        };
        let (looked_ms, looked) = held.looked;
        if began_ms >= looked_ms || now.duration_since(looked) > AT_LEAST_EVERY {
            held.look(key, now_ms, now);
        }
        (Arc::clone(&held.config), Arc::clone(&held.masker))
    }

    /// Looks at the files that are no project's.
    pub(crate) fn look(&mut self, now_ms: i64, now: Instant) -> Arc<Snapshot> {
        self.base.look(self.key, now_ms, now);
        self.config()
    }

    fn held(&mut self, project: &Path, now_ms: i64, now: Instant) -> &mut Held {
        self.asked += 1;
        if !self.projects.contains_key(project) {
            while self.projects.len() >= PROJECTS {
                let quiet = self.projects.iter().min_by_key(|(_, held)| held.asked);
                let Some(quiet) = quiet.map(|(project, _)| project.clone()) else {
                    break;
                };
                self.projects.remove(&quiet);
            }
        }
        let (open, key) = (&self.open, self.key);
        let held = self
            .projects
            .entry(project.to_path_buf())
            .or_insert_with(|| Held::new(open(project), key, now_ms, now));
        held.asked = self.asked;
        held
    }
}

impl Held {
    fn new(mut loader: Loader, key: [u8; 32], now_ms: i64, now: Instant) -> Self {
        let config = loader.current();
        let masker = Arc::new(Masker::from_config(key, &config.config));
        Self {
            loader,
            config,
            masker,
            looked: (now_ms, now),
            asked: 0,
        }
    }

    fn look(&mut self, key: [u8; 32], now_ms: i64, now: Instant) {
        self.looked = (now_ms, now);
        let config = self.loader.current();
        if config.generation != self.config.generation {
            self.masker = Arc::new(Masker::from_config(key, &config.config));
        }
        self.config = config;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use becket_engine::config::Files;
    use becket_wire::Place;

    use super::*;

    #[test]
    fn every_project_has_its_own_config_and_the_quiet_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        let files = {
            let root = root.clone();
            move |project: Option<&Path>| Files {
                system: root.join("none"),
                user: root.join("home/config.toml"),
                project: project.map(Path::to_path_buf),
                managed: root.join("none"),
            }
        };
        let place = Place::new(root.join("home"));
        let base = Loader::with_files(&files(None), &place, false);
        let open = Box::new(move |project: &Path| {
            Loader::with_files(&files(Some(project)), &place, false)
        });
        let mut in_force = InForce::new(base, open, [0; 32], 0);
        let one = root.join("one");
        fs::create_dir_all(one.join(".becket")).unwrap();
        let theirs = "[hooks.theirs]\non = \"Stop\"\nrun = \"x\"\n";
        fs::write(one.join(".becket/config.toml"), theirs).unwrap();
        let mut hooks = |project: Option<&Path>| {
            let (config, _) = in_force.for_event(5, 5, Instant::now(), project);
            let at_hand = in_force.projects.len();
            (config.hooks.len(), config.project.is_some(), at_hand)
        };
        assert_eq!(hooks(None), (0, false, 0));
        assert_eq!(hooks(Some(&one)), (1, true, 1));
        for number in 1..PROJECTS {
            hooks(Some(&root.join(number.to_string())));
            hooks(Some(&one));
        }
        assert_eq!(hooks(Some(&root.join("last"))), (0, true, PROJECTS));
        let held = ["one", "1", "2", "last"].into_iter();
        let held: Vec<bool> = held
            .map(|name| in_force.projects.contains_key(&root.join(name)))
            .collect();
        assert_eq!(held, [true, false, true, true]);
    }
}
