//! Whatever comes: one status, nothing that was asked is hidden, a restart changes nothing.

use proptest::prelude::*;

use super::super::script::Line;
use super::*;

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

fn restarted(agent: &Agent) -> Agent {
    serde_json::from_str(&serde_json::to_string(agent).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn what_is_asked_is_never_hidden(events in events()) {
        let mut agent = Agent::new(0);
        let mut asked = Asked::default();
        for (at, event) in (1..).zip(&events) {
            apply(&mut agent, event, at);
            asked.note(event);
            prop_assert!(
                asked.0.is_empty() || agent.needs_the_person(),
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

    #[test]
    fn a_restart_changes_nothing(events in events(), cut in 0..40_usize) {
        let mut agent = Agent::new(0);
        let mut other = agent.clone();
        for (at, event) in (1..).zip(&events) {
            if at as usize == cut {
                other = restarted(&other);
            }
            prop_assert_eq!(apply(&mut agent, event, at), apply(&mut other, event, at));
            prop_assert_eq!(&agent, &other);
        }
    }

    #[test]
    fn what_is_older_changes_nothing(events in events(), late in event(), by in 1..50_i64) {
        let mut agent = Agent::new(0);
        for (at, event) in (100..).zip(&events) {
            apply(&mut agent, event, at);
        }
        let Some(last) = agent.last_at() else { return Ok(()) };
        let before = agent.clone();
        prop_assert!(!apply(&mut agent, &late, last - by));
        prop_assert_eq!(agent, before);
    }

    #[test]
    fn what_changed_is_told(events in events()) {
        let mut agent = Agent::new(0);
        for (at, event) in (1..).zip(&events) {
            let before = agent.clone();
            let told = Line::new(event, at).play(|moment| agent.apply(moment));
            let differs = (&before.status, before.since, &before.error, before.failed_tools)
                != (&agent.status, agent.since, &agent.error, agent.failed_tools);
            prop_assert!(told || !differs, "{event}");
        }
    }
}
