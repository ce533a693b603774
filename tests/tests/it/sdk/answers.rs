//! What a callback answers takes effect.

use becket_sdk::{PreToolUse, block_patterns};
use becket_tests::model::{bash, say};
use becket_tests::story::story;

use super::{all, claude, sdk_story};

#[test]
fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    story(|_| {
        sdk_story(
            |given| given.on("tidy up", [bash("rm -rf build"), say("could not")]),
            async |story| {
                story.home.file("build/keep", "x");
                let mut claude = claude(story)
                    .on(PreToolUse, "Bash", block_patterns(["rm -rf"]))
                    .start()
                    .await
                    .expect("start");
                let messages = all(claude.ask("tidy up").await.expect("ask")).await;
                claude.close().await.expect("close");

                assert!(story.home.project().join("build/keep").exists());
                let result = &story.model.turns()[1].tool_results()[0];
                assert!(result.is_error, "{result:?}");
                let reason = "Command contains forbidden pattern: rm -rf";
                assert!(result.text.contains(reason), "{result:?}");
                assert!(matches!(
                    messages.last(),
                    Some(becket_sdk::Message::Result(result)) if result.text() == "could not"
                ));
                Ok(())
            },
        )
    });
}
