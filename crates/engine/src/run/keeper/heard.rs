//! What the keeper has heard, and what it has to hear if it is another's successor.

use std::collections::HashMap;
use std::time::Instant;

use becket_wire::run::{CurrentRun, RUNNING, RunRow};

use super::{Line, Start, Ward, milliseconds, whole_ms};

/// Stands for a group whose number does not matter any more.
const NO_GROUP: i32 = 0;

#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What was about to be started, and when we heard of it.
    pub(super) starting: HashMap<u64, (Start, Instant)>,
    /// What runs, and when we heard of its time.
    pub(super) open: HashMap<i32, (Ward, Instant)>,
    /// What ended, and is not recorded.
    pub(super) ended: Vec<RunRow>,
    /// Whoever ran it has said that they go.
    pub(super) in_order: bool,
}

impl Heard {
    pub(super) fn hear(&mut self, line: Line) {
        match line {
            Line::Starting(start) => {
                self.starting.insert(start.nth, (start, Instant::now()));
            }
            Line::NotStarted(nth) => {
                self.starting.remove(&nth);
            }
            Line::Begun(ward) => {
                self.starting.remove(&ward.nth);
                self.open.insert(ward.pid, (ward, Instant::now()));
            }
            Line::Over(pid, run) => {
                self.open.remove(&pid);
                self.ended.extend(run);
            }
            Line::Recorded(event) => self.ended.retain(|run| run.event_id != event),
            Line::Leaving => self.in_order = true,
        }
    }

    /// The same for one that has heard nothing yet, with the times that are left now.
    pub(super) fn again(&self) -> impl Iterator<Item = Line> {
        let starting = self.starting.values().map(|(start, heard)| {
            Line::Starting(Start {
                left_ms: left(start.left_ms, *heard),
                ..start.clone()
            })
        });
        let open = self.open.values().map(|(ward, heard)| {
            Line::Begun(Ward {
                left_ms: left(ward.left_ms, *heard),
                ..ward.clone()
            })
        });
        let ended = self.ended.iter().cloned();
        let ended = ended.map(|run| Line::Over(NO_GROUP, Some(run)));
        starting.chain(open).chain(ended)
    }

    /// The runs that nobody has recorded, as far as they have come.
    pub(super) fn current(&self) -> Vec<CurrentRun> {
        let now = milliseconds();
        let going_on = |run: &RunRow, left_ms, heard: &Instant| CurrentRun {
            until: Some(now.saturating_add_unsigned(left(left_ms, *heard))),
            run: RunRow {
                outcome: RUNNING.to_owned(),
                took_us: (now - run.at).max(0).saturating_mul(1000),
                ..run.clone()
            },
        };
        let starting = self
            .starting
            .values()
            .filter_map(|(start, heard)| Some(going_on(start.run.as_ref()?, start.left_ms, heard)));
        let open = self
            .open
            .values()
            .filter_map(|(ward, heard)| Some(going_on(ward.run.as_ref()?, ward.left_ms, heard)));
        let ended = self.ended.iter().cloned();
        let ended = ended.map(|run| CurrentRun { run, until: None });
        starting.chain(open).chain(ended).collect()
    }
}

fn left(told_ms: u64, heard: Instant) -> u64 {
    told_ms.saturating_sub(whole_ms(heard.elapsed()))
}
