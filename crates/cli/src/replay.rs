//! A recorded session to be replayed: its events read from the log, in the order they happened.

pub mod hook;

use anyhow::Result;
use becket_wire::rpc::{EventQuery, EventRow};
use becket_wire::session::SessionRow;
use serde_json::Value;

use crate::demo::{Beat, What};
use crate::failure::{Code, Failure};
use crate::session::source::Source;
use crate::world::World;

/// Longer pauses between two events are shortened to this, in milliseconds, before the speed
/// divides them.
const LONGEST_PAUSE: i64 = 3_000;

#[derive(Debug)]
pub struct Recording {
    pub session: SessionRow,
    /// The events that can be replayed, with their payloads parsed.
    pub events: Vec<(EventRow, Value)>,
    /// How many cannot: retention dropped the payload, or it is not an event.
    pub left_out: usize,
}

impl Recording {
    /// Reads the session that is meant. No daemon is started for it.
    pub fn read(world: &World, meant: &str) -> Result<Self> {
        let mut source = Source::open_quietly(world);
        let session = source.one(meant)?;
        let query = EventQuery {
            session: Some(session.session_id.clone()),
            ..EventQuery::default()
        };
        let rows = source.events(query)?;
        let all = rows.len();
        let events: Vec<_> = rows.into_iter().filter_map(parse).collect();
        let left_out = all - events.len();
        if events.is_empty() {
            let id = &session.session_id;
            let what = format!("session {id} cannot be replayed: no payload of its events is kept");
            let hint = "store.keep_days and store.keep_bytes say how long payloads are kept";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        Ok(Self {
            session,
            events,
            left_out,
        })
    }

    /// What to play: pauses as they were, long ones shortened.
    pub fn beats(&self) -> Vec<Beat> {
        let project = self.session.project.as_deref().unwrap_or_default();
        let (mut at, mut before) = (0, None);
        let beats = self.events.iter().map(|(row, payload)| {
            let pause = before.map_or(0, |before| row.at - before);
            at += pause.clamp(0, LONGEST_PAUSE);
            before = Some(row.at);
            let mut payload = payload.clone();
            // The daemon would read the transcript as it is today.
            if let Some(fields) = payload.as_object_mut() {
                fields.remove("transcript_path");
            }
            Beat {
                at,
                project: project.to_owned(),
                what: What::Event(row.event.clone().unwrap_or_default(), payload),
            }
        });
        beats.collect()
    }
}

fn parse(row: EventRow) -> Option<(EventRow, Value)> {
    let payload: Value = serde_json::from_slice(row.payload.as_deref()?).ok()?;
    let is_event = payload.is_object() && row.event.is_some();
    is_event.then_some((row, payload))
}

#[cfg(test)]
mod tests {
    use becket_wire::EventId;
    use becket_wire::rpc;
    use serde_json::json;

    use super::*;

    fn event(at: i64) -> (EventRow, Value) {
        let row = EventRow {
            seq: at,
            id: EventId::new(at, [1; 2]),
            at,
            session_id: None,
            agent_id: None,
            event: Some("Stop".to_owned()),
            tool: None,
            decision: None,
            took_us: None,
            source: rpc::Source::Daemon,
            masked: 0,
            fault: None,
            duplicate_of: None,
            payload: None,
        };
        (row, json!({"transcript_path": "/t", "cwd": "/c"}))
    }

    #[test]
    fn short_pauses_stay_and_long_ones_are_shortened() {
        let recording = Recording {
            session: SessionRow::default(),
            events: [5_000, 5_700, 3_605_700, 3_605_600, 3_606_000]
                .map(event)
                .into(),
            left_out: 0,
        };
        let beats = recording.beats();
        let times: Vec<i64> = beats.iter().map(|beat| beat.at).collect();
        assert_eq!(times, [0, 700, 3_700, 3_700, 4_100]);
        let played = What::Event("Stop".to_owned(), json!({"cwd": "/c"}));
        assert_eq!(beats[0].what, played);
    }
}
