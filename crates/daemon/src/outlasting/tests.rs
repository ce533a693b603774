//! What is told of hooks that go on, whoever reads, tidies or tells meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::store::sample::{id, run};

fn current(number: u32, hook: &str, until: Option<i64>) -> CurrentRun {
    let mut run = run(number, hook);
    if until.is_some() {
        run.outcome = RUNNING.to_owned();
    }
    CurrentRun { run, until }
}

fn runs(hook: &str) -> Vec<CurrentRun> {
    vec![current(1, hook, Some(9))]
}

fn tell(still: &mut Outlasting, runs: Vec<CurrentRun>) {
    still.tell(BTreeSet::new(), runs);
}

fn hooks(place: &Place) -> Vec<String> {
    let runs = outlasting(place).into_iter();
    runs.map(|one| format!("{} {}", one.run.hook, one.run.outcome))
        .collect()
}

fn home() -> (tempfile::TempDir, Place) {
    let home = tempfile::tempdir().unwrap();
    let place = Place::new(home.path());
    fs::create_dir(place.run()).unwrap();
    (home, place)
}

#[test]
fn the_last_that_was_told_counts_until_its_teller_is_gone() {
    let (_home, place) = home();
    let mut still = Outlasting::of(&place);
    tell(&mut still, vec![]);
    assert!(!place.endings().exists(), "there is nothing to tell");
    let both = vec![current(1, "a", Some(9)), current(1, "b", Some(9))];
    tell(&mut still, both);
    assert_eq!(hooks(&place), ["a running", "b running"]);
    assert!(outlasting(&place)[0].run.took_us > 1_000_000, "since when");
    let one = vec![current(1, "a", None), current(1, "b", Some(9))];
    tell(&mut still, one);
    assert_eq!(hooks(&place), ["a ok", "b running"]);
    // Half a line is none, and takes none along.
    let file = place.ending(std::process::id());
    let mut half = OpenOptions::new().append(true).open(&file).unwrap();
    half.write_all(b"\n{\"runs\":[{").unwrap();
    assert_eq!(hooks(&place), ["a ok", "b running"]);
    tell(&mut still, runs("b"));
    assert_eq!(hooks(&place), ["b running"]);
    tidy(&place);
    assert!(file.exists(), "its teller lives");
    drop(still);
    assert!(!file.exists() && hooks(&place).is_empty());
}

#[test]
fn awaited_is_what_somebody_waits_for_and_what_is_not_recorded() {
    let (_home, place) = home();
    let mut still = Outlasting::of(&place);
    let behind = || current(2, "behind", Some(9));
    still.tell(
        BTreeSet::from([id(1)]),
        vec![behind(), current(3, "a", None)],
    );
    assert_eq!(awaited(&place), HashSet::from([id(1), id(3)]));
    tell(&mut still, vec![behind()]);
    assert_eq!(awaited(&place), HashSet::new());
    assert_eq!(hooks(&place), ["behind running"]);
    still.tell(BTreeSet::from([id(2)]), vec![behind()]);
    assert_eq!(awaited(&place), HashSet::from([id(2)]));
}

#[test]
fn what_could_not_be_told_is_told_the_next_time() {
    let (_home, place) = home();
    fs::create_dir(place.endings()).unwrap();
    let reader = File::create(place.ending(std::process::id())).unwrap();
    reader.lock_shared().unwrap();
    let mut still = Outlasting::of(&place);
    tell(&mut still, runs("a"));
    drop(reader);
    assert_eq!(hooks(&place), [""; 0], "somebody reads for ever");
    tell(&mut still, runs("a"));
    assert_eq!(hooks(&place), ["a running"]);
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_reads_is_waited_for() {
    let (_home, place) = home();
    fs::create_dir(place.endings()).unwrap();
    let path = place.ending(std::process::id());
    let reader = File::create(&path).unwrap();
    reader.lock_shared().unwrap();
    let opened = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let to = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        to.filter(|to| *to == path).count()
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Until the teller has it open too.
            while opened() < 2 && !over.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            drop(reader);
        });
        let mut still = Outlasting::of(&place);
        tell(&mut still, runs("a"));
        over.store(true, Ordering::Relaxed);
        assert_eq!(hooks(&place), ["a running"]);
    });
}

#[test]
fn whoever_reads_or_tidies_meanwhile_takes_nothing_away() {
    let (_home, place) = home();
    let over = AtomicBool::new(false);
    let missed = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                tidy(&place);
                outlasting(&place);
            }
        });
        let missed = (0..500).find_map(|_| {
            let mut still = Outlasting::of(&place);
            tell(&mut still, runs("a"));
            let seen = hooks(&place);
            (seen != ["a running"]).then_some(seen)
        });
        over.store(true, Ordering::Relaxed);
        missed
    });
    assert_eq!(missed, None);
    assert_eq!(fs::read_dir(place.endings()).unwrap().count(), 0);
}

#[test]
fn another_of_the_same_number_leaves_it_alone() {
    let (_home, place) = home();
    let mut still = Outlasting::of(&place);
    tell(&mut still, runs("a"));
    let mut other = Outlasting::of(&place);
    tell(&mut other, runs("b"));
    drop(other);
    assert_eq!(hooks(&place), ["a running"]);
    tell(&mut still, runs("c"));
    let file = fs::read(place.ending(std::process::id())).unwrap();
    assert!(!file.contains(&0), "{}", String::from_utf8_lossy(&file));
    assert_eq!(hooks(&place), ["c running"]);
}

#[test]
fn a_file_is_begun_anew_before_it_is_too_long() {
    let (_home, place) = home();
    let mut still = Outlasting::of(&place);
    let long = "x".repeat(100_000);
    for hook in 0..40 {
        tell(&mut still, runs(&format!("{hook}{long}")));
        let said = hooks(&place).pop().unwrap();
        assert!(said.starts_with(&format!("{hook}x")), "{said:.9}");
    }
    let file = fs::metadata(place.ending(std::process::id())).unwrap();
    assert!(file.len() < 2 * ENOUGH, "{}", file.len());
}

#[test]
fn what_a_kill_left_counts_for_nothing_and_goes() {
    let (_home, place) = home();
    fs::create_dir(place.endings()).unwrap();
    let (runs, awaited) = (runs("a"), BTreeSet::from([id(1)]));
    let left = serde_json::to_string(&Still { runs, awaited }).unwrap();
    fs::write(place.ending(7), left).unwrap();
    assert_eq!(hooks(&place), [""; 0]);
    tidy(&place);
    assert!(!place.ending(7).exists());
}

#[test]
fn a_home_that_was_thrown_away_does_not_come_back() {
    let home = tempfile::tempdir().unwrap();
    let place = Place::new(home.path().join("gone"));
    let mut still = Outlasting::of(&place);
    tell(&mut still, runs("a"));
    assert!(!place.home().exists());
}
