//! Changes of live state that need no decision: events from the spool, inferences, figures of the status line, and
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
use crate::inference::SessionInferences;
use crate::lifecycle::now_ms;
use crate::registry::{OwnLine, Registry};
use crate::store::spool::{Intake, IntakeChanges};
use crate::store::{EventRecord, IntakeProgress};
use crate::waiting_shim::WaitingShim;

/// The age up to which a change gets a notice, in milliseconds.
const FRESH: i64 = 60_000;

/// Applies events from the spool to their sessions.
struct SpoolApplier<'a> {
    registry: &'a mut Registry,
    /// The sessions that continue another one: the ids of both.
    chained: Vec<(String, String)>,
    /// The changes of display that may need a notice, each with its event.
    changes: Vec<(DisplayChange, Option<EventName>)>,
}

impl SpoolApplier<'_> {
    fn apply(&mut self, database: &Connection, intake: &Intake) -> IntakeChanges {
        for record in &intake.new {
            self.apply_new(database, record);
        }
        for record in &intake.completed {
            record_effort_message(self.registry, record);
            let change = self.registry.record_late_outcome(record);
            self.changes.extend(change.map(|change| (change, None)));
        }
        IntakeChanges {
            sessions: self.registry.take_unwritten(),
            efforts: self.registry.effort_changes(),
        }
    }

    fn apply_new(&mut self, database: &Connection, record: &EventRecord) {
        let payload = record.payload();
        let Ok(head) = Head::read(&payload) else {
            return;
        };
        let (envelope, project) = (record.envelope(), record.project.as_deref());
        let applied = (self.registry).apply(database, &head, envelope, project, None);
        let Some(applied) = applied else {
            return;
        };
        let state = record.outcome();
        self.registry.record_outcome(&applied, record, state);
        record_effort_message(self.registry, record);
        let event = record.event_name();
        let is_stop = matches!(event, EventName::Stop | EventName::SubagentStop);
        if let Some(change) = applied.display
            && (state == EventOutcome::Passed || !is_stop)
        {
            self.changes.push((change, Some(event)));
        }
        self.chained.extend(applied.chained);
    }
}

/// Records the message of an effort to an agent, for an event that standalone answered.
fn record_effort_message(registry: &mut Registry, record: &EventRecord) {
    let Some(decision) = &record.decision else {
        return;
    };
    if let (Some(session), Some(message)) = (record.session_id(), decision.effort_said()) {
        let (agent, event) = (record.agent_id(), record.id());
        let refused = decision.answer.is_refusal();
        registry.record_effort_message(session, agent, event, &message, refused);
    }
}

impl Core {
    /// Takes in one group of the spool with the sessions that it changes. Returns true if more files wait.
    pub(super) fn take_in(&mut self) -> bool {
        self.commit();
        let (_, masker) = self.configs.current(None);
        let mut applier = SpoolApplier {
            registry: &mut self.registry,
            chained: Vec::new(),
            changes: Vec::new(),
        };
        let progress = (self.store).take_in(&masker, &mut |database, intake| {
            applier.apply(database, intake)
        });
        let (chained, changes) = (applier.chained, applier.changes);
        if progress == IntakeProgress::Failed {
            self.registry.mark_all_unwritten();
        }
        for (from, to) in chained {
            self.follow_switches(from, to, None);
        }
        for (change, event) in &changes {
            self.notify_change(Some(change), event.as_ref());
        }
        self.registry.publish_changes(now_ms());
        progress == IntakeProgress::More
    }

    pub(super) fn apply_inferences(&mut self, sessions: Vec<SessionInferences>) {
        let now = now_ms();
        let (_, masker) = self.configs.current(None);
        for one in sessions {
            for (mut inference, at) in one.inferences {
                if let Inference::TurnDied { error: Some(error) } = &mut inference {
                    *error = masker.text(error);
                }
                let at = at.unwrap_or(now);
                let change = self.registry.infer(&one.session, &inference, at);
                self.notify_change(change.as_ref(), None);
            }
            if let Some(figures) = &one.figures {
                self.registry.set_figures(&one.session, figures, None);
            }
            if let Some(tokens) = one.tokens {
                self.registry.set_turn_tokens(&one.session, tokens);
            }
            self.registry.set_trouble(&one.session, one.trouble);
        }
    }

    /// Runs the notice of a change that no answer carried, if the config has one.
    fn notify_change(&mut self, change: Option<&DisplayChange>, event: Option<&EventName>) {
        let now = now_ms();
        let Some(change) = change.filter(|change| now - change.at < FRESH) else {
            return;
        };
        // Only the config of becket's home: reading a project's config may block.
        let (config, _) = self.configs.current(None);
        let minute = notice::minute_of_day(now);
        let notice = notice::for_change(&config.config.notice, change, event, minute);
        self.run_notice(notice.as_ref());
    }

    /// Runs the notice of each denied call that ran.
    pub(super) fn notify_ran_denied(&mut self) {
        for ran in self.store.take_ran_denied() {
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

    /// Answers a status line and records its figures. It is no event, so it waits for no commit.
    pub(super) fn handle_status_line(&mut self, event: &PreparedEvent, shim: WaitingShim) {
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
                // Dropping the shim answers `Busy`: the caller then runs the user's program.
                None => return,
            }
        }
        if let Some(session) = session {
            let process = (envelope.pid, envelope.pid_start);
            let process = envelope.pid_is_claude.then_some(process);
            let known = self.registry.set_figures(&session, &line.figures, process);
            if let Some(known) = known.cloned() {
                line.figures = known;
            }
            line.waiting = self.registry.count_others_waiting(&session);
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
