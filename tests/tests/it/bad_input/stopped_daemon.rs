//! A daemon that was stopped by SIGSTOP, and files of becket or Claude Code that are devices or links:
//! verbs do not wait for long, and nothing else is written.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use becket_tests::world::{Called, World, finish, start};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::{numbered, registered};

/// The two seconds that a verb waits, and the rest for a loaded machine.
const SOON: Duration = Duration::from_secs(12);

#[test]
fn verbs_report_a_stopped_daemon_within_their_bound() {
    let world = registered();
    world.start_daemon();
    let pid = world.signal_daemon(Signal::STOP).expect("a daemon");
    let refuse = [
        &["sessions"][..],
        &["events"],
        &["events", "--follow"],
        &["daemon", "status"],
        &["daemon", "start"],
        &["daemon", "stop"],
        &["effort", "list"],
    ];
    let read_without_it = [
        &["hooks", "recent"][..],
        &["why"],
        &["guard", "coverage"],
        &["stats"],
        &["guard", "backtest"],
    ];
    std::thread::scope(|scope| {
        let world = &world;
        for args in refuse {
            scope.spawn(move || {
                let called = assert_reports_stopped(world, pid, args);
                assert_ne!(called.code, Some(0), "{args:?}: {called:?}");
            });
        }
        for args in read_without_it {
            scope.spawn(move || {
                let called = assert_reports_stopped(world, pid, args);
                let warnings = called.stderr.matches("warning: the daemon").count();
                assert_eq!(warnings, 1, "{args:?}: {called:?}");
            });
        }
    });
    world.signal_daemon(Signal::CONT);
    assert_eq!(world.status()["pid"], pid);
}

/// Runs a verb that reports that the daemon's process is stopped.
#[track_caller]
fn assert_reports_stopped(world: &World, pid: u32, args: &[&str]) -> Called {
    let called = finish(start(world.becket(args)), Instant::now(), SOON);
    let said = format!("{}{}", called.stdout, called.stderr);
    let is_told = said.contains("is stopped") && said.contains(&format!("kill -CONT {pid}"));
    assert!(is_told, "{args:?}: {said}");
    called
}

#[test]
fn doctor_does_not_block_on_a_device_file() {
    let world = registered();
    let project = world.home.join("project");
    let settings = project.join(".claude/settings.local.json");
    fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    // It looks like a regular file, and reading it waits for the kernel's next message.
    symlink("/proc/kmsg", &settings).expect("a link");
    let command = world.home.join(".claude/commands/hook/disable.md");
    fs::remove_file(&command).expect("a file");
    mknodat(CWD, &command, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    // The list of plugins likewise.
    let plugins = world.home.join(".claude/plugins");
    fs::create_dir_all(&plugins).expect("a folder");
    symlink("/proc/kmsg", plugins.join("installed_plugins.json")).expect("a link");
    let began = Instant::now();
    let mut doctor = world.becket(["doctor"]);
    doctor.current_dir(&project);
    let called = finish(start(doctor), began, SOON);
    assert_eq!(called.code, Some(1), "{called:?}");
    let is_told = called.stdout.contains("settings.local.json");
    assert!(is_told, "{called:?}");
}

#[test]
fn the_daemon_follows_no_symbolic_link_when_writing() {
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
    // The shim's mark of a slow daemon, and the marks of its end.
    put("run/slow");
    world.signal_daemon(Signal::STOP);
    world.send("Stop", numbered(1));
    world.signal_daemon(Signal::CONT);
    assert_eq!(fs::read_to_string(&precious).expect("a file"), "precious");
    for end in [&["daemon", "stop"][..], &["down"]] {
        put("run/stopped");
        world.run(end);
        let text = fs::read_to_string(&precious).expect("a file");
        assert_eq!(text, "precious", "{end:?}");
        fs::remove_file(world.path("run/stopped")).expect("a link");
    }
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
