//! The notifications of Claude Code: those that ask the user, those that end a wait, and the rest.

/// The effect of a notification on the status of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotificationEffect {
    /// A dialog is open. An event of its own usually tells more about it.
    Asks(&'static str),
    /// A dialog is open, and only the message has the question.
    AsksInWords,
    /// The dialog that notifications reported is closed.
    Answered,
    /// The agent that the message names has ended.
    AgentEnded,
    /// The prompt has been empty for a minute.
    Idle,
    Nothing,
}

impl NotificationEffect {
    /// Returns the effect of a `notification_type`. Those of 2.1.325 that are not here mean nothing for a status:
    /// auth, computer use, plugins, and a resume that was disabled after the turn had failed.
    pub(super) fn of(notification_type: Option<&str>) -> Self {
        match notification_type.unwrap_or_default() {
            "permission_prompt" => Self::Asks("Permission"),
            "elicitation_dialog" | "elicitation_url_dialog" => Self::Asks("MCP input"),
            // "Usage limit reset — press enter to continue"
            "quota_auto_resume_stale" => Self::AsksInWords,
            "agent_needs_input" | "worker_permission_prompt" => Self::AsksInWords,
            "elicitation_complete" | "elicitation_response" => Self::Answered,
            "quota_auto_resume_fired" => Self::Answered,
            "agent_completed" => Self::AgentEnded,
            "idle_prompt" => Self::Idle,
            _ => Self::Nothing,
        }
    }
}

/// Returns true if a notification of this type means a question to the user.
pub fn asks_user(notification_type: Option<&str>) -> bool {
    let effect = NotificationEffect::of(notification_type);
    matches!(
        effect,
        NotificationEffect::Asks(_) | NotificationEffect::AsksInWords
    )
}

/// Returns true if the question of such a notification has an event of its own, which names the agent.
pub(crate) fn repeats_an_event(notification_type: Option<&str>) -> bool {
    matches!(
        NotificationEffect::of(notification_type),
        NotificationEffect::Asks(_)
    )
}

/// Returns the agent that a message is about, if it is not the agent of the event: `NAME needs your input: …`,
/// `NAME needs permission for TOOL`. `Teammate setup needs your input` is a dialog of the session itself.
pub(super) fn asking_agent(message: &str) -> Option<&str> {
    let asks = [
        " needs your input",
        " needs permission for ",
        " needs network access to ",
    ];
    let mut agents = asks.iter().filter_map(|words| message.split_once(words));
    let (agent, _) = agents.next()?;
    (agent != "Teammate setup").then_some(agent)
}

/// Returns the agent that ended: `NAME finished`, `NAME failed`.
pub(super) fn ended_agent(message: &str) -> Option<&str> {
    let ends = [" finished", " failed"];
    ends.iter().find_map(|words| message.strip_suffix(words))
}
