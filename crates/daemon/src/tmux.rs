//! Pushes the states of sessions into the tmux servers that they run in, so that no status line has to poll: the
//! option `@becket` of a server, and `@becket_state`, `@becket_effort` and the colours of its panes.

mod server;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use becket_wire::effort::EffortBrief;
use becket_wire::session::{Display, SessionRow};
use becket_wire::text::is_hidden;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub use server::{TmuxCommand, TmuxError, TmuxServer, is_pane, tmux_command};

use crate::counters::Counters;
use crate::lifecycle::now_ms;

/// The time that a change waits for others, to be pushed with them.
const TOGETHER: Duration = Duration::from_millis(200);
/// The pause after a failed call to a server.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The time between updates of the text while a session waits: the text has the waiting time.
const WAIT_TICK: Duration = Duration::from_secs(10);
/// The number of calls at once. The blocking pool has other work too.
const MAX_CALLS: usize = 2;
const MAX_SERVERS: usize = 32;
const MAX_SESSIONS: usize = 10_000;

/// The server option that is `on` if its panes are coloured. The server keeps it, so that the next daemon finds
/// it.
const PAINT: &str = "@becket_paint";
const TEXT: &str = "@becket";
const STATE: &str = "@becket_state";
const EFFORT: &str = "@becket_effort";
const STYLES: [&str; 2] = ["window-style", "window-active-style"];

/// A request to the task that pushes into tmux.
#[derive(Debug)]
pub enum TmuxRequest {
    /// Replace all sessions by these.
    All(Vec<SessionRow>),
    /// Update a session that is new, has changed or has ended.
    Session(Arc<SessionRow>),
    /// Turn the colours of this server's panes on or off.
    Paint {
        tmux_socket: String,
        on: bool,
        done: oneshot::Sender<Result<(), TmuxError>>,
    },
}

/// Handles requests until the channel closes.
pub async fn push(mut requests: mpsc::Receiver<TmuxRequest>, counters: Arc<Counters>) {
    let mut pusher = Pusher::default();
    let mut calls: JoinSet<PushResult> = JoinSet::new();
    loop {
        let due = pusher.next_due().filter(|_| calls.len() < MAX_CALLS);
        tokio::select! {
            request = requests.recv() => match request {
                Some(TmuxRequest::Paint { tmux_socket, on, done }) => {
                    let wanted = pusher.wanted_display(&tmux_socket);
                    pusher.add_server(&tmux_socket);
                    calls.spawn_blocking(move || {
                        let result = push_display(tmux_socket, wanted, Some(on));
                        drop(done.send(result.outcome.clone()));
                        result
                    });
                }
                Some(TmuxRequest::All(rows)) => {
                    pusher.sessions.clear();
                    rows.into_iter().for_each(|row| pusher.update_session(Arc::new(row)));
                    pusher.schedule_all();
                }
                Some(TmuxRequest::Session(row)) => {
                    pusher.update_session(row);
                    pusher.schedule_all();
                }
                None => return,
            },
            Some(result) = calls.join_next() => {
                if let Ok(result) = result {
                    let failed = u64::from(result.outcome.is_err());
                    counters.count(|counts| counts.tmux_failed += failed);
                    pusher.finish_call(result);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                while calls.len() < MAX_CALLS && let Some((socket, wanted)) = pusher.next_call() {
                    calls.spawn_blocking(move || push_display(socket, wanted, None));
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Pusher {
    sessions: HashMap<String, Arc<SessionRow>>,
    servers: BTreeMap<String, ServerState>,
}

/// The state of one server.
#[derive(Debug, Default)]
struct ServerState {
    /// The time of the next update.
    due: Option<Instant>,
    busy: bool,
    /// True if the last call failed: then no change makes the next one earlier.
    failed: bool,
    /// The display that it has, if the last call succeeded.
    pushed: Option<ServerDisplay>,
}

/// The texts and states that a server should show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ServerDisplay {
    text: String,
    panes: BTreeMap<String, Display>,
    /// The effort of the session in each pane.
    efforts: BTreeMap<String, String>,
}

impl ServerState {
    fn is_due(&self, now: Instant) -> bool {
        !self.busy && self.due.is_some_and(|due| due <= now)
    }
}

#[derive(Debug)]
struct PushResult {
    socket: String,
    wanted: ServerDisplay,
    outcome: Result<(), TmuxError>,
}

impl Pusher {
    fn update_session(&mut self, row: Arc<SessionRow>) {
        if let Some(socket) = row.tmux_socket.clone() {
            self.add_server(&socket);
        }
        if !is_live(&row) {
            self.sessions.remove(&row.session_id);
        } else if self.sessions.len() < MAX_SESSIONS || self.sessions.contains_key(&row.session_id)
        {
            self.sessions.insert(row.session_id.clone(), row);
        }
    }

    fn add_server(&mut self, socket: &str) {
        if !self.servers.contains_key(socket) && self.servers.len() < MAX_SERVERS {
            self.servers
                .insert(socket.to_owned(), ServerState::default());
        }
    }

    /// Schedules an update of every server: each one shows the counts of all sessions.
    fn schedule_all(&mut self) {
        let then = Instant::now() + TOGETHER;
        for state in self.servers.values_mut().filter(|state| !state.failed) {
            state.due = Some(state.due.map_or(then, |due| due.min(then)));
        }
    }

    fn tally(&self) -> Tally {
        Tally::from_rows(self.sessions.values().map(|row| &**row))
    }

    /// Returns the time of the next update.
    fn next_due(&self) -> Option<Instant> {
        let idle = self.servers.values().filter(|state| !state.busy);
        idle.filter_map(|state| state.due).min()
    }

    fn next_call(&mut self) -> Option<(String, ServerDisplay)> {
        let now = Instant::now();
        let tick = self.tally().waiting_since.map(|_| now + WAIT_TICK);
        loop {
            let mut servers = self.servers.iter();
            let socket = servers.find(|(_, state)| state.is_due(now))?.0.clone();
            let wanted = self.wanted_display(&socket);
            let state = self.servers.get_mut(&socket)?;
            state.due = tick;
            if state.pushed.as_ref() != Some(&wanted) {
                state.busy = true;
                return Some((socket, wanted));
            }
        }
    }

    fn wanted_display(&self, socket: &str) -> ServerDisplay {
        let (mut panes, mut efforts) = (BTreeMap::new(), BTreeMap::new());
        for row in self.sessions.values() {
            let here = row.tmux_socket.as_deref() == Some(socket);
            let pane = row.tmux_pane.as_ref().filter(|pane| here && is_pane(pane));
            if let Some(pane) = pane {
                let shown = panes.entry(pane.clone()).or_insert(row.display);
                *shown = row.display.min(*shown);
                if let Some(effort) = &row.effort {
                    efforts.insert(pane.clone(), effort_text(effort));
                }
            }
        }
        ServerDisplay {
            text: self.tally().text(now_ms()),
            panes,
            efforts,
        }
    }

    fn finish_call(&mut self, result: PushResult) {
        let socket = result.socket;
        let mut sessions = self.sessions.values();
        let is_used = sessions.any(|row| row.tmux_socket.as_ref() == Some(&socket));
        let Some(state) = self.servers.get_mut(&socket) else {
            return;
        };
        state.busy = false;
        state.failed = result.outcome.is_err();
        match result.outcome {
            Ok(()) => state.pushed = Some(result.wanted),
            Err(_) if !is_used => drop(self.servers.remove(&socket)),
            Err(why) => {
                tracing::debug!(%socket, %why, "tmux");
                state.pushed = None;
                state.due = Some(Instant::now() + AFTER_FAILURE);
            }
        }
    }
}

/// Makes a server show this display. `paint` turns the colours on or off.
fn push_display(socket: String, wanted: ServerDisplay, paint: Option<bool>) -> PushResult {
    let server = TmuxServer::new(&socket);
    let mut outcome = try_push(&server, &wanted, paint);
    if let Err(TmuxError::Refused(_)) = outcome {
        // A pane may have closed between the two calls: a second attempt does not list it any more.
        outcome = try_push(&server, &wanted, paint);
    }
    PushResult {
        socket,
        wanted,
        outcome,
    }
}

fn try_push(
    server: &TmuxServer,
    wanted: &ServerDisplay,
    paint: Option<bool>,
) -> Result<(), TmuxError> {
    let shown = server.run(&[list_panes()])?;
    server.run(&commands(&shown, wanted, paint)).map(drop)
}

/// Removes becket's options and colours from a server.
pub fn clean(server: &TmuxServer) -> Result<(), TmuxError> {
    let shown = server.run(&[list_panes()])?;
    let mut commands = commands(&shown, &ServerDisplay::default(), Some(false));
    commands.push(tmux_command(&["set-option", "-gu", TEXT]));
    server.run(&commands).map(drop)
}

/// Formats an effort: `implement/plan ♥4 45%`. Leaves out `#` and hidden characters: a phase may be any text, and
/// tmux interprets `#` and tabs.
fn effort_text(effort: &EffortBrief) -> String {
    let used = effort.context_pct.map(|used| format!(" {used:.0}%"));
    let text = effort.short() + &used.unwrap_or_default();
    text.chars()
        .filter(|c| !is_hidden(*c) && *c != '#')
        .collect()
}

/// Returns the background of a pane for the state of its session.
fn style(display: Display) -> &'static str {
    match display {
        Display::Error => "bg=colour52",
        Display::Attention => "bg=colour58",
        Display::Working => "bg=colour17",
        Display::Checked => "bg=colour236",
        Display::Done => "bg=colour22",
    }
}

/// Makes the command that lists the panes and what they show, a line for each pane.
fn list_panes() -> TmuxCommand {
    let format = format!(
        "#{{pane_id}}\t#{{{PAINT}}}\t#{{{STATE}}}\t#{{{EFFORT}}}\t#{{{}}}",
        STYLES[0]
    );
    tmux_command(&["list-panes", "-a", "-F", &format])
}

/// Makes the commands that change the panes from the output of [`list_panes`] to the wanted display. The style
/// that a pane had before becket is not kept: without colours it gets the style of its window.
fn commands(shown: &str, wanted: &ServerDisplay, paint: Option<bool>) -> Vec<TmuxCommand> {
    let panes = shown.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('\t').take(5).collect();
        <[&str; 5]>::try_from(fields).ok()
    });
    let panes: Vec<_> = panes.filter(|[id, ..]| is_pane(id)).collect();
    let mut commands = vec![tmux_command(&["set-option", "-g", TEXT, &wanted.text])];
    match paint {
        Some(true) => commands.push(tmux_command(&["set-option", "-s", PAINT, "on"])),
        Some(false) => commands.push(tmux_command(&["set-option", "-su", PAINT])),
        None => {}
    }
    let paint = paint.unwrap_or_else(|| panes.iter().any(|[_, paint, ..]| *paint == "on"));
    for [id, _, state, effort, shown] in panes {
        let display = wanted.panes.get(id);
        let word = display.map(|display| display.label());
        if word.unwrap_or_default() != state {
            commands.push(set_pane_option(id, STATE, word));
        }
        let wanted_effort = wanted.efforts.get(id).map(String::as_str);
        if wanted_effort.unwrap_or_default() != effort {
            commands.push(set_pane_option(id, EFFORT, wanted_effort));
        }
        let colour = display.filter(|_| paint).map(|display| style(*display));
        let is_ours = Display::ALL.map(style).contains(&shown);
        if colour != Some(shown) && (is_ours || colour.is_some()) {
            commands.extend(STYLES.map(|option| set_pane_option(id, option, colour)));
        }
    }
    commands
}

/// Makes the command that sets or unsets an option of a pane.
fn set_pane_option(pane: &str, option: &str, value: Option<&str>) -> TmuxCommand {
    match value {
        Some(value) => tmux_command(&["set-option", "-p", "-t", pane, option, value]),
        None => tmux_command(&["set-option", "-pu", "-t", pane, option]),
    }
}

/// The numbers of live sessions by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub error: usize,
    pub attention: usize,
    pub checked: usize,
    pub working: usize,
    pub done: usize,
    /// The time since which the session that has waited longest needs attention.
    pub waiting_since: Option<i64>,
}

impl Tally {
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a SessionRow>) -> Self {
        let mut tally = Self::default();
        for row in rows.into_iter().filter(|row| is_live(row)) {
            match row.display {
                Display::Error => tally.error += 1,
                Display::Attention => {
                    tally.attention += 1;
                    let since = tally.waiting_since.unwrap_or(i64::MAX);
                    tally.waiting_since = Some(since.min(row.display_since));
                }
                Display::Working => tally.working += 1,
                Display::Checked => tally.checked += 1,
                Display::Done => tally.done += 1,
            }
        }
        tally
    }

    /// Formats the numbers, without zeros: `✗1 ◆2 4m ◇1 ●3 ○5` are sessions that failed, that wait (for 4 minutes),
    /// that wait and were seen, that work, that are done.
    pub fn text(&self, now: i64) -> String {
        let counts = [
            self.error,
            self.attention,
            self.checked,
            self.working,
            self.done,
        ];
        let mut parts = Vec::new();
        let counted = Display::ALL.into_iter().zip(counts);
        for (display, count) in counted.filter(|(_, count)| *count > 0) {
            parts.push(format!("{}{count}", display.symbol()));
            if display == Display::Attention {
                parts.extend(self.waiting_since.and_then(|since| span(now - since)));
            }
        }
        parts.join(" ")
    }
}

/// Returns true if a session is counted: it has not ended, and becket gets its events.
pub fn is_live(row: &SessionRow) -> bool {
    row.ended_at.is_none() && row.hooked
}

/// Formats a duration in milliseconds. Returns none for less than a minute.
fn span(ms: i64) -> Option<String> {
    match ms / 60_000 {
        ..1 => None,
        minutes @ ..60 => Some(format!("{minutes}m")),
        minutes @ ..1440 => Some(format!("{}h", minutes / 60)),
        minutes => Some(format!("{}d", minutes / 1440)),
    }
}
