//! What doctor looks at: one function a part, each giving a line, and a way to mend it.

mod commands;
mod line;
mod machine;
mod registration;
mod state;

use serde::Serialize;

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Good,
    Warning,
    Broken,
}

/// One part, and how it is.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: String,
    pub state: State,
    pub what: String,
    /// The command that mends it.
    pub mend: Option<String>,
}

impl Check {
    fn good(name: &str, what: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Good,
            what: what.into(),
            mend: None,
        }
    }

    fn warning(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Warning,
            what: what.into(),
            mend: Some(mend.into()),
        }
    }

    fn broken(name: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Broken,
            ..Self::warning(name, what, mend)
        }
    }
}

/// Looks at everything, in the order in which one part stands on another.
pub fn examine(world: &World) -> Vec<Check> {
    let mut checks = machine::programs(world);
    checks.push(machine::claude());
    checks.extend(machine::folders(world));
    // Whoever only looks makes no home.
    if world.place.home().exists() {
        let snapshot = world.loader(None).current();
        checks.push(state::config(&snapshot));
        checks.extend(state::trust(world));
        let (answers, daemon) = state::daemon(world, &snapshot);
        checks.extend(daemon);
        checks.extend(state::database(world));
        checks.push(state::spool(world));
        checks.extend(registration::settings(world, answers));
    }
    checks
}
