//! Whatever comes, in whatever order, from whichever agent.

use proptest::prelude::*;

use super::*;

const EVENTS: [&str; 32] = [
    "PreToolUse tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PreToolUse tool_name=Agent tool_input=[2] tool_use_id=2t",
    "PreToolUse tool_name=AskUserQuestion tool_use_id=3t",
    "PostToolUse tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PostToolUse tool_name=AskUserQuestion tool_use_id=3t",
    "PostToolUseFailure tool_name=Bash tool_use_id=1t",
    "PostToolUseFailure tool_name=Agent tool_use_id=2t is_interrupt=true",
    "PermissionRequest tool_name=Bash tool_input=[1]",
    "PermissionRequest tool_name=Bash tool_input=[1] unattended",
    "PermissionDenied tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PostToolBatch",
    "Elicitation mcp_server_name=s",
    "ElicitationResult mcp_server_name=s",
    "Notification notification_type=permission_prompt",
    "Notification notification_type=idle_prompt",
    "UserPromptSubmit prompt=a cwd=/a",
    "UserPromptSubmit prompt=<task-notification>",
    "Stop",
    "Stop background_tasks=[]",
    "StopFailure error=x",
    "SessionStart source=startup model=m",
    "SessionStart source=compact",
    "SessionEnd reason=other",
    "PreCompact trigger=auto",
    "PostCompact trigger=manual",
    "TeammateIdle teammate_name=Explore",
    "CwdChanged new_cwd=/b",
    "PostModelSwitch to_model=n",
    "SubagentStart agent_type=Explore",
    "SubagentStop agent_type=Explore background_tasks=[]",
    "SubagentStop agent_type=",
    "Unheard thing=1",
];

/// An event of the main agent or of one of three others, and when it happened.
fn event() -> impl Strategy<Value = (String, i64)> {
    let agent = prop::sample::select(vec!["", "", " agent_id=x", " agent_id=y", " agent_id=z"]);
    (prop::sample::select(EVENTS.to_vec()), agent, 0..20_i64)
        .prop_map(|(event, agent, late)| (format!("{event}{agent}"), late))
}

/// Events in the order in which they arrive: most in time, some late.
fn events() -> impl Strategy<Value = Vec<(String, i64)>> {
    prop::collection::vec(event(), 0..50).prop_map(|events| {
        let time = |place: usize, late: i64| match late {
            0..15 => place as i64 * 10 + 200,
            _ => place as i64 * 10 + 200 - late * 5,
        };
        let events = events.into_iter().enumerate();
        events
            .map(|(place, (event, late))| (event, time(place, late)))
            .collect()
    })
}

fn is_of_a_child(event: &str) -> bool {
    event.contains("agent_id=") && !event.starts_with("Subagent")
}

proptest! {
    #[test]
    fn an_event_of_a_child_moves_that_child_alone(events in events()) {
        let mut play = Play::new();
        for (event, at) in events {
            let before = play.session.clone();
            play.at_time(&event, at);
            if !is_of_a_child(&event) {
                continue;
            }
            prop_assert_eq!(&play.session.main, &before.main, "{}", event);
            prop_assert_eq!(play.session.ended_at, before.ended_at);
            for (id, child) in &before.children {
                let own = event.ends_with(&format!("agent_id={id}"));
                prop_assert!(own || play.session.children.get(id) == Some(child), "{event} moved {id}");
            }
        }
    }

    #[test]
    fn a_restart_at_any_point_changes_nothing(events in events()) {
        let mut play = Play::new();
        let mut other = Play::new();
        for (event, at) in events {
            prop_assert_eq!(play.at_time(&event, at), other.at_time(&event, at));
            prop_assert_eq!(play.session.row(at), other.session.row(at));
            let kept = serde_json::to_string(&other.session).unwrap();
            other.session = serde_json::from_str(&kept).unwrap();
            prop_assert_eq!(&play.session, &other.session);
        }
    }

    #[test]
    fn whoever_waits_is_named(events in events(), look in any::<bool>()) {
        let mut play = Play::new();
        for (event, at) in events {
            play.at_time(&event, at);
            if look {
                play.session.seen(at);
            }
            let session = &play.session;
            let live = session.live_children().map(|(_, child)| &child.agent);
            let pending = live.chain([&session.main]).any(|agent| !agent.pending().is_empty());
            let row = session.row(at);
            if pending {
                prop_assert_eq!(session.ended_at, None);
                prop_assert!(row.waiting_for.is_some() && row.waiting_reason.is_some(), "{event}");
                let urgent = matches!(row.display, Display::Error | Display::Attention);
                prop_assert!(look || urgent, "{event}: {:?}", row.display);
            }
        }
    }

    #[test]
    fn what_is_older_moves_nobody(events in events(), late in event()) {
        // Of whom nothing was heard, nothing is older.
        let mut play = Play::after(&[PROMPT]);
        for id in ["x", "y", "z"] {
            play.then(&format!("SubagentStart agent_type=Explore agent_id={id}"));
        }
        for (event, at) in events {
            play.at_time(&event, at);
        }
        let before = play.session.clone();
        let agents = before.children.values().map(|child| &child.agent);
        let oldest = agents.chain([&before.main]).filter_map(Agent::last_at).min();
        play.at_time(&late.0, oldest.unwrap() - 1);
        let after = &play.session;
        prop_assert_eq!(&after.main, &before.main);
        for (id, child) in &before.children {
            prop_assert_eq!(&after.children[id].agent, &child.agent);
            prop_assert_eq!(after.children[id].ended_at, child.ended_at);
        }
        prop_assert_eq!(after.ended_at, before.ended_at);
    }

    #[test]
    fn what_a_person_can_see_is_told(events in events()) {
        let mut play = Play::new();
        for (event, at) in events {
            let before = play.session.row(0);
            let told = play.at_time(&event, at);
            let mut after = play.session.row(0);
            after.last_activity = before.last_activity;
            prop_assert!(told || after == before, "{event}");
        }
    }
}
