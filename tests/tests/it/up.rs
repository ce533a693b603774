//! `becket up`, and what it refuses before it does anything.

use becket_tests::world::World;

#[test]
fn up_does_nothing_for_a_hook_that_becket_does_not_bring() {
    let world = World::new();
    let refused = world.output(&["up", "--hooks", "check-todos,check-todo"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert_eq!(
        stderr,
        "error: becket brings no hook `check-todo`\nhint: did you mean check-todos?\n"
    );
    assert!(!world.home.join(".claude/settings.json").exists());
    assert!(!world.becket_home.exists() && world.daemons().is_empty());
}
