//! The config that is in force, for each project its own, and the masker that it asks for. Where the
//! environment of whoever asks sets something, theirs again is one of its own.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::config::{Loader, Snapshot, variables_among};
use becket_engine::mask::Masker;
use becket_wire::Place;

/// However busy it is, and whatever the clock does: the files are looked at so often at least.
const AT_LEAST_EVERY: Duration = Duration::from_millis(100);
/// For so many projects the config is kept at hand; whoever was quiet longest goes first.
const PROJECTS: usize = 128;
/// And for so many environments. They have a place of their own: however many there are, the projects
/// stay.
const ENVIRONMENTS: usize = 128;

/// Makes the loader of a project, or of none.
type Open = Box<dyn Fn(Option<&Path>) -> Loader + Send>;

pub(crate) struct InForce {
    key: [u8; 32],
    open: Open,
    /// Where no project is known.
    base: AtHand,
    projects: Shelf<PathBuf>,
    environments: Shelf<Environment>,
}

/// What the environment of an event says of the config, and in which project.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Environment {
    project: Option<PathBuf>,
    variables: Vec<(String, String)>,
}

/// One config, as it was at the last look.
struct AtHand {
    loader: Loader,
    config: Arc<Snapshot>,
    masker: Arc<Masker>,
    /// When the last look at the files began, by both clocks.
    looked: (i64, Instant),
    /// When it was last asked for.
    asked: u64,
}

impl InForce {
    /// With what the daemon's own command line sets.
    pub(crate) fn of(place: &Place, set: &[(String, String)], key: [u8; 32], now_ms: i64) -> Self {
        let (place, set) = (place.clone(), set.to_vec());
        let open = move |project: Option<&Path>| {
            let loader = match project {
                Some(project) => Loader::for_daemon_in(&place, project),
                None => Loader::for_daemon(&place),
            };
            loader.with_pairs(set.iter().map(|(key, value)| (&**key, &**value)))
        };
        Self::new(Box::new(open), key, now_ms)
    }

    fn new(open: Open, key: [u8; 32], now_ms: i64) -> Self {
        Self {
            key,
            base: AtHand::new(open(None), key, now_ms),
            open,
            projects: Shelf::new(PROJECTS),
            environments: Shelf::new(ENVIRONMENTS),
        }
    }

    /// As it was at the last look, without any project's.
    pub(crate) fn masker(&self) -> Arc<Masker> {
        Arc::clone(&self.base.masker)
    }

    /// What holds for an event that began at that time in that project, with those variables. A look
    /// that was later than that, or than its arrival, has seen every change that the event could rely
    /// on, so under load not every event costs one.
    pub(crate) fn for_event(
        &mut self,
        began_ms: i64,
        now_ms: i64,
        arrived: Instant,
        project: Option<&Path>,
        variables: &BTreeMap<String, String>,
    ) -> (Arc<Snapshot>, Arc<Masker>) {
        let key = self.key;
        let held = self.at_hand(project, variables, now_ms);
        let (looked_ms, looked) = held.looked;
        let is_newer = began_ms >= looked_ms && arrived > looked;
        if is_newer || arrived.duration_since(looked) > AT_LEAST_EVERY {
            held.look(key, now_ms);
        }
        (Arc::clone(&held.config), Arc::clone(&held.masker))
    }

    /// Looks at the files that are no project's.
    pub(crate) fn look(&mut self, now_ms: i64) -> Arc<Snapshot> {
        self.base.look(self.key, now_ms);
        Arc::clone(&self.base.config)
    }

    fn at_hand(
        &mut self,
        project: Option<&Path>,
        variables: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> &mut AtHand {
        let (open, key) = (&self.open, self.key);
        let mut variables = variables_among(variables).peekable();
        if variables.peek().is_some() {
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let environment = Environment {
                project: project.map(Path::to_path_buf),
                variables: variables.clone().map(owned).collect(),
            };
            let make = || AtHand::new(open(project).with_variables(variables), key, now_ms);
            return self.environments.get(environment, make);
        }
        match project {
            None => &mut self.base,
            Some(project) => self.projects.get(project.to_path_buf(), || {
                AtHand::new(open(Some(project)), key, now_ms)
            }),
        }
    }
}

/// As many of them as it has room for: whoever was quiet longest goes first.
struct Shelf<K> {
    held: HashMap<K, AtHand>,
    room: usize,
    /// Counts the questions.
    asked: u64,
}

impl<K: Hash + Eq + Clone> Shelf<K> {
    fn new(room: usize) -> Self {
        Self {
            held: HashMap::new(),
            room,
            asked: 0,
        }
    }

    fn get(&mut self, key: K, make: impl FnOnce() -> AtHand) -> &mut AtHand {
        self.asked += 1;
        if !self.held.contains_key(&key) {
            self.make_room();
        }
        let held = self.held.entry(key).or_insert_with(make);
        held.asked = self.asked;
        held
    }

    fn make_room(&mut self) {
        while self.held.len() >= self.room {
            let quiet = self.held.iter().min_by_key(|(_, held)| held.asked);
            let Some(quiet) = quiet.map(|(key, _)| key.clone()) else {
                break;
            };
            self.held.remove(&quiet);
        }
    }
}

impl AtHand {
    fn new(mut loader: Loader, key: [u8; 32], now_ms: i64) -> Self {
        let looked = (now_ms, Instant::now());
        let config = loader.current();
        let masker = Arc::new(Masker::from_config(key, &config.config));
        Self {
            loader,
            config,
            masker,
            looked,
            asked: 0,
        }
    }

    fn look(&mut self, key: [u8; 32], now_ms: i64) {
        self.looked = (now_ms, Instant::now());
        let config = self.loader.current();
        if config.generation != self.config.generation {
            self.masker = Arc::new(Masker::from_config(key, &config.config));
        }
        self.config = config;
    }
}

#[cfg(test)]
mod tests;
