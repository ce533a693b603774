//! The parts of an answer that each event takes. **A new event gets its line in `of`**; the compiler asks for
//! it.

use super::{Change, Opinion};
use crate::event::EventName;

/// The form in which an event takes a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpinionForm {
    Nothing,
    /// `decision: "block"` at the top.
    Block,
    /// `permissionDecision`: allow, deny, ask, and for a tool call defer.
    Permission {
        defer: bool,
    },
    /// `decision: {behavior}` of a PermissionRequest.
    Behavior,
    /// `action` of an elicitation.
    Action,
}

impl OpinionForm {
    pub(super) fn takes(self, opinion: &Opinion) -> bool {
        match opinion {
            Opinion::Deny { .. } | Opinion::Allow { .. } => {
                matches!(self, Self::Permission { .. } | Self::Behavior)
            }
            Opinion::Ask { .. } => matches!(self, Self::Permission { .. }),
            Opinion::Defer { .. } => self == Self::Permission { defer: true },
            Opinion::Block { .. } => self == Self::Block,
            Opinion::Accept | Opinion::Decline { .. } | Opinion::Cancel => self == Self::Action,
        }
    }

    pub(super) fn refusal(self, reason: String) -> Option<Opinion> {
        match self {
            Self::Nothing => None,
            Self::Block => Some(Opinion::Block { reason }),
            Self::Permission { .. } | Self::Behavior => Some(Opinion::Deny { reason }),
            Self::Action => Some(Opinion::Decline { reason }),
        }
    }

    /// Returns true if exit code 2 and `decision: "block"` refuse. On a PermissionRequest they mean nothing.
    pub(super) fn exit_two_refuses(self) -> bool {
        !matches!(self, Self::Nothing | Self::Behavior)
    }
}

/// The use that Claude Code makes of stdout that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainOutput {
    Ignored,
    Context,
    Message,
    WorktreePath,
}

pub(super) struct Rules {
    pub(super) says: OpinionForm,
    /// The other fields of the event's `hookSpecificOutput`.
    pub(super) fields: &'static [&'static str],
    pub(super) plain: PlainOutput,
}

pub(super) const CONTEXT: &str = "additionalContext";

impl Rules {
    pub(super) fn context_is_a_field(&self) -> bool {
        self.fields.contains(&CONTEXT)
    }

    /// Returns true if the event takes context. PreCompact has no field for it, but takes plain text.
    pub(super) fn takes_context(&self) -> bool {
        self.context_is_a_field() || self.plain == PlainOutput::Context
    }
}

/// Returns true if the event takes the change together with this opinion.
pub(super) fn takes_change(event: &EventName, opinion: Option<&Opinion>, change: &Change) -> bool {
    let rules = of(event);
    let with_behavior = match opinion {
        Some(Opinion::Allow { .. }) => ["updatedInput", "updatedPermissions"].as_slice(),
        Some(Opinion::Deny { .. }) => &["interrupt"],
        _ => &[],
    };
    let by_opinion = rules.says == OpinionForm::Behavior && with_behavior.contains(&change.key());
    by_opinion || rules.fields.contains(&change.key())
}

pub(super) fn of(event: &EventName) -> Rules {
    use EventName as E;
    use OpinionForm::{Action, Behavior, Block, Nothing, Permission};
    use PlainOutput::{Context, Ignored, Message, WorktreePath};

    let (says, fields, plain): (OpinionForm, &[&str], PlainOutput) = match event {
        E::PreToolUse => (
            Permission { defer: true },
            &[CONTEXT, "updatedInput"],
            Ignored,
        ),
        E::PreModelSwitch => (Permission { defer: false }, &[], Ignored),
        E::PermissionRequest => (Behavior, &[], Ignored),
        E::PermissionDenied => (Nothing, &["retry"], Ignored),
        E::PostToolUse => (
            Block,
            &[
                CONTEXT,
                "updatedToolOutput",
                "updatedMCPToolOutput",
                "classifierContext",
            ],
            Ignored,
        ),
        E::PostToolUseFailure | E::PostToolBatch | E::Stop | E::SubagentStop => {
            (Block, &[CONTEXT], Ignored)
        }
        E::Notification | E::SubagentStart | E::Setup => (Nothing, &[CONTEXT], Ignored),
        E::PostModelSwitch => (Nothing, &[CONTEXT], Context),
        E::UserPromptSubmit => (
            Block,
            &[CONTEXT, "sessionTitle", "suppressOriginalPrompt"],
            Context,
        ),
        E::UserPromptExpansion => (Block, &[CONTEXT, "suppressOriginalPrompt"], Context),
        E::SessionStart => (
            Nothing,
            &[
                CONTEXT,
                "initialUserMessage",
                "sessionTitle",
                "watchPaths",
                "reloadSkills",
            ],
            Context,
        ),
        E::Elicitation | E::ElicitationResult => (Action, &["content"], Ignored),
        E::CwdChanged | E::FileChanged => (Nothing, &["watchPaths"], Ignored),
        E::WorktreeCreate => (Nothing, &["worktreePath"], WorktreePath),
        E::MessageDisplay => (Nothing, &["displayContent"], Ignored),
        E::PreCompact => (Block, &[], Context),
        E::PostCompact => (Nothing, &[], Message),
        E::TeammateIdle | E::TaskCreated | E::TaskCompleted | E::ConfigChange => {
            (Block, &[], Ignored)
        }
        E::SessionEnd
        | E::StopFailure
        | E::InstructionsLoaded
        | E::WorktreeRemove
        | E::DirectoryAdded
        | E::Other(_) => (Nothing, &[], Ignored),
    };
    Rules {
        says,
        fields,
        plain,
    }
}
