//! `becket events --follow` outlives the daemons that it follows.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use becket_wire::StartReport;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::load::SentEvent;
use super::takeover::start_as;
use super::{Random, assert_stored_once, gone, load, number, rounds};

struct Follower {
    child: Child,
    seen: Arc<Mutex<Vec<u64>>>,
}

impl Follower {
    fn start(world: &World) -> Self {
        let mut child = world
            .becket(["events", "--follow", "--json", "--duplicates"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("becket runs");
        let lines = BufReader::new(child.stdout.take().expect("a stdout")).lines();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The last line of a killed follower may be incomplete.
                let Ok(row) = serde_json::from_str::<Value>(&line) else {
                    break;
                };
                list.lock().expect("a list").push(number(&row));
            }
        });
        Self { child, seen }
    }

    fn seen(&self) -> Vec<u64> {
        self.seen.lock().expect("a list").clone()
    }

    /// Asserts that the follower has seen every event once, and still runs.
    fn saw_all_once(mut self, sent: &[SentEvent]) {
        let mut expected: Vec<u64> = sent.iter().map(|one| one.number).collect();
        expected.sort_unstable();
        wait::until(PATIENCE / 4, || {
            (self.seen().len() >= expected.len()).then_some(())
        });
        let ended = self.child.try_wait().expect("a child");
        drop(self.child.kill());
        let mut said = String::new();
        let stderr = self.child.stderr.take();
        drop(stderr.expect("a stderr").read_to_string(&mut said));
        assert!(ended.is_none(), "it ended with {ended:?}: {said}");
        let mut seen = self.seen.lock().expect("a list").clone();
        seen.sort_unstable();
        let doubled: Vec<_> = seen.windows(2).filter(|two| two[0] == two[1]).collect();
        let missed: Vec<_> = expected
            .iter()
            .filter(|one| seen.binary_search(one).is_err())
            .collect();
        assert!(
            seen == expected,
            "of {} rows missed {missed:?}, saw twice {doubled:?}",
            expected.len()
        );
    }
}

/// Also when a test fails: the follower would start daemons for ever.
impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn following_goes_on_over_kills() {
    let world = World::new();
    world.start_daemon();
    let follower = Follower::start(&world);
    let mut chance = Random::new();
    let mut sent = load::during(&world, 3, 0, |load| {
        load.until("row", || (!follower.seen().is_empty()).then_some(()));
        let mut last = None;
        for _ in 0..rounds(4) {
            last = Some(load.daemon_after(last));
            load.more(chance.below(12));
            chance.moment();
            world.signal_daemon(Signal::KILL);
        }
    });
    sent.push(load::send(&world, u64::MAX / 2));
    let log = assert_stored_once(&world, &sent);
    assert_eq!(log.len(), sent.len());
    follower.saw_all_once(&sent);
}

#[test]
fn following_goes_on_over_takeovers() {
    let world = World::new();
    world.start_daemon();
    let follower = Follower::start(&world);
    let mut chance = Random::new();
    let sent = load::during(&world, 3, 0, |load| {
        load.until("row", || (!follower.seen().is_empty()).then_some(()));
        for build in 1..=rounds(4) {
            let old = load.daemon_after(None);
            load.more(chance.below(12));
            chance.moment();
            assert_eq!(
                start_as(&world, &format!("9.0.{build}")),
                StartReport::Ready
            );
            gone(old);
        }
        load.more(10);
    });
    assert_stored_once(&world, &sent);
    follower.saw_all_once(&sent);
}

/// Returns the next line on stderr, if there is one.
fn says(child: &mut Child) -> Option<String> {
    let mut stderr = BufReader::new(child.stderr.take().expect("a stderr"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        drop(stderr.read_line(&mut line).map(|_| tell.send(line)));
    });
    told.recv_timeout(PATIENCE / 4).ok()
}

const WAITS: &str = "the daemon was stopped; waiting for an event or for `becket daemon start`\n";

#[test]
fn a_follower_does_not_restart_a_stopped_daemon() {
    let world = World::new();
    world.start_daemon();
    let mut follower = Follower::start(&world);
    let mut sent = vec![load::send(&world, 1)];
    wait::until(PATIENCE, || (!follower.seen().is_empty()).then_some(())).expect("a row");
    world.run(&["daemon", "stop"]);
    assert_eq!(says(&mut follower.child).as_deref(), Some(WAITS));
    let ended = || world.daemons().is_empty().then_some(());
    wait::until(PATIENCE, ended).expect("no daemon");
    // The next event starts a daemon, for the followers too.
    sent.push(load::send(&world, 2));
    wait::until(PATIENCE, || (follower.seen().len() > 1).then_some(())).expect("another row");
    // A kill is not a request to stop.
    world.kill_daemon();
    wait::until(PATIENCE, || world.daemon_pid()).expect("a daemon that the follower starts");
    sent.push(load::send(&world, 3));
    let all = || (follower.seen().len() == sent.len()).then_some(());
    wait::until(PATIENCE, all).expect("the last row");
}

#[test]
fn a_follower_that_is_too_slow_misses_nothing() {
    // More events than the daemon keeps for one follower, and than fit into the socket.
    const EVENTS: u64 = 1000;
    let world = World::new();
    world.start_daemon();
    let follower = Follower::start(&world);
    let pid = Pid::from_child(&follower.child);
    let sent = load::during(&world, 4, 0, |load| {
        load.until("row", || (!follower.seen().is_empty()).then_some(()));
        kill_process(pid, Signal::STOP).expect("it stops");
        load.more(EVENTS);
        kill_process(pid, Signal::CONT).expect("it goes on");
        load.more(10);
    });
    assert_stored_once(&world, &sent);
    follower.saw_all_once(&sent);
}
