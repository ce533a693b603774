pub(crate) mod test_events;

use becket_wire::EventId;
use proptest::prelude::*;

use super::*;
use test_events::{TestEvent, word};

/// The agent after these events, one each ten milliseconds.
fn after(events: &[&str]) -> Agent {
    let mut agent = Agent::new(0);
    for (place, event) in events.iter().enumerate() {
        TestEvent::new(event, place as i64 * 10 + 10).play(|event| agent.apply(event));
    }
    agent
}

fn apply(agent: &mut Agent, event: &str, at: i64) -> bool {
    TestEvent::new(event, at).play(|event| agent.apply(event))
}

const ASKED: [&str; 2] = [
    r#"PreToolUse tool_name=Bash tool_input={"command":"a"} tool_use_id=t1 prompt_id=p"#,
    r#"PermissionRequest tool_name=Bash tool_input={"command":"a"} prompt_id=p"#,
];

const PROMPT: &str = "UserPromptSubmit prompt=do prompt_id=p";
const BASH: &str = "PreToolUse tool_name=Bash tool_use_id=b prompt_id=p";
const BASH_DONE: &str = "PostToolUse tool_name=Bash tool_use_id=b prompt_id=p";
const READ: &str = "PreToolUse tool_name=Read tool_use_id=r prompt_id=p";
const ASK: &str = "PreToolUse tool_name=AskUserQuestion tool_use_id=q prompt_id=p";

/// `name: event; event => status`. A word in capitals stands for one of [`SHORT`].
const ROWS: &str = r#"
# the rows of the seed
nothing yet:  => idle
an interactive tool: ASK => attention(AskUserQuestion)
a plan begins: PreToolUse tool_name=EnterPlanMode tool_use_id=q => attention(EnterPlanMode)
a plan ends: PreToolUse tool_name=ExitPlanMode => attention(ExitPlanMode)
a standard tool: BASH => working(Bash)
a tool is done: BASH; BASH_DONE => working(Thinking)
a tool is done of which nothing was heard: BASH_DONE => working(Thinking)
a tool failed: BASH; PostToolUseFailure tool_name=Bash tool_use_id=b => working(Thinking)
a prompt: PROMPT => working
a prompt after a tool: BASH; PROMPT => working
the turn ends: PROMPT; BASH; Stop => idle
a session starts: SessionStart source=startup => idle
a session starts again: BASH; SessionStart source=resume => idle
a session starts in a new way: BASH; SessionStart source=new => idle
a session ends: BASH; SessionEnd reason=other => idle
a compaction: PreCompact trigger=auto => working(Compacting)
setup: Setup trigger=init => working(Setup)
a permission prompt: PROMPT; Notification notification_type=permission_prompt prompt_id=p => attention(Permission)
a permission prompt out of nothing: Notification notification_type=permission_prompt => attention(Permission)
waiting for 60 seconds: BASH; Notification notification_type=idle_prompt => idle
an elicitation dialog: BASH; Notification notification_type=elicitation_dialog => attention(MCP input)
a login: BASH; Notification notification_type=auth_success => working(Bash)
a new kind of notification: BASH; Notification notification_type=new => working(Bash)
a notification of no kind: BASH; Notification => working(Bash)
# the rows that came after it
a permission: CALL; ASKS => attention(Permission for Bash)
a permission out of nothing: ASKS => attention(Permission for Bash)
one for a plan: PermissionRequest tool_name=ExitPlanMode => attention(ExitPlanMode)
unattended: CALL; ASKS unattended => working(Bash)
denied: CALL; ASKS; CALL_DENIED => working(Thinking)
a server asks: BASH; Elicitation mcp_server_name=probe => attention(MCP input: probe)
a server is told: BASH; Elicitation mcp_server_name=probe; ElicitationResult mcp_server_name=probe action=cancel => working(Thinking)
a background task's server is told: Stop prompt_id=p; Elicitation mcp_server_name=probe prompt_id=p; ElicitationResult mcp_server_name=probe prompt_id=p => idle
a server is told in a new turn: Stop prompt_id=p; Elicitation mcp_server_name=probe prompt_id=q; ElicitationResult mcp_server_name=probe prompt_id=q => working(Thinking)
a turn failed: BASH; StopFailure error=overloaded => idle
background tasks: BASH; Stop background_tasks=[{"id":"a"}] => idle
broken off: BASH; PostToolUseFailure tool_name=Bash tool_use_id=b is_interrupt=true => idle
compacted while idle: PreCompact trigger=manual; SessionStart source=compact => idle
compacted while at work: BASH; PreCompact trigger=auto; SessionStart source=compact => working(Bash)
compacted at an unknown time: BASH; SessionStart source=compact => working(Bash)
compacted by hand: BASH; PreCompact trigger=manual; SessionStart source=compact; PostCompact trigger=manual => idle
compacted by itself: PreCompact trigger=auto; SessionStart source=compact; PostCompact trigger=auto => working(Thinking)
compacted in a new way: BASH; PreCompact; PostCompact trigger=new => working(Bash)
a slash command: UserPromptExpansion prompt=/x => working
a batch: PostToolBatch tool_calls=[] => working(Thinking)
a teammate rests: BASH; TeammateIdle teammate_name=mate => idle
another model: BASH; PostModelSwitch to_model=m => working(Bash)
another folder: BASH; CwdChanged new_cwd=/x => working(Bash)
something unknown: BASH; NeverHeardOf tool_name=Read => working(Bash)
# a notification never replaces what is known better
late for a permission: CALL; ASKS; Notification notification_type=permission_prompt prompt_id=p => attention(Permission for Bash)
late for a question: ASK; Notification notification_type=permission_prompt prompt_id=p => attention(AskUserQuestion)
late for a server: Elicitation mcp_server_name=s; Notification notification_type=elicitation_dialog prompt_id=p => attention(MCP input: s)
idle, but asked: ASK; Notification notification_type=idle_prompt prompt_id=p => attention(AskUserQuestion)
of a turn that has ended: PROMPT; Stop prompt_id=p; Notification notification_type=permission_prompt prompt_id=p => idle
a dialog of a turn that has ended: PROMPT; Stop prompt_id=p; Notification notification_type=elicitation_dialog prompt_id=p => idle
better known afterwards: Notification notification_type=permission_prompt prompt_id=p; ASKS => attention(Permission for Bash)
answered: BASH; Notification notification_type=permission_prompt prompt_id=p; BASH_DONE => working(Thinking)
no answer for a minute: BASH; Notification notification_type=permission_prompt prompt_id=p; Notification notification_type=idle_prompt prompt_id=p => idle
# what only a notification tells
auto mode cannot check: CALL; NEEDS => attention(Auto mode can't check actions)
it is asked of a turn that has ended: PROMPT; Stop prompt_id=p; NEEDS => attention(Auto mode can't check actions)
it is told without words: Notification notification_type=agent_needs_input => attention(Input)
the call ran then: CALL; NEEDS; CALL_DONE => working(Thinking)
the call was denied then: CALL; NEEDS; CALL_DENIED => working(Thinking)
another call ran: READ; CALL; NEEDS; PostToolUse tool_name=Read tool_use_id=r prompt_id=p => attention(Auto mode can't check actions)
the batch ended: READ; CALL; NEEDS; PostToolBatch prompt_id=p => working(Thinking)
the next dialog: CALL; NEEDS; Notification notification_type=permission_prompt prompt_id=p => attention(Permission)
the next dialog has an event: CALL; NEEDS; ASKS => attention(Permission for Bash)
the turn ended then: CALL; NEEDS; Stop => idle
an agent that is not its own: BASH; API_NEEDS => attention(api needs your input: deploy?)
that agent works on meanwhile: BASH; API_NEEDS; BASH_DONE; PostToolBatch prompt_id=p; Stop => attention(api needs your input: deploy?)
the session itself asks: CALL; SETUP_NEEDS; CALL_DONE => working(Thinking)
it asks and stops: CALL; SETUP_NEEDS; Stop => idle
a server asks in words: BASH; LINK_NEEDS; Stop => idle
it was followed in words: BASH; LINK_NEEDS; Notification notification_type=elicitation_complete => working(Bash)
that agent asks on though the turn failed: BASH; API_NEEDS; StopFailure error=overloaded => attention(api needs your input: deploy?)
that agent asks on for a minute: BASH; API_NEEDS; Stop; Notification notification_type=idle_prompt => attention(api needs your input: deploy?)
that agent ended: BASH; API_NEEDS; ENDED message="api\u0020finished" => working(Bash)
that agent failed: BASH; API_NEEDS; ENDED message="api\u0020failed" => working(Bash)
another agent ended: BASH; API_NEEDS; ENDED message="web\u0020finished" => attention(api needs your input: deploy?)
one of two agents ended: API_NEEDS; NEEDS; ENDED message="api\u0020finished" => attention(Auto mode can't check actions)
an agent ended while it works: BASH; ENDED message="api\u0020finished" => working(Bash)
an agent ended while it asks: CALL; ASKS; ENDED message="api\u0020finished" => attention(Permission for Bash)
a teammate asks: BASH; Notification notification_type=worker_permission_prompt message="bo\u0020needs\u0020permission\u0020for\u0020Bash" => attention(bo needs permission for Bash)
a limit is over: Notification notification_type=quota_auto_resume_stale message=Go? => attention(Go?)
it goes on by itself: Notification notification_type=quota_auto_resume_stale message=Go?; Notification notification_type=quota_auto_resume_fired => idle
a server asks for a link: BASH; Notification notification_type=elicitation_url_dialog => attention(MCP input)
the link was followed: BASH; Notification notification_type=elicitation_url_dialog; Notification notification_type=elicitation_complete => working(Bash)
# what is asked stays until it is answered
the tool ran: CALL; ASKS; CALL_DONE => working(Thinking)
the tool failed: CALL; ASKS; CALL_FAILED => working(Thinking)
the tool ran, known by its input: ASKS; PostToolUse tool_name=Bash tool_input={"command":"a"} => working(Thinking)
another ran: READ; CALL; ASKS; PostToolUse tool_name=Read tool_use_id=r prompt_id=p => attention(Permission for Bash)
another failed: READ; CALL; ASKS; PostToolUseFailure tool_name=Read tool_use_id=r => attention(Permission for Bash)
another begins: READ; CALL; ASKS; PreToolUse tool_name=Bash tool_use_id=t2 prompt_id=p => attention(Permission for Bash)
another was denied: READ; CALL; ASKS; PermissionDenied tool_name=Read prompt_id=p => attention(Permission for Bash)
another is asked too: READ; CALL; ASKS; PermissionRequest tool_name=Read prompt_id=p => attention(Permission for Bash)
a batch of another prompt: READ; CALL; ASKS; PostToolBatch prompt_id=q => attention(Permission for Bash)
its batch: READ; CALL; ASKS; PostToolBatch prompt_id=p => working(Thinking)
a machine's prompt: READ; CALL; ASKS; UserPromptSubmit prompt=<task-notification> prompt_id=q => attention(Permission for Bash)
a person's prompt: READ; CALL; ASKS; PROMPT => working
the turn ended: READ; CALL; ASKS; Stop => idle
the turn failed: READ; CALL; ASKS; StopFailure => idle
broken off: READ; CALL; ASKS; PostToolUseFailure is_interrupt=true => idle
compaction: READ; CALL; ASKS; PreCompact trigger=auto => attention(Permission for Bash)
another process: READ; CALL; ASKS; SessionStart source=resume => idle
a question is answered: ASK; PostToolUse tool_name=AskUserQuestion tool_use_id=q => working(Thinking)
a question is broken off: ASK; PostToolUseFailure tool_name=AskUserQuestion tool_use_id=q => working(Thinking)
a question asked twice: ASK; PermissionRequest tool_name=AskUserQuestion prompt_id=p; PostToolUse tool_name=AskUserQuestion tool_use_id=q => working(Thinking)
a hook told the server: PreToolUse tool_name=mcp__my_probe__ask tool_use_id=m; Elicitation mcp_server_name=my.probe; PostToolUse tool_name=mcp__my_probe__ask tool_use_id=m => working(Thinking)
another server's tool: Elicitation mcp_server_name=my; PostToolUse tool_name=mcp__my_probe__ask => attention(MCP input: my)
one of two questions of a server: Elicitation mcp_server_name=s; Elicitation mcp_server_name=s; ElicitationResult mcp_server_name=s => attention(MCP input: s)
one server of two: Elicitation mcp_server_name=s; Elicitation mcp_server_name=t; ElicitationResult mcp_server_name=s => attention(MCP input: t)
# of parallel calls the newest open one is shown
the newer is open: BASH; READ; BASH_DONE => working(Read)
the older is open: BASH; READ; PostToolUse tool_name=Read tool_use_id=r => working(Bash)
two are open: BASH; PreToolUse tool_name=Grep tool_use_id=g; READ; PostToolUse tool_name=Grep tool_use_id=g => working(Read)
none is open: BASH; READ; BASH_DONE; PostToolUse tool_name=Read tool_use_id=r => working(Thinking)
one that was denied says nothing but its batch: BASH; READ; BASH_DONE; PostToolBatch prompt_id=p; BASH; BASH_DONE => working(Thinking)
"#;

const SHORT: [(&str, &str); 15] = [
    (
        "NEEDS",
        r#"Notification notification_type=agent_needs_input prompt_id=p message="Auto\u0020mode\u0020can't\u0020check\u0020actions""#,
    ),
    (
        "API_NEEDS",
        r#"Notification notification_type=agent_needs_input message="api\u0020needs\u0020your\u0020input:\u0020deploy?""#,
    ),
    (
        "SETUP_NEEDS",
        r#"Notification notification_type=agent_needs_input message="Teammate\u0020setup\u0020needs\u0020your\u0020input""#,
    ),
    (
        "LINK_NEEDS",
        r#"Notification notification_type=elicitation_url_dialog message="An\u0020MCP\u0020server\u0020needs\u0020your\u0020input""#,
    ),
    ("ENDED", "Notification notification_type=agent_completed"),
    ("PROMPT", PROMPT),
    ("BASH_DONE", BASH_DONE),
    ("BASH", BASH),
    ("READ", READ),
    (
        "CALL_DENIED",
        r#"PermissionDenied tool_name=Bash tool_input={"command":"a"} tool_use_id=t1 prompt_id=p"#,
    ),
    (
        "CALL_DONE",
        r#"PostToolUse tool_name=Bash tool_input={"command":"a"} tool_use_id=t1 prompt_id=p"#,
    ),
    (
        "CALL_FAILED",
        r#"PostToolUseFailure tool_name=Bash tool_input={"command":"a"} tool_use_id=t1 prompt_id=p"#,
    ),
    ("CALL", ASKED[0]),
    ("ASKS", ASKED[1]),
    ("ASK", ASK),
];

#[test]
fn every_row_of_the_table() {
    for row in ROWS.lines().filter(|row| row.contains("=>")) {
        let (name, rest) = row.split_once(": ").unwrap();
        let (events, expected) = rest.split_once("=> ").unwrap();
        let event = |event: &str| {
            let (word, rest) = event.split_once(' ').unwrap_or((event, ""));
            let short = SHORT.iter().find(|(short, _)| *short == word);
            let long = short.map_or(word, |(_, long)| long);
            format!("{long} {rest}").trim_end().to_owned()
        };
        let events: Vec<String> = events.trim().split("; ").map(event).collect();
        let events: Vec<&str> = events
            .iter()
            .map(|it| &**it)
            .filter(|it| !it.is_empty())
            .collect();
        assert_eq!(word(&after(&events).status), expected, "{name}: {events:?}");
    }
}

#[test]
fn within_a_millisecond_the_id_tells_the_order() {
    let mut agent = Agent::new(0);
    let mut stop = TestEvent::new("Stop", 10);
    stop.envelope.id = EventId::new(10, [0, u64::MAX]);
    stop.play(|event| agent.apply(event));
    assert!(!apply(&mut agent, "PreToolUse tool_name=Bash", 10));
    assert_eq!(word(&agent.status), "idle");
}

#[test]
fn the_same_event_counts_once() {
    let mut agent = Agent::new(0);
    let failure = TestEvent::new("PostToolUseFailure tool_name=Bash", 10);
    assert!(failure.play(|event| agent.apply(event)));
    assert!(!failure.play(|event| agent.apply(event)));
    assert_eq!(agent.failed_tools, 1);
}

#[test]
fn an_event_without_a_status_does_not_make_others_old() {
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
fn each_question_waits_since_it_was_asked() {
    let mut agent = after(&ASKED);
    let second = r#"PermissionRequest tool_name=Bash tool_input={"command":"b"} prompt_id=p"#;
    apply(&mut agent, second, 50);
    assert_eq!(word(&agent.status), "attention(Permission for Bash)");
    assert_eq!(agent.since, 20);
    apply(
        &mut agent,
        r#"PostToolUse tool_name=Bash tool_use_id=t1 prompt_id=p"#,
        80,
    );
    assert_eq!(word(&agent.status), "attention(Permission for Bash)");
    assert_eq!(agent.since, 50);
}

#[test]
fn a_look_lasts_until_the_next_question() {
    let mut agent = after(&ASKED);
    assert!(!agent.mark_seen(15), "it was not asked yet");
    assert!(agent.mark_seen(30) && agent.seen);
    assert!(!agent.mark_seen(30), "no news");
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
    agent.mark_seen(60);
    apply(&mut agent, "Stop prompt_id=p", 70);
    apply(
        &mut agent,
        "Notification notification_type=permission_prompt prompt_id=q",
        80,
    );
    assert!(!agent.seen && agent.needs_user());
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
    assert_eq!(word(&agent.status), "idle");
    assert_eq!(agent.background_tasks, 2);
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
    assert!(agent.needs_user());
    apply(
        &mut agent,
        &ASKED[0].replace("PreToolUse", "PostToolUse"),
        95,
    );
    assert_eq!(word(&agent.status), "working(Thinking)");
}

#[test]
fn a_rewritten_input_is_found_by_its_call() {
    let mut agent = after(&ASKED);
    let other_prompt =
        r#"PostToolUse tool_name=Bash tool_input={"command":"a"} tool_use_id=t9 prompt_id=q"#;
    apply(&mut agent, other_prompt, 50);
    assert!(agent.needs_user(), "another prompt's call answers nothing");
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
    assert!(!agent.remove_answered(Some("t2"), 30));
    assert!(agent.remove_answered(Some("t1"), 30) && agent.inferred);
    assert_eq!(word(&agent.status), "working(Bash)");
    apply(&mut agent, "PostToolUse tool_name=Bash tool_use_id=t1", 30);
    assert!(!agent.inferred);
    agent.fail(Some("gone"), 40);
    assert_eq!(word(&agent.status), "idle");
    assert_eq!(agent.error.as_deref(), Some("gone"));
}

/// Calls as (id, prompt, tool, input). The first two are alike.
const CALLS: [(&str, &str, &str, &str); 7] = [
    ("t0", "p", "Bash", "1"),
    ("t1", "p", "Bash", "1"),
    ("t2", "p", "Bash", "2"),
    ("t3", "p", "Read", "1"),
    ("t4", "q", "Bash", "1"),
    ("t5", "q", "Read", "2"),
    ("t6", "p", "ExitPlanMode", "3"),
];

const OTHERS: [&str; 22] = [
    "PostToolBatch prompt_id=p",
    "PostToolBatch prompt_id=q",
    "PostToolBatch",
    "Stop prompt_id=p",
    "StopFailure error=x",
    "UserPromptSubmit prompt=a prompt_id=q",
    "UserPromptSubmit prompt=<task-notification> prompt_id=q",
    "UserPromptExpansion prompt=/a",
    "SessionStart source=resume",
    "SessionStart source=compact",
    "PreCompact trigger=auto",
    "PostCompact trigger=auto",
    "PostCompact trigger=manual",
    "Notification notification_type=permission_prompt prompt_id=p",
    "Notification notification_type=elicitation_dialog",
    "Notification notification_type=idle_prompt",
    "Elicitation mcp_server_name=s",
    "Elicitation mcp_server_name=t elicitation_id=1",
    "ElicitationResult mcp_server_name=s",
    "ElicitationResult mcp_server_name=t",
    "CwdChanged new_cwd=/x",
    "Unheard of=1",
];

fn event() -> impl Strategy<Value = String> {
    let of_call = (
        prop::sample::select(vec![
            "PreToolUse",
            "PermissionRequest",
            "PermissionRequest",
            "PostToolUse",
            "PostToolUseFailure",
            "PermissionDenied",
        ]),
        prop::sample::select(CALLS.to_vec()),
    )
        .prop_map(|(event, (id, prompt, tool, input))| {
            let id = match event {
                "PermissionRequest" => String::new(),
                _ => format!(" tool_use_id={id}"),
            };
            format!("{event} tool_name={tool} tool_input=[{input}] prompt_id={prompt}{id}")
        });
    let other = prop::sample::select(OTHERS.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => of_call, 2 => other]
}

fn events() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(event(), 0..40)
}

/// What was asked and not answered, kept as simply as can be: questions alike are one here.
#[derive(Default)]
struct Asked(Vec<(String, String)>);

impl Asked {
    fn note(&mut self, event: &str) {
        let (name, rest) = event.split_once(' ').unwrap_or((event, ""));
        let field = |key: &str| {
            let mut words = rest.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let prompt = field("prompt_id").unwrap_or_default().to_owned();
        let tool = field("tool_name").unwrap_or_default();
        let call = format!("{tool} {}", field("tool_input").unwrap_or_default());
        let server = field("mcp_server_name").unwrap_or_default().to_owned();
        match name {
            "PermissionRequest" => self.0.push((prompt, call)),
            "PreToolUse" if tool == "ExitPlanMode" => self.0.push((prompt, call)),
            "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" => {
                self.0.retain(|one| *one != (prompt.clone(), call.clone()));
            }
            "PostToolBatch" => self
                .0
                .retain(|(of, _)| !prompt.is_empty() && *of != prompt && !of.is_empty()),
            "Elicitation" => self.0.push((String::new(), server)),
            "ElicitationResult" => self.0.retain(|(_, what)| *what != server),
            "Stop" | "StopFailure" => self.0.clear(),
            "UserPromptSubmit" if !event.contains("<task") => self.0.clear(),
            "SessionStart" if !event.contains("compact") => self.0.clear(),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn a_question_is_never_hidden(events in events()) {
        let mut agent = Agent::new(0);
        let mut asked = Asked::default();
        for (at, event) in (1..).zip(&events) {
            apply(&mut agent, event, at);
            asked.note(event);
            prop_assert!(
                asked.0.is_empty() || agent.needs_user(),
                "{:?} is not shown after {event}: {}", asked.0, word(&agent.status)
            );
            if let Some(oldest) = agent.pending().first() {
                prop_assert_eq!(agent.status.reason(), Some(&*oldest.reason()));
            }
        }
    }

    #[test]
    fn nothing_is_asked_for_ever(events in events()) {
        let mut agent = Agent::new(0);
        for (at, event) in (1..).zip(&events) {
            apply(&mut agent, event, at);
        }
        apply(&mut agent, "Stop", 1_000);
        prop_assert_eq!(word(&agent.status), "idle");
        prop_assert_eq!(agent.pending().len(), 0);
    }
}

#[test]
fn a_dialog_that_only_a_notification_told_of_says_its_message() {
    let needs = r#"Notification notification_type=permission_prompt message="Session\u0020paused""#;
    let mut agent = after(&[BASH, needs]);
    assert_eq!(agent.doing().as_deref(), Some("Session paused"));
    assert!(agent.remove_answered(None, 30));
    assert_eq!(word(&agent.status), "working(Bash)");
    agent.interrupt(40);
    assert!(agent.interrupted, "it was at work");
    let mut idle = after(&[needs]);
    idle.interrupt(30);
    assert_eq!(
        (word(&idle.status).as_str(), idle.interrupted),
        ("idle", false)
    );
}

#[test]
fn an_inference_does_not_answer_the_question_of_another_agent() {
    let needs = r#"Notification notification_type=agent_needs_input message="api\u0020needs\u0020your\u0020input""#;
    let asks = "attention(api needs your input)";
    let infer: [fn(&mut Agent) -> bool; 3] = [
        |agent| agent.interrupt(40),
        |agent| agent.fail(None, 40),
        |agent| agent.remove_answered(None, 40),
    ];
    for infer in infer {
        let mut agent = after(&[PROMPT, BASH, needs]);
        infer(&mut agent);
        assert_eq!(word(&agent.status), asks);
    }
    let mut agent = after(&[PROMPT, BASH, needs, "Stop"]);
    assert!(agent.has_ended_its_turn());
    apply(&mut agent, BASH, 60);
    assert!(!agent.has_ended_its_turn());
    agent.set_idle(70, true);
    assert_eq!(word(&agent.status), "idle", "the process is gone");
}
