//! Reads the past of sessions from the database and the spool, and groups it into turns. Writes
//! nothing.

use std::collections::HashMap;

use anyhow::{Context, Result};
use becket_daemon::store::{
    self, EventBrief, EventRecord, SessionFacts, TurnFigures, is_explainable, spool,
};
use becket_engine::status::is_machine_made;
use becket_wire::Head;
use becket_wire::rpc::{AnswerWord, DecisionRow, EventQuery, EventRow};
use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use crate::client::Client;
use crate::ui::time::serialize_timestamp;
use crate::world::World;

#[derive(Debug, Default)]
pub struct History {
    database: Option<Connection>,
    /// The events in the spool.
    waiting: Vec<EventRow>,
    facts: HashMap<String, SessionFacts>,
}

impl History {
    /// Opens the database and reads the spool, which a running daemon takes in first.
    pub fn open(world: &World) -> Result<Self> {
        Client::take_in_or_warn(world);
        let masker = crate::log::masker(world);
        let database = store::open_to_read(&world.place.database())?;
        let facts = match &database {
            Some(connection) => {
                store::session_facts(connection).context("could not read the sessions")?
            }
            None => Vec::new(),
        };
        let waiting = spool::read_all(&world.place, &masker);
        Ok(Self {
            database,
            waiting: waiting.iter().map(EventRecord::to_row).collect(),
            facts: by_id(facts),
        })
    }

    /// Makes a history of a database without a spool.
    #[cfg(test)]
    pub fn of(database: Connection) -> Self {
        Self {
            facts: by_id(store::session_facts(&database).unwrap_or_default()),
            database: Some(database),
            waiting: Vec::new(),
        }
    }

    /// Calls `each` with the events of a session, or of all sessions, since a time. Skips duplicates.
    pub fn events(
        &self,
        session: Option<&str>,
        since: i64,
        each: &mut dyn FnMut(EventBrief<'_>),
    ) -> Result<()> {
        if let Some(connection) = &self.database {
            store::events_in_brief(connection, session, since, each)
                .context("could not read the log")?;
        }
        let query = EventQuery {
            session: session.map(str::to_owned),
            since: Some(since),
            ..EventQuery::default()
        };
        let waiting = self.waiting.iter().filter(|row| query.wants(row));
        waiting.map(EventBrief::from).for_each(each);
        Ok(())
    }

    /// Returns the figures of the turns of one session, or of all sessions, each in order.
    pub fn figures(&self, session: Option<&str>) -> Result<Vec<TurnFigures>> {
        let Some(connection) = &self.database else {
            return Ok(Vec::new());
        };
        store::figures(connection, session).context("could not read the figures of turns")
    }

    /// Returns the run time of the tool call that this event ends, in milliseconds, or 0 if it is not
    /// known.
    pub fn ran_ms(&self, event: &EventBrief<'_>) -> i64 {
        if !event.event.starts_with("PostToolUse") {
            return 0;
        }
        let stored = || store::payload(self.database.as_ref()?, event.seq).ok()?;
        let payload = event.payload.clone().or_else(stored).unwrap_or_default();
        let call: Value = serde_json::from_slice(&payload).unwrap_or_default();
        call["duration_ms"].as_i64().unwrap_or(0)
    }

    pub fn facts(&self, session: &str) -> Option<&SessionFacts> {
        self.facts.get(session)
    }

    /// Returns the cost of the session at its start: a fork starts with the cost of its parent.
    pub fn cost_before(&self, session: &str, began: i64) -> Result<f64> {
        let Some(parent) = self.facts(session).and_then(SessionFacts::forked_from) else {
            return Ok(0.0);
        };
        let before = self.figures(Some(parent))?;
        let before = before.iter().filter(|turn| turn.began < began);
        Ok(before
            .filter_map(|turn| turn.cost_usd)
            .next_back()
            .unwrap_or(0.0))
    }

    /// Returns the chain of sessions that this one continues, the oldest first.
    pub fn before(&self, session: &str) -> Vec<&SessionFacts> {
        let mut chain: Vec<&SessionFacts> = Vec::new();
        let mut prev = self
            .facts(session)
            .and_then(|facts| facts.prev_session_id.as_ref());
        while let Some(facts) = prev.and_then(|id| self.facts(id)) {
            if facts.session_id == session || chain.contains(&facts) {
                break;
            }
            chain.push(facts);
            prev = facts.prev_session_id.as_ref();
        }
        chain.reverse();
        chain
    }

    /// Returns the sessions that continue this one directly, in the order of their start.
    pub fn after(&self, session: &str) -> Vec<&SessionFacts> {
        let goes_on = |facts: &&SessionFacts| facts.prev_session_id.as_deref() == Some(session);
        let mut next: Vec<&SessionFacts> = self.facts.values().filter(goes_on).collect();
        next.sort_by_key(|facts| facts.started_at);
        next
    }

    /// Returns all sessions that continue this one, directly or not, the nearest first.
    pub fn after_all(&self, session: &str) -> Vec<&SessionFacts> {
        let mut all = self.after(session);
        let mut nth = 0;
        while let Some(facts) = all.get(nth) {
            let next = self.after(&facts.session_id).into_iter();
            let next: Vec<_> = next.filter(|facts| !all.contains(facts)).collect();
            all.extend(next);
            nth += 1;
        }
        all
    }
}

fn by_id(facts: Vec<SessionFacts>) -> HashMap<String, SessionFacts> {
    let facts = facts.into_iter();
    facts
        .map(|facts| (facts.session_id.clone(), facts))
        .collect()
}

/// The number of files that are kept.
const MOST_FILES: usize = 1000;

/// One prompt of the user and the work on it, with the fields of its JSON. Times are milliseconds since
/// 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Turn {
    /// The number of the turn, from 1.
    #[serde(rename = "turn")]
    pub number: usize,
    #[serde(rename = "began_at", serialize_with = "serialize_timestamp")]
    pub began: i64,
    /// The time from the prompt to the last event of work.
    pub took_ms: i64,
    /// None if retention deleted it.
    pub prompt: Option<String>,
    /// The tools in the order of their first call.
    pub tools: Vec<ToolCalls>,
    pub failed: u32,
    pub denied: u32,
    /// The decisions of hooks and guards.
    pub decisions: Vec<RecordedDecision>,
    pub cost_usd: Option<f64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// The number of calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCalls {
    pub tool: String,
    pub calls: u32,
}

/// A decision of a hook or guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedDecision {
    #[serde(serialize_with = "serialize_timestamp")]
    pub at: i64,
    pub event: String,
    pub tool: Option<String>,
    #[serde(flatten)]
    pub decision: DecisionRow,
}

/// A file that tools wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TouchedFile {
    pub path: String,
    pub edits: u32,
    #[serde(serialize_with = "serialize_timestamp")]
    pub last_at: i64,
}

/// The turns and files of a session, built event by event.
#[derive(Debug, Default)]
pub struct Timeline {
    pub turns: Vec<Turn>,
    pub files: Vec<TouchedFile>,
}

impl Timeline {
    /// Adds the next event of the session.
    pub fn add(&mut self, event: &EventBrief<'_>) {
        if begins_turn(event) {
            let turn = self.begin(event.at);
            turn.prompt = event.payload.as_deref().and_then(prompt);
        }
        let works = matches!(
            event.event,
            "PreToolUse"
                | "PostToolUse"
                | "PostToolUseFailure"
                | "PostToolBatch"
                | "PermissionRequest"
                | "PermissionDenied"
                | "SubagentStart"
                | "SubagentStop"
                | "Stop"
                | "StopFailure"
        );
        // A command that the user ran with `!` has no prompt.
        if self.turns.is_empty() && event.event == "PreToolUse" {
            self.begin(event.at);
        }
        if let Some(turn) = self.turns.last_mut() {
            if works {
                turn.took_ms = turn.took_ms.max(event.at - turn.began);
            }
            turn.count(event);
        }
        if event.event == "PostToolUse"
            && let Some(path) = event.payload.as_deref().and_then(file)
        {
            self.touch(path, event.at);
        }
    }

    fn begin(&mut self, at: i64) -> &mut Turn {
        self.turns.push(Turn {
            number: self.turns.len() + 1,
            began: at,
            ..Turn::default()
        });
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    fn touch(&mut self, path: String, at: i64) {
        let room = self.files.len() < MOST_FILES;
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(file) => (file.edits, file.last_at) = (file.edits + 1, at),
            None if room => self.files.push(TouchedFile {
                path,
                edits: 1,
                last_at: at,
            }),
            None => {}
        }
    }

    /// Sets the cost and tokens of each turn. `before` is the cost of the session at its start.
    pub fn price(&mut self, figures: &[TurnFigures], before: f64) {
        for (figures, cost) in figures.iter().zip(spent(figures, before)) {
            // The figures have the time at which a prompt arrived, which is slightly later.
            let of = |turn: &&mut Turn| turn.began <= figures.began;
            if let Some(turn) = self.turns.iter_mut().rev().find(of) {
                turn.cost_usd = match (turn.cost_usd, cost) {
                    (Some(known), Some(cost)) => Some(known + cost),
                    (known, cost) => known.or(cost),
                };
                turn.input_tokens += figures.input_tokens;
                turn.output_tokens += figures.output_tokens;
            }
        }
    }
}

impl Turn {
    fn count(&mut self, event: &EventBrief<'_>) {
        match (event.event, event.tool) {
            ("PreToolUse", Some(tool)) => {
                match self.tools.iter_mut().find(|known| known.tool == tool) {
                    Some(known) => known.calls += 1,
                    None => self.tools.push(ToolCalls {
                        tool: tool.to_owned(),
                        calls: 1,
                    }),
                }
            }
            ("PostToolUseFailure", _) => self.failed += 1,
            _ => {}
        }
        self.denied += u32::from(is_denial(event));
        if let Some(decision) = &event.decision
            && is_explainable(&decision.answer, decision.by.as_ref())
        {
            self.decisions.push(RecordedDecision {
                at: event.at,
                event: event.event.to_owned(),
                tool: event.tool.map(str::to_owned),
                decision: decision.without_effort(),
            });
        }
    }
}

/// Returns true if this event is a prompt of the user. A blocked prompt does not count, nor does one
/// that Claude Code made itself.
pub fn begins_turn(event: &EventBrief<'_>) -> bool {
    let answer = event.decision.as_ref().map(|decision| &decision.answer);
    let head = event.payload.as_deref().and_then(|it| Head::read(it).ok());
    event.event == "UserPromptSubmit"
        && event.agent.is_none()
        && !matches!(answer, Some(AnswerWord::Block | AnswerWord::Stop))
        && !head.is_some_and(|head| is_machine_made(&head))
}

/// Returns true if a hook, a guard or auto mode denied a tool call.
pub fn is_denial(event: &EventBrief<'_>) -> bool {
    let answer = event.decision.as_ref().map(|decision| &decision.answer);
    answer == Some(&AnswerWord::Deny) || event.event == "PermissionDenied"
}

/// Computes the cost of each turn of one session. The figures have the cost of the whole session so
/// far; where it falls, Claude Code has started to count again.
pub fn spent(figures: &[TurnFigures], before: f64) -> impl Iterator<Item = Option<f64>> {
    let mut before = before;
    figures.iter().map(move |turn| {
        let now = turn.cost_usd?;
        let cost = if now < before { now } else { now - before };
        before = now;
        Some(cost)
    })
}

/// Returns the first line of a prompt.
fn prompt(payload: &[u8]) -> Option<String> {
    let head = Head::read(payload).ok()?;
    let line = head.prompt.as_deref()?.trim().lines().next();
    line.map(|line| line.trim().to_owned())
}

/// Returns the file that a tool wrote.
fn file(payload: &[u8]) -> Option<String> {
    let input: Value = serde_json::from_str(Head::read(payload).ok()?.tool_input?).ok()?;
    let path = input["file_path"]
        .as_str()
        .or(input["notebook_path"].as_str())?;
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_chained_both_ways() {
        let facts = |id: &str, prev: &str, started_at| SessionFacts {
            session_id: id.to_owned(),
            prev_session_id: (!prev.is_empty()).then(|| prev.to_owned()),
            started_at,
            ..SessionFacts::default()
        };
        let all = [
            facts("a", "gone", 1),
            facts("b", "a", 2),
            facts("c", "b", 4),
            facts("d", "b", 3),
            facts("x", "y", 5),
            facts("y", "x", 6),
        ];
        let history = History {
            facts: all.map(|facts| (facts.session_id.clone(), facts)).into(),
            ..History::default()
        };
        let ids = |found: Vec<&SessionFacts>| {
            let ids = found.iter().map(|facts| &*facts.session_id);
            ids.collect::<String>()
        };
        assert_eq!(ids(history.before("c")), "ab");
        assert_eq!(ids(history.after("b")), "dc");
        assert_eq!(ids(history.after_all("a")), "bdc");
        assert_eq!(ids(history.before("x")), "y", "a circle ends");
        assert_eq!(ids(history.after_all("x")), "yx", "a circle ends");
    }

    fn event<'e>(at: i64, event: &'e str, tool: &'e str) -> EventBrief<'e> {
        EventBrief {
            at,
            event,
            tool: (!tool.is_empty()).then_some(tool),
            ..EventBrief::default()
        }
    }

    fn prompted<'e>(at: i64, prompt: &str) -> EventBrief<'e> {
        let payload = serde_json::json!({"prompt": prompt});
        EventBrief {
            payload: Some(payload.to_string().into_bytes()),
            ..event(at, "UserPromptSubmit", "")
        }
    }

    fn answered(answer: &str, by: &str) -> Option<DecisionRow> {
        Some(DecisionRow {
            answer: answer.to_owned().into(),
            by: Some(by.to_owned().into()),
            reason: None,
            effort: None,
        })
    }

    #[test]
    fn a_turn_is_a_prompt_that_a_user_sent_and_what_came_of_it() {
        let mut past = Timeline::default();
        let denied = EventBrief {
            decision: answered("deny", "hook:no-prod"),
            ..event(30, "PreToolUse", "Bash")
        };
        let blocked = EventBrief {
            decision: answered("block", "becket:command"),
            ..prompted(60, "/hook:disable")
        };
        for event in [
            event(1, "SessionStart", ""),
            prompted(10, "\n fix it \nall of it"),
            event(20, "PreToolUse", "Bash"),
            event(25, "PostToolUseFailure", "Bash"),
            denied,
            event(40, "Stop", ""),
            event(99, "Notification", ""),
            prompted(50, "<task-notification>done</task-notification>"),
            blocked,
            event(100, "UserPromptSubmit", ""),
            event(110, "PermissionDenied", "Edit"),
        ] {
            past.add(&event);
        }
        let [first, second] = &past.turns[..] else {
            panic!("{:?}", past.turns)
        };
        assert_eq!(first.prompt.as_deref(), Some("fix it"));
        assert_eq!((first.began, first.took_ms), (10, 30));
        let [bash] = &first.tools[..] else {
            panic!("{:?}", first.tools)
        };
        assert_eq!((&*bash.tool, bash.calls), ("Bash", 2));
        assert_eq!((first.failed, first.denied), (1, 1));
        assert_eq!(first.decisions.len(), 1, "becket's own are not told");
        assert_eq!((second.number, &second.prompt), (2, &None), "dropped");
        assert_eq!((second.denied, second.took_ms), (1, 10));
    }

    #[test]
    fn the_cost_of_a_turn_is_what_was_added() {
        let figures = |began, cost_usd| TurnFigures {
            began,
            cost_usd,
            input_tokens: 7,
            ..TurnFigures::default()
        };
        let figures = [
            figures(11, Some(1.5)),
            figures(12, Some(2.0)),
            figures(21, None),
            figures(31, Some(2.25)),
            figures(41, Some(0.25)),
        ];
        let mut past = Timeline::default();
        for at in [10, 20, 30, 40, 50] {
            past.add(&prompted(at, "go"));
        }
        past.price(&figures, 1.0);
        let costs: Vec<_> = past.turns.iter().map(|turn| turn.cost_usd).collect();
        assert_eq!(
            costs,
            [Some(1.0), None, Some(0.25), Some(0.25), None],
            "the last one began to count anew"
        );
        assert_eq!(past.turns[0].input_tokens, 14);
    }
}
