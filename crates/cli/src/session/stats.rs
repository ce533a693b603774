//! Adds up the use of sessions: turns, tools, waiting, cost, tokens, by day, project or model.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use becket_daemon::store::{EventBrief, SessionFacts};
use becket_engine::status::asks_user;
use becket_wire::Head;
use becket_wire::log::{AnswerWord, CANARY};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::history::History;
use crate::session::history::{begins_turn, is_denial, spent};
use crate::session::words;
use crate::ui::style::{BOLD, DIM, Look};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::{text, time};

/// The unit for which sums are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupBy {
    Day,
    Project,
    Model,
}

/// A day, or the name of a project or model, if it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum GroupKey {
    Day(Date),
    Name(Option<String>),
}

/// The use of one group of sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageSum {
    pub sessions: usize,
    pub turns: u64,
    pub tools: u64,
    pub denials: u64,
    pub waiting_ms: i64,
    /// None if the cost is not known.
    pub cost_usd: Option<f64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(skip)]
    seen: HashSet<usize>,
}

/// The sums of all groups, and their total.
#[derive(Debug)]
pub struct Stats {
    by: Option<GroupBy>,
    sums: Vec<(GroupKey, UsageSum)>,
    total: UsageSum,
}

/// Adds up events and figures.
struct StatsBuilder<'h> {
    by: Option<GroupBy>,
    zone: TimeZone,
    sessions: HashMap<String, SessionState<'h>>,
    sums: BTreeMap<GroupKey, UsageSum>,
    total: UsageSum,
}

struct SessionState<'h> {
    number: usize,
    facts: Option<&'h SessionFacts>,
    asked: Vec<Wait>,
}

/// A wait for the user's answer.
struct Wait {
    agent: Option<String>,
    /// True if a Notification started the wait: it names no agent.
    of_any_agent: bool,
    since: i64,
}

/// Adds up the use since a time, in the sessions that `wanted` selects.
pub fn add_up(
    history: &History,
    by: Option<GroupBy>,
    since: i64,
    zone: &TimeZone,
    wanted: &dyn Fn(Option<&SessionFacts>) -> bool,
) -> Result<Stats> {
    let mut builder = StatsBuilder {
        by,
        zone: zone.clone(),
        sessions: HashMap::new(),
        sums: BTreeMap::new(),
        total: UsageSum::default(),
    };
    history.events(None, since, &mut |event| {
        let Some(session) = event.session.filter(|_| event.event != CANARY) else {
            return;
        };
        let facts = || history.facts(session);
        if builder.sessions.contains_key(session) || wanted(facts()) {
            builder.event(session, facts, &event, &|| history.ran_ms(&event));
        }
    })?;
    let figures = history.figures(None)?;
    for turns in figures.chunk_by(|one, next| one.session_id == next.session_id) {
        let (session, began) = (&turns[0].session_id, turns[0].began);
        let facts = history.facts(session);
        if !wanted(facts) {
            continue;
        }
        let before = history.cost_before(session, began)?;
        let number = builder.sessions.get(session).map(|known| known.number);
        for (turn, cost) in turns.iter().zip(spent(turns, before)) {
            if turn.at >= since {
                let key = builder.key(facts, turn.model.as_deref(), turn.at);
                builder.add(key, |sum| {
                    sum.seen.extend(number);
                    sum.input_tokens += turn.input_tokens;
                    sum.output_tokens += turn.output_tokens;
                    if let Some(cost) = cost {
                        *sum.cost_usd.get_or_insert(0.0) += cost;
                    }
                });
            }
        }
    }
    Ok(builder.finish())
}

impl<'h> StatsBuilder<'h> {
    fn event(
        &mut self,
        session: &str,
        facts: impl Fn() -> Option<&'h SessionFacts>,
        event: &EventBrief<'_>,
        ran_ms: &dyn Fn() -> i64,
    ) {
        let count = self.sessions.len();
        if !self.sessions.contains_key(session) {
            let known = SessionState {
                number: count,
                facts: facts(),
                asked: Vec::new(),
            };
            self.sessions.insert(session.to_owned(), known);
        }
        let Some(known) = self.sessions.get_mut(session) else {
            return;
        };
        let (number, facts) = (known.number, known.facts);
        // An allowed call ran between the permission and this event.
        let waited = match known.waited(event) {
            0 => 0,
            waited => (waited - ran_ms()).max(0),
        };
        let key = self.key(
            facts,
            facts.and_then(|facts| facts.model.as_deref()),
            event.at,
        );
        let turn = u64::from(begins_turn(event));
        let tool = u64::from(event.event == "PreToolUse");
        let denial = u64::from(is_denial(event));
        self.add(key, |sum| {
            sum.seen.insert(number);
            sum.turns += turn;
            sum.tools += tool;
            sum.denials += denial;
            sum.waiting_ms += waited;
        });
    }

    fn add(&mut self, key: Option<GroupKey>, add: impl Fn(&mut UsageSum)) {
        add(&mut self.total);
        if let Some(key) = key {
            match self.sums.get_mut(&key) {
                Some(sum) => add(sum),
                None => add(self.sums.entry(key).or_default()),
            }
        }
    }

    fn key(&self, facts: Option<&SessionFacts>, model: Option<&str>, at: i64) -> Option<GroupKey> {
        Some(match self.by? {
            GroupBy::Day => GroupKey::Day(self.day(at)),
            GroupBy::Project => GroupKey::Name(facts.and_then(|facts| facts.project.clone())),
            GroupBy::Model => GroupKey::Name(model.map(str::to_owned)),
        })
    }

    /// Returns the local day of a time.
    fn day(&self, at: i64) -> Date {
        let moment = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
        moment.to_zoned(self.zone.clone()).date()
    }

    fn finish(self) -> Stats {
        let mut sums: Vec<(GroupKey, UsageSum)> = self.sums.into_iter().collect();
        if self.by != Some(GroupBy::Day) {
            sums.sort_by(|(_, a), (_, b)| {
                let (a_cost, b_cost) = (a.cost_usd.unwrap_or(0.0), b.cost_usd.unwrap_or(0.0));
                b_cost.total_cmp(&a_cost).then(b.turns.cmp(&a.turns))
            });
        }
        Stats {
            by: self.by,
            sums: sums
                .into_iter()
                .map(|(key, sum)| (key, sum.finish()))
                .collect(),
            total: self.total.finish(),
        }
    }
}

impl UsageSum {
    fn finish(mut self) -> Self {
        self.sessions = std::mem::take(&mut self.seen).len();
        self
    }
}

impl Wait {
    fn from_event(event: &EventBrief<'_>) -> Self {
        Self {
            agent: event.agent.map(str::to_owned),
            of_any_agent: event.event == "Notification",
            since: event.at,
        }
    }

    /// Returns true if an event of this agent can end the wait.
    fn concerns(&self, agent: Option<&str>) -> bool {
        self.of_any_agent || self.agent.as_deref() == agent
    }
}

impl SessionState<'_> {
    /// Returns the time that the agent of this event has waited for the user, if the event shows that it
    /// continues.
    fn waited(&mut self, event: &EventBrief<'_>) -> i64 {
        let mine = self
            .asked
            .iter()
            .position(|wait| wait.concerns(event.agent));
        match event.event {
            "PermissionRequest" | "Elicitation" => {
                if !is_answered(event) && mine.is_none() {
                    self.asked.push(Wait::from_event(event));
                }
                0
            }
            // In auto mode only a Notification tells of a dialog. Else it repeats a question of any agent.
            "Notification" => {
                if self.asked.is_empty() && is_question(event) {
                    self.asked.push(Wait::from_event(event));
                }
                0
            }
            "SessionEnd" => {
                let all = self.asked.drain(..);
                all.map(|wait| (event.at - wait.since).max(0))
                    .max()
                    .unwrap_or(0)
            }
            "PostToolUse" | "PostToolUseFailure" | "PostToolBatch" | "PermissionDenied"
            | "ElicitationResult" | "UserPromptSubmit" | "Stop" | "StopFailure"
            | "SubagentStop" => match mine {
                Some(nth) => (event.at - self.asked.swap_remove(nth).since).max(0),
                None => 0,
            },
            _ => 0,
        }
    }
}

/// Returns true if a hook answered a question, so that it did not wait for the user. A decision may also
/// only ring the bell.
fn is_answered(event: &EventBrief<'_>) -> bool {
    let answer = event.decision.as_ref().map(|decision| &decision.answer);
    matches!(
        answer,
        Some(
            AnswerWord::Allow
                | AnswerWord::Deny
                | AnswerWord::Accept
                | AnswerWord::Decline
                | AnswerWord::Cancel
        )
    )
}

fn is_question(event: &EventBrief<'_>) -> bool {
    let payload = event.payload.as_deref().unwrap_or_default();
    let head = Head::read(payload);
    head.is_ok_and(|head| asks_user(head.notification_type.as_deref()))
}

const NUMBERS: [Column; 8] = [
    Column::right("SESSIONS", 4),
    Column::right("TURNS", 2),
    Column::right("TOOLS", 3),
    Column::right("DENIED", 5),
    Column::right("WAITED", 6),
    Column::right("COST", 0),
    Column::right("TOKENS IN", 7),
    Column::right("OUT", 8),
];

impl Stats {
    pub fn is_empty(&self) -> bool {
        self.total == UsageSum::default()
    }

    /// Formats a row for each group and one for the total, or only the total without groups.
    pub fn table(&self, look: &Look) -> String {
        let head = match self.by {
            None => Column::left("", 0),
            Some(GroupBy::Day) => Column::left("DAY", 0),
            Some(GroupBy::Project) => Column::left("PROJECT", 0).cut_to(16),
            Some(GroupBy::Model) => Column::left("MODEL", 0).cut_to(16),
        };
        let [a, b, c, d, e, f, g, h] = NUMBERS;
        let columns = [head, a, b, c, d, e, f, g, h];
        let short = words::projects(self.sums.iter().filter_map(|(key, _)| match key {
            GroupKey::Name(Some(project)) if self.by == Some(GroupBy::Project) => Some(&**project),
            _ => None,
        }));
        let rows = self.sums.iter().map(|(key, sum)| {
            let name = match key {
                GroupKey::Day(day) => Cell::plain(day.to_string()),
                GroupKey::Name(Some(name)) => Cell::new(short.get(&**name).unwrap_or(name), BOLD),
                GroupKey::Name(None) => Cell::new("unknown", DIM),
            };
            cells(name, sum)
        });
        let mut rows: Vec<_> = rows.collect();
        match rows.len() {
            0 => rows.push(cells(Cell::default(), &self.total)),
            1 => {}
            _ => rows.push(cells(Cell::new("all", DIM), &self.total)),
        }
        grid(columns, &rows, look)
    }

    /// Returns the rows as JSON, without the total.
    pub fn json(&self) -> Vec<JsonUsageSum<'_>> {
        if self.by.is_none() {
            return vec![JsonUsageSum::of(None, None, &self.total)];
        }
        let all = self.sums.iter();
        all.map(|(key, sum)| JsonUsageSum::of(self.by, Some(key), sum))
            .collect()
    }
}

/// A row as JSON, with the fields in the order of the documentation.
#[derive(Debug, Serialize)]
pub struct JsonUsageSum<'a> {
    day: Option<String>,
    project: Option<&'a str>,
    model: Option<&'a str>,
    #[serde(flatten)]
    sum: &'a UsageSum,
}

impl<'a> JsonUsageSum<'a> {
    fn of(by: Option<GroupBy>, key: Option<&'a GroupKey>, sum: &'a UsageSum) -> Self {
        let (day, name) = match key {
            Some(GroupKey::Day(day)) => (Some(day.to_string()), None),
            Some(GroupKey::Name(name)) => (None, name.as_deref()),
            None => (None, None),
        };
        Self {
            day,
            project: name.filter(|_| by == Some(GroupBy::Project)),
            model: name.filter(|_| by == Some(GroupBy::Model)),
            sum,
        }
    }
}

fn cells(name: Cell, sum: &UsageSum) -> [Cell; 9] {
    let waited = match sum.waiting_ms {
        0 => "-".to_owned(),
        ms => time::span(ms),
    };
    let cost = sum.cost_usd.map_or_else(|| "-".to_owned(), text::dollars);
    [
        name,
        Cell::plain(sum.sessions.to_string()),
        Cell::plain(sum.turns.to_string()),
        Cell::plain(sum.tools.to_string()),
        Cell::plain(sum.denials.to_string()),
        Cell::plain(waited),
        Cell::plain(cost),
        Cell::plain(text::tokens(sum.input_tokens)),
        Cell::plain(text::tokens(sum.output_tokens)),
    ]
}

#[cfg(test)]
pub mod tests {
    use becket_daemon::store;

    use super::*;
    use crate::session::tests::{NOW, look};

    const HOUR: i64 = 60 * 60 * 1000;

    /// Two days of a session that went on over midnight, and a fork of it.
    pub fn database() -> (tempfile::TempDir, History) {
        let folder = tempfile::tempdir().unwrap();
        let connection = store::open(&folder.path().join("becket.db"), 0)
            .unwrap()
            .connection;
        let midnight = NOW / (24 * HOUR) * 24 * HOUR;
        let mut seq = 0;
        let mut event = |session: &str, at: i64, event: &str, duplicate_of: Option<i64>| {
            seq += 1;
            connection
                .execute(
                    "INSERT INTO events (seq, id, at, session_id, event, pid, pid_is_claude, attended, source, masked,
                     size, duplicate_of) VALUES (?1, randomblob(16), ?2, ?3, ?4, 1, 1, 1, 'daemon', 0, 0, ?5)",
                    rusqlite::params![seq, midnight + at, session, event, duplicate_of],
                )
                .unwrap();
            seq
        };
        event("s", -2 * HOUR, "UserPromptSubmit", None);
        let first = event("s", -HOUR - 5, "PreToolUse", None);
        event("s", -HOUR - 5, "PreToolUse", Some(first));
        event("s", -HOUR, "PermissionRequest", None);
        let ran = event("s", 0, "PostToolUse", None);
        let prompt = event("s", HOUR, "UserPromptSubmit", None);
        event("s", 2 * HOUR, "Stop", None);
        let denied = event("f", 3 * HOUR, "PreToolUse", None);
        connection
            .execute_batch(&format!(
                "INSERT INTO decisions VALUES ({denied}, 'deny', 'hook:no', NULL, 0, x'', x'', NULL);
                 INSERT INTO payloads VALUES ({prompt}, 0, CAST('{{\"prompt\":\"go\"}}' AS BLOB));
                 INSERT INTO payloads VALUES ({ran}, 0, CAST('{{\"duration_ms\":600000}}' AS BLOB));
                 INSERT INTO figures VALUES ('s', {b1}, {b1}, 'opus', 1.0, 1000, 10),
                     ('s', {b2}, {b2}, 'sonnet', 1.5, 500, 5), ('f', {b3}, {b3}, 'opus', 1.75, 0, 0);
                 INSERT INTO sessions (session_id, last_activity, state) VALUES
                     ('s', 0, CAST('{{\"session_id\":\"s\",\"line\":\"s\",\"project\":\"/w/api\",\"model\":\"sonnet\"}}' AS BLOB)),
                     ('f', 0, CAST('{{\"session_id\":\"f\",\"line\":\"f\",\"prev_session_id\":\"s\"}}' AS BLOB));",
                b1 = midnight - HOUR,
                b2 = midnight + HOUR,
                b3 = midnight + 3 * HOUR,
            ))
            .unwrap();
        let history = History::of(connection);
        (folder, history)
    }

    #[test]
    fn a_dialog_waits_though_the_bell_rang_or_only_a_notification_told_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let connection = store::open(&folder.path().join("becket.db"), 0)
            .unwrap()
            .connection;
        let events = [
            ("PermissionRequest", 0, None),
            ("Notification", 6, None),
            ("PostToolUse", 90, None),
            ("Notification", 100, None),
            ("PermissionDenied", 580, None),
            (CANARY, 600, None),
            ("Notification", 700, None),
            ("PostToolUse", 730, Some("a")),
            ("Stop", 1000, None),
        ];
        for (seq, (event, at, agent)) in (1..).zip(events) {
            let session = if event == CANARY {
                "becket-canary"
            } else {
                "s"
            };
            connection
                .execute(
                    "INSERT INTO events (seq, id, at, session_id, event, pid, pid_is_claude, attended, source, masked,
                     size, agent_id) VALUES (?1, randomblob(16), ?2, ?3, ?4, 1, 1, 1, 'daemon', 0, 0, ?5)",
                    rusqlite::params![seq, at * 1000, session, event, agent],
                )
                .unwrap();
        }
        connection
            .execute_batch(
                r#"INSERT INTO decisions VALUES (1, 'terminal', 'becket:notice', NULL, 0, x'', x'', NULL);
                INSERT INTO payloads VALUES
                    (2, 0, CAST('{"notification_type":"permission_prompt"}' AS BLOB)),
                    (4, 0, CAST('{"notification_type":"agent_needs_input"}' AS BLOB)),
                    (7, 0, CAST('{"notification_type":"agent_needs_input"}' AS BLOB));"#,
            )
            .unwrap();
        let history = History::of(connection);
        let stats = add_up(&history, None, 0, &TimeZone::UTC, &|_| true).unwrap();
        assert_eq!(stats.total.waiting_ms, 90_000 + 480_000 + 30_000);
        assert_eq!(stats.total.sessions, 1, "doctor's own event is none");
    }

    #[test]
    fn sums_are_those_of_their_day_project_and_model() {
        let (_folder, history) = database();
        let shown = |by, zone: &TimeZone, since| {
            let stats = add_up(&history, by, since, zone, &|_| true).unwrap();
            anstream::adapter::strip_str(&stats.table(&look(100))).to_string()
        };
        let utc = TimeZone::UTC;
        let later = TimeZone::fixed(jiff::tz::offset(3));
        let midnight = NOW / (24 * HOUR) * 24 * HOUR;
        let all = [
            shown(Some(GroupBy::Day), &utc, 0),
            shown(Some(GroupBy::Day), &later, 0),
            shown(Some(GroupBy::Project), &utc, 0),
            shown(Some(GroupBy::Model), &utc, 0),
            shown(None, &utc, midnight),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        DAY         SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
        2026-11-14         1      1      1       0       -  $1.00         1k   10
        2026-11-15         2      1      1       1     50m  $0.75        500    5
        all                2      2      2       1     50m  $1.75         1k   15

        DAY         SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
        2026-11-15         2      2      2       1     50m  $1.75         1k   15

        PROJECT  SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
        api             1      2      1       0     50m  $1.50         1k   15
        unknown         1      0      1       1       -  $0.25          0    0
        all             2      2      2       1     50m  $1.75         1k   15

        MODEL    SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
        opus            2      0      0       0       -  $1.25         1k   10
        sonnet          1      2      1       0     50m  $0.50        500    5
        unknown         1      0      1       1       -      -          0    0
        all             2      2      2       1     50m  $1.75         1k   15

        SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
               2      1      1       1       -  $0.75        500    5
        ");
    }
}
