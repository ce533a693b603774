//! Adds up the use of sessions: turns, tools, waiting, cost, tokens, by day, project or model.

#[cfg(test)]
pub mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use becket_daemon::store::{EventBrief, SessionFacts};
use becket_engine::status::asks_user;
use becket_wire::Head;
use becket_wire::log::{AnswerWord, CANARY};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

use crate::session::history::{History, begins_turn, is_denial, spent};
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    Day(Date),
    Project(Option<String>),
    Model(Option<String>),
}

/// The use of one group of sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageSum {
    /// The numbers of the sessions.
    #[serde(serialize_with = "serialize_count")]
    sessions: HashSet<usize>,
    pub turns: u64,
    pub tools: u64,
    pub denials: u64,
    pub waiting_ms: i64,
    /// None if the cost is not known.
    pub cost_usd: Option<f64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

fn serialize_count<S: Serializer>(
    sessions: &HashSet<usize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    sessions.len().serialize(serializer)
}

/// The sums of all groups, and their total.
#[derive(Debug)]
pub struct Stats {
    by: GroupBy,
    sums: Vec<(GroupKey, UsageSum)>,
    total: UsageSum,
}

/// Adds up events and figures.
struct StatsBuilder<'h> {
    by: GroupBy,
    zone: &'h TimeZone,
    sessions: HashMap<String, SessionState>,
    sums: BTreeMap<GroupKey, UsageSum>,
    total: UsageSum,
}

struct SessionState {
    number: usize,
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
    by: GroupBy,
    since: i64,
    zone: &TimeZone,
    wanted: &dyn Fn(Option<&SessionFacts>) -> bool,
) -> Result<Stats> {
    let mut builder = StatsBuilder {
        by,
        zone,
        sessions: HashMap::new(),
        sums: BTreeMap::new(),
        total: UsageSum::default(),
    };
    history.events(None, since, &mut |event| {
        if let Some(session) = event.session
            && event.event != CANARY
            && wanted(history.facts(session))
        {
            builder.event(history, session, &event);
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
                    sum.sessions.extend(number);
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

impl StatsBuilder<'_> {
    fn event(&mut self, history: &History, session: &str, event: &EventBrief<'_>) {
        let count = self.sessions.len();
        let known = self.sessions.entry(session.to_owned());
        let known = known.or_insert_with(|| SessionState {
            number: count,
            asked: Vec::new(),
        });
        let number = known.number;
        // An allowed call ran between the permission and this event.
        let waited = match known.waited(event) {
            0 => 0,
            waited => (waited - history.ran_ms(event)).max(0),
        };
        let facts = history.facts(session);
        let model = facts.and_then(|facts| facts.model.as_deref());
        let turn = u64::from(begins_turn(event));
        self.add(self.key(facts, model, event.at), |sum| {
            sum.sessions.insert(number);
            sum.turns += turn;
            sum.tools += u64::from(event.event == "PreToolUse");
            sum.denials += u64::from(is_denial(event));
            sum.waiting_ms += waited;
        });
    }

    fn add(&mut self, key: GroupKey, add: impl Fn(&mut UsageSum)) {
        add(&mut self.total);
        add(self.sums.entry(key).or_default());
    }

    fn key(&self, facts: Option<&SessionFacts>, model: Option<&str>, at: i64) -> GroupKey {
        match self.by {
            GroupBy::Day => {
                let moment = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
                GroupKey::Day(moment.to_zoned(self.zone.clone()).date())
            }
            GroupBy::Project => GroupKey::Project(facts.and_then(|facts| facts.project.clone())),
            GroupBy::Model => GroupKey::Model(model.map(str::to_owned)),
        }
    }

    fn finish(self) -> Stats {
        let mut sums: Vec<(GroupKey, UsageSum)> = self.sums.into_iter().collect();
        if self.by != GroupBy::Day {
            sums.sort_by(|(_, a), (_, b)| {
                let (a_cost, b_cost) = (a.cost_usd.unwrap_or(0.0), b.cost_usd.unwrap_or(0.0));
                b_cost.total_cmp(&a_cost).then(b.turns.cmp(&a.turns))
            });
        }
        Stats {
            by: self.by,
            sums,
            total: self.total,
        }
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

impl SessionState {
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

const COLUMNS: [Column; 9] = [
    Column::left("", 0),
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

    /// Formats a row for each group, and one for the total of several groups.
    pub fn table(&self, look: &Look) -> String {
        let mut columns = COLUMNS;
        columns[0] = match self.by {
            GroupBy::Day => Column::left("DAY", 0),
            GroupBy::Project => Column::left("PROJECT", 0).cut_to(16),
            GroupBy::Model => Column::left("MODEL", 0).cut_to(16),
        };
        let short = words::projects(self.sums.iter().filter_map(|(key, _)| match key {
            GroupKey::Project(project) => project.as_deref(),
            _ => None,
        }));
        let rows = self.sums.iter().map(|(key, sum)| {
            let name = match key {
                GroupKey::Day(day) => Cell::plain(day.to_string()),
                GroupKey::Project(Some(path)) => Cell::new(&short[&**path], BOLD),
                GroupKey::Model(Some(name)) => Cell::new(name, BOLD),
                GroupKey::Project(None) | GroupKey::Model(None) => Cell::new("unknown", DIM),
            };
            cells(name, sum)
        });
        let mut rows: Vec<_> = rows.collect();
        if rows.len() > 1 {
            rows.push(cells(Cell::new("all", DIM), &self.total));
        }
        grid(columns, &rows, look)
    }

    /// Returns the rows as JSON, without the total.
    pub fn json(&self) -> Vec<JsonUsageSum<'_>> {
        self.sums.iter().map(JsonUsageSum::from).collect()
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

impl<'a> From<&'a (GroupKey, UsageSum)> for JsonUsageSum<'a> {
    fn from((key, sum): &'a (GroupKey, UsageSum)) -> Self {
        let (mut day, mut project, mut model) = (None, None, None);
        match key {
            GroupKey::Day(date) => day = Some(date.to_string()),
            GroupKey::Project(path) => project = path.as_deref(),
            GroupKey::Model(name) => model = name.as_deref(),
        }
        Self {
            day,
            project,
            model,
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
        Cell::plain(sum.sessions.len().to_string()),
        Cell::plain(sum.turns.to_string()),
        Cell::plain(sum.tools.to_string()),
        Cell::plain(sum.denials.to_string()),
        Cell::plain(waited),
        Cell::plain(cost),
        Cell::plain(text::tokens(sum.input_tokens)),
        Cell::plain(text::tokens(sum.output_tokens)),
    ]
}
