mod any;
mod asked;
mod rows;

use becket_wire::EventId;

use super::script::{Line, word};
use super::*;

/// The agent after these events, one each ten milliseconds.
fn after(events: &[&str]) -> Agent {
    let mut agent = Agent::new(0);
    for (place, event) in events.iter().enumerate() {
        Line::new(event, place as i64 * 10 + 10).play(|moment| agent.apply(moment));
    }
    agent
}

fn apply(agent: &mut Agent, event: &str, at: i64) -> bool {
    Line::new(event, at).play(|moment| agent.apply(moment))
}

const ASKED: [&str; 2] = [
    r#"PreToolUse tool_name=Bash tool_input={"command":"a"} tool_use_id=t1 prompt_id=p"#,
    r#"PermissionRequest tool_name=Bash tool_input={"command":"a"} prompt_id=p"#,
];

/// Rows of a table: a name, the events, and what they make.
fn check(rows: &[(&str, &[&str], &str)]) {
    for (name, events, expected) in rows {
        assert_eq!(word(&after(events).status), *expected, "{name}: {events:?}");
    }
}

const PROMPT: &str = "UserPromptSubmit prompt=do prompt_id=p";
const BASH: &str = "PreToolUse tool_name=Bash tool_use_id=b prompt_id=p";
const BASH_DONE: &str = "PostToolUse tool_name=Bash tool_use_id=b prompt_id=p";
const READ: &str = "PreToolUse tool_name=Read tool_use_id=r prompt_id=p";
const ASK: &str = "PreToolUse tool_name=AskUserQuestion tool_use_id=q prompt_id=p";

#[test]
fn an_older_event_changes_nothing() {
    let mut agent = after(&["UserPromptSubmit prompt=a", "Stop"]);
    let before = agent.clone();
    for event in ["PreToolUse tool_name=Bash", ASKED[1], "SessionEnd"] {
        assert!(!apply(&mut agent, event, 15));
    }
    assert_eq!(agent, before);
}

#[test]
fn within_a_millisecond_the_id_tells_the_order() {
    let mut agent = Agent::new(0);
    let mut stop = Line::new("Stop", 10);
    stop.envelope.id = EventId::new(10, [0, u64::MAX]);
    stop.play(|moment| agent.apply(moment));
    assert!(!apply(&mut agent, "PreToolUse tool_name=Bash", 10));
    assert_eq!(word(&agent.status), "idle");
}

#[test]
fn the_same_event_counts_once() {
    let mut agent = Agent::new(0);
    let failure = Line::new("PostToolUseFailure tool_name=Bash", 10);
    assert!(failure.play(|moment| agent.apply(moment)));
    assert!(!failure.play(|moment| agent.apply(moment)));
    assert_eq!(agent.failed_tools, 1);
}

#[test]
fn what_concerns_no_status_does_not_make_others_old() {
    let mut agent = after(&["UserPromptSubmit prompt=a"]);
    apply(&mut agent, "CwdChanged new_cwd=/x", 50);
    apply(&mut agent, "SomethingNew", 51);
    apply(
        &mut agent,
        "Notification notification_type=auth_success",
        52,
    );
    assert!(apply(&mut agent, ASKED[1], 40));
    assert_eq!(word(&agent.status), "attention(Permission for Bash)");
}

#[test]
fn it_works_since_it_began_whatever_at() {
    let mut agent = after(&["UserPromptSubmit prompt=a", "PreToolUse tool_name=Bash"]);
    assert_eq!(agent.since, 10);
    apply(&mut agent, "Stop", 90);
    assert_eq!(agent.since, 90);
}

#[test]
fn each_question_waits_since_it_was_asked() {
    let mut agent = after(&ASKED);
    let second = r#"PermissionRequest tool_name=Bash tool_input={"command":"b"} prompt_id=p"#;
    apply(&mut agent, second, 50);
    assert_eq!(
        (word(&agent.status).as_str(), agent.since),
        ("attention(Permission for Bash)", 20)
    );
    apply(
        &mut agent,
        r#"PostToolUse tool_name=Bash tool_use_id=t1 prompt_id=p"#,
        80,
    );
    assert_eq!(
        (word(&agent.status).as_str(), agent.since),
        ("attention(Permission for Bash)", 50)
    );
}

#[test]
fn a_look_lasts_until_the_next_question() {
    let mut agent = after(&ASKED);
    assert!(!agent.look(15), "it was not asked yet");
    assert!(agent.look(30) && agent.seen);
    assert!(!agent.look(31), "no news");
    apply(&mut agent, ASKED[1], 40);
    apply(
        &mut agent,
        "Notification notification_type=permission_prompt prompt_id=p",
        45,
    );
    assert!(agent.seen, "the same question again");
    let second = r#"PermissionRequest tool_name=Read tool_input={"file_path":"b"} prompt_id=p"#;
    assert!(apply(&mut agent, second, 50));
    assert!(!agent.seen);
    agent.look(60);
    apply(&mut agent, "Stop prompt_id=p", 70);
    apply(
        &mut agent,
        "Notification notification_type=permission_prompt prompt_id=q",
        80,
    );
    assert!(!agent.seen && agent.needs_the_person());
}

#[test]
fn an_error_is_kept_until_the_next_prompt() {
    let mut agent = after(&["UserPromptSubmit prompt=a", "StopFailure error=rate_limit"]);
    assert_eq!(agent.error.as_deref(), Some("rate_limit"));
    apply(&mut agent, "PreCompact trigger=manual", 50);
    apply(&mut agent, "PostCompact trigger=manual", 60);
    assert_eq!(agent.error.as_deref(), Some("rate_limit"));
    assert!(apply(&mut agent, "UserPromptSubmit prompt=b", 70));
    assert_eq!(agent.error, None);
}

#[test]
fn a_failed_tool_is_counted_and_is_no_error() {
    let agent = after(&[
        "PostToolUseFailure tool_name=Bash error=x",
        "PostToolUseFailure tool_name=Bash is_interrupt=false",
    ]);
    assert_eq!(
        (agent.failed_tools, agent.error, agent.interrupted),
        (2, None, false)
    );
}

#[test]
fn a_call_that_is_told_of_twice_has_failed_once() {
    let fails = |call: &str| format!("PostToolUseFailure tool_name=Bash tool_use_id={call}");
    let [one, other] = ["a", "b"].map(fails);
    let mut agent = after(&[&one, &other, &one, &other]);
    assert_eq!(agent.failed_tools, 2);
    apply(&mut agent, "Stop", 80);
    apply(&mut agent, &fails("c"), 90);
    assert_eq!(agent.failed_tools, 3);
}

#[test]
fn an_interrupt_is_marked_until_it_works_again() {
    let mut agent = after(&["PostToolUseFailure tool_name=Bash is_interrupt=true prompt_id=p"]);
    assert!(agent.interrupted && agent.failed_tools == 0);
    apply(&mut agent, "PostToolUse tool_name=Bash prompt_id=p", 50);
    apply(&mut agent, "PostToolBatch prompt_id=p", 60);
    assert_eq!(
        word(&agent.status),
        "idle",
        "the tail of the turn is no new turn"
    );
    apply(&mut agent, "UserPromptSubmit prompt=b prompt_id=q", 70);
    assert!(!agent.interrupted);
}

#[test]
fn stop_tells_how_many_background_tasks_go_on() {
    let mut agent = after(&[r#"Stop background_tasks=[{"id":"a"},{"id":"b"}]"#]);
    assert_eq!(
        (word(&agent.status).as_str(), agent.background_tasks),
        ("idle", 2)
    );
    assert!(apply(&mut agent, "Stop background_tasks=[]", 50));
    assert_eq!(agent.background_tasks, 0);
}

#[test]
fn two_calls_alike_ask_twice() {
    let other = ASKED[0].replace("t1", "t2");
    let events = [ASKED[0], &other, ASKED[1], ASKED[1], ASKED[1]];
    let mut agent = after(&events);
    assert_eq!(agent.pending().len(), 2, "a third has no call of its own");
    apply(&mut agent, &other.replace("PreToolUse", "PostToolUse"), 90);
    assert_eq!(agent.pending()[0].call.as_deref(), Some("t1"));
    assert!(agent.needs_the_person());
    apply(
        &mut agent,
        &ASKED[0].replace("PreToolUse", "PostToolUse"),
        95,
    );
    assert_eq!(word(&agent.status), "working(Thinking)");
}

#[test]
fn a_permission_is_linked_to_a_call_of_its_prompt() {
    let other = ASKED[0].replace("prompt_id=p", "prompt_id=q");
    let agent = after(&[&other, ASKED[1]]);
    assert_eq!(agent.pending()[0].call, None);
    let agent = after(&ASKED);
    assert_eq!(agent.pending()[0].call.as_deref(), Some("t1"));
}

#[test]
fn a_rewritten_input_is_found_by_its_call() {
    let mut agent = after(&ASKED);
    let other_prompt =
        r#"PostToolUse tool_name=Bash tool_input={"command":"a"} tool_use_id=t9 prompt_id=q"#;
    apply(&mut agent, other_prompt, 50);
    assert!(
        agent.needs_the_person(),
        "another prompt's call answers nothing"
    );
    apply(
        &mut agent,
        r#"PostToolUse tool_name=Bash tool_input={"command":"z"} tool_use_id=t1 prompt_id=p"#,
        60,
    );
    assert_eq!(word(&agent.status), "working(Thinking)");
}

#[test]
fn an_inference_is_marked_until_an_event_comes() {
    let mut agent = after(&ASKED);
    assert!(!agent.may_infer(19) && agent.may_infer(20));
    assert!(!agent.was_answered(Some("t2"), 30));
    assert!(agent.was_answered(Some("t1"), 30) && agent.inferred);
    assert_eq!(word(&agent.status), "working(Bash)");
    apply(&mut agent, "PostToolUse tool_name=Bash tool_use_id=t1", 30);
    assert!(!agent.inferred);
    agent.died(Some("gone"), 40);
    assert_eq!(
        (word(&agent.status).as_str(), agent.error.as_deref()),
        ("idle", Some("gone"))
    );
}
