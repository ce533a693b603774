//! Questions that wait for a person. Claude Code shows its dialog while the hook waits, and the first answer counts.
//! So the shim waits until a person answers through becket, or until the session shows that the question is over.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use becket_engine::judge::Verdict;
use becket_engine::question;
use becket_engine::status::Question;
use becket_wire::Head;
use becket_wire::question::{AnsweredIn, PersonAnswer, QuestionRow};
use becket_wire::rpc::AskReply;
use rustix::fs::OFlags;
use tokio::sync::oneshot;

use super::hooks::hold_frame;
use super::{Core, OpenEvent};

/// The time that a question waits. Claude Code gives the hook twelve hours, and would report one that is late.
const WAIT: Duration = Duration::from_secs(12 * 60 * 60 - 10);

/// A request of a client about questions.
#[derive(Debug)]
pub(crate) enum QuestionRequest {
    List(oneshot::Sender<Vec<QuestionRow>>),
    Answer {
        id: i64,
        answer: PersonAnswer,
        via: AnsweredIn,
        done: oneshot::Sender<AskReply>,
    },
}

/// The questions that wait, by the number of their event.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(BTreeMap<i64, OpenQuestion>);

#[derive(Debug)]
struct OpenQuestion {
    asked: AskedUser,
    /// The event whose shim waits, and the verdict without an answer; none if only the terminal can answer.
    held: Option<(OpenEvent, Verdict)>,
    until: Instant,
}

/// A question, for people and for the status of its agent.
#[derive(Debug)]
pub(super) struct AskedUser {
    row: QuestionRow,
    question: Question,
}

impl OpenQuestions {
    /// Returns the number of the oldest question of a session that a person can answer through becket.
    fn oldest_of(&self, session: &str) -> Option<i64> {
        let mut rows = self.0.values().map(|open| &open.asked.row);
        let oldest = rows.find(|row| row.session_id == session && row.can_be_answered)?;
        Some(oldest.id)
    }
}

impl Core {
    /// Returns the question that an event puts to its user; none if becket has an opinion, or the user has answered.
    pub(super) fn question(&self, open: &OpenEvent, verdict: &Verdict) -> Option<AskedUser> {
        let mut row = question::of_event(&open.event, verdict)?;
        row.id = open.record.seq;
        let head = Head::read(&open.event.masked).ok()?;
        let question = Question::of_call(&head);
        let agent = row.agent_id.as_deref();
        let is_open = self.registry.asks(&row.session_id, agent, &question);
        (is_open && !self.hooks.draining).then_some(AskedUser { row, question })
    }

    /// Commits the event of a question, and lets its shim wait for a person.
    pub(super) fn hold_question(&mut self, asked: AskedUser, open: OpenEvent, verdict: Verdict) {
        let (seq, session) = (asked.row.id, asked.row.session_id.clone());
        let can_be_answered = asked.row.can_be_answered;
        let mut question = OpenQuestion {
            asked,
            held: None,
            until: Instant::now() + WAIT,
        };
        if can_be_answered {
            let (for_ms, clients) = self.hooks.expect_person(seq, WAIT);
            let Ok(hold) = hold_frame(for_ms, false) else {
                return;
            };
            // The terminal gets the notice now, not with the answer.
            ring(open.event.envelope.pid, verdict.answer().terminal());
            open.shim.hold(hold, clients);
            self.group.push((open.record.clone(), Box::new(|| ())));
            question.held = Some((open, verdict.without_notice()));
        } else {
            let output = verdict.output();
            let doubles = self
                .hooks
                .close_decision(seq, || verdict.repeated())
                .into_iter();
            self.reply(open.record, doubles.chain([(open.shim, output)]));
        }
        self.questions.0.insert(seq, question);
        self.show_question(&session);
    }

    pub(super) fn handle_question(&mut self, request: QuestionRequest) {
        match request {
            QuestionRequest::List(reply) => {
                let rows = self.questions.0.values().map(|open| open.asked.row.clone());
                drop(reply.send(rows.collect()));
            }
            QuestionRequest::Answer {
                id,
                answer,
                via,
                done,
            } => {
                let told = match self.answer_question(id, &answer, via) {
                    Ok(()) => AskReply::Done,
                    Err(why) => AskReply::Refused(why),
                };
                // The answer is kept before the client is told.
                self.commit();
                drop(done.send(told));
            }
        }
    }

    fn answer_question(
        &mut self,
        id: i64,
        given: &PersonAnswer,
        via: AnsweredIn,
    ) -> Result<(), String> {
        self.end_answered_questions();
        let Some(open) = self.questions.0.get(&id) else {
            return Err("this question does not wait any more".to_owned());
        };
        let Some((event, silent)) = &open.held else {
            return Err("only the terminal can answer this".to_owned());
        };
        let answer = question::answer(&event.event, given)?;
        let verdict = silent.clone().answered(answer, via);
        self.close_question(id, Some(&verdict));
        Ok(())
    }

    /// Answers the shim of a question: with silence, if no person has answered.
    fn close_question(&mut self, id: i64, answered: Option<&Verdict>) {
        let Some(OpenQuestion { asked, held, .. }) = self.questions.0.remove(&id) else {
            return;
        };
        let AskedUser { row, question } = asked;
        self.show_question(&row.session_id);
        let Some((mut open, silent)) = held else {
            return;
        };
        let output = answered.unwrap_or(&silent).output();
        let doubles = self.hooks.close_decision(id, || output.clone());
        if let Some(verdict) = answered {
            let agent = row.agent_id.as_deref();
            self.registry
                .end_question(&row.session_id, agent, &question);
            open.set_decision(verdict, &output);
        }
        open.record.set_completion();
        let answers = doubles.into_iter().chain([(open.shim, output)]);
        self.reply(open.record, answers);
    }

    /// Shows in the row of a session which question waits.
    fn show_question(&mut self, session: &str) {
        let oldest = self.questions.oldest_of(session);
        self.registry.set_question(session, oldest);
    }

    /// Lets the questions go that the user has answered in the terminal, and those whose time is over.
    pub(super) fn end_answered_questions(&mut self) {
        let now = Instant::now();
        let ended = self.questions.0.iter().filter(|(_, open)| {
            let AskedUser { row, question } = &open.asked;
            let agent = row.agent_id.as_deref();
            open.until <= now || !self.registry.asks(&row.session_id, agent, question)
        });
        let ended: Vec<i64> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            self.close_question(id, None);
        }
    }

    /// Lets a question go whose shim has hung up: the user pressed Esc, or Claude Code ended.
    pub(super) fn let_question_go(&mut self, id: i64) {
        self.close_question(id, None);
    }

    /// Lets all questions go, because the daemon ends. Their dialogs stay open.
    pub(super) fn let_questions_go(&mut self) {
        let all: Vec<i64> = self.questions.0.keys().copied().collect();
        for id in all {
            self.close_question(id, None);
        }
    }
}

/// Writes the bell or a notice to the terminal of a process.
fn ring(pid: u32, sequence: &str) {
    if sequence.is_empty() {
        return;
    }
    let Ok(terminal) = std::fs::read_link(format!("/proc/{pid}/fd/1")) else {
        return;
    };
    if !terminal.starts_with("/dev/pts") && !terminal.starts_with("/dev/tty") {
        return;
    }
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(terminal);
    // A terminal that is gone needs no notice.
    drop(opened.and_then(|mut terminal| terminal.write_all(sequence.as_bytes())));
}
