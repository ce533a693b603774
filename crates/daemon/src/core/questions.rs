//! Questions that wait for a person. Claude Code shows its dialog while the hook waits, and the first answer counts.
//! So the shim waits until a person answers through becket, or until the session shows that the question is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use becket_engine::judge::Verdict;
use becket_engine::question;
use becket_engine::status::Question;
use becket_wire::Head;
use becket_wire::question::{AnsweredIn, PersonAnswer, QuestionRow};
use becket_wire::rpc::AskReply;

use super::hooks::hold_frame;
use super::{Core, OpenEvent, micros};
use crate::store::Decision;

/// The time that a question waits. Claude Code gives the hook twelve hours, and would report one that is late.
const WAIT: Duration = Duration::from_secs(12 * 60 * 60 - 10);

/// The questions that wait, by the number of their event.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(BTreeMap<i64, OpenQuestion>);

#[derive(Debug)]
struct OpenQuestion {
    row: QuestionRow,
    /// The question as the status of its agent has it.
    asked: Question,
    /// The event, whose shim waits; none if only the terminal can answer.
    held: Option<(OpenEvent, Verdict)>,
    until: Instant,
}

impl OpenQuestions {
    pub(super) fn rows(&self) -> Vec<QuestionRow> {
        self.0.values().map(|open| open.row.clone()).collect()
    }

    /// Returns the number of the oldest question of a session.
    fn oldest_of(&self, session: &str) -> Option<i64> {
        let mut all = self.0.values();
        let first = all.find(|open| open.row.session_id == session)?;
        Some(first.row.id)
    }
}

impl Core {
    /// Lets the shim of a question wait for a person. Gives the event back if it is no question.
    pub(super) fn hold_question(
        &mut self,
        open: OpenEvent,
        verdict: Verdict,
    ) -> Option<(OpenEvent, Verdict)> {
        let Some(mut row) = question::of_event(&open.event, &verdict) else {
            return Some((open, verdict));
        };
        let Ok(head) = Head::read(&open.event.masked) else {
            return Some((open, verdict));
        };
        let asked = Question::of_call(&head);
        let (session, agent) = (row.session_id.clone(), row.agent_id.clone());
        // A question that is over already, since the event came late, is for nobody.
        if self.hooks.draining || !self.registry.asks(&session, agent.as_deref(), &asked) {
            return Some((open, verdict));
        }
        row.id = open.record.seq;
        todo!()
    }
}
