//! The selected session's last events, as the pane shows them.

use std::collections::VecDeque;

use becket_wire::rpc::EventRow;

use super::look::Tone;
use crate::line;

/// So many are kept; the daemon is asked for fewer.
const KEPT: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLine {
    pub seq: i64,
    pub at: i64,
    pub event: String,
    pub tool: String,
    pub about: String,
    pub by_agent: bool,
    pub tone: Tone,
}

impl EventLine {
    pub fn new(row: &EventRow) -> Self {
        let event = row.event.clone().unwrap_or_else(|| "?".to_owned());
        let (mut tone, mut about) = (tone(&event), line::about(row));
        if let Some(decision) = &row.decision {
            tone = match decision.answer.as_str() {
                "deny" | "block" => Tone::Error,
                _ => Tone::Attention,
            };
            about = format!("{}: {about}", line::decided(decision));
        }
        // A field that is missing would hide what the event is about; `becket events` tells of it.
        if let Some(fault) = row.fault.as_ref().filter(|_| row.session_id.is_none()) {
            tone = Tone::Error;
            about = fault.clone();
        }
        Self {
            seq: row.seq,
            at: row.at,
            event,
            tool: row.tool.clone().unwrap_or_default(),
            about,
            by_agent: row.agent_id.is_some(),
            tone,
        }
    }
}

fn tone(event: &str) -> Tone {
    match event {
        "UserPromptSubmit" => Tone::Strong,
        "PermissionRequest" | "Notification" | "Elicitation" => Tone::Attention,
        "PermissionDenied" | "PostToolUseFailure" | "StopFailure" => Tone::Error,
        "Stop" | "SubagentStop" => Tone::Good,
        "PreToolUse" => Tone::Working,
        _ => Tone::Dim,
    }
}

#[derive(Debug, Default)]
pub struct Events {
    /// Whose they are.
    pub session: Option<String>,
    pub lines: VecDeque<EventLine>,
    /// How many of the newest ones are scrolled out of sight.
    pub back: usize,
}

impl Events {
    /// Another session's events are wanted from now on.
    pub fn turn_to(&mut self, session: Option<String>) {
        if self.session != session {
            *self = Self {
                session,
                ..Self::default()
            };
        }
    }

    /// Takes one in, in its place. What is looked at stays where it is while newer ones come.
    pub fn put(&mut self, line: EventLine) {
        let place = self
            .lines
            .partition_point(|known| (known.at, known.seq) < (line.at, line.seq));
        if self
            .lines
            .get(place)
            .is_some_and(|known| known.seq == line.seq)
        {
            return;
        }
        if self.back > 0 {
            self.back += 1;
        }
        self.lines.insert(place, line);
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
        self.scroll(0);
    }

    /// Goes back in time by so many, or forward.
    pub fn scroll(&mut self, by: isize) {
        let most = self.lines.len().saturating_sub(1);
        self.back = self.back.saturating_add_signed(by).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: i64) -> EventLine {
        EventLine {
            seq,
            at: seq,
            event: "Stop".into(),
            tool: String::new(),
            about: String::new(),
            by_agent: false,
            tone: Tone::Good,
        }
    }

    #[test]
    fn they_stand_in_order_and_once() {
        let mut events = Events::default();
        for seq in [1, 3, 2, 3] {
            events.put(line(seq));
        }
        let order: Vec<i64> = events.lines.iter().map(|line| line.seq).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn what_is_looked_at_stays_while_new_ones_come() {
        let mut events = Events::default();
        (0..10).for_each(|seq| events.put(line(seq)));
        events.scroll(4);
        events.put(line(10));
        assert_eq!(events.back, 5);
        events.scroll(-100);
        events.put(line(11));
        assert_eq!(events.back, 0);
        events.scroll(100);
        assert_eq!(events.back, 11);
        (20..2_000).for_each(|seq| events.put(line(seq)));
        assert_eq!(events.lines.len(), KEPT);
        assert!(events.back < KEPT);
    }

    #[test]
    fn another_session_begins_anew() {
        let mut events = Events::default();
        events.turn_to(Some("a".into()));
        events.put(line(1));
        events.turn_to(Some("a".into()));
        assert_eq!(events.lines.len(), 1);
        events.turn_to(Some("b".into()));
        assert!(events.lines.is_empty());
    }
}
