//! What may be answered.

/// What the hook process prints and how it exits: all that Claude Code gets to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: u8,
}

impl Output {
    /// No opinion: prints nothing, exits 0.
    pub fn silence() -> Self {
        Self::default()
    }

    pub fn is_silent(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.exit == 0
    }
}

/// placeholder
#[derive(Debug, Clone)]
pub struct Answer;
