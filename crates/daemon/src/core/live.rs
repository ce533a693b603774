//! Changes of live state without an answer: the spool, inferences from transcripts, figures of the status line,
//! notices.

use becket_engine::notice::{self, DisplayChange, Notice};
use becket_engine::pipeline::PreparedEvent;
use becket_engine::session::{EventOutcome, Inference};
use becket_engine::statusline::{StatusLineContent, answer, beneath, figures, fingerprint};
use becket_wire::Head;
use becket_wire::event::EventName;
use becket_wire::rpc::{BESIDE, Response, SHOWN, WRONG};
use rusqlite::Connection;
use tracing::warn;

use super::Core;
use crate::infer::Found;
use crate::life::now_ms;
use crate::registry::{OwnLine, Registry};
use crate::store::spool::{Changed, Intake};
use crate::store::{Decision, Record, Taken};
use crate::waiting_shim::WaitingShim;

/// No notice is given of what happened longer ago: milliseconds.
const FRESH: i64 = 60_000;

/// Records what an effort told the agent of an event that standalone answered.
fn hear_effort(registry: &mut Registry, record: &Record) {
    let decision = record.decision.as_ref();
    let said = decision.and_then(Decision::effort_said);
    if let (Some(session), Some(said)) = (record.session_id(), said) {
        let refused = decision.is_some_and(|it| matches!(&*it.answer, "deny" | "block" | "stop"));
        registry.said(session, record.agent_id(), record.id(), &said, refused);
    }
}

impl Core {
    /// Takes in one group of the spool with the sessions that it changes. True if more is left.
    pub(super) fn take_in(&mut self) -> bool {
        self.commit();
        let (_, masker) = self.configs.current(None);
        let registry = &mut self.registry;
        let (mut chained, mut changes) = (Vec::new(), Vec::new());
        let mut apply = |database: &Connection, intake: &Intake| {
            for record in &intake.new {
                let payload = record.payload();
                let Ok(head) = Head::read(&payload) else {
                    continue;
                };
                let (envelope, project) = (record.envelope(), record.project.as_deref());
                if let Some(done) = registry.apply(database, &head, envelope, project, None) {
                    let outcome = record.outcome();
                    registry.apply_outcome(&done, record, outcome);
                    hear_effort(registry, record);
                    let event = record.event_name();
                    let is_stop = matches!(event, EventName::Stop | EventName::SubagentStop);
                    if outcome == EventOutcome::Passed || !is_stop {
                        changes.extend(done.display.clone().map(|change| (change, Some(event))));
                    }
                    chained.extend(done.chained);
                }
            }
            for record in &intake.completed {
                hear_effort(registry, record);
                changes.extend(
                    registry
                        .apply_late_outcome(record)
                        .map(|change| (change, None)),
                );
            }
            Changed {
                sessions: registry.unwritten(),
                efforts: registry.effort_changes(),
            }
        };
        let taken = self.store.take_in(&masker, &mut apply);
        if taken == Taken::Failed {
            self.registry.write_all();
        }
        for (from, to) in chained {
            self.follow_switches(from, to, None);
        }
        for (change, event) in &changes {
            self.tell_of(Some(change), event.as_ref());
        }
        self.registry.tell_news(now_ms());
        taken == Taken::More
    }

    pub(super) fn found(&mut self, found: Vec<Found>) {
        let now = now_ms();
        let (_, masker) = self.configs.current(None);
        for one in found {
            for (mut inference, at) in one.inferences {
                if let Inference::TurnDied { error: Some(error) } = &mut inference {
                    *error = masker.text(error);
                }
                let at = at.unwrap_or(now);
                let change = self.registry.infer(&one.session, &inference, at);
                self.tell_of(change.as_ref(), None);
            }
            if let Some(figures) = &one.figures {
                self.registry.figures(&one.session, figures, None);
            }
            if let Some(tokens) = one.tokens {
                self.registry.tokens(&one.session, tokens);
            }
            self.registry.trouble(&one.session, one.trouble);
        }
    }

    /// The user may want to know of what was not answered here.
    fn tell_of(&mut self, change: Option<&DisplayChange>, event: Option<&EventName>) {
        let now = now_ms();
        let Some(change) = change.filter(|change| now - change.at < FRESH) else {
            return;
        };
        // Only files of becket's own home: a project's may block.
        let (config, _) = self.configs.current(None);
        let minute = notice::minute_of_day(now);
        let notice = notice::for_change(&config.config.notice, change, event, minute);
        self.run_notice(notice.as_ref());
    }

    /// The user is told of each denied call that ran.
    pub(super) fn tell_of_ran_denied(&mut self) {
        for ran in self.store.ran_denied() {
            let (session, tool, now) = (&ran.session, &ran.tool, now_ms());
            warn!(
                session,
                tool,
                call = ran.tool_use_id,
                "becket denied a call, and it ran"
            );
            let row = self.registry.row(session, now);
            let Some(row) = row.filter(|_| now - ran.at < FRESH) else {
                continue;
            };
            let (config, _) = self.configs.current(None);
            let minute = notice::minute_of_day(now);
            let notice = notice::for_ran_denied(&config.config.notice, &row, tool, minute);
            self.run_notice(notice.as_ref());
        }
    }

    pub(super) fn run_notice(&mut self, notice: Option<&Notice>) {
        let Some(notice) = notice else { return };
        if let Some(row) = self.registry.row(&notice.session, now_ms()) {
            self.notices.run(notice, &row, self.configs.current(None).1);
        }
    }

    /// A status line: its figures go to the session, and the line goes back. It is no event, and
    /// waits for no commit.
    pub(super) fn status_line(&mut self, event: &PreparedEvent, shim: WaitingShim) {
        let envelope = &event.envelope;
        let read = figures(&event.masked);
        let session = read.as_ref().ok().and_then(|read| read.session_id.clone());
        let mut line = StatusLineContent::of(read);
        let mut own = None;
        if envelope.variable(BESIDE).is_some() {
            let given = fingerprint(&event.masked, envelope.variable("COLUMNS"));
            let session = session.as_deref();
            match session.and_then(|session| self.registry.own_line(session, given)) {
                Some(kept) => {
                    line.wrong.extend(kept.wrong.clone());
                    own = Some(kept.shown.clone());
                }
                // Without an answer it is `Busy`: the caller runs the user's program.
                None => return,
            }
        }
        if let Some(session) = session {
            let process = (envelope.pid, envelope.pid_start);
            let process = envelope.pid_is_claude.then_some(process);
            let known = self.registry.figures(&session, &line.figures, process);
            if let Some(known) = known.cloned() {
                line.figures = known;
            }
            line.waiting = self.registry.waiting_besides(&session);
            line.off = event.disabled_hooks().to_vec();
            let row = self.registry.row(&session, now_ms());
            line.effort = row.and_then(|row| Some(row.effort?.short()));
            if let Some(shown) = envelope.variable(SHOWN) {
                let own_line = OwnLine {
                    given: fingerprint(&event.masked, envelope.variable("COLUMNS")),
                    shown: shown.to_owned(),
                    wrong: envelope.variable(WRONG).map(str::to_owned),
                };
                self.registry.keep_own_line(&session, own_line);
            }
        }
        line.wrong.extend(self.counters.own_troubles());
        let mut output = answer(line, envelope, &event.config);
        if let Some(own) = own {
            output.stdout = beneath(&own, &output.stdout);
        }
        let answer = Response::Answer {
            version: self.version,
            output,
        };
        if let Ok(frame) = answer.to_frame() {
            shim.answer(frame);
        }
    }
}
