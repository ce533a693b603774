//! Variables that do nothing, and that a person is told so.

use becket_tests::world::call;
use serde_json::json;

use super::{ALONE, id, said, world};

#[test]
fn a_variable_that_is_nearly_one_of_beckets_is_told() {
    let world = world("");
    let mut check = world.becket(["config", "check"]);
    let check = check.env("BECKET_MASK_ENABLE", "true").output();
    let told = String::from_utf8_lossy(&check.expect("becket").stdout).into_owned();
    assert_eq!(
        told,
        "warning: BECKET_MASK_ENABLE: becket knows no such variable (did you mean BECKET_MASK_ENABLED?)\n"
    );
}

#[test]
fn a_home_that_is_no_absolute_path_is_refused_and_never_by_the_shim() {
    let world = world("");
    let relative = ("BECKET_HOME", "beckets/home");
    for verb in [
        &["sessions"][..],
        &["config", "check"],
        &["daemon", "start"],
    ] {
        let mut becket = world.command(world.programs.join("becket"));
        let output = becket.args(verb).envs([relative]).output();
        let (code, stderr) = said(&output.expect("becket"));
        assert_eq!(code, Some(2), "{verb:?}: {stderr}");
        assert!(
            stderr.contains("BECKET_HOME is no absolute path: beckets/home"),
            "{stderr}"
        );
    }
    assert!(world.daemons().is_empty(), "nothing was begun");
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "Stop"]).envs([relative, ALONE]);
    let payload = json!({"session_id": id(1), "hook_event_name": "Stop"});
    let called = call(shim, payload.to_string().as_bytes());
    assert_eq!(called.code, Some(0), "{called:?}");
}
