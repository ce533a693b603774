//! The demo: a day of invented sessions, sent to a daemon with a temporary home in the way that real
//! events are sent.

mod screen_svg;
mod script;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::lifecycle::now_ms;
use becket_engine::session::{Session, SessionEvent};
use becket_wire::rpc::{Envelope, EventRequest, EventRow, Request};
use becket_wire::session::{Figures, SessionRow};
use becket_wire::{EventId, Head, Place, Version};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Client};
use crate::event_line::{EventPrinter, LineFormat};
use crate::signals;
use crate::tui::{self, ViewSnapshot, render_snapshot};
use crate::verb::daemon;
use crate::world::{ConfigOverrides, World};
use screen_svg::svg;
pub use script::{ScriptedEvent, ScriptedPayload, day};

/// A temporary home with a daemon of its own. Both are removed on drop.
#[derive(Debug)]
pub struct Stage {
    pub world: World,
    _home: TempDir,
}

impl Stage {
    pub fn build(world: &World) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("becket-demo-").tempdir();
        let home = home.context("could not make a throw-away home")?;
        // If the demo is killed, its daemon ends by itself.
        let config = home.path().join("config.toml");
        std::fs::write(config, "[daemon]\nidle = \"30m\"\n")
            .context("could not write its configuration")?;
        let world = World {
            place: Place::new(home.path()),
            // The demo does not read the settings of Claude Code.
            claude_home: None,
            cwd: home.path().to_path_buf(),
            programs: world.programs.clone(),
            no_daemon: false,
            overrides: ConfigOverrides::default(),
        };
        client::start(&world)?;
        Ok(Self { world, _home: home })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Without its home the daemon ends by itself later.
        drop(daemon::end(&self.world));
    }
}

#[derive(Debug)]
pub struct Player<'a> {
    pub world: &'a World,
    /// The origin of the events, as in `--from` of a registration.
    from: &'static str,
    /// The factor by which the playback is faster than the recording.
    pub speed: f64,
    sent: u64,
}

impl<'a> Player<'a> {
    pub fn new(world: &'a World, from: &'static str, speed: f64) -> Self {
        Self {
            world,
            from,
            speed,
            sent: 0,
        }
    }

    /// Plays the script in the live view until the user leaves it.
    pub fn show(mut self, script: &[ScriptedEvent]) -> Result<()> {
        let (stop, stopped) = channel();
        let world = self.world;
        std::thread::scope(|scope| {
            let playing = scope.spawn(move || self.play(script, &stopped, |_| Ok(())));
            let shown = tui::open(world, None);
            drop(stop);
            let played = playing.join().unwrap_or(Ok(()));
            shown.and(played)
        })
    }

    /// Plays the script and prints each event as a line.
    pub fn print(mut self, script: &[ScriptedEvent]) -> Result<()> {
        let (stop, stopped) = channel();
        signals::on_termination(move || drop(stop));
        let mut lines = EventPrinter::new(LineFormat::Person);
        self.play(script, &stopped, |row| Ok(lines.print(row)?))?;
        Ok(lines.end()?)
    }

    /// Plays the script: events before second 0 at once, the others in time. A message on `stop`, or
    /// its end, stops the playback.
    fn play(
        &mut self,
        script: &[ScriptedEvent],
        stop: &Receiver<()>,
        mut tell: impl FnMut(&EventRow) -> Result<()>,
    ) -> Result<()> {
        let (start, start_at) = (Instant::now(), now_ms());
        for scripted in script {
            let due = Duration::from_millis(scripted.at.max(0) as u64).div_f64(self.speed);
            let left = (start + due).saturating_duration_since(Instant::now());
            match stop.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // Past events keep their age: a session that has waited for an hour shows an hour.
            let at = if scripted.at < 0 {
                start_at + scripted.at
            } else {
                now_ms()
            };
            if let Some(row) = self.send(scripted, at)? {
                tell(&row)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, scripted: &ScriptedEvent, at: i64) -> Result<Option<EventRow>> {
        self.sent += 1;
        let (event, payload) = scripted.event_and_payload();
        let mut envelope = envelope(&self.world.place, scripted, event, at, self.sent);
        envelope.from = Some(self.from.to_owned());
        let request = EventRequest {
            envelope,
            sent: now_ms(),
            payload: serde_json::to_vec(payload)?,
        };
        let row = event.map(|_| row(&request, payload, self.sent));
        let request = match event {
            Some(_) => Request::Event(request),
            None => Request::StatusLine(request),
        };
        let mut client = Client::connect_or_start(self.world)?;
        let played = client.send(&request);
        played.with_context(|| format!("could not play {}", event.unwrap_or("a status line")))?;
        Ok(row)
    }
}

/// Makes the envelope that the shim would make. It is marked as not from Claude Code: becket neither
/// watches this process nor sends it a signal. It has no pane, so that nothing reaches a real tmux.
pub(super) fn envelope(
    place: &Place,
    scripted: &ScriptedEvent,
    event: Option<&str>,
    at: i64,
    number: u64,
) -> Envelope {
    Envelope {
        id: EventId::new(at, [number; 2]),
        at,
        version: Version::current(),
        event: event.map(str::to_owned),
        from: Some("demo".to_owned()),
        home: place.home().to_string_lossy().into_owned(),
        pid: std::process::id(),
        pid_start: None,
        pid_is_claude: false,
        pid_parent: None,
        variables: [
            ("CLAUDE_PROJECT_DIR", scripted.project.as_str()),
            ("CLAUDE_CODE_SESSION_ATTENDED", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        cut: None,
    }
}

/// Makes the row that the log will have for an event.
pub(super) fn row(request: &EventRequest, payload: &Value, number: u64) -> EventRow {
    let text = |field: &str| payload[field].as_str().map(str::to_owned);
    EventRow {
        seq: number as i64,
        id: request.envelope.id,
        at: request.envelope.at,
        session_id: text("session_id"),
        agent_id: text("agent_id"),
        event: request.envelope.event.clone(),
        tool: text("tool_name"),
        decision: None,
        took_us: None,
        source: request.envelope.source(),
        masked: 0,
        fault: None,
        duplicate_of: None,
        payload: Some(request.payload.clone()),
    }
}

/// The time of second 0 in the picture: 2026-11-15T09:00:00Z.
const PICTURE_START: i64 = 1_794_733_200_000;
/// The second of the script that the picture shows.
const PICTURE_SECONDS: i64 = 290;
const SIZE: (u16, u16) = (120, 32);
const HOME: &str = "/home/you";

/// Draws the live view at the end of the day as SVG.
pub fn picture() -> Result<String> {
    let script = day()?;
    let now = PICTURE_START + PICTURE_SECONDS * 1_000;
    let (events, rows) = apply_script(&script, now)?;
    let title = Some("Idempotent checkout");
    let waiting = rows.iter().find(|row| row.title.as_deref() == title);
    let selected = waiting.map_or_else(String::new, |row| row.session_id.clone());
    let buffer = render_snapshot(ViewSnapshot {
        rows,
        events: &events,
        selected: &selected,
        now,
        home: HOME,
        size: SIZE,
    });
    let title = "becket: the live view at the end of the demo's day";
    Ok(svg(&buffer, title))
}

/// Returns the events as the log would have them, and the live sessions that follow from them.
fn apply_script(script: &[ScriptedEvent], now: i64) -> Result<(Vec<EventRow>, Vec<SessionRow>)> {
    let place = Place::new(format!("{HOME}/.becket"));
    let mut events = Vec::new();
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for (number, scripted) in (1..).zip(script) {
        let at = PICTURE_START + scripted.at;
        let (event, payload) = scripted.event_and_payload();
        let id = payload["session_id"].as_str().unwrap_or_default();
        let session = sessions.entry(id.to_owned());
        let session = session.or_insert_with(|| Session::new(id, at));
        if event.is_none() {
            session.figures = figures(payload);
            continue;
        }
        let request = EventRequest {
            envelope: envelope(&place, scripted, event, at, number),
            sent: at,
            payload: serde_json::to_vec(payload)?,
        };
        let head = Head::read(&request.payload)?;
        let session_event = SessionEvent::new(&head, &request.envelope);
        session.apply(&session_event.in_project(head.cwd.as_deref()));
        events.push(row(&request, payload, number));
    }
    sessions.retain(|_, session| session.ended_at.is_none());
    let rows = sessions.values().map(|session| session.row(now));
    Ok((events, rows.collect()))
}

fn figures(line: &Value) -> Figures {
    let window = &line["context_window"];
    Figures {
        context_pct: window["used_percentage"].as_f64(),
        context_tokens: window["total_input_tokens"].as_u64(),
        context_size: window["context_window_size"].as_u64(),
        cost_usd: line["cost"]["total_cost_usd"].as_f64(),
        model_name: line["model"]["display_name"].as_str().map(str::to_owned),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The picture in the README. To make it again: `becket demo --svg docs/demo.svg`.
    #[test]
    fn the_picture_in_the_docs_is_the_view_of_today() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.svg");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        let drawn = picture().unwrap();
        assert!(kept == drawn, "run: becket demo --svg docs/demo.svg");
    }
}
