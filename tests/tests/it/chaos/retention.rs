//! Payloads that the config does not keep go; their rows stay.

use std::fs;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use serde_json::Value;

use super::load;

fn goes_by(config: &str) {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a folder");
    for number in 1..=3 {
        load::send(&world, number);
    }
    let before = world.events();
    assert!(before.iter().all(|row| row["payload"].is_object()));
    // Changes take effect without a restart.
    fs::write(world.path("config.toml"), config).expect("a config");
    let after = wait::until(PATIENCE, || {
        let rows = world.events();
        rows.iter()
            .all(|row| row["payload"].is_null())
            .then_some(rows)
    });
    let after = after.expect("the payloads go");
    let without_payload = |rows: &[Value]| -> Vec<Value> {
        let mut rows = rows.to_vec();
        for row in &mut rows {
            row["payload"] = Value::Null;
        }
        rows
    };
    assert_eq!(
        after,
        without_payload(&before),
        "the rows stay as they were"
    );
}

#[test]
fn by_age() {
    goes_by("[store]\nkeep_days = 0\n");
}

#[test]
fn by_bytes() {
    goes_by("[store]\nkeep_bytes = 1\n");
}
