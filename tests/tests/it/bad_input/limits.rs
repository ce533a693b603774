//! System limits, and variables of a repository's settings: a guard still denies, or one line reports that
//! it could not judge.

use std::fs;
use std::process::Command;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, write_program};
use becket_wire::bounds::START;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{BOUND, assert_doctor_reports, call, numbered};

/// The smallest address space, in KiB (`ulimit -v`), that docs/guides/guards.md names.
const ENOUGH: u32 = 90_112;
/// The additional address space of a debug build: measured 99,000 against 86,400.
const FOR_DEBUG: u32 = if cfg!(debug_assertions) { 16_384 } else { 0 };

const CLOSED: &str = r#"
[guards.no-prod]
tools = "Bash"
command = "psql"
answer = "deny"
fail = "closed"
reason = "Production is off limits."
"#;

/// Returns a hook command under a limit.
fn limited(limit: &str, hook: &Command) -> Command {
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"])
        .arg(hook.get_program())
        .args(hook.get_args())
        .env_clear();
    for (name, value) in hook.get_envs() {
        sh.envs(value.map(|value| (name, value)));
    }
    sh
}

fn world(config: &str) -> World {
    let world = World::new();
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

fn psql(world: &World) -> String {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s", "cwd": world.home, "tool_name": "Bash",
        "tool_input": {"command": "psql prod"},
    })
    .to_string()
}

#[track_caller]
fn assert_denied(called: &Called) {
    let denied = called.stdout.contains("Production is off limits");
    assert!(called.code == Some(0) && denied, "{called:?}");
}

/// Asserts one line and exit 1: Claude Code goes on, and `--strict` blocks.
#[track_caller]
fn assert_not_judged(called: &Called) {
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    let told = called
        .stderr
        .lines()
        .filter(|line| line.contains("this event is not judged"));
    assert_eq!(told.count(), 1, "{called:?}");
}

#[test]
fn a_closed_guard_denies_under_a_file_size_limit_and_the_event_is_counted() {
    for config in [CLOSED, NAMED] {
        let world = world(config);
        let limited = limited("-f 0", &world.standalone_shim("PreToolUse"));
        let called = call(limited, psql(&world).as_bytes(), BOUND);
        assert_denied(&called);
        let told = called.stderr.matches("the event is not kept").count();
        assert_eq!(told, 1, "{called:?}");
        assert_doctor_reports(&world, "broken", "1 event could not be kept anywhere");
    }
}

#[test]
fn a_closed_guard_denies_within_the_smallest_documented_address_space() {
    let world = world(CLOSED);
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/guards.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    assert!(
        guide.contains(&format!("`ulimit -v {ENOUGH}`")),
        "{ENOUGH} is not named"
    );
    let within = |limit: u32| {
        let limited = limited(&format!("-v {limit}"), &world.standalone_shim("PreToolUse"));
        call(limited, psql(&world).as_bytes(), BOUND)
    };
    assert_denied(&within(ENOUGH + FOR_DEBUG));
    for too_small in [65_536, 16_384] {
        assert_not_judged(&within(too_small));
    }
    // With a file size limit too, under which the system would kill a shim that writes: the shim does not
    // write.
    let kept = world.events().len();
    for too_small in [65_536, 16_384] {
        let limit = format!("-f 0; ulimit -v {too_small}");
        let limited = limited(&limit, &world.standalone_shim("PreToolUse"));
        assert_not_judged(&call(limited, psql(&world).as_bytes(), BOUND));
    }
    assert_eq!(world.events().len(), kept);
    let left = fs::read_dir(world.path("spool")).expect("a spool");
    let left: Vec<_> = left.flatten().map(|file| file.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The shim waits for the start lock on a thread whose stack size must not come from `RUST_MIN_STACK`.
#[test]
fn a_repositorys_stack_size_does_not_stop_the_shim_from_waiting() {
    let world = world(CLOSED);
    fs::create_dir_all(world.path("run")).expect("a folder");
    let lock = fs::File::create(world.path("run/start.lock")).expect("a lock");
    lock.lock().expect("a free lock");
    let mut shim = world.shim("PreToolUse");
    shim.env("RUST_MIN_STACK", (usize::MAX / 2).to_string());
    let called = call(shim, psql(&world).as_bytes(), BOUND);
    assert_denied(&called);
    assert!(called.took >= START, "it did not wait: {called:?}");
}

#[test]
fn a_standalone_becket_that_dies_is_reported_and_its_event_kept() {
    let world = world(CLOSED);
    let becket = world.programs.join("becket");
    let aside = world.programs.join("aside");
    fs::rename(&becket, &aside).expect("a file");
    for end in ["kill -9 $$", "exit 101", "exit 127"] {
        write_program(&becket, end);
        assert_not_judged(&call(
            world.standalone_shim("PreToolUse"),
            psql(&world).as_bytes(),
            BOUND,
        ));
    }
    fs::rename(&aside, &becket).expect("a file");
    assert_eq!(world.events().len(), 3);
}

/// Adds an `env` that a repository's `.claude/settings.json` may have.
fn add_hostile_environment(world: &World, shim: &mut Command) {
    let libraries = world.root().join("libraries");
    fs::create_dir_all(&libraries).expect("a folder");
    fs::write(libraries.join("libgcc_s.so.1"), "").expect("a file");
    shim.env("RUST_MIN_STACK", "0")
        .env("LD_LIBRARY_PATH", libraries)
        .env("LD_PRELOAD", "/nowhere.so")
        .env("MALLOC_PERTURB_", "1")
        .env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
        .env("HOME", "/elsewhere")
        .env("TZ", ":/dev/zero");
}

#[test]
fn a_repositorys_variables_reach_named_hooks_and_not_becket() {
    let hook = "\n[hooks.tells]\non = \"PreToolUse\"\nrun = \"tr '\\\\0' '\\\\n' < /proc/self/environ > told\"\n";
    let world = world(&format!("{CLOSED}{hook}"));
    let mut shim = world.standalone_shim("PreToolUse");
    add_hostile_environment(&world, &mut shim);
    assert_denied(&call(shim, psql(&world).as_bytes(), BOUND));
    // A call that is not refused goes on to the hook.
    let mut shim = world.standalone_shim("PreToolUse");
    add_hostile_environment(&world, &mut shim);
    shim.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
    let called = call(shim, psql(&world).replace("psql", "ls").as_bytes(), BOUND);
    assert!(called.is_silent(), "{called:?}");
    let told = fs::read_to_string(world.home.join("told")).expect("what the hook saw");
    for variable in [
        "RUST_MIN_STACK=0",
        "HOME=/elsewhere",
        "TZ=:/dev/zero",
        "MALLOC_PERTURB_=1",
    ] {
        assert!(
            told.lines().any(|line| line == variable),
            "{variable} in {told}"
        );
    }
}

/// A hook that lets the call pass.
const NAMED: &str = r#"
[hooks.closed]
on = "PreToolUse"
fail = "closed"
run = "touch ran; echo Production is off limits >&2; exit 2"
"#;

#[test]
fn a_closed_hook_decides_when_the_daemon_cannot_start_a_thread() {
    let world = world(NAMED);
    let pid = world.start_daemon();
    // The other threads of the daemon start before the limit.
    let stop = json!({"hook_event_name": "Stop", "session_id": "s", "cwd": world.home});
    world.send("Stop", stop.to_string());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a daemon");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let size: u64 = size.and_then(|size| size.parse().ok()).expect("a size");
    let limit = Some((size + 1024) << 10);
    let daemon = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    prlimit(daemon, Resource::As, limit).expect("a limit");
    let called = call(world.shim("PreToolUse"), psql(&world).as_bytes(), BOUND);
    assert!(
        world.home.join("ran").exists(),
        "the hook did not run: {called:?}"
    );
    assert_denied(&called);
}

#[test]
fn a_daemon_without_file_descriptors_reports_it_once() {
    let world = World::new();
    let pid = world.start_daemon();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let open = open.count() as u64;
    let daemon = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: Some(open),
        maximum: Some(8192),
    };
    prlimit(daemon, Resource::Nofile, limit).expect("a limit");
    for n in 0..3 {
        let called = call(world.shim("PreToolUse"), numbered(n).as_bytes(), BOUND);
        assert!(called.is_silent(), "{called:?}");
    }
    let log = || fs::read_to_string(world.path("log/daemon.log")).unwrap_or_default();
    let told = || log().matches("could not accept").count();
    wait::until(PATIENCE, || (told() > 0).then_some(())).expect("the log says so");
    assert_eq!(told(), 1, "{}", log());
}
