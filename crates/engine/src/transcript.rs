//! The tail of Claude Code's transcript: what no event says (an interrupt, an answered permission,
//! a turn that died) and what it cost. Takes bytes as they are appended, and knows no file.

mod line;
mod reckon;
#[cfg(test)]
mod tests;

use becket_wire::session::Figures;

use reckon::Reckoning;
pub use reckon::TurnTokens;

/// A longer line is passed over: it would be held in memory until its end comes.
pub const LONGEST_LINE: usize = 4 << 20;

/// What one line of the transcript tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Milliseconds since 1970, as the line says.
    pub at: Option<i64>,
    /// The subagent that it is about; none for the main agent.
    pub agent: Option<String>,
    pub what: What,
}

impl Finding {
    /// What a subagent did says nothing about the main agent.
    pub fn is_main(&self) -> bool {
        self.agent.is_none()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The person interrupted the turn: with Esc, or by refusing a permission.
    Interrupted { for_tool: bool },
    /// A tool call is over, so whatever it was waiting for is too.
    ToolResult {
        tool_use_id: String,
        is_error: bool,
        /// Why it did not run, in Claude Code's word: `user-rejected`.
        denied: Option<String>,
    },
    /// A turn of the interactive program is over. Not every interrupted turn has it, and in
    /// print mode there is none.
    TurnEnded,
    /// The turn died.
    ApiError {
        /// Claude Code's word for it: `rate_limit`, `unknown`.
        error: Option<String>,
        text: Option<String>,
    },
    /// The model has replied. Once a message, though a message has a line for each of its blocks.
    Usage(Usage),
    /// The window was compacted, and holds so many tokens now.
    Compacted { tokens: Option<u64> },
}

/// The tokens of one reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub model: String,
    pub input: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub output: u64,
}

/// What could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// Lines over [`LONGEST_LINE`].
    pub too_long: u64,
    /// Lines that are no JSON, or no UTF-8.
    pub broken: u64,
}

/// A transcript as it grows. Whoever wants its cost feeds it from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// A line whose end has not come yet.
    part: Vec<u8>,
    /// The rest of a line that is too long is on its way.
    skipping: bool,
    unread: Unread,
    reckoning: Reckoning,
}

impl Tail {
    /// Takes what was appended; gives what the lines tell that it completes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Finding> {
        let mut found = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.part.len() + line.len() > LONGEST_LINE {
                self.part = Vec::new();
                self.unread.too_long += 1;
            } else if self.part.is_empty() {
                self.read(line, &mut found);
            } else {
                let mut whole = std::mem::take(&mut self.part);
                whole.extend_from_slice(line);
                self.read(&whole, &mut found);
            }
        }
        self.keep(bytes);
        found
    }

    /// Context and cost so far, as a status line would say them.
    pub fn figures(&self) -> Figures {
        self.reckoning.figures()
    }

    /// Counts the tokens of replies since the prompt that was sent then; see [`Tail::turn`].
    pub fn count_since(&mut self, prompted_at: i64) {
        self.reckoning.count_since(prompted_at);
    }

    /// The tokens of the replies since the prompt of [`Tail::count_since`].
    pub fn turn(&self) -> TurnTokens {
        self.reckoning.turn()
    }

    pub fn unread(&self) -> Unread {
        self.unread
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.part.len() + bytes.len() > LONGEST_LINE {
            self.part = Vec::new();
            self.skipping = true;
            self.unread.too_long += 1;
        } else {
            self.part.extend_from_slice(bytes);
        }
    }

    fn read(&mut self, line: &[u8], found: &mut Vec<Finding>) {
        match line::read(line) {
            Ok(None) => {}
            Ok(Some(line)) => {
                let reckoning = &mut self.reckoning;
                line.tell(&mut |finding| found.push(finding), reckoning);
            }
            Err(line::Broken) => self.unread.broken += 1,
        }
    }
}
