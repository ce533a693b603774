//! The demo: a day of made-up sessions, played into a throw-away home through the road that real
//! events take.

mod script;
mod svg;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::life::now_ms;
use becket_engine::session::{Moment, Session};
use becket_wire::rpc::{Envelope, EventRequest, EventRow, Request};
use becket_wire::session::{Figures, SessionRow};
use becket_wire::{EventId, Head, Place, Version};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Client};
use crate::event_line::{EventPrinter, LineFormat};
use crate::signals;
use crate::tui::{self, Still, still};
use crate::verb::daemon;
use crate::world::{ConfigOverrides, World};
pub use script::{Beat, What, day};
use svg::svg;

/// A throw-away home with a daemon of its own. Both go when it is dropped.
#[derive(Debug)]
pub struct Stage {
    pub world: World,
    _home: TempDir,
}

impl Stage {
    pub fn build(world: &World) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("becket-demo-").tempdir();
        let home = home.context("could not make a throw-away home")?;
        // A demo that was killed leaves a daemon behind, which ends by itself.
        std::fs::write(
            home.path().join("config.toml"),
            "[daemon]\nidle = \"30m\"\n",
        )
        .context("could not write its configuration")?;
        let world = World {
            place: Place::new(home.path()),
            // Claude Code's settings are none of the demo's business.
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
        // Without its home it ends by itself, only later.
        drop(daemon::end(&self.world));
    }
}

#[derive(Debug)]
pub struct Player<'a> {
    pub world: &'a World,
    /// Where the events come from, as `--from` of a registration says it.
    from: &'static str,
    /// How many times faster than it was.
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

    /// Plays it all in the live view, until the user leaves that.
    pub fn show(mut self, beats: &[Beat]) -> Result<()> {
        let (stop, stopped) = channel();
        let world = self.world;
        std::thread::scope(|scope| {
            let playing = scope.spawn(move || self.play(beats, &stopped, |_| Ok(())));
            let shown = tui::open(world, None);
            drop(stop);
            let played = playing.join().unwrap_or(Ok(()));
            shown.and(played)
        })
    }

    /// Plays it all and prints each event as a line.
    pub fn print(mut self, beats: &[Beat]) -> Result<()> {
        let (stop, stopped) = channel();
        signals::on_termination(move || drop(stop));
        let mut lines = EventPrinter::new(LineFormat::Person);
        self.play(beats, &stopped, |row| Ok(lines.print(row)?))?;
        Ok(lines.end()?)
    }

    /// Plays it all: what lies before the curtain at once, the rest in its time. Something on
    /// `stop`, or its end, ends the play.
    fn play(
        &mut self,
        beats: &[Beat],
        stop: &Receiver<()>,
        mut tell: impl FnMut(&EventRow) -> Result<()>,
    ) -> Result<()> {
        let (curtain, curtain_at) = (Instant::now(), now_ms());
        for beat in beats {
            let due = Duration::from_millis(beat.at.max(0) as u64).div_f64(self.speed);
            let left = (curtain + due).saturating_duration_since(Instant::now());
            match stop.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // The past keeps its distance, so that what has waited for an hour looks so.
            let at = if beat.at < 0 {
                curtain_at + beat.at
            } else {
                now_ms()
            };
            if let Some(row) = self.send(beat, at)? {
                tell(&row)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, beat: &Beat, at: i64) -> Result<Option<EventRow>> {
        self.sent += 1;
        match &beat.what {
            What::Event(name, payload) => {
                let request = EventRequest {
                    envelope: self.envelope(beat, Some(name), at),
                    sent: now_ms(),
                    payload: serde_json::to_vec(payload)?,
                };
                let row = row(&request, payload, self.sent);
                let mut client = Client::connect_or_start(self.world)?;
                client
                    .send(&Request::Event(request))
                    .with_context(|| format!("could not play {name}"))?;
                Ok(Some(row))
            }
            What::StatusLine(payload) => {
                let line = EventRequest {
                    envelope: self.envelope(beat, None, at),
                    sent: now_ms(),
                    payload: serde_json::to_vec(payload)?,
                };
                let mut client = Client::connect_or_start(self.world)?;
                client
                    .send(&Request::StatusLine(line))
                    .context("could not play a status line")?;
                Ok(None)
            }
        }
    }
}

impl Player<'_> {
    fn envelope(&self, beat: &Beat, event: Option<&str>, at: i64) -> Envelope {
        let envelope = envelope(&self.world.place, beat, event, at, self.sent);
        Envelope {
            from: Some(self.from.to_owned()),
            ..envelope
        }
    }
}

/// What the shim would know of it. The process is no Claude Code, and says so: becket neither watches it
/// nor sends it a signal. There is no pane, so that nothing reaches a real tmux.
pub(super) fn envelope(
    place: &Place,
    beat: &Beat,
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
            ("CLAUDE_PROJECT_DIR", beat.project.as_str()),
            ("CLAUDE_CODE_SESSION_ATTENDED", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        cut: None,
    }
}

/// The event as the log will tell it.
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

/// When the curtain rises in the picture: 2026-11-15T09:00:00Z.
const CURTAIN: i64 = 1_794_733_200_000;
/// The moment of the picture, in seconds after that.
const LATER: i64 = 290;
const SIZE: (u16, u16) = (120, 32);
const HOME: &str = "/home/you";

/// The live view at the day's end, as SVG.
pub fn picture() -> Result<String> {
    let beats = day()?;
    let now = CURTAIN + LATER * 1_000;
    let (events, rows) = fold(&beats, now)?;
    let waiting = rows
        .iter()
        .find(|row| row.title.as_deref() == Some("Idempotent checkout"));
    let selected = waiting
        .map(|row| row.session_id.clone())
        .unwrap_or_default();
    let buffer = still(Still {
        rows,
        events: &events,
        selected: &selected,
        now,
        home: HOME,
        size: SIZE,
    });
    Ok(svg(
        &buffer,
        "becket: the live view at the end of the demo's day",
    ))
}

/// The events as the log would tell them, and the live sessions that come of them.
fn fold(beats: &[Beat], now: i64) -> Result<(Vec<EventRow>, Vec<SessionRow>)> {
    let place = Place::new(format!("{HOME}/.becket"));
    let mut events = Vec::new();
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for (number, beat) in (1..).zip(beats) {
        let at = CURTAIN + beat.at;
        let (event, payload) = match &beat.what {
            What::Event(event, payload) => (Some(event.as_str()), payload),
            What::StatusLine(line) => (None, line),
        };
        let id = payload["session_id"].as_str().unwrap_or_default();
        let session = sessions.entry(id.to_owned());
        let session = session.or_insert_with(|| Session::new(id, at));
        if event.is_none() {
            session.figures = figures(payload);
            continue;
        }
        let request = EventRequest {
            envelope: envelope(&place, beat, event, at, number),
            sent: at,
            payload: serde_json::to_vec(payload)?,
        };
        let head = Head::read(&request.payload)?;
        let moment = Moment::new(&head, &request.envelope);
        session.apply(&moment.in_project(head.cwd.as_deref()));
        events.push(row(&request, payload, number));
    }
    let live = sessions
        .values()
        .filter(|session| session.ended_at.is_none());
    Ok((events, live.map(|session| session.row(now)).collect()))
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

    /// The picture in the README. To make it anew: `becket demo --svg docs/demo.svg`.
    #[test]
    fn the_picture_in_the_docs_is_the_view_of_today() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.svg");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        let drawn = picture().unwrap();
        assert!(kept == drawn, "run: becket demo --svg docs/demo.svg");
    }
}
