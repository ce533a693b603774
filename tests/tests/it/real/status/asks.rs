//! What is itself a question to the person.

use becket_tests::claude::Scope;
use becket_tests::model::{gate, say, tool};
use becket_tests::story::{Session, Story, program, story};
use serde_json::json;

use super::is_done;

fn waits_for(reason: &'static str) -> impl Fn(&Session) -> bool {
    move |session| {
        session.display() == "attention"
            && session.status() == format!("attention({reason})")
            && session["waiting_reason"] == reason
            && session["waiting_for"] == "main"
    }
}

/// Some seconds later, when the notification comes, it is still there: nothing that Claude Code
/// writes down meanwhile takes it for answered.
#[track_caller]
fn stands(story: &Story, reason: &'static str) {
    story.wait_event("Notification");
    let sessions = story.sessions();
    assert!(waits_for(reason)(&sessions[0]), "{sessions:?}");
}

#[test]
fn a_question_waits_under_its_own_name() {
    story(|given| {
        let options = json!([
            {"label": "High", "description": "the water is high"},
            {"label": "Low", "description": "the water is low"},
        ]);
        let question = json!({"questions": [{
            "question": "Which tide?",
            "header": "Tide",
            "options": options,
            "multiSelect": false,
        }]});
        let story = given
            .on(
                "ask me",
                [
                    tool("AskUserQuestion", question),
                    gate("word").then(say("high it is")),
                ],
            )
            .begin()?;
        let person = story.person()?;

        person.submits("ask me");
        person.wait_text("Which tide?");
        story.wait_session("waiting", waits_for("AskUserQuestion"));
        stands(&story, "AskUserQuestion");
        person.chooses(1);
        story.model.wait_at("word");
        let next = story.wait_session("at work", |session| session.display() == "working");
        assert_eq!(next.status(), "working(Thinking)");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_plan_waits_under_its_own_name() {
    story(|given| {
        let plan = tool("ExitPlanMode", json!({"plan": "1. Wait for the tide."}));
        let story = given
            .on("plan it", [plan, gate("word").then(say("as planned"))])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "plan"])?;

        person.submits("plan it");
        person.wait_text("❯ 1.");
        let asked = story.wait_session("waiting", waits_for("ExitPlanMode"));
        assert_eq!(asked["permission_mode"], "plan");
        stands(&story, "ExitPlanMode");
        person.chooses(1);
        story.model.wait_at("word");
        story.wait_session("at work", |session| session.display() == "working");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn the_way_into_planning_waits_under_its_own_name() {
    story(|given| {
        let enter = tool("EnterPlanMode", json!({}));
        let story = given
            .on("think first", [enter, gate("word").then(say("a plan"))])
            .settings(
                Scope::Local,
                json!({"permissions": {"ask": ["EnterPlanMode"]}}),
            )
            .needs(&["EnterPlanMode"])
            .begin()?;
        let person = story.person()?;

        person.submits("think first");
        person.wait_text("Enter plan mode?");
        story.wait_session("waiting", waits_for("EnterPlanMode"));
        stands(&story, "EnterPlanMode");
        person.closes("Enter plan mode?", "Enter");
        story.model.wait_at("word");
        let next = story.wait_session("at work", |session| session.display() == "working");
        assert_eq!(next.status(), "working(Thinking)");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_tool_server_that_asks_waits_under_its_own_name() {
    story(|given| {
        let story = given
            .on(
                "ask me",
                [
                    tool("mcp__asker__ask", json!({})),
                    gate("word").then(say("asked")),
                ],
            )
            .settings(
                Scope::Local,
                json!({"permissions": {"allow": ["mcp__asker__ask"]}}),
            )
            .needs(&["ElicitationResult"])
            .begin()?;
        let servers = json!({"mcpServers": {"asker": {"command": program("becket-asker")}}});
        let person = story.person_with(&["--mcp-config", &servers.to_string()])?;

        person.submits("ask me");
        person.wait_text("What is your name?");
        story.wait_session("waiting", waits_for("MCP input: asker"));
        stands(&story, "MCP input: asker");
        person.closes("What is your name?", "Escape");
        story.model.wait_at("word");
        let next = story.wait_session("at work", |session| session.display() == "working");
        assert_eq!(next.status(), "working(Thinking)");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}
