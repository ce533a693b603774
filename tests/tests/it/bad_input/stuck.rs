//! A daemon that was stopped, and files of becket's or Claude Code's that are none: what asks does not wait for
//! long, and nothing else is written.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use becket_tests::world::World;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::registered;

/// The two seconds in which a verb waits, and the rest for a loaded machine.
const SOON: Duration = Duration::from_secs(12);

#[test]
fn verbs_say_soon_that_the_daemon_is_stopped() {
    let world = registered();
    world.start_daemon();
    let pid = world.signal_daemon(Signal::STOP).expect("a daemon");
    for args in [
        &["sessions"][..],
        &["events"],
        &["daemon", "status"],
        &["daemon", "start"],
        &["daemon", "stop"],
        &["effort", "list"],
    ] {
        let began = Instant::now();
        let output = world.output(args);
        let took = began.elapsed();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(took < SOON, "{args:?} took {took:?}: {said}");
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(
            said.contains("is stopped") && said.contains(&format!("kill -CONT {pid}")),
            "{args:?}: {said}"
        );
    }
    world.signal_daemon(Signal::CONT);
    assert_eq!(world.status()["pid"], pid);
}

#[test]
fn doctor_waits_for_no_device() {
    let world = registered();
    let project = world.home.join("project");
    let settings = project.join(".claude/settings.local.json");
    fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    // It says that it is a regular file, and reading it waits for the kernel's next word.
    symlink("/proc/kmsg", &settings).expect("a link");
    let command = world.home.join(".claude/commands/hook/disable.md");
    fs::remove_file(&command).expect("a file");
    mknodat(CWD, &command, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let began = Instant::now();
    let mut doctor = world.becket(["doctor"]);
    let output = doctor.current_dir(&project).output().expect("becket runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(began.elapsed() < SOON, "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("settings.local.json"), "{said}");
}

#[test]
fn the_daemon_writes_through_no_link() {
    let world = World::new();
    let precious = world.home.join("precious");
    let put = |name: &str| {
        fs::create_dir_all(world.path(name).parent().expect("a folder")).expect("a folder");
        fs::write(&precious, "precious").expect("a file");
        symlink(&precious, world.path(name)).expect("a link");
    };
    put("log/daemon.log");
    world.start_daemon();
    let log = fs::symlink_metadata(world.path("log/daemon.log")).expect("a log");
    assert!(log.is_file());
    world.run(&["daemon", "stop"]);
    for name in ["run/daemon.lock", "run/start.lock"] {
        fs::remove_file(world.path(name)).expect("a lock");
        put(name);
        let refused = world.output(&["daemon", "start"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(name),
            "{name}: {said}"
        );
        assert_eq!(fs::read_to_string(&precious).expect("a file"), "precious");
        fs::remove_file(world.path(name)).expect("a link");
    }
    world.start_daemon();
}
