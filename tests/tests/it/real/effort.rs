//! Efforts with the real Claude Code: what reaches the model.

use becket_tests::model::{RequestKind, bash, say};
use becket_tests::story::{Hook, story};
use becket_wire::effort::{Caller, EffortAsk};
use becket_wire::rpc::{Ask, AskReply};

use crate::effort::{start, told};

#[test]
fn an_effort_reaches_the_model_at_the_start_and_by_its_heartbeat() {
    story(|given| {
        let ten = (1..=10).map(|nth| bash(&format!("echo call {nth}")));
        let story = given.on("go on", ten.chain([say("stopped")])).begin()?;
        let world = story.becket();
        world.start_daemon();
        let project = story.home.project().display().to_string();
        let ask = EffortAsk {
            caller: Caller {
                cwd: project.clone(),
                project,
                ..Caller::default()
            },
            what: start("implement"),
        };
        let started = told(world, Ask::Effort(Box::new(ask)));
        assert!(matches!(started, AskReply::Effort(_)), "{started:?}");

        story.print("go on").run().succeeded();

        let turns = story.model.turns();
        assert!(turns[0].contains("This session works on effort 1 implement, phase plan"));
        assert!(turns[0].contains("heartbeat 0/10"), "the context line");
        assert!(!turns[2].contains("3 calls without a log entry"));
        assert!(turns[3].contains("3 calls without a log entry"));
        let results: Vec<bool> = (1..=10)
            .map(|nth| turns[nth].tool_results()[0].is_error)
            .collect();
        assert_eq!(
            results,
            [
                false, false, false, false, false, false, false, false, false, true
            ]
        );
        let denied = &turns[10].tool_results()[0].text;
        assert!(denied.contains("10 calls without a log entry"), "{denied}");
        Ok(())
    });
}

#[test]
fn a_compaction_is_blocked_by_json() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("one")])
            .script(|script| script.summary("They counted to one."))
            .hook(Hook::on("PreCompact").blocks("not now"))
            .begin()?;

        let first = story.print("first thing").run().succeeded().session();
        story.print("/compact").resume(&first).run();

        let requests = story.model.requests();
        assert!(
            requests
                .iter()
                .all(|request| request.kind != RequestKind::Compaction)
        );
        let events = story.events();
        assert_eq!(events.only("PreCompact")["trigger"], "manual");
        events.none_of("PostCompact");
        Ok(())
    });
}
