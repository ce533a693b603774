//! One event with all that judging needs: immutable, so that it can go to the pool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use becket_engine::config::Snapshot;
use becket_engine::hooks::carry::{Asked, Plan};
use becket_engine::hooks::slash::{self, Scene, Slash};
use becket_engine::hooks::switch::Switches;
use becket_engine::judge::{Case, Grounds, Verdict, judge};
use becket_engine::mask::Masker;
use becket_engine::notice::Change;
use becket_wire::answer::Answer;
use becket_wire::event::EventName;
use becket_wire::head::HeadError;
use becket_wire::rpc::Envelope;
use becket_wire::{Head, Place};

use crate::store::{Decision, Record};

pub(super) struct Work {
    pub(super) seq: i64,
    pub(super) envelope: Envelope,
    pub(super) at: Instant,
    pub(super) told: bool,
    pub(super) late: bool,
    pub(super) config: Arc<Snapshot>,
    pub(super) masker: Arc<Masker>,
    pub(super) double_of: Option<i64>,
    pub(super) display: Option<Change>,
    pub(super) launched_at: Option<i64>,
    pub(super) minute: u16,
    pub(super) hooking: Option<Hooking>,
}

/// What the hooks of an event depend on.
pub(super) struct Hooking {
    pub(super) place: Place,
    pub(super) project: PathBuf,
    pub(super) switches: Arc<Switches>,
    /// The person switches one.
    pub(super) slash: Option<Slash>,
}

/// What runs before the event is answered, and what it is judged by once more if that changed it.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) grounds: Grounds,
}

impl Work {
    pub(super) fn judge(
        self,
        payload: &[u8],
        head: &Result<Head<'_>, HeadError>,
    ) -> (Record, Verdict, Option<Planned>) {
        let case = Case {
            envelope: &self.envelope,
            payload,
            head: head.as_ref(),
            config: &self.config,
            told: self.told,
            change: self.display.as_ref(),
            launched_at: self.launched_at,
            minute: self.minute,
        };
        let mut verdict = judge(&case);
        let mut plan = None;
        if let (Some(hooking), Ok(head)) = (&self.hooking, head) {
            match &hooking.slash {
                Some(slash) => {
                    let answer = self.act(slash, hooking, head, verdict.event());
                    verdict = verdict.switched(answer);
                }
                None if verdict.refuses() => {}
                None => plan = self.plan(hooking, head, payload, &verdict),
            }
        }
        let held = plan.map(|plan| Planned {
            plan,
            grounds: self.grounds(),
        });
        let masked = self.masker.mask(payload);
        let source = self.envelope.source();
        let mut record = Record::new(
            self.seq,
            self.envelope,
            head,
            masked.bytes,
            masked.count,
            source,
        );
        record.duplicate_of = self.double_of;
        if !self.late && held.is_none() {
            record.took_us = Some(i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX));
            record.decision = Decision::new(verdict.decision(), &verdict.output());
        }
        (record, verdict, held)
    }

    fn grounds(&self) -> Grounds {
        Grounds {
            envelope: self.envelope.clone(),
            config: Arc::clone(&self.config),
            told: self.told,
            change: self.display.clone(),
            launched_at: self.launched_at,
            minute: self.minute,
        }
    }

    /// Does what the person typed, and says so.
    fn act(&self, slash: &Slash, hooking: &Hooking, head: &Head<'_>, event: &EventName) -> Answer {
        let session = head.session_id.as_deref().unwrap_or_default();
        let cwd = head.cwd.as_deref().unwrap_or_default();
        let scene = Scene {
            place: &hooking.place,
            session,
            cwd: cwd.as_ref(),
            agent_type: None,
            hooks: &self.config.hooks,
        };
        let acted = slash::act(slash.verb, &slash.argument, &scene);
        slash::answer(event.clone(), &acted.lines)
    }

    fn plan(
        &self,
        hooking: &Hooking,
        head: &Head<'_>,
        payload: &[u8],
        verdict: &Verdict,
    ) -> Option<Plan> {
        let asked = Asked {
            id: self.envelope.id,
            event: verdict.event(),
            head,
            payload,
            project: &hooking.project,
            attended: self.envelope.attended(),
        };
        Plan::of(&asked, &self.config.hooks, || Arc::clone(&hooking.switches))
    }
}
