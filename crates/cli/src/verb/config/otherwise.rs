//! Where the daemon that runs goes by other values than a person's call, by its own command line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use becket_engine::config::Snapshot;

use crate::client::Client;
use crate::ui::style::WARN;
use crate::world::{World, project_of};

/// How long a daemon may take to say what it runs with: the values are known without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// What it goes by instead, in one line; nothing if nothing differs.
pub fn told(world: &World, snapshot: &Snapshot) -> String {
    let until = Some(Instant::now() + PATIENCE);
    let client = Client::connect(world).ok().flatten();
    let status = client.and_then(|client| client.until(until).status().ok());
    let Some(status) = status.filter(|status| !status.set.is_empty()) else {
        return String::new();
    };
    let project = project_of(&world.cwd);
    let its = world.of_daemon(Some(project), &status.set).current();
    let value = |of: &Snapshot, key: &str| of.settings.get(key).map(|it| it.value.to_string());
    let set: BTreeMap<_, _> = status.set.into_iter().collect();
    let differs = |(key, _): &(&String, &String)| value(&its, key) != value(snapshot, key);
    let told = set.iter().filter(differs);
    let told: Vec<_> = told
        .map(|(key, value)| format!(" --set {key}={value}"))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("\n{WARN}the daemon runs with{}{WARN:#}\n", told.concat()),
    }
}
