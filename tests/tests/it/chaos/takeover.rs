//! One daemon at a time: a newer build takes over, and concurrent starts lead to one daemon.

use std::fs::{self};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Barrier;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use becket_wire::{StartReport, Version};
use serde_json::Value;

use super::load::{self, SentEvent};
use super::{Random, assert_stored_once, gone, rounds};

/// Starts a daemon with this version, and returns its report to its starter.
pub fn start_as(world: &World, version: &str) -> StartReport {
    let mut daemon = world
        .becket(["daemon", "run", "--detached", "--as-version", version])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("becket runs");
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("a stdout");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("a notice");
    // The test is the parent of the daemon and has to reap it.
    std::thread::spawn(move || daemon.wait());
    StartReport::read(&line)
}

/// Returns the version of the daemon that answers, if one does.
pub fn serving(world: &World) -> Option<String> {
    let status = world.output(&["daemon", "status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).ok()?;
    Some(status["version"].as_str()?.to_owned())
}

#[test]
fn newer_builds_take_over_under_load_and_nothing_is_lost() {
    let world = World::new();
    let mut chance = Random::new();
    let takeovers = rounds(20);
    let sent = load::during(&world, 4, 0, |load| {
        let mut last = load.daemon_after(None);
        for build in 1..=takeovers {
            load.more(chance.below(6));
            chance.moment();
            assert_eq!(
                start_as(&world, &format!("9.0.{build}")),
                StartReport::Ready
            );
            gone(last);
            last = world.daemon_pid().expect("the new daemon");
        }
    });
    assert_eq!(serving(&world), Some(format!("9.0.{takeovers}")));
    assert_stored_once(&world, &sent);
    let one = wait::until(PATIENCE, || (world.daemons().len() == 1).then_some(()));
    assert!(one.is_some(), "daemons: {:?}", world.daemons());
}

#[test]
fn an_equal_or_older_build_does_not_take_over() {
    let world = World::new();
    assert_eq!(start_as(&world, "9.0.2"), StartReport::Ready);
    let pid = world.daemon_pid();
    let running = "9.0.2".parse::<Version>().expect("a version");
    let sent = load::during(&world, 2, 0, |load| {
        for version in ["9.0.2", "9.0.1", "0.1.0", "8.9.9+9"] {
            load.more(3);
            assert_eq!(start_as(&world, version), StartReport::Running(running));
            assert_eq!(world.daemon_pid(), pid);
        }
    });
    assert_eq!(serving(&world).as_deref(), Some("9.0.2"));
    assert_stored_once(&world, &sent);
}

#[test]
fn a_newer_shim_replaces_the_daemon() {
    let world = World::new();
    assert_eq!(start_as(&world, "0.0.1"), StartReport::Ready);
    let old = world.daemon_pid().expect("a daemon");
    let sent = [load::send(&world, 1)];
    gone(old);
    let current = Version::current().to_string();
    let new = wait::until(PATIENCE, || {
        serving(&world).filter(|version| *version == current)
    });
    assert!(new.is_some(), "{:?} serves", serving(&world));
    let log = assert_stored_once(&world, &sent);
    assert_eq!(log[0]["source"], "daemon", "the old one answered it");
}

#[test]
fn newer_shims_replace_an_old_daemon_under_load() {
    let world = World::new();
    let current = Version::current().to_string();
    let mut sent = Vec::new();
    for round in 0..rounds(1) {
        assert_eq!(start_as(&world, "0.0.1"), StartReport::Ready);
        let old = world.daemon_pid();
        sent.extend(load::during(&world, 4, round * 1_000_000, |load| {
            load.daemon_after(old);
            load.until("new daemon", || {
                serving(&world).filter(|version| *version == current)
            });
        }));
        world.run(&["daemon", "stop"]);
    }
    assert_stored_once(&world, &sent);
}

const CALLS: u64 = 20;

/// Sends so many events at once.
fn at_once(world: &World, first: u64) -> Vec<SentEvent> {
    let start = Barrier::new(CALLS as usize);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (first..first + CALLS)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    load::send(world, number)
                })
            })
            .collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("a call"))
            .collect()
    })
}

fn exactly_one_daemon(world: &World) {
    let one = wait::until(PATIENCE, || {
        let daemons = world.daemons();
        (daemons.len() == 1 && world.daemon_pid() == Some(daemons[0])).then_some(())
    });
    let log = fs::read_to_string(world.path("log/daemon.log")).unwrap_or_default();
    assert!(one.is_some(), "daemons: {:?}\n{log}", world.daemons());
}

#[test]
fn twenty_calls_at_once_start_one_daemon() {
    let world = World::new();
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    assert_stored_once(&world, &sent);
}

#[test]
fn twenty_calls_after_a_kill_start_one_daemon() {
    let world = World::new();
    world.start_daemon();
    world.kill_daemon();
    assert!(world.path("run/socket").exists());
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    assert_stored_once(&world, &sent);
}
