//! What the view knows: sessions and their order in the list, what is selected, the selected
//! session's last events.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};

use becket_engine::session::PROCESS_GONE;
use becket_wire::effort::EffortBrief;
use becket_wire::log::RAN_DENIED;
use becket_wire::rpc::EventRow;
use becket_wire::session::{AgentRow, Display, SessionRow};

use crate::event_line;
use crate::session::{urgency, words};
use crate::tui::input::Field;
use crate::tui::look::Tone;

#[derive(Debug, Default)]
pub struct Model {
    rows: Vec<SessionRow>,
    places: HashMap<String, usize>,
    pub wish: Wish,
    twigs: Vec<Twig>,
    grown: bool,
    pub totals: Totals,
    /// The line that is selected. It may be gone for a moment while `/clear` replaces its session.
    selected: Option<String>,
    /// Where the selection stands, or stood, in the list.
    at: usize,
    /// The first row of the list in sight, and how many fit: as last drawn.
    pub top: usize,
    pub page: usize,
    pub mode: Mode,
    pub focus: Focus,
    pub events: Events,
    /// Whether the daemon's word has come at all.
    pub heard: bool,
    /// Why the daemon cannot be heard.
    pub lost: Option<String>,
    /// What the daemon itself says is wrong.
    pub troubles: Vec<String>,
    /// Tool calls that no guard saw, in words.
    pub unseen: Option<String>,
    /// What the last deed gave.
    pub said: Option<Said>,
    /// The reason why no session is listed.
    pub why_none: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    List,
    Events,
}

/// What keys mean at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Normal,
    Help,
    Filter(Field),
    Name(Target, Field),
    Line(Target, Field),
    /// A prompt that cannot be had now, and why. It takes keys as the prompt would have.
    Refused(String),
    /// Asks before Escape goes to a session that waits: it would cancel the dialog.
    Interrupt(Target),
    /// Asks before a session is ended: for its short id.
    End(Target, Field),
}

impl Mode {
    /// Returns true if letters are commands.
    pub fn takes_commands(&self) -> bool {
        matches!(self, Self::Normal | Self::Help)
    }
}

/// The session that something was begun for, which is another one after `/clear`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub key: String,
    pub session_id: String,
    pub title: String,
}

impl Target {
    /// The id that confirms its end. A launch may have none yet.
    pub fn short_id(&self) -> Option<&str> {
        Some(short_id(&self.session_id)).filter(|id| !id.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub text: String,
    pub bad: bool,
    /// When it goes away by itself; set when it is first drawn.
    pub until: Option<i64>,
}

/// How long a message stands where the keys are told, in milliseconds.
const SAID_STAYS: i64 = 8_000;
/// A session that was killed, or a finished `claude -p`, stays in the list this long.
const ENDED_STAYS: i64 = 10 * 60 * 1000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub counts: [usize; Display::ALL.len()],
    /// Since when the one waits that has waited longest.
    pub waits_since: Option<i64>,
    pub tokens: u64,
    pub cost: f64,
}

impl Totals {
    fn of(rows: &[SessionRow]) -> Self {
        let mut totals = Self::default();
        for row in rows.iter().filter(|row| row.ended_at.is_none()) {
            totals.counts[row.display as usize] += 1;
            totals.tokens += row.figures.context_tokens.unwrap_or(0);
            totals.cost += row
                .figures
                .cost_usd
                .filter(|cost| cost.is_finite())
                .unwrap_or(0.0);
            if row.display == Display::Attention {
                let since = totals.waits_since.unwrap_or(i64::MAX);
                totals.waits_since = Some(since.min(row.display_since));
            }
        }
        totals
    }

    pub fn count(&self, display: Display) -> usize {
        self.counts[display as usize]
    }
}

impl Model {
    pub fn new() -> Self {
        Self::default()
    }

    /// All live sessions as they are now. Those that were killed stay.
    pub fn put_all(&mut self, rows: Vec<SessionRow>) {
        self.heard = true;
        let before = std::mem::take(&mut self.rows);
        self.places.clear();
        rows.into_iter().for_each(|row| self.put(row));
        for row in before.into_iter().filter(|row| row.ended_at.is_some()) {
            if !self.places.contains_key(key(&row)) {
                self.put(row);
            }
        }
        self.grown = false;
    }

    /// One session that is new, has changed, or has ended.
    pub fn put(&mut self, row: SessionRow) {
        self.grown = false;
        let place = self.places.get(key(&row)).copied();
        let ended = row.ended_at.is_some();
        let goes = ended && !stays(&row);
        match place {
            // After `/clear` the line has gone on to its next session already.
            Some(place) if ended && self.rows[place].session_id != row.session_id => {}
            Some(place) if goes => self.remove(place, &row),
            Some(place) => self.rows[place] = row,
            None if goes => {}
            None => {
                self.places.insert(key(&row).to_owned(), self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// Takes away what has stood for long enough: a message, sessions that were killed.
    pub fn expire(&mut self, now: i64) {
        if let Some(said) = &mut self.said
            && now >= *said.until.get_or_insert(now + SAID_STAYS)
        {
            self.said = None;
        }
        let is_old = |row: &SessionRow| row.ended_at.is_some_and(|end| now - end >= ENDED_STAYS);
        while let Some(place) = self.rows.iter().position(is_old) {
            let row = self.rows[place].clone();
            self.remove(place, &row);
            self.grown = false;
        }
    }

    fn remove(&mut self, place: usize, ended: &SessionRow) {
        self.places.remove(key(ended));
        self.rows.swap_remove(place);
        if let Some(moved) = self.rows.get(place) {
            self.places.insert(key(moved).to_owned(), place);
        }
        self.wish.folded.remove(key(ended));
        let cleared = ended.end_reason.as_deref() == Some("clear");
        if self.selected.as_deref() == Some(key(ended)) && !cleared {
            self.selected = None;
        }
    }

    /// The wish has changed.
    pub fn regrow(&mut self) {
        self.grown = false;
    }

    /// Brings list and selection up to date.
    pub fn settle(&mut self) {
        if self.grown {
            return;
        }
        self.grown = true;
        self.twigs = grow(&self.rows, &self.wish);
        self.totals = Totals::of(&self.rows);
        let wanted = self.selected.as_ref().and_then(|key| self.places.get(key));
        let found = wanted.and_then(|&place| self.find(place));
        self.at = found.unwrap_or_else(|| self.nearest(self.at));
        if self.selected.is_none() {
            self.selected = self.current().map(|row| key(row).to_owned());
        }
    }

    fn find(&self, place: usize) -> Option<usize> {
        let is_it = |twig: &Twig| *twig == Twig::Session(place);
        self.twigs.iter().position(is_it)
    }

    /// The session at or after a place in the list, else the last one before it.
    fn nearest(&self, at: usize) -> usize {
        let is_session = |twig: &Twig| matches!(twig, Twig::Session(_));
        let at = at.min(self.twigs.len());
        let after = self.twigs[at..].iter().position(is_session);
        let before = || self.twigs[..at].iter().rposition(is_session);
        after.map(|by| at + by).or_else(before).unwrap_or(0)
    }

    pub fn rows(&self) -> &[SessionRow] {
        &self.rows
    }

    pub fn row(&self, key: &str) -> Option<&SessionRow> {
        self.places.get(key).map(|&place| &self.rows[place])
    }

    pub fn twigs(&self) -> &[Twig] {
        &self.twigs
    }

    /// Where the selection stands in the list.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The selected session.
    pub fn current(&self) -> Option<&SessionRow> {
        let place = self.twigs.get(self.at)?.session()?;
        self.rows.get(place)
    }

    /// Selects the session that a row of the list belongs to.
    pub fn select_at(&mut self, at: usize) {
        let at = match self.twigs.get(at) {
            Some(Twig::Group(_)) => self.nearest(at),
            Some(twig) => twig
                .session()
                .and_then(|place| self.find(place))
                .unwrap_or(at),
            None => return,
        };
        self.at = at;
        self.selected = self.current().map(|row| key(row).to_owned());
    }

    /// Selects a session by its id, if it is in the list.
    pub fn select(&mut self, session_id: &str) {
        let is_it = |twig: &Twig| match twig {
            Twig::Session(place) => self.rows[*place].session_id == session_id,
            _ => false,
        };
        if let Some(at) = self.twigs.iter().position(is_it) {
            self.select_at(at);
        }
    }

    /// Moves the selection by so many sessions, as far as there are any.
    pub fn step(&mut self, by: isize) {
        let sessions: Vec<usize> = (0..self.twigs.len())
            .filter(|&at| matches!(self.twigs[at], Twig::Session(_)))
            .collect();
        let Some(last) = sessions.len().checked_sub(1) else {
            return;
        };
        let here = sessions.partition_point(|&at| at < self.at);
        self.select_at(sessions[here.saturating_add_signed(by).min(last)]);
    }

    /// What a search found stays selected when all are shown again.
    pub fn keep_found(&mut self) {
        if let Some(row) = self.current() {
            self.selected = Some(key(row).to_owned());
        }
    }

    /// Selects the next session that needs the person, and around: those that were looked at come
    /// after the others. False if none does.
    pub fn next_waiting(&mut self) -> bool {
        let shown = |at: usize| match self.twigs[at] {
            Twig::Session(place) => Some(self.rows[place].display),
            _ => None,
        };
        let all = 0..self.twigs.len();
        let new = |at: &usize| shown(*at).is_some_and(|display| display <= Display::Attention);
        let seen = |at: &usize| shown(*at) == Some(Display::Checked);
        let ring: Vec<usize> = all.clone().filter(new).chain(all.filter(seen)).collect();
        let here = ring.iter().position(|at| *at == self.at);
        let next = here.map_or(0, |here| (here + 1) % ring.len());
        let Some(at) = ring.get(next).copied() else {
            return false;
        };
        self.select_at(at);
        true
    }

    pub fn say(&mut self, text: impl Into<String>, bad: bool) {
        self.said = Some(Said {
            text: text.into(),
            bad,
            until: None,
        });
    }
}

/// What a session is called: its title, else what it was asked last, else where it is.
pub fn title(row: &SessionRow) -> &str {
    let named = [&row.title, &row.last_prompt]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    named.map_or_else(|| short_id(&row.session_id), String::as_str)
}

pub fn short_id(id: &str) -> &str {
    let end = id.char_indices().nth(8);
    end.map_or(id, |(at, _)| &id[..at])
}

/// One row of the list. Numbers are places in the model's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Twig {
    Group(Option<String>),
    Session(usize),
    Agent {
        session: usize,
        agent: usize,
        /// How deep below its session.
        depth: usize,
        /// No sibling follows.
        last: bool,
    },
}

impl Twig {
    pub fn session(&self) -> Option<usize> {
        match self {
            Self::Group(_) => None,
            Self::Session(session) | Self::Agent { session, .. } => Some(*session),
        }
    }
}

/// How the list is wanted.
#[derive(Debug, Default)]
pub struct Wish {
    pub grouped: bool,
    /// Words that all have to occur.
    pub filter: String,
    /// The lines whose subagents are not shown.
    pub folded: HashSet<String>,
}

/// The key that a session keeps in the list.
pub fn key(row: &SessionRow) -> &str {
    if row.line.is_empty() {
        &row.session_id
    } else {
        &row.line
    }
}

/// Returns true if the session did not end by a command of the person. Claude Code says `other` when
/// a signal ends it, and when a `claude -p` is done.
fn stays(row: &SessionRow) -> bool {
    matches!(row.end_reason.as_deref(), Some(PROCESS_GONE | "other"))
}

pub fn grow(rows: &[SessionRow], wish: &Wish) -> Vec<Twig> {
    let words: Vec<String> = wish
        .filter
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    let mut order: Vec<usize> = (0..rows.len())
        .filter(|&place| words.is_empty() || fits(&rows[place], &words))
        .collect();
    order.sort_unstable_by(|&a, &b| urgency(&rows[a]).cmp(&urgency(&rows[b])));
    let mut twigs = Vec::with_capacity(order.len() * 2);
    if !wish.grouped {
        for place in order {
            branch(rows, place, wish, &mut twigs);
        }
        return twigs;
    }
    // Groups stand in the order of their most urgent session, which is the first one met.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_project: HashMap<Option<&str>, usize> = HashMap::new();
    for place in order {
        let group = *by_project.entry(project(&rows[place])).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(place);
    }
    for group in groups {
        twigs.push(Twig::Group(project(&rows[group[0]]).map(str::to_owned)));
        for place in group {
            branch(rows, place, wish, &mut twigs);
        }
    }
    twigs
}

pub fn project(row: &SessionRow) -> Option<&str> {
    row.project.as_deref().or(row.cwd.as_deref())
}

/// A session and the live agents below it.
fn branch(rows: &[SessionRow], place: usize, wish: &Wish, twigs: &mut Vec<Twig>) {
    twigs.push(Twig::Session(place));
    let row = &rows[place];
    if row.agents.is_empty() || wish.folded.contains(key(row)) {
        return;
    }
    let mut known: HashSet<&str> = HashSet::new();
    let live: Vec<usize> = (0..row.agents.len())
        .filter(|&at| row.agents[at].ended_at.is_none())
        .filter(|&at| known.insert(&row.agents[at].agent_id))
        .collect();
    let parent_of = |at: usize| {
        let parent = row.agents[at].parent.as_deref();
        parent.filter(|parent| known.contains(parent))
    };
    let mut below: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for &at in &live {
        below.entry(parent_of(at)).or_default().push(at);
    }
    for children in below.values_mut() {
        children.sort_by_key(|&at| agent_urgency(&row.agents[at]));
    }
    let mut left = below.remove(&None).unwrap_or_default();
    left.reverse();
    let mut stack: Vec<(usize, usize, bool)> = Vec::new();
    let last = left.first().copied();
    stack.extend(left.iter().map(|&at| (at, 0, Some(at) == last)));
    while let Some((agent, depth, last)) = stack.pop() {
        twigs.push(Twig::Agent {
            session: place,
            agent,
            depth,
            last,
        });
        // Taken out, so that parents in a circle end.
        let id = row.agents[agent].agent_id.as_str();
        let children = below.remove(&Some(id)).unwrap_or_default();
        let end = children.last().copied();
        let children = children.iter().rev();
        stack.extend(children.map(|&at| (at, depth + 1, Some(at) == end)));
    }
}

/// Subagents stand in the order of their start: a tree that reorders itself cannot be read.
fn agent_urgency(agent: &AgentRow) -> (i64, Reverse<bool>) {
    (agent.started_at, Reverse(agent.status.reason().is_some()))
}

fn fits(row: &SessionRow, words: &[String]) -> bool {
    let mut text = [words::state(row), row.display.word(), &row.session_id].join(" ");
    let named = [
        &row.title,
        &row.project,
        &row.cwd,
        &row.model,
        &row.last_prompt,
        &row.waiting_reason,
        &row.doing,
        &row.error,
        &row.tmux_pane,
        &row.effort.as_ref().map(EffortBrief::label),
    ];
    let agents = row
        .agents
        .iter()
        .filter_map(|agent| agent.agent_type.as_ref());
    for part in named.into_iter().flatten().chain(agents) {
        text.push(' ');
        text.push_str(part);
    }
    if let Some(detail) = row.status.detail() {
        text.push(' ');
        text.push_str(detail);
    }
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word))
}

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
        let (mut tone, mut about) = (tone(&event), event_line::about(row));
        if let Some(decision) = &row.decision {
            tone = match decision.answer.as_str() {
                "deny" | "block" => Tone::Error,
                _ => Tone::Attention,
            };
            about = format!("{}: {about}", event_line::decision(decision));
        }
        // A field that is missing would hide what the event is about; `becket events` tells of it.
        if let Some(fault) = row.fault.as_ref().filter(|_| row.session_id.is_none()) {
            tone = Tone::Error;
            about = fault.clone();
        }
        if row.fault.as_deref() == Some(RAN_DENIED) {
            tone = Tone::Error;
            about = format!("{RAN_DENIED}: {}", event_line::about(row));
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
