//! Takes events in one order. The sole owner of live state: everything reaches it as a message.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_engine::config::Snapshot;
use becket_engine::judge::{Case, Verdict, judge};
use becket_engine::mask::Masker;
use becket_engine::notice::{self, Change, Notice};
use becket_engine::session::{Mark, Moment};
use becket_wire::bounds::FIRST_WORD;
use becket_wire::event::EventName;
use becket_wire::head::HeadError;
use becket_wire::rpc::{Envelope, EventRequest, Response, Source};
use becket_wire::{EventId, Head, Version};
use tokio::sync::{mpsc, oneshot};

use crate::connection::Answerer;
use crate::counters::Counters;
use crate::doubles::Doubles;
use crate::in_force::InForce;
use crate::infer::Found;
use crate::life::now_ms;
use crate::notice::Notices;
use crate::registry::{Applied, Asked, News, Process, Registry};
use crate::store::{Decision, Kept, Limits, Record, Then, Writer};

/// What may wait for the dispatcher. More is answered `Busy`.
pub(crate) const QUEUE: usize = 4096;
/// Events up to this are judged where they stand; larger ones go to the pool.
const LIGHT: usize = 16 << 10;
/// Nobody is told of what happened longer ago: milliseconds.
const FRESH: i64 = 60_000;

/// What the dispatcher is told.
pub(crate) enum Message {
    Arrived(Box<Arrival>),
    StatusLine(Box<Arrival>),
    Judged(Box<Judged>),
    CountSessions(oneshot::Sender<u64>),
    Asked(Asked),
    /// What is taken in from the spool; it is committed with the sessions that it changes.
    TookIn(Arc<Vec<Record>>, oneshot::Sender<(Vec<Kept>, Then)>),
    /// What no event says.
    Found(Vec<Found>),
    /// The processes of these sessions are gone.
    Gone(Vec<(String, Process)>),
    /// Look at the config, and say what the store may keep.
    Tick(oneshot::Sender<Ticked>),
}

/// What the config says about the daemon itself.
#[derive(Debug)]
pub(crate) struct Ticked {
    pub(crate) limits: Limits,
    pub(crate) masker: Arc<Masker>,
    pub(crate) idle: Option<Duration>,
    pub(crate) troubles: Vec<String>,
    /// Whose processes are to be looked for.
    pub(crate) processes: Vec<(String, Process)>,
}

/// An event or a status line that has come.
pub(crate) struct Arrival {
    pub(crate) event: EventRequest,
    pub(crate) at: Instant,
    pub(crate) now_ms: i64,
    /// Whoever sent it does not wait for an answer any more.
    pub(crate) hung_up: bool,
    /// Nobody else waits for an answer.
    pub(crate) alone: bool,
    pub(crate) answerer: Answerer,
}

/// An event that the pool has judged and packed.
pub(crate) struct Judged {
    record: Record,
    verdict: Verdict,
    applied: Option<Applied>,
    alone: bool,
    answerer: Answerer,
}

pub(crate) struct Dispatcher {
    pub(crate) writer: Writer,
    pub(crate) version: Version,
    pub(crate) in_force: InForce,
    pub(crate) sequence: Arc<AtomicI64>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) registry: Registry,
    pub(crate) doubles: Doubles,
    pub(crate) notices: Notices,
    /// Where the pool sends its results.
    pub(crate) myself: mpsc::WeakSender<Message>,
}

impl Dispatcher {
    pub(crate) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Arrived(arrival) => self.arrived(*arrival),
                Message::StatusLine(arrival) => self.status_line(*arrival),
                Message::Judged(judged) => self.judged(*judged),
                Message::CountSessions(reply) => drop(reply.send(self.registry.len())),
                Message::Asked(asked) => self.asked(asked),
                Message::TookIn(records, reply) => drop(reply.send(self.took_in(&records))),
                Message::Found(found) => self.found(found),
                Message::Gone(sessions) => self.gone(&sessions),
                Message::Tick(reply) => drop(reply.send(self.tick())),
            }
        }
    }

    fn tick(&mut self) -> Ticked {
        self.flush();
        self.registry.forget(now_ms());
        if let Some(crowd) = self.registry.news_of_crowd() {
            self.counters.trouble(crowd);
        }
        let snapshot = self.in_force.look(now_ms(), Instant::now());
        let config = &snapshot.config;
        Ticked {
            limits: Limits {
                days: config.store.keep_days,
                bytes: config.store.keep_bytes,
            },
            masker: self.in_force.masker(),
            idle: config.daemon.idle,
            troubles: snapshot.problems.iter().map(ToString::to_string).collect(),
            processes: self.registry.processes(),
        }
    }

    /// What somebody else answered changes live state too, as far as it is news.
    fn took_in(&mut self, records: &[Record]) -> (Vec<Kept>, Then) {
        let masker = self.in_force.masker();
        let mut changed = BTreeSet::new();
        for record in records
            .iter()
            .filter(|record| record.duplicate_of.is_none())
        {
            let payload = record.payload();
            if let Ok(head) = Head::read(&payload) {
                let envelope = record.envelope();
                let Some(mut applied) = self.registry.apply(&head, envelope, None, &masker) else {
                    continue;
                };
                let event = Moment::new(&head, envelope).event;
                self.tell_of(applied.display.as_ref(), Some(&event), now_ms());
                if record.blocks_prompt() {
                    self.registry.prompt_blocked(&mut applied);
                }
                changed.insert(applied.session);
            }
        }
        let news = |id: &String| self.registry.news(id, now_ms());
        let news: Vec<News> = changed.iter().filter_map(news).collect();
        let kept = changed.iter().filter_map(|id| self.registry.kept(id));
        let kept = kept.collect();
        let then = Box::new(|| news.into_iter().for_each(News::tell));
        // What goes on from one of them.
        self.flush();
        (kept, then)
    }

    fn gone(&mut self, sessions: &[(String, Process)]) {
        self.registry.gone(sessions, now_ms());
        self.flush();
    }

    fn found(&mut self, found: Vec<Found>) {
        let now = now_ms();
        for one in found {
            for (inference, at) in &one.inferences {
                let at = at.unwrap_or(now);
                let display = self.registry.infer(&one.session, inference, at, now);
                self.tell_of(display.as_ref(), None, now);
            }
            if let Some(figures) = &one.figures {
                self.registry.figures(&one.session, figures, now);
            }
            self.registry.trouble(&one.session, one.trouble, now);
        }
        self.flush();
    }

    /// The person may want to know of what was not answered here.
    fn tell_of(&mut self, display: Option<&Change>, event: Option<&EventName>, now: i64) {
        let Some(display) = display.filter(|display| now - display.at < FRESH) else {
            return;
        };
        let config = self.in_force.config();
        let minute = notice::minute_of_day(now);
        let notice = notice::of(&config.config.notice, display, event, minute);
        self.run_notice(notice.as_ref(), now);
    }

    fn run_notice(&mut self, notice: Option<&Notice>, now: i64) {
        let Some(notice) = notice else { return };
        if let Some(row) = self.registry.row(&notice.session, now) {
            self.notices.run(notice, &row);
        }
    }

    /// A person's word is kept at once, like an event.
    fn asked(&mut self, asked: Asked) {
        let said = matches!(asked, Asked::Name { .. } | Asked::Seen(..));
        self.registry.answer(asked, now_ms());
        if said {
            self.flush();
        }
    }

    /// Has written what changed without an event.
    fn flush(&mut self) {
        let unwritten = self.registry.unwritten();
        if unwritten.is_empty() {
            return;
        }
        if let Err(unwritten) = self.writer.sessions(unwritten) {
            self.registry.not_written(&unwritten);
        }
    }

    fn arrived(&mut self, arrival: Arrival) {
        let Arrival {
            mut event,
            at,
            now_ms,
            hung_up,
            alone,
            answerer,
        } = arrival;
        let payload = std::mem::take(&mut event.payload);
        let seq = self.sequence.fetch_add(1, Ordering::Relaxed);
        let late = hung_up || now_ms - event.sent > FIRST_WORD.as_millis() as i64;
        if late {
            self.counters.late.add(1);
        }
        let head = Head::read(&payload);
        let known = head.as_ref().ok();
        let project = known.and_then(|head| self.registry.project_of(head, &event.envelope));
        let began = event.envelope.at;
        let (config, masker) = self
            .in_force
            .for_event(began, now_ms, at, project.as_deref());
        let double_of = self
            .doubles
            .find(&event.envelope, &payload, head.as_ref().ok(), seq, at);
        let (mut told, mut applied) = (false, None);
        if let Ok(head) = &head {
            if double_of.is_none() {
                let prompt = now_ms - event.envelope.at < FIRST_WORD.as_millis() as i64;
                let heard = (prompt && !late).then(arrival_mark);
                applied = self.registry.apply(head, &event.envelope, heard, &masker);
            }
            let session = head.session_id.as_deref().unwrap_or_default();
            told = self.registry.was_told(session, config.generation);
        }
        let display = applied.as_mut().and_then(|applied| applied.display.take());
        let minute = display
            .as_ref()
            .map_or(0, |_| notice::minute_of_day(now_ms));
        let work = Work {
            seq,
            envelope: event.envelope,
            at,
            told,
            late,
            config,
            masker,
            double_of,
            display,
            minute,
        };
        if payload.len() <= LIGHT {
            let (record, verdict) = work.judge(&payload, &head);
            return self.judged(Judged {
                record,
                verdict,
                applied,
                alone,
                answerer,
            });
        }
        drop(head);
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            let (record, verdict) = work.judge(&payload, &Head::read(&payload));
            if let Some(dispatcher) = myself.upgrade() {
                drop(dispatcher.blocking_send(Message::Judged(Box::new(Judged {
                    record,
                    verdict,
                    applied,
                    alone: false,
                    answerer,
                }))));
            }
        });
    }

    fn judged(&mut self, judged: Judged) {
        let Judged {
            mut record,
            verdict,
            applied,
            alone,
            answerer,
        } = judged;
        if let Some((session, generation)) = &verdict.told {
            self.registry.tell(session, *generation);
        }
        let output = match record.duplicate_of {
            Some(_) => {
                self.counters.duplicates.add(1);
                verdict.repeated()
            }
            None => verdict.output(),
        };
        let answer = Response::Answer {
            version: self.version,
            output,
        };
        let Ok(frame) = answer.to_frame() else { return };
        self.run_notice(verdict.notice.as_ref(), now_ms());
        let news = applied.and_then(|applied| self.keep_session(&mut record, &verdict, applied));
        let then = Box::new(move || {
            answerer.send(frame);
            // Whoever looks on learns of it once it is kept, and after whoever waits for an answer.
            if let Some(news) = news {
                news.tell();
            }
        });
        let kept = match alone {
            true => self.writer.keep_one(record, then),
            false => self.writer.keep(record, then),
        };
        if kept.is_err() {
            // The answerer is gone, and that makes it `Busy`: the shim goes alone, and the event
            // into the spool.
            self.counters.busy.add(1);
        }
    }
}

impl Dispatcher {
    /// Sees to it that the event's session is written with it. Gives its row, if it is news.
    fn keep_session(
        &mut self,
        record: &mut Record,
        verdict: &Verdict,
        mut applied: Applied,
    ) -> Option<News> {
        if verdict.blocks_prompt() {
            self.registry.prompt_blocked(&mut applied);
        }
        record.session = self.registry.kept(&applied.session);
        let news = applied.changed;
        news.then(|| self.registry.news(&applied.session, now_ms()))?
    }
}

/// Now, as the mark of an event: those of one millisecond keep their order.
fn arrival_mark() -> Mark {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    Mark {
        at: now.as_millis() as i64,
        id: EventId::at(now, [0; 2]),
    }
}

/// One event with all that judging needs: immutable, so that it can go to the pool.
struct Work {
    seq: i64,
    envelope: Envelope,
    at: Instant,
    told: bool,
    late: bool,
    config: Arc<Snapshot>,
    masker: Arc<Masker>,
    double_of: Option<i64>,
    display: Option<Change>,
    minute: u16,
}

impl Work {
    fn judge(self, payload: &[u8], head: &Result<Head<'_>, HeadError>) -> (Record, Verdict) {
        let case = Case {
            envelope: &self.envelope,
            payload,
            head: head.as_ref(),
            config: &self.config,
            told: self.told,
            change: self.display.as_ref(),
            minute: self.minute,
        };
        let verdict = judge(&case);
        let masked = self.masker.mask(payload);
        let mut record = Record::new(
            self.seq,
            self.envelope,
            head,
            masked.bytes,
            masked.count,
            Source::Daemon,
        );
        record.duplicate_of = self.double_of;
        if !self.late {
            record.took_us = Some(i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX));
            record.decision = Decision::new(verdict.decision(), &verdict.output());
        }
        (record, verdict)
    }
}
