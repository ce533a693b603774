//! The state of the view: the sessions, their order in the list, the selection, and the last events
//! of the selected session.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};

use becket_engine::session::PROCESS_GONE;
use becket_wire::effort::EffortBrief;
use becket_wire::log::{AnswerWord, RAN_DENIED};
use becket_wire::question::QuestionRow;
use becket_wire::rpc::EventRow;
use becket_wire::session::{Display, SessionRow};

use crate::event_line;
use crate::session::{AgentNode, agent_tree, sort_key, words};
use crate::tui::answer_box::{AnswerBox, OVER};
use crate::tui::input::TextField;
use crate::tui::theme::Tone;
use crate::ui::text::short_id;

#[derive(Debug, Default)]
pub struct Model {
    rows: Vec<SessionRow>,
    pub options: ListOptions,
    tree_rows: Vec<TreeRow>,
    /// False if rows or options have changed since the tree was built.
    tree_is_current: bool,
    pub totals: Totals,
    /// The key of the selected session. It may be absent for a moment while `/clear` replaces its
    /// session.
    selected: Option<String>,
    /// The index of the selection in the list, or its last index.
    selected_row: usize,
    /// The first visible row of the list when it was last drawn.
    pub top: usize,
    /// The number of rows that fit when the list was last drawn.
    pub page: usize,
    pub mode: Mode,
    pub focus: Focus,
    pub events: EventLog,
    /// True once the daemon has sent its sessions.
    pub has_sessions: bool,
    /// The reason why the daemon cannot be reached.
    pub connection_error: Option<String>,
    /// The problems that the daemon reports about itself.
    pub troubles: Vec<String>,
    /// A warning about tool calls that no guard saw.
    pub coverage_warning: Option<String>,
    /// The result of the last action.
    pub status_message: Option<StatusMessage>,
    /// The reason why no session is listed.
    pub empty_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    List,
    Events,
}

/// The meaning of keys at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Normal,
    Help,
    Filter(TextField),
    Name(Target, TextField),
    Line(Target, TextField),
    /// A prompt that is not available now, with the reason. It takes keys as the prompt would, so
    /// that text for the prompt runs no command.
    Refused(String),
    /// A question before Escape is sent to a session that waits: Escape would cancel the dialog.
    Interrupt(Target),
    /// A question before a session is ended. Its short id is the answer.
    End(Target, TextField),
    /// The question of a session, which the user answers here.
    Answer(Box<AnswerBox>),
}

/// The session that a prompt is about. After `/clear` the same key belongs to another session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    pub key: String,
    pub session_id: String,
    pub title: String,
}

impl Target {
    /// Returns the id that confirms the end of the session. A launch may have none yet.
    pub fn short_id(&self) -> Option<&str> {
        Some(short_id(&self.session_id)).filter(|id| !id.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusMessage {
    pub text: String,
    pub is_error: bool,
    /// The time at which the message disappears; set when it is first drawn.
    pub until: Option<i64>,
}

/// The time for which a message replaces the key hints, in milliseconds.
const STATUS_MESSAGE_MS: i64 = 8_000;
/// The time for which a killed session or a finished `claude -p` stays in the list, in milliseconds.
const ENDED_SESSION_MS: i64 = 10 * 60 * 1000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub counts: [usize; Display::ALL.len()],
    /// The start of the longest wait.
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
    /// Replaces the live sessions. Sessions that were killed stay.
    pub fn put_all(&mut self, rows: Vec<SessionRow>) {
        self.has_sessions = true;
        self.tree_is_current = false;
        let before = std::mem::take(&mut self.rows);
        rows.into_iter().for_each(|row| self.put(row));
        for row in before.into_iter().filter(|row| row.ended_at.is_some()) {
            if self.row(key(&row)).is_none() {
                self.put(row);
            }
        }
    }

    /// Adds or updates one session, or removes it if it has ended.
    pub fn put(&mut self, row: SessionRow) {
        self.tree_is_current = false;
        let place = self.place(key(&row));
        let ended = row.ended_at.is_some();
        let is_removed = ended && !stays(&row);
        match place {
            // After `/clear` the key belongs to the next session already.
            Some(place) if ended && self.rows[place].session_id != row.session_id => {}
            Some(place) if is_removed => self.remove(place, row.end_reason.as_deref()),
            Some(place) => self.rows[place] = row,
            None if is_removed => {}
            None => self.rows.push(row),
        }
    }

    /// Removes a message and killed sessions whose time is over.
    pub fn expire(&mut self, now: i64) {
        if let Some(message) = &mut self.status_message
            && now >= *message.until.get_or_insert(now + STATUS_MESSAGE_MS)
        {
            self.status_message = None;
        }
        while let Some(place) = self.rows.iter().position(|row| {
            row.ended_at
                .is_some_and(|end| now - end >= ENDED_SESSION_MS)
        }) {
            self.remove(place, None);
        }
    }

    fn remove(&mut self, place: usize, end_reason: Option<&str>) {
        self.tree_is_current = false;
        let removed = self.rows.swap_remove(place);
        self.options.folded.remove(key(&removed));
        // After `/clear` the next session gets this key.
        if self.selected.as_deref() == Some(key(&removed)) && end_reason != Some("clear") {
            self.selected = None;
        }
    }

    /// Marks the tree as outdated, because the list options have changed.
    pub fn invalidate_tree(&mut self) {
        self.tree_is_current = false;
    }

    /// Updates the tree and the selection if rows or options have changed.
    pub fn settle(&mut self) {
        if self.tree_is_current {
            return;
        }
        self.tree_is_current = true;
        self.tree_rows = build_tree(&self.rows, &self.options);
        self.end_answered_question();
        self.totals = Totals::of(&self.rows);
        let wanted = self.selected.as_ref().and_then(|key| self.place(key));
        let found = wanted.and_then(|place| self.find(place));
        self.selected_row = found.unwrap_or_else(|| self.nearest(self.selected_row));
        if self.selected.is_none() {
            self.keep_selection();
        }
    }

    /// Takes the keys of the answer box away once its question is over.
    fn end_answered_question(&mut self) {
        let Mode::Answer(open) = &mut self.mode else {
            return;
        };
        let target = &open.target;
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.session_id == target.session_id && key(row) == target.key);
        let asks = row.is_some_and(|row| match open.question_id {
            None => words::question(row).is_some(),
            id => row.question == id,
        });
        if !asks {
            open.over.get_or_insert_with(|| OVER.to_owned());
        }
    }

    /// Puts a question into the answer box, if the box still waits for it.
    pub fn load_question(
        &mut self,
        session: &str,
        id: Option<i64>,
        found: Result<Option<Box<QuestionRow>>, String>,
    ) {
        if let Mode::Answer(open) = &mut self.mode
            && (&*open.target.session_id, open.question_id) == (session, id)
            && open.question.is_none()
        {
            open.load(found.map(|row| row.map(|row| *row)));
        }
    }

    fn find(&self, place: usize) -> Option<usize> {
        self.tree_rows
            .iter()
            .position(|tree_row| *tree_row == TreeRow::Session(place))
    }

    /// Returns the first session at or after an index of the list, else the last one before it.
    fn nearest(&self, at: usize) -> usize {
        let at = at.min(self.tree_rows.len());
        if let Some(by) = self.tree_rows[at..].iter().position(TreeRow::is_session) {
            return at + by;
        }
        let before = self.tree_rows[..at].iter().rposition(TreeRow::is_session);
        before.unwrap_or(0)
    }

    pub fn rows(&self) -> &[SessionRow] {
        &self.rows
    }

    pub fn row(&self, key: &str) -> Option<&SessionRow> {
        self.place(key).map(|place| &self.rows[place])
    }

    fn place(&self, wanted: &str) -> Option<usize> {
        self.rows.iter().position(|row| key(row) == wanted)
    }

    pub fn tree_rows(&self) -> &[TreeRow] {
        &self.tree_rows
    }

    /// Returns the index of the selection in the list.
    pub fn selected_row(&self) -> usize {
        self.selected_row
    }

    /// Returns the selected session.
    pub fn current(&self) -> Option<&SessionRow> {
        let place = self.tree_rows.get(self.selected_row)?.session()?;
        self.rows.get(place)
    }

    /// Selects the session that a row of the list belongs to.
    pub fn select_at(&mut self, at: usize) {
        let at = match self.tree_rows.get(at) {
            Some(TreeRow::Group(_)) => self.nearest(at),
            Some(tree_row) => tree_row
                .session()
                .and_then(|place| self.find(place))
                .unwrap_or(at),
            None => return,
        };
        self.selected_row = at;
        self.keep_selection();
    }

    /// Selects a session by its id, if it is in the list.
    pub fn select(&mut self, session_id: &str) {
        let row = self.rows.iter().find(|row| row.session_id == session_id);
        self.selected = row.map(|row| key(row).to_owned());
        self.tree_is_current = false;
    }

    /// Moves the selection by `by` sessions, or to the end of the list.
    pub fn step(&mut self, by: isize) {
        let sessions: Vec<usize> = (0..self.tree_rows.len())
            .filter(|&at| self.tree_rows[at].is_session())
            .collect();
        let Some(last) = sessions.len().checked_sub(1) else {
            return;
        };
        let here = sessions.partition_point(|&at| at < self.selected_row);
        self.select_at(sessions[here.saturating_add_signed(by).min(last)]);
    }

    /// Keeps the session at the selected row selected when the list changes, as after a search.
    pub fn keep_selection(&mut self) {
        if let Some(row) = self.current() {
            self.selected = Some(key(row).to_owned());
        }
    }

    /// Selects the next session that needs the user, and starts again after the last one. Sessions
    /// that the user has seen come after the others. Returns false if no session needs the user.
    pub fn next_waiting(&mut self) -> bool {
        let mut ring = Vec::new();
        for (at, tree_row) in self.tree_rows.iter().enumerate() {
            if let TreeRow::Session(place) = tree_row
                && self.rows[*place].display <= Display::Checked
            {
                ring.push((self.rows[*place].display == Display::Checked, at));
            }
        }
        ring.sort_unstable();
        let here = ring.iter().position(|(_, at)| *at == self.selected_row);
        let next = here.map_or(0, |here| (here + 1) % ring.len());
        let Some((_, at)) = ring.get(next).copied() else {
            return false;
        };
        self.select_at(at);
        true
    }

    pub fn show_message(&mut self, text: impl Into<String>, is_error: bool) {
        self.status_message = Some(StatusMessage {
            text: text.into(),
            is_error,
            until: None,
        });
    }
}

/// Returns the title of a session, else its last prompt, else its short id.
pub fn title(row: &SessionRow) -> &str {
    let named = [&row.title, &row.last_prompt]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    named.map_or_else(|| short_id(&row.session_id), String::as_str)
}

/// One row of the list. Numbers are indexes of the model's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeRow {
    Group(Option<String>),
    Session(usize),
    Agent { session: usize, agent: AgentNode },
}

impl TreeRow {
    fn is_session(&self) -> bool {
        matches!(self, Self::Session(_))
    }

    pub fn session(&self) -> Option<usize> {
        match self {
            Self::Group(_) => None,
            Self::Session(session) | Self::Agent { session, .. } => Some(*session),
        }
    }
}

/// The options of the list that the user can change.
#[derive(Debug, Default)]
pub struct ListOptions {
    pub grouped: bool,
    /// The words that a session must contain to be listed.
    pub filter: String,
    /// The keys of the sessions whose subagents are hidden.
    pub folded: HashSet<String>,
}

/// Returns the key that a session keeps in the list.
pub fn key(row: &SessionRow) -> &str {
    if row.line.is_empty() {
        &row.session_id
    } else {
        &row.line
    }
}

/// Returns true if the session did not end by a command of the user. Claude Code says `other` when
/// a signal ends it, and when a `claude -p` is done.
fn stays(row: &SessionRow) -> bool {
    matches!(row.end_reason.as_deref(), Some(PROCESS_GONE | "other"))
}

pub fn build_tree(rows: &[SessionRow], options: &ListOptions) -> Vec<TreeRow> {
    let words: Vec<String> = options
        .filter
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    let mut order: Vec<usize> = (0..rows.len())
        .filter(|&place| words.is_empty() || fits(&rows[place], &words))
        .collect();
    order.sort_unstable_by(|&a, &b| sort_key(&rows[a]).cmp(&sort_key(&rows[b])));
    if options.grouped {
        // Groups are in the order of their most urgent session.
        let mut ranks: HashMap<Option<&str>, usize> = HashMap::new();
        for &place in &order {
            let next = ranks.len();
            ranks.entry(project(&rows[place])).or_insert(next);
        }
        order.sort_by_cached_key(|&place| ranks[&project(&rows[place])]);
    }
    let mut tree_rows = Vec::with_capacity(order.len() * 2);
    let mut group = None;
    for place in order {
        let project = project(&rows[place]);
        if options.grouped && group.replace(project) != Some(project) {
            tree_rows.push(TreeRow::Group(project.map(str::to_owned)));
        }
        push_session(rows, place, options, &mut tree_rows);
    }
    tree_rows
}

pub fn project(row: &SessionRow) -> Option<&str> {
    row.project.as_deref().or(row.cwd.as_deref())
}

/// Adds a session and the live agents below it.
fn push_session(
    rows: &[SessionRow],
    place: usize,
    options: &ListOptions,
    tree_rows: &mut Vec<TreeRow>,
) {
    tree_rows.push(TreeRow::Session(place));
    let row = &rows[place];
    if row.agents.is_empty() || options.folded.contains(key(row)) {
        return;
    }
    // Sorted by their start: a tree that reorders itself cannot be read.
    let tree = agent_tree(&row.agents, |agent| {
        (agent.started_at, agent.status.reason().is_none())
    });
    tree_rows.extend(tree.into_iter().map(|agent| TreeRow::Agent {
        session: place,
        agent,
    }));
}

fn fits(row: &SessionRow, words: &[String]) -> bool {
    let effort = row.effort.as_ref().map(EffortBrief::label);
    let known = [
        Some(words::state(row)),
        Some(row.display.word()),
        Some(&row.session_id),
        row.title.as_deref(),
        row.project.as_deref(),
        row.cwd.as_deref(),
        row.model.as_deref(),
        row.last_prompt.as_deref(),
        row.waiting_reason.as_deref(),
        row.doing.as_deref(),
        row.error.as_deref(),
        row.tmux_pane.as_deref(),
        row.status.detail(),
        effort.as_deref(),
    ];
    let agents = row.agents.iter().map(|agent| agent.agent_type.as_deref());
    let text: Vec<&str> = known.into_iter().chain(agents).flatten().collect();
    let text = text.join(" ").to_lowercase();
    words.iter().all(|word| text.contains(word))
}

/// The number of events that are kept. The daemon is asked for fewer.
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
            tone = match decision.answer {
                AnswerWord::Deny | AnswerWord::Block => Tone::Error,
                _ => Tone::Attention,
            };
            about = format!("{}: {about}", event_line::decision(decision));
        }
        // The fault of a missing field would hide the event itself; `becket events` shows it.
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
pub struct EventLog {
    /// The session that the events belong to.
    pub session: Option<String>,
    pub lines: VecDeque<EventLine>,
    /// The number of newest events that are scrolled out of sight.
    pub scrolled_back: usize,
}

impl EventLog {
    /// Switches to the events of another session.
    pub fn show_session(&mut self, session: Option<String>) {
        if self.session != session {
            *self = Self {
                session,
                ..Self::default()
            };
        }
    }

    /// Inserts an event in order of time. A scrolled view stays where it is while newer events come.
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
        if self.scrolled_back > 0 {
            self.scrolled_back += 1;
        }
        self.lines.insert(place, line);
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
        self.scroll(0);
    }

    /// Scrolls back in time by `by` events, or forward if it is negative.
    pub fn scroll(&mut self, by: isize) {
        let most = self.lines.len().saturating_sub(1);
        self.scrolled_back = self.scrolled_back.saturating_add_signed(by).min(most);
    }
}
