//! What a hook or a guard thinks of an event.

/// A judgement. There is none for "no objection": that is `None`, and it is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// It must not happen (a tool call, a permission, a model switch); the reason is for the model.
    Deny { reason: String },
    /// The user shall decide.
    Ask { reason: String },
    /// Somebody else decides later; under `-p` the run ends.
    Defer { reason: String },
    /// It happens **without** Claude Code's own permission prompt. Only ever what the user asked
    /// for by name; `because` says where.
    Allow { because: String },
    /// It must not happen, or the turn must not end: prompts, stops, compactions and the rest.
    Block { reason: String },
    /// An MCP server's question is answered, with `Change::Content`.
    Accept,
    /// It is refused. The reason is for the log: Claude Code takes none here.
    Decline { reason: String },
    /// It is dismissed.
    Cancel,
}

impl Opinion {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Deny { .. } => "deny",
            Self::Ask { .. } => "ask",
            Self::Defer { .. } => "defer",
            Self::Allow { .. } => "allow",
            Self::Block { .. } => "block",
            Self::Accept => "accept",
            Self::Decline { .. } => "decline",
            Self::Cancel => "cancel",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Deny { reason }
            | Self::Ask { reason }
            | Self::Defer { reason }
            | Self::Allow { because: reason }
            | Self::Block { reason }
            | Self::Decline { reason } => Some(reason.as_str()).filter(|text| !text.is_empty()),
            Self::Accept | Self::Cancel => None,
        }
    }

    /// The same, for another reason; an opinion that has none stays as it is.
    #[must_use]
    pub fn with_reason(self, text: String) -> Self {
        match self {
            Self::Deny { .. } => Self::Deny { reason: text },
            Self::Ask { .. } => Self::Ask { reason: text },
            Self::Defer { .. } => Self::Defer { reason: text },
            Self::Allow { .. } => Self::Allow { because: text },
            Self::Block { .. } => Self::Block { reason: text },
            Self::Decline { .. } => Self::Decline { reason: text },
            Self::Accept | Self::Cancel => self,
        }
    }
}
