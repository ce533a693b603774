//! The log: queries, and the rows that answer them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::event::words;
use crate::{Actor, EventId};

/// A query for events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventQuery {
    /// The whole id of the session. The daemon completes a prefix.
    pub session: Option<String>,
    pub event: Option<String>,
    pub tool: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<i64>,
    pub id: Option<EventId>,
    /// Only events with a higher number.
    pub after: Option<i64>,
    /// The number of newest events; all, if absent.
    pub limit: Option<u32>,
    pub follow: bool,
    /// True to include events of double registrations.
    pub duplicates: bool,
}

/// The fault of a PostToolUse or PostToolUseFailure whose call becket had denied.
pub const RAN_DENIED: &str = "denied, but it ran";

/// The event with which becket tests that events arrive. Claude Code knows no such event.
pub const CANARY: &str = "BecketCanary";

impl EventQuery {
    /// Returns true if canaries are left out. They are shown only for a query that names them, their session or
    /// one event.
    pub fn skips_canaries(&self) -> bool {
        self.event.is_none() && self.session.is_none() && self.id.is_none()
    }

    /// Returns true if the query selects this event.
    pub fn wants(&self, row: &EventRow) -> bool {
        (self.session.is_none() || self.session == row.session_id)
            && (self.event.is_none() || self.event == row.event)
            && (self.tool.is_none() || self.tool == row.tool)
            && self.since.is_none_or(|since| row.at >= since)
            && self.id.is_none_or(|id| row.id == id)
            && self.after.is_none_or(|after| row.seq > after)
            && (self.duplicates || row.duplicate_of.is_none())
            && !(self.skips_canaries() && row.event.as_deref() == Some(CANARY))
    }
}

/// One event of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    pub seq: i64,
    pub id: EventId,
    /// Milliseconds since 1970.
    pub at: i64,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    pub event: Option<String>,
    pub tool: Option<String>,
    pub decision: Option<DecisionRow>,
    /// The time from the arrival to the answer; none if there was no answer.
    pub took_us: Option<i64>,
    pub source: Source,
    /// The number of masked secrets.
    pub masked: i64,
    /// The defect of the event: it is not JSON, it was cut, or its call was denied and ran ([`RAN_DENIED`]).
    #[serde(default)]
    pub fault: Option<String>,
    /// The event that this one repeats (a double registration).
    #[serde(default)]
    pub duplicate_of: Option<i64>,
    /// The payload as it came, except for masked secrets; none once retention dropped it.
    #[serde(skip)]
    pub payload: Option<Vec<u8>>,
}

words! {
    /// The answer to an event in a word, as it is stored and shown: the opinion, else the first other part that
    /// the answer has.
    AnswerWord {
        Deny = "deny",
        Ask = "ask",
        Defer = "defer",
        Allow = "allow",
        Block = "block",
        Accept = "accept",
        Decline = "decline",
        Cancel = "cancel",
        Stop = "stop",
        Change = "change",
        Context = "context",
        Message = "message",
        Terminal = "terminal",
    }
}

impl AnswerWord {
    /// Returns true if the event does not happen, or the turn does not end.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Deny | Self::Block | Self::Stop)
    }
}

/// The answer to an event, and its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRow {
    pub answer: AnswerWord,
    pub by: Option<Actor>,
    pub reason: Option<String>,
    /// The judgement of the session's effort, as `becket why --json` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<serde_json::Value>,
}

impl DecisionRow {
    /// Returns the row without the judgement of the effort.
    pub fn without_effort(&self) -> Self {
        Self {
            answer: self.answer.clone(),
            by: self.by.clone(),
            reason: self.reason.clone(),
            effort: None,
        }
    }
}

/// The way in which an event arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Daemon,
    Alone,
    Replay,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Alone => "alone",
            Self::Replay => "replay",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Daemon, Self::Alone, Self::Replay]
            .into_iter()
            .find(|source| source.as_str() == name)
    }
}

/// The events that a follower of the log has been shown. Numbers rise, but an event that waits while the spool
/// is taken in is committed after events with higher ones. So a follower asks again from further back, and
/// skips known ones.
#[derive(Debug)]
pub struct FollowCursor {
    recent: BTreeSet<i64>,
    /// The number after which the follower asked for older events, and the most of them that it asked for.
    after: i64,
    limit: usize,
    lowest: Option<i64>,
}

/// The distance to look back: more than the spool and the queues hold together.
const BACK: i64 = 110_000;

impl FollowCursor {
    pub fn of(query: &EventQuery) -> Self {
        // No older events, but all new ones: that is no limit.
        let none = query.limit == Some(0) && query.since.is_some();
        let limit = query.limit.filter(|_| !none);
        Self {
            recent: BTreeSet::new(),
            after: query.after.unwrap_or(0),
            limit: limit.map_or(usize::MAX, |limit| limit as usize),
            lowest: None,
        }
    }

    /// Marks an event as shown. Returns true if it was not shown before.
    pub fn is_new(&mut self, seq: i64) -> bool {
        let lowest = self.lowest.get_or_insert(seq);
        // A later event with a lower number was held back; the follower did not ask for the events between it
        // and the first one.
        if self.recent.len() < self.limit {
            *lowest = seq.min(*lowest);
        }
        let is_new = self.recent.insert(seq);
        if self.recent.len() > 2 * BACK as usize {
            self.recent = self.recent.split_off(&self.after());
        }
        is_new
    }

    /// Returns the number after which to ask again.
    pub fn after(&self) -> i64 {
        let newest = self.recent.last().copied().unwrap_or(0);
        // With fewer rows than `limit`, the follower has seen everything. A lower number that arrives later was
        // committed late, so it must be asked for.
        let lowest = self.lowest.filter(|_| self.recent.len() >= self.limit);
        (newest - BACK).max(lowest.map_or(self.after, |lowest| lowest - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overtaken_events_are_asked_for_again_and_none_is_shown_twice() {
        let mut shown = FollowCursor::of(&EventQuery {
            limit: Some(4),
            ..EventQuery::default()
        });
        assert_eq!(shown.after(), 0);
        for seq in [50, 51, 53, 54] {
            assert!(shown.is_new(seq));
        }
        // 52 was overtaken; the follower did not ask for events before the first one.
        assert_eq!(shown.after(), 49);
        assert!(!shown.is_new(53));
        assert!(shown.is_new(52));
        // 7 was held back; the follower did not ask for events between it and the first one either.
        assert!(shown.is_new(7) && !shown.is_new(7));
        assert_eq!(shown.after(), 49);
        for seq in 1000..300_000 {
            assert!(shown.is_new(seq));
        }
        assert_eq!(shown.after(), 299_999 - BACK);
        assert!(shown.recent.len() <= 2 * BACK as usize);
        assert!(!shown.is_new(299_000));
    }

    #[test]
    fn a_follower_of_all_events_is_shown_those_that_the_first_one_overtook() {
        let all = EventQuery::default();
        let more = EventQuery {
            limit: Some(9),
            ..EventQuery::default()
        };
        let from_now_on = EventQuery {
            limit: Some(0),
            since: Some(5),
            ..EventQuery::default()
        };
        for query in [all, more, from_now_on] {
            let mut shown = FollowCursor::of(&query);
            assert!(shown.is_new(2) && shown.is_new(3));
            assert_eq!(shown.after(), 0);
            assert!(shown.is_new(1));
        }
        let again = EventQuery {
            after: Some(40),
            ..EventQuery::default()
        };
        let mut shown = FollowCursor::of(&again);
        assert!(shown.is_new(50));
        assert_eq!(shown.after(), 40, "what stood before was not asked for");
        let the_last = EventQuery {
            limit: Some(1),
            since: Some(5),
            ..EventQuery::default()
        };
        let mut shown = FollowCursor::of(&the_last);
        assert!(shown.is_new(50));
        assert_eq!(shown.after(), 49);
    }
}
