//! The log: what may be asked of it, and an event as it tells it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::EventId;

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventQuery {
    /// The session’s id, whole; the daemon completes a beginning.
    pub session: Option<String>,
    pub event: Option<String>,
    pub tool: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<i64>,
    pub id: Option<EventId>,
    /// Only what has a higher seq.
    pub after: Option<i64>,
    /// The newest so many; all, if absent.
    pub limit: Option<u32>,
    pub follow: bool,
    /// Double registrations too.
    pub duplicates: bool,
}

/// The fault of a PostToolUse or PostToolUseFailure whose call becket had denied.
pub const RAN_DENIED: &str = "denied, but it ran";

/// The event by which becket proves that events arrive. Claude Code knows no such event.
pub const CANARY: &str = "BecketCanary";

impl EventQuery {
    /// Canaries are told of only where they, their session or one event is asked for.
    pub fn skips_canaries(&self) -> bool {
        self.event.is_none() && self.session.is_none() && self.id.is_none()
    }

    /// Whether an event is one of those asked for.
    pub fn wants(&self, row: &EventRow) -> bool {
        let is = |want: &Option<String>, have: &Option<String>| want.is_none() || want == have;
        is(&self.session, &row.session_id)
            && is(&self.event, &row.event)
            && is(&self.tool, &row.tool)
            && self.since.is_none_or(|since| row.at >= since)
            && self.id.is_none_or(|id| row.id == id)
            && self.after.is_none_or(|after| row.seq > after)
            && (self.duplicates || row.duplicate_of.is_none())
            && !(self.skips_canaries() && row.event.as_deref() == Some(CANARY))
    }
}

/// One event as the log tells it.
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
    /// From arrival to the answer's readiness; none if it was not answered.
    pub took_us: Option<i64>,
    pub source: Source,
    /// How many secrets were masked.
    pub masked: i64,
    /// What is wrong with the event: it is not JSON, it was cut, its call was denied and ran ([`RAN_DENIED`]).
    #[serde(default)]
    pub fault: Option<String>,
    /// The event that this one repeats (a double registration).
    #[serde(default)]
    pub duplicate_of: Option<i64>,
    /// As it came, but for masked secrets; none once retention dropped it.
    #[serde(skip)]
    pub payload: Option<Vec<u8>>,
}

/// What was answered, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRow {
    pub answer: String,
    pub by: Option<String>,
    pub reason: Option<String>,
    /// What the session's effort said, as `becket why --json` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<serde_json::Value>,
}

impl DecisionRow {
    /// The same without what the effort said.
    pub fn without_effort(&self) -> Self {
        Self {
            answer: self.answer.clone(),
            by: self.by.clone(),
            reason: self.reason.clone(),
            effort: None,
        }
    }
}

/// Which road an event took.
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

/// What a follower has been shown. Numbers rise, but an event that waits while the spool is taken
/// in is committed after events with higher ones: so a follower asks again from further back, and
/// passes over what it knows.
#[derive(Debug)]
pub struct Shown {
    recent: BTreeSet<i64>,
    /// What was before was asked for from here on, and so many of it at the most.
    after: i64,
    limit: usize,
    lowest: Option<i64>,
}

/// More than the spool and the queues hold together.
const BACK: i64 = 110_000;

impl Shown {
    pub fn of(query: &EventQuery) -> Self {
        // Nothing of what was, but all since then: that is no limit.
        let none = query.limit == Some(0) && query.since.is_some();
        let limit = query.limit.filter(|_| !none);
        Self {
            recent: BTreeSet::new(),
            after: query.after.unwrap_or(0),
            limit: limit.map_or(usize::MAX, |limit| limit as usize),
            lowest: None,
        }
    }

    /// Whether this one is new; from now on it is not.
    pub fn is_new(&mut self, seq: i64) -> bool {
        let lowest = self.lowest.get_or_insert(seq);
        // What comes later with a lower number was held back: what stands after it was not asked for.
        if self.recent.len() < self.limit {
            *lowest = seq.min(*lowest);
        }
        let is_new = self.recent.insert(seq);
        if self.recent.len() > 2 * BACK as usize {
            self.recent = self.recent.split_off(&self.after());
        }
        is_new
    }

    /// After which number to ask again.
    pub fn after(&self) -> i64 {
        let newest = self.recent.last().copied().unwrap_or(0);
        // Where fewer came than were asked for, nothing stood before them: what has a lower number
        // and was not shown was overtaken.
        let lowest = self.lowest.filter(|_| self.recent.len() >= self.limit);
        (newest - BACK).max(lowest.map_or(self.after, |lowest| lowest - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_overtaken_is_asked_for_again_and_nothing_is_shown_twice() {
        let mut shown = Shown::of(&EventQuery {
            limit: Some(4),
            ..EventQuery::default()
        });
        assert_eq!(shown.after(), 0);
        for seq in [50, 51, 53, 54] {
            assert!(shown.is_new(seq));
        }
        // 52 was overtaken; what stood before the first one was not asked for.
        assert_eq!(shown.after(), 49);
        assert!(!shown.is_new(53));
        assert!(shown.is_new(52));
        // 7 was held back; what stood between it and the first one was not asked for either.
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
    fn whoever_asked_for_all_is_shown_what_the_very_first_had_overtaken() {
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
            let mut shown = Shown::of(&query);
            assert!(shown.is_new(2) && shown.is_new(3));
            assert_eq!(shown.after(), 0);
            assert!(shown.is_new(1));
        }
        let again = EventQuery {
            after: Some(40),
            ..EventQuery::default()
        };
        let mut shown = Shown::of(&again);
        assert!(shown.is_new(50));
        assert_eq!(shown.after(), 40, "what stood before was not asked for");
        let the_last = EventQuery {
            limit: Some(1),
            since: Some(5),
            ..EventQuery::default()
        };
        let mut shown = Shown::of(&the_last);
        assert!(shown.is_new(50));
        assert_eq!(shown.after(), 49);
    }
}
