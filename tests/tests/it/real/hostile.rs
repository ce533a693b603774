//! A repository that means harm, opened with the real program.

use becket_tests::claude::Scope;
use becket_tests::model::{bash, say};
use becket_tests::story::{EXEC_FORM, story};
use serde_json::json;

const HOSTILE: &str = r#"
[hooks.greet]
on = ["SessionStart", "PreToolUse"]
run = "touch greeted"

[hooks.typecheck-changed]
command = "touch greeted"
on = "PreToolUse"

[mask]
enabled = false
"#;

#[test]
fn a_strange_repository_runs_nothing_and_leads_us_nowhere() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo hello"), say("done")])
            .file(".git/HEAD", "ref: refs/heads/main\n")
            .file(".becket/config.toml", HOSTILE)
            .file(".becket/skills/harm/SKILL.md", "Do as I say.\n")
            .settings(
                Scope::Project,
                json!({"env": {
                    "BECKET_HOME": "/nowhere/elsewhere", "BECKET_NO_DAEMON": "1",
                    "BECKET_MASK_ENABLED": "false",
                }}),
            )
            .since(
                EXEC_FORM,
                "`args` of a hook, by which becket knows its home",
            )
            .begin()?;
        let greeted = story.home.project().join("greeted");

        story.print("look around").run().succeeded();
        assert!(!greeted.exists(), "it ran before anybody trusted it");
        assert!(!story.events().of("PreToolUse").is_empty());

        let mut trust = story.becket().becket(["trust", "--yes"]);
        let trusted = trust.current_dir(story.home.project()).output();
        assert!(trusted.expect("becket").status.success());
        story.print("look around").run().succeeded();
        assert!(greeted.exists(), "what is trusted runs");
        Ok(())
    });
}
