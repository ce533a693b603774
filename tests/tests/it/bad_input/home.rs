//! Leftover files in the home, unusual homes, and a shim without becket beside it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use becket_tests::wait::until;
use becket_tests::world::{Called, World, write_program};
use serde_json::json;

use super::fake_daemon::socket_in;
use super::{
    BOUND, assert_doctor_reports, call, numbered, numbers, registered, send, send_numbered,
};

/// A folder outside the world, deleted when dropped.
pub(super) struct RemoveOnDrop(pub(super) PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Asserts that a new daemon serves an event. On a loaded machine a starting daemon may be late for its
/// first event, but not for the second.
fn assert_served(world: &World) {
    for n in 1..=2 {
        let called = send_numbered(world, n);
        assert!(called.is_quiet(), "{called:?}");
        world.run(&["daemon", "start"]);
    }
    let events = world.events();
    assert_eq!(numbers(world), [1, 2]);
    assert_eq!(events[1]["source"], "daemon", "{events:?}");
    assert_eq!(world.status()["running"], true);
}

#[test]
fn leftover_files_in_the_run_folder_are_replaced() {
    let world = World::new();
    drop(UnixListener::bind(socket_in(&world)).expect("a socket"));
    // A pid that runs and is not a daemon: the system has reused it.
    for lock in ["run/daemon.lock", "run/start.lock"] {
        fs::write(world.path(lock), format!("{}\n", std::process::id())).expect("a lock");
    }
    assert_served(&world);
    let world = World::new();
    fs::write(socket_in(&world), "not a socket").expect("a file");
    assert_served(&world);
}

#[test]
fn the_shim_does_not_wait_for_a_hung_start() {
    let world = World::new();
    let _run = socket_in(&world);
    let starter = File::create(world.path("run/start.lock")).expect("a lock");
    starter.lock().expect("a free lock");
    let called = send_numbered(&world, 1);
    assert!(called.is_quiet(), "{called:?}");
    assert!(world.daemon_pid().is_none());
    drop(starter);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_lock_without_an_answering_daemon_makes_the_shim_go_standalone() {
    let world = registered();
    let _run = socket_in(&world);
    let hung = File::create(world.path("run/daemon.lock")).expect("a lock");
    hung.lock().expect("a free lock");
    let called = send_numbered(&world, 1);
    assert!(called.is_quiet(), "{called:?}");
    assert_doctor_reports(&world, "broken", "the daemon did not start");
    drop(hung);
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn the_environment_cannot_lead_the_hook_elsewhere() {
    let world = World::new();
    let elsewhere = world.root().join("elsewhere");
    for road in [
        world.shim("PreToolUse"),
        world.standalone_shim("PreToolUse"),
    ] {
        let mut shim = road;
        shim.env("BECKET_HOME", &elsewhere);
        let called = call(shim, numbered(1).as_bytes(), BOUND);
        assert!(called.is_quiet(), "{called:?}");
    }
    // The daemon that the hook started uses the home of the registration too.
    assert!(world.daemon_pid().is_some());
    assert_eq!(numbers(&world), [1, 1]);
    assert!(!elsewhere.exists());
    assert!(!world.home.join("elsewhere").exists());
}

#[test]
fn without_a_home_the_shim_reports_it_and_exits() {
    let world = World::new();
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "PreToolUse"]).env_clear();
    let called = call(shim, numbered(1).as_bytes(), BOUND);
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    assert!(called.stderr.contains("no home folder"), "{called:?}");
    assert_eq!(called.stderr.lines().count(), 1, "{called:?}");
}

#[test]
fn a_home_too_long_for_a_socket_address_uses_the_temporary_folder() {
    let mut world = World::new();
    world.becket_home = world.home.join("long".repeat(50)).join("long".repeat(50));
    world.run(&["up", "--only-register"]);
    let place = becket_wire::Place::new(&world.becket_home);
    let socket = place.socket(rustix::process::getuid().as_raw());
    let _removed = RemoveOnDrop(socket.parent().expect("a folder").to_owned());
    assert_served(&world);
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

/// Asserts one line with the error, nothing on stdout, exit 1: Claude Code goes on.
fn assert_one_error_line(called: &Called) {
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    assert_eq!(called.stderr.lines().count(), 1, "{called:?}");
    assert!(
        called
            .stderr
            .contains("the becket beside this program: No such file"),
        "{called:?}"
    );
    assert!(
        called.stderr.contains("the event is in the spool"),
        "{called:?}"
    );
}

/// Sends events without becket, then puts it back and finds the events.
fn assert_spooled_without_becket(world: &World, spoil: impl Fn()) {
    let (becket, moved) = (world.programs.join("becket"), world.programs.join("kept"));
    fs::rename(&becket, &moved).expect("becket moves");
    spoil();
    for n in 1..=3 {
        assert_one_error_line(&send_numbered(world, n));
    }
    assert_one_error_line(&send(world, b"{\"tool_use_id\": nope"));
    let spool = fs::read_dir(world.path("spool")).expect("a spool");
    let spooled: Vec<_> = spool.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(spooled.len(), 4, "{spooled:?}");
    for name in spooled {
        let meta = fs::metadata(world.path("spool").join(name)).expect("a file");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    }
    fs::rename(&moved, &becket).expect("becket comes back");
    assert_eq!(numbers(world), [1, 2, 3]);
    let events = world.events();
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event["source"] == "alone"));
    assert_eq!(events[3]["raw"], "{\"tool_use_id\": nope");
    assert!(events[3]["fault"].is_string());
}

#[test]
fn without_becket_the_event_goes_into_the_spool() {
    let world = World::new();
    assert_spooled_without_becket(&world, || {});
}

#[test]
fn a_running_daemon_works_without_the_becket_program() {
    let world = World::new();
    let (becket, moved) = (world.programs.join("becket"), world.programs.join("kept"));
    world.start_daemon();
    fs::rename(&becket, &moved).expect("becket moves");
    let called = send_numbered(&world, 1);
    assert!(called.is_quiet(), "{called:?}");
    fs::rename(&moved, &becket).expect("becket comes back");
    assert_eq!(world.events()[0]["source"], "daemon");
}

#[test]
fn a_secret_spooled_by_the_shim_is_masked_by_the_daemon() {
    let world = World::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let (becket, moved) = (world.programs.join("becket"), world.programs.join("kept"));
    fs::rename(&becket, &moved).expect("becket moves");
    assert_one_error_line(&send(
        &world,
        format!("{{\"session_id\":\"s\",\"x\":\"{secret}\"}}").as_bytes(),
    ));
    fs::rename(&moved, &becket).expect("becket comes back");
    let events = world.events();
    assert_eq!(events[0]["masked"], 1);
    assert!(!events[0].to_string().contains(&secret));
}

#[test]
fn a_database_deleted_under_the_daemon_is_created_again_and_reported() {
    let world = registered();
    let database = world.path("becket.db");
    send_numbered(&world, 1);
    assert_eq!(numbers(&world), [1]);
    fs::remove_file(&database).expect("a database");
    let told = until(BOUND, || {
        let told = world.status()["troubles"].to_string();
        told.contains("deleted while the daemon ran").then_some(())
    });
    assert!(told.is_some(), "{}", world.status());
    send_numbered(&world, 2);
    assert_eq!(numbers(&world), [2]);
    // Replaced also before the daemon's next tick.
    fs::copy(&database, world.path("other.db")).expect("a copy");
    fs::rename(world.path("other.db"), &database).expect("a database");
    send_numbered(&world, 3);
    assert_eq!(numbers(&world), [3]);
    assert_doctor_reports(&world, "warning", "deleted while the daemon ran");
    assert_doctor_reports(&world, "warning", "replaced while the daemon ran");
}

#[test]
fn a_deleted_database_log_loses_no_event() {
    let world = registered();
    send_numbered(&world, 1);
    fs::remove_file(world.path("becket.db-wal")).expect("a log");
    send_numbered(&world, 2);
    let ended = until(BOUND, || {
        let log = fs::read_to_string(world.path("log/daemon.log")).unwrap_or_default();
        log.contains("ended end=LogGone").then_some(())
    });
    assert!(ended.is_some(), "the next daemon opens it again");
    send_numbered(&world, 3);
    assert_eq!(numbers(&world), [1, 2, 3]);
}

/// Returns the files under a folder that contain `text`.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            found.extend(files_with(&path, text));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            found.extend(
                String::from_utf8_lossy(&bytes)
                    .contains(text)
                    .then_some(path),
            );
        }
    }
    found
}

#[test]
fn secrets_outside_of_the_payload_are_not_stored() {
    const NONE: [PathBuf; 0] = [];
    let world = World::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    fs::create_dir_all(&world.becket_home).expect("a home");
    let script = world.root().join("notify");
    write_program(
        &script,
        &format!("#!/bin/sh\necho {secret}; echo {secret} >&2\n"),
    );
    let notice = format!("[notice]\non = \"all\"\nhow = \"command\"\ncommand = {script:?}\n");
    fs::write(world.path("config.toml"), notice).expect("a config");
    let folder = world.root().join(&secret);
    let fields = [
        "tool_use_id",
        "prompt_id",
        "session_title",
        "agent_type",
        "model",
        "tool_name",
        "prompt",
    ];
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "PermissionRequest",
        "Stop",
    ] {
        let mut payload = json!({
            "hook_event_name": event, "session_id": "s", "cwd": folder,
            "transcript_path": folder.join("t.jsonl"),
        });
        for field in fields {
            payload[field] = secret.clone().into();
        }
        for mut hook in [world.standalone_shim("PreToolUse"), world.shim(event)] {
            for variable in ["CLAUDE_PROJECT_DIR", "CLAUDE_CODE_ENTRYPOINT", "TMUX_PANE"] {
                hook.env(variable, &folder);
            }
            call(hook, payload.to_string().as_bytes(), BOUND);
            assert_eq!(files_with(&world.becket_home, &secret), NONE);
        }
    }
    world.run(&["name", "s", &secret]);
    let line = json!({"session_id": "s", "model": {"id": secret, "display_name": secret}});
    call(
        world.becket(["statusline"]),
        line.to_string().as_bytes(),
        BOUND,
    );
    let logged = || fs::read_to_string(world.path("log/daemon.log")).expect("a log");
    let told = until(BOUND, || {
        logged().contains("the notice command").then_some(())
    });
    assert!(told.is_some(), "{}", logged());
    let pid = world.daemon_pid().expect("a daemon");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    assert_eq!(
        core.and_then(|line| line.split_whitespace().nth(4)),
        Some("0")
    );
    world.run(&["daemon", "stop"]);
    assert_eq!(files_with(&world.becket_home, &secret), NONE);
    assert_ne!(files_with(&world.becket_home, "«masked:"), NONE);
}

#[test]
fn a_home_open_to_others_is_closed_with_a_message() {
    let mode = |world: &World| {
        let home = fs::metadata(&world.becket_home).expect("a home");
        home.permissions().mode() & 0o777
    };
    let open = || {
        let world = World::bare();
        fs::create_dir(&world.becket_home).expect("a home");
        fs::set_permissions(&world.becket_home, fs::Permissions::from_mode(0o755)).expect("a mode");
        world
    };
    let world = open();
    let init = world.output(&["up", "--only-register"]);
    let said = String::from_utf8_lossy(&init.stderr).into_owned();
    assert!(said.contains("was open to others (mode 755)"), "{said}");
    assert_eq!(mode(&world), 0o700);
    let world = open();
    world.start_daemon();
    assert_eq!(mode(&world), 0o700);
    let log = fs::read_to_string(world.path("log/daemon.log")).expect("a log");
    assert!(log.contains("was open to others (mode 755)"), "{log}");
}
