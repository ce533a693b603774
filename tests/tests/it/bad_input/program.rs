//! becket itself is missing, or is no becket.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use becket_tests::world::{Called, World};

use super::{numbered, numbers, send};

/// One line that says what is wrong, nothing on stdout, exit 1: Claude Code goes on.
fn is_one_complaint(called: &Called) {
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    assert_eq!(called.stderr.lines().count(), 1, "{called:?}");
    assert!(
        called.stderr.contains("no becket beside this program"),
        "{called:?}"
    );
    assert!(
        called.stderr.contains("the event is in the spool"),
        "{called:?}"
    );
}

/// Calls without becket, then puts it back and finds the events.
fn spools_until_becket_is_back(world: &World, spoil: impl Fn()) {
    let (becket, kept) = (world.programs.join("becket"), world.programs.join("kept"));
    fs::rename(&becket, &kept).expect("becket moves");
    spoil();
    for n in 1..=3 {
        is_one_complaint(&send(world, numbered(n).as_bytes()));
    }
    is_one_complaint(&send(world, b"{\"tool_use_id\": nope"));
    let spool = fs::read_dir(world.path("spool")).expect("a spool");
    let spooled: Vec<_> = spool.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(spooled.len(), 4, "{spooled:?}");
    for name in spooled {
        let meta = fs::metadata(world.path("spool").join(name)).expect("a file");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    }
    fs::rename(&kept, &becket).expect("becket comes back");
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
    spools_until_becket_is_back(&world, || {});
}

#[test]
fn a_becket_that_cannot_be_run_is_none() {
    let world = World::new();
    let becket = world.programs.join("becket");
    spools_until_becket_is_back(&world, || {
        fs::write(&becket, "not a program").expect("a file");
    });
}

#[test]
fn a_running_daemon_needs_no_becket() {
    let world = World::new();
    let (becket, kept) = (world.programs.join("becket"), world.programs.join("kept"));
    world.start_daemon();
    fs::rename(&becket, &kept).expect("becket moves");
    let called = send(&world, numbered(1).as_bytes());
    assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    fs::rename(&kept, &becket).expect("becket comes back");
    assert_eq!(world.events()[0]["source"], "daemon");
}

#[test]
fn a_secret_that_the_shim_left_is_masked_when_it_is_taken_in() {
    let world = World::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let (becket, kept) = (world.programs.join("becket"), world.programs.join("kept"));
    fs::rename(&becket, &kept).expect("becket moves");
    is_one_complaint(&send(
        &world,
        format!("{{\"session_id\":\"s\",\"x\":\"{secret}\"}}").as_bytes(),
    ));
    fs::rename(&kept, &becket).expect("becket comes back");
    let events = world.events();
    assert_eq!(events[0]["masked"], 1);
    assert!(!events[0].to_string().contains(&secret));
}
