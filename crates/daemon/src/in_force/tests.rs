//! Who has a config of their own, and for how long it is kept.

use std::fs;

use becket_engine::config::Files;
use tempfile::TempDir;

use super::*;

const MASK: &str = "BECKET_MASK_ENABLED";

/// How many secrets are masked, of one.
fn masks(masker: &Masker) -> u32 {
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    masker.mask(secret.as_bytes()).count
}

/// A home of its own, and no file of the machine's.
struct Yard {
    folder: TempDir,
}

impl Yard {
    fn new(user: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::write(folder.path().join("home/config.toml"), user).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn in_force(&self) -> InForce {
        let root = self.folder.path().to_path_buf();
        let place = Place::new(root.join("home"));
        let open = move |project: Option<&Path>| {
            let files = Files {
                system: root.join("none"),
                user: root.join("home/config.toml"),
                project: project.map(Path::to_path_buf),
                managed: root.join("none"),
            };
            Loader::with_files(&files, &place, false)
        };
        InForce::new(Box::new(open), [0; 32], 0)
    }
}

fn variables(said: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    said.iter().map(owned).collect()
}

/// What holds in a project for whoever has these variables.
fn ask(
    in_force: &mut InForce,
    project: Option<&Path>,
    said: &[(&str, &str)],
) -> (Arc<Snapshot>, Arc<Masker>) {
    in_force.for_event(5, 5, Instant::now(), project, &variables(said))
}

#[test]
fn every_project_has_its_own_config_and_the_quiet_ones_go() {
    let yard = Yard::new("");
    let mut in_force = yard.in_force();
    let one = yard.path("one");
    fs::create_dir_all(one.join(".becket")).unwrap();
    let theirs = "[hooks.theirs]\non = \"Stop\"\nrun = \"x\"\n";
    fs::write(one.join(".becket/config.toml"), theirs).unwrap();
    let mut hooks = |project: Option<&Path>| {
        let (config, _) = ask(&mut in_force, project, &[]);
        let at_hand = in_force.projects.held.len();
        (config.hooks.len(), config.project.is_some(), at_hand)
    };
    assert_eq!(hooks(None), (0, false, 0));
    assert_eq!(hooks(Some(&one)), (1, true, 1));
    for number in 1..PROJECTS {
        hooks(Some(&yard.path(&number.to_string())));
        hooks(Some(&one));
    }
    assert_eq!(hooks(Some(&yard.path("last"))), (0, true, PROJECTS));
    let held = ["one", "1", "2", "last"].into_iter();
    let held: Vec<bool> = held
        .map(|name| in_force.projects.held.contains_key(&yard.path(name)))
        .collect();
    assert_eq!(held, [true, false, true, true]);
}

#[test]
fn the_environment_counts_for_whoever_has_it_and_for_nobody_else() {
    let yard = Yard::new("mask.enabled = false");
    let mut in_force = yard.in_force();
    let one = yard.path("one");
    for project in [None, Some(&*one)] {
        let (_, with) = ask(&mut in_force, project, &[(MASK, "true")]);
        let (_, without) = ask(&mut in_force, project, &[]);
        assert_eq!(masks(&with), 1, "{project:?}");
        assert_eq!(masks(&without), 0, "{project:?}");
    }
    // What changes in a file changes for both.
    fs::write(yard.path("home/config.toml"), "mask.enabled = true").unwrap();
    let (config, masker) = ask(&mut in_force, Some(&one), &[(MASK, "false")]);
    assert_eq!(masks(&masker), 1, "it may tighten, never relax");
    assert!(config.problems[0].to_string().contains("never relax"));
}

#[test]
fn a_look_after_the_arrival_of_an_event_is_one_for_it_too() {
    let yard = Yard::new("mask.enabled = false");
    let mut in_force = yard.in_force();
    let mut masked = |arrived| {
        let (_, masker) = in_force.for_event(5, 5, arrived, None, &BTreeMap::new());
        masks(&masker)
    };
    let arrived = Instant::now();
    assert_eq!(masked(Instant::now()), 0);
    fs::write(yard.path("home/config.toml"), "mask.enabled = true").unwrap();
    assert_eq!(masked(arrived), 0, "it was there before the change");
    assert_eq!(masked(Instant::now()), 1, "this one was not");
}

#[test]
fn variables_that_set_nothing_make_no_difference() {
    let yard = Yard::new("");
    let mut in_force = yard.in_force();
    let one = yard.path("one");
    let (plain, _) = ask(&mut in_force, Some(&one), &[]);
    let others = [
        ("BECKET_HOME", "/x"),
        ("BECKET_MASK", "true"),
        ("BECKET_NO_DAEMON", "1"),
        ("BECKETS_MASK_ENABLED", "true"),
        ("TMUX", "x"),
    ];
    let (other, _) = ask(&mut in_force, Some(&one), &others);
    assert_eq!(plain.generation, other.generation);
    let held = (
        in_force.projects.held.len(),
        in_force.environments.held.len(),
    );
    assert_eq!(held, (1, 0));
}

#[test]
fn what_is_wrong_in_the_environment_is_one_state_however_often_it_comes() {
    let yard = Yard::new("");
    let mut in_force = yard.in_force();
    let wrong = [("BECKET_DAEMON_IDLE", "soon")];
    let (first, _) = ask(&mut in_force, None, &wrong);
    assert_eq!(first.errors().count(), 1);
    let (again, _) = ask(&mut in_force, None, &wrong);
    assert_eq!(first.generation, again.generation);
    let (other, _) = ask(&mut in_force, None, &[("BECKET_DAEMON_IDLE", "never mind")]);
    let (none, _) = ask(&mut in_force, None, &[]);
    assert!(first.generation != other.generation && first.generation != none.generation);
}

#[test]
fn the_quiet_environments_go_and_no_project_for_them() {
    let yard = Yard::new("");
    let mut in_force = yard.in_force();
    let one = yard.path("one");
    ask(&mut in_force, Some(&one), &[]);
    let (first, _) = ask(&mut in_force, Some(&one), &[(MASK, "true")]);
    for number in 0..ENVIRONMENTS {
        ask(&mut in_force, None, &[(MASK, &number.to_string())]);
        if number + 1 < ENVIRONMENTS {
            let (kept, _) = ask(&mut in_force, Some(&one), &[(MASK, "true")]);
            assert_eq!(kept.generation, first.generation, "after {number}");
        }
    }
    assert_eq!(in_force.environments.held.len(), ENVIRONMENTS);
    assert_eq!(in_force.projects.held.len(), 1);
    let held = |number: usize| {
        let key = Environment {
            project: None,
            variables: vec![(MASK.to_owned(), number.to_string())],
        };
        in_force.environments.held.contains_key(&key)
    };
    assert!(!held(0) && held(1) && held(ENVIRONMENTS - 1));
}
