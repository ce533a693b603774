//! On which events a named hook answers, though Claude Code would not wait for becket there.

use std::collections::BTreeSet;
use std::sync::Arc;

use becket_engine::hooks::Hook;

use crate::world::{World, project_of};

/// Those of the asynchronous events on which a hook that is on, and not asynchronous itself, stands.
/// Whether its project is trusted makes no difference to a registration, which outlives the question.
pub fn events(world: &World) -> BTreeSet<String> {
    let answers = |hook: &&Arc<Hook>| hook.off.is_none() && !hook.is_async;
    let hooks = hooks(world);
    let on = hooks.iter().filter(answers).flat_map(|hook| &hook.on);
    on.filter(|event| event.comes_late())
        .map(ToString::to_string)
        .collect()
}

/// Every named hook that a session started here might have.
pub fn hooks(world: &World) -> Vec<Arc<Hook>> {
    let project = project_of(&world.cwd);
    let config = world.loader(Some(project)).current();
    config.hooks.clone()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::settings::tests::command::Home;

    #[test]
    fn only_a_hook_that_is_on_and_answers_makes_claude_code_wait() {
        let home = Home::new();
        fs::create_dir_all(home.world.place.home()).unwrap();
        let events = |text: &str| -> Vec<String> {
            fs::write(home.world.place.config(), text).unwrap();
            super::events(&home.world).into_iter().collect()
        };
        let hook = "[hooks.a]\nrun = \"a\"\non = [\"Notification\", \"Stop\"]\n";
        assert_eq!(events(hook), ["Notification"]);
        assert!(events(&format!("{hook}async = true\n")).is_empty());
        assert!(events(&format!("{hook}enabled = false\n")).is_empty());
        let theirs = home.world.cwd.join(".becket");
        fs::create_dir(&theirs).unwrap();
        fs::write(
            theirs.join("local.toml"),
            hook.replace("Notification", "CwdChanged"),
        )
        .unwrap();
        assert_eq!(events(""), ["CwdChanged"], "a project's counts too");
    }
}
