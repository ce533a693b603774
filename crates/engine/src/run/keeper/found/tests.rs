use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::*;

const WATCHDOG: Duration = Duration::from_secs(60);

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    /// A program of our own session, which leads a group or does not.
    fn new(token: &str, group: bool) -> Self {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").env(TOKEN, token);
        if group {
            command.process_group(0);
        }
        Self(command.spawn().unwrap())
    }

    fn in_its_own_session(token: &str) -> Self {
        let mut command = Command::new("/usr/bin/setsid");
        command.args(["/bin/sleep", "1000"]).env(TOKEN, token);
        let started = Self(command.spawn().unwrap());
        let until = Instant::now() + WATCHDOG;
        let session = || group::group_and_session_of(started.pid()).unwrap().1;
        while !group::is(started.pid(), session()) {
            assert!(Instant::now() < until, "it made no session");
            std::thread::yield_now();
        }
        started
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

fn start(token: &str, own_session: bool) -> Start {
    Start {
        nth: 1,
        token: token.to_owned(),
        own_session,
        left_ms: 0,
        run: None,
    }
}

fn found(start: &Start, parent: Pid, no_later: Option<u64>) -> Vec<i32> {
    let all = orphans(parent, no_later).into_iter();
    all.filter(|one| one.is_of(start))
        .map(|one| one.pid)
        .collect()
}

#[test]
fn an_orphan_is_found_by_its_token_its_group_its_parent_and_its_time() {
    let one = Started::new("found-1", true);
    let _others = [
        Started::new("found-12", true),
        Started::new("found-1", false),
    ];
    let began = group::started(one.pid()).unwrap();
    let it = start("found-1", false);
    let pid = one.pid().as_raw_nonzero().get();
    assert_eq!(found(&it, getpid(), None), [pid]);
    assert_eq!(found(&it, getpid(), group::now()), [pid]);
    assert!(found(&it, getpid(), Some(began - 1)).is_empty());
    let childless = one.pid();
    assert!(found(&it, childless, None).is_empty());
}

#[test]
fn who_has_another_session_than_was_made_for_it_is_somebody_elses() {
    let service = Started::in_its_own_session("found-2");
    let pid = service.pid().as_raw_nonzero().get();
    assert!(found(&start("found-2", false), getpid(), None).is_empty());
    assert_eq!(found(&start("found-2", true), getpid(), None), [pid]);

    let hook = Started::new("found-3", true);
    let pid = hook.pid().as_raw_nonzero().get();
    assert!(found(&start("found-3", true), getpid(), None).is_empty());
    assert_eq!(found(&start("found-3", false), getpid(), None), [pid]);
}

/// Its main thread ends, another goes on.
const HEADLESS: &str = "#include <pthread.h>
#include <unistd.h>
static void *stay(void *nothing) { sleep(1000); return nothing; }
int main(void) { pthread_t other; pthread_create(&other, 0, stay, 0); pthread_exit(0); }
";

#[test]
fn an_orphan_whose_main_thread_has_ended_is_found_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("headless.c"), HEADLESS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o", "headless", "headless.c"]);
    // Whoever built this test has one.
    let made = compiler.current_dir(folder.path()).status().unwrap();
    assert!(made.success());
    let mut command = Command::new(folder.path().join("headless"));
    let headless = Started(
        command
            .env(TOKEN, "found-5")
            .process_group(0)
            .spawn()
            .unwrap(),
    );
    let until = Instant::now() + WATCHDOG;
    while !group::stat(headless.pid()).unwrap().contains(") Z ") {
        assert!(Instant::now() < until, "its main thread goes on");
        std::thread::yield_now();
    }
    let pid = headless.pid().as_raw_nonzero().get();
    assert_eq!(found(&start("found-5", false), getpid(), None), [pid]);
}

#[test]
fn the_clock_of_starts_goes_on() {
    let before = group::now().unwrap();
    let child = Started::new("found-4", true);
    let start = group::started(child.pid()).unwrap();
    assert!((before..=group::now().unwrap()).contains(&start));
}
