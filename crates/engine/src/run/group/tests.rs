use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{getpid, setpgid};

use super::*;

const WATCHDOG: Duration = Duration::from_secs(60);
const FOLDER: &str = "BECKET_TEST_LEAVER";

/// Not a test, but the program of one: leads a group, leaves it, and stays.
#[test]
#[ignore = "the program of another test"]
#[expect(
    clippy::zombie_processes,
    reason = "they are what is left in the groups"
)]
fn leaver() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let _member = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    // That of the test may be from outside of a container, where it has no number.
    let other = Command::new("/bin/sh")
        .args(["-c", "while [ -d \"$0\" ]; do sleep 0.1; done"])
        .arg(&folder)
        .process_group(0)
        .spawn()
        .unwrap();
    setpgid(None, Some(Pid::from_child(&other))).unwrap();
    fs::write(folder.join("begun"), "").unwrap();
    loop {
        thread::park();
    }
}

fn leaver_in(folder: &Path) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["run::group::tests::leaver", "--exact", "--ignored"])
        .env(FOLDER, folder)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| folder.join("begun").exists());
    child
}

fn wait_for(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + WATCHDOG;
    while !is_so() {
        assert!(Instant::now() < until, "it never came");
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_leader_that_has_left_its_group_is_signalled_too() {
    for act in [Act::Terminate, Act::Kill] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = leaver_in(folder.path());
        let pid = Pid::from_child(&child);
        assert!(!leads(pid));
        obey(act, pid);
        wait_for(|| child.try_wait().unwrap().is_some());
    }
}

/// No process has so high a number, so nothing is told of it.
#[test]
fn whoever_cannot_be_seen_is_taken_for_a_member() {
    let unseen = Pid::from_raw(i32::MAX).unwrap();
    assert_eq!(group_and_session_of(unseen), None);
    assert!(leads(unseen));
}

/// A process whose main thread has ended shows as a zombie. This one has threads besides.
#[test]
fn a_leader_has_not_ended_while_other_threads_of_it_go_on() {
    let zombie = "4242 (leader) Z 1 4242 4242 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0";
    let (_go_on, end) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || end.recv());
    assert!(!has_ended(getpid(), zombie));
    let mut alone = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let pid = Pid::from_child(&alone);
    let (ended, runs) = (has_ended(pid, zombie), has_ended(pid, &stat(pid).unwrap()));
    alone.kill().unwrap();
    alone.wait().unwrap();
    assert!(ended && !runs);
}
