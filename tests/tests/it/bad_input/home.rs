//! What lies in the home was left by the dead, stands in the way, or is not meant at all.

use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use becket_tests::world::World;

use super::fake::socket_in;
use super::{BOUND, LARGE_BOUND, alone, call, doctor_says, numbered, numbers, send};

/// A folder outside the world that has to go with it.
pub(super) struct Removed(pub(super) PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The event is served by a daemon that was not there before. One that starts on a loaded machine
/// may be late for its first event, never for the one after.
fn is_served(world: &World) {
    for n in 1..=2 {
        let called = send(world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
        world.run(&["daemon", "start"]);
    }
    let events = world.events();
    assert_eq!(numbers(world), [1, 2]);
    assert_eq!(events[1]["source"], "daemon", "{events:?}");
    assert_eq!(world.status()["running"], true);
}

#[test]
fn what_a_killed_daemon_left_behind_holds_nobody() {
    let world = World::new();
    world.start_daemon();
    world.kill_daemon();
    for left in ["run/daemon.lock", "run/start.lock", "run/socket"] {
        assert!(world.path(left).exists(), "{left}");
    }
    is_served(&world);
}

#[test]
fn the_pid_in_a_lock_means_nothing() {
    let world = World::new();
    fs::create_dir_all(world.path("run")).expect("a folder");
    // A pid that lives, and is no daemon: the kernel has given it to somebody else.
    for lock in ["run/daemon.lock", "run/start.lock"] {
        fs::write(world.path(lock), format!("{}\n", std::process::id())).expect("a lock");
    }
    is_served(&world);
}

#[test]
fn a_socket_with_nobody_behind_it_is_replaced() {
    let world = World::new();
    drop(UnixListener::bind(socket_in(&world)).expect("a socket"));
    assert!(world.path("run/socket").exists());
    is_served(&world);
}

#[test]
fn a_file_in_the_sockets_place_is_replaced() {
    let world = World::new();
    fs::write(socket_in(&world), "not a socket").expect("a file");
    is_served(&world);
}

#[test]
fn a_folder_in_the_sockets_place_means_alone() {
    let world = super::registered();
    fs::create_dir(socket_in(&world)).expect("a folder");
    fs::write(world.path("run/socket/file"), "").expect("a file");
    for n in 1..=2 {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    // Reading verbs say so, and read all the same.
    assert_eq!(numbers(&world), [1, 2]);
    let output = world.output(&["events"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("could not listen on"), "{stderr}");
    doctor_says(&world, "broken", "could not listen on");
}

#[test]
fn a_start_that_hangs_is_not_waited_for() {
    let world = World::new();
    let _run = socket_in(&world);
    let starter = File::create(world.path("run/start.lock")).expect("a lock");
    starter.lock().expect("nobody has it");
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    assert!(world.daemon_pid().is_none());
    drop(starter);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_lock_held_by_somebody_who_does_not_answer_means_alone() {
    let world = super::registered();
    let _run = socket_in(&world);
    let hung = File::create(world.path("run/daemon.lock")).expect("a lock");
    hung.lock().expect("nobody has it");
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    doctor_says(&world, "broken", "the daemon did not start");
    drop(hung);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn the_environment_cannot_lead_the_hook_elsewhere() {
    let world = World::new();
    let elsewhere = world.root().join("elsewhere");
    for road in [world.shim("PreToolUse"), alone(&world)] {
        let mut shim = road;
        shim.env("BECKET_HOME", &elsewhere);
        let called = call(shim, numbered(1).as_bytes(), BOUND);
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    // The daemon that the hook started works for the home of the registration too.
    assert!(world.daemon_pid().is_some());
    assert_eq!(numbers(&world), [1, 1]);
    assert!(!elsewhere.exists());
    assert!(!world.home.join("elsewhere").exists());
}

#[test]
fn the_environment_cannot_push_an_event_out_of_its_frame() {
    let world = World::new();
    let begin = "{\"session_id\":\"s\",\"tool_use_id\":\"1\",\"x\":\"";
    let mut payload = begin.as_bytes().to_vec();
    payload.resize((32 << 20) - 2, b'x');
    payload.extend(b"\"}");
    let mut shim = world.shim("PreToolUse");
    // What a project's settings may set: together more than a frame has room for beside the event.
    for n in 0..12 {
        shim.env(format!("BECKET_BALLAST_{n}"), "x".repeat(120_000));
    }
    let called = call(shim, &payload, LARGE_BOUND);
    assert!(called.is_silent(), "{called:?}");
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_relative_home_is_no_home() {
    let world = World::new();
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "PreToolUse", "--home", "here"]);
    shim.env_remove("BECKET_HOME");
    let called = call(shim, numbered(1).as_bytes(), BOUND);
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    assert!(!world.home.join("here").exists());
    assert_eq!(numbers(&world), [1], "~/.becket has it");
}

#[test]
fn without_any_home_it_says_so_and_goes() {
    let world = World::new();
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "PreToolUse"]).env_clear();
    let called = call(shim, numbered(1).as_bytes(), BOUND);
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    assert!(called.stderr.contains("no home folder"), "{called:?}");
    assert_eq!(called.stderr.lines().count(), 1, "{called:?}");
}

#[test]
fn a_home_that_is_a_file_disturbs_nobody() {
    let world = World::new();
    fs::write(&world.becket_home, "in the way").expect("a file");
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent(), "{called:?}");
    assert!(
        called.stderr.contains("the event is not kept"),
        "{called:?}"
    );
    let (code, told) = world.doctor();
    assert_eq!(code, Some(1), "{told:#}");
    assert_eq!(fs::read(&world.becket_home).expect("a file"), b"in the way");
}

#[test]
fn a_home_too_long_for_a_socket_has_it_elsewhere() {
    let mut world = World::new();
    world.becket_home = world.home.join("long".repeat(50)).join("long".repeat(50));
    world.run(&["init"]);
    let place = becket_wire::Place::new(&world.becket_home);
    let socket = place.socket(rustix::process::getuid().as_raw());
    let _removed = Removed(socket.parent().expect("a folder").to_owned());
    is_served(&world);
    assert_eq!(world.status()["socket"], socket.to_str().expect("UTF-8"));
    assert_eq!(
        fs::read_to_string(world.path("run/socket.path")).expect("a note"),
        socket.to_str().expect("UTF-8")
    );
    let (code, told) = world.doctor();
    assert_eq!(code, Some(0), "{told:#}");
    world.run(&["daemon", "stop"]);
    assert!(!socket.exists());
}
