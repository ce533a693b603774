//! Takes events in one order. The sole owner of live state: everything reaches it as a message.

mod live;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_engine::hooks::slash::{self, Slash};
use becket_engine::judge::Verdict;
use becket_engine::mask::Masker;
use becket_engine::notice;
use becket_engine::run::Cancel;
use becket_engine::session::Mark;
use becket_wire::bounds::FIRST_WORD;
use becket_wire::rpc::{EventRequest, Response};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Version};
use tokio::sync::{mpsc, oneshot};

use crate::connection::Answerer;
use crate::counters::Counters;
use crate::doubles::Doubles;
use crate::hooks::{Decided, Hooked, Hooks};
use crate::in_force::InForce;
use crate::infer::Found;
use crate::life::now_ms;
use crate::notice::Notices;
use crate::registry::{Applied, Asked, News, Process, Registry};
use crate::store::{Brought, Kept, Limits, Record, Then, Writer};
pub(crate) use work::Planned;
use work::{Hooking, Work};

/// What may wait for the dispatcher. More is answered `Busy`.
pub(crate) const QUEUE: usize = 4096;
/// Events up to this are judged where they stand; larger ones go to the pool.
const LIGHT: usize = 16 << 10;

/// What the dispatcher is told.
pub(crate) enum Message {
    Arrived(Box<Arrival>),
    StatusLine(Box<Arrival>),
    Judged(Box<Judged>),
    /// The named hooks of an event are done.
    Hooked(Box<Hooked>),
    /// They will never be: whoever waits for them goes alone.
    Unhooked(i64),
    /// A hook that nobody waited for has ended: its run, masked.
    HookEnded(Vec<RunRow>),
    CountSessions(oneshot::Sender<u64>),
    Asked(Asked),
    /// What is taken in from the spool; it is committed with the sessions that it changes.
    TookIn(Arc<Brought>, oneshot::Sender<(Vec<Kept>, Then)>),
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
    pub(crate) record: Record,
    pub(crate) verdict: Verdict,
    /// The named hooks that are to be run before it is answered.
    pub(crate) held: Option<Planned>,
    /// What masks what they say.
    pub(crate) masker: Arc<Masker>,
    /// When it arrived.
    pub(crate) at: Instant,
    pub(crate) applied: Option<Applied>,
    pub(crate) alone: bool,
    pub(crate) answerer: Answerer,
}

pub(crate) struct Dispatcher {
    pub(crate) writer: Writer,
    pub(crate) version: Version,
    pub(crate) in_force: InForce,
    pub(crate) sequence: Arc<AtomicI64>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) registry: Registry,
    pub(crate) doubles: Doubles,
    pub(crate) hooks: Hooks,
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
                Message::Hooked(hooked) => self.hooked(*hooked),
                Message::Unhooked(seq) => self.hooks.give_up(seq),
                Message::HookEnded(runs) => self.hook_ended(runs),
                Message::CountSessions(reply) => drop(reply.send(self.registry.len())),
                Message::Asked(asked) => self.asked(asked),
                Message::TookIn(brought, reply) => drop(reply.send(self.took_in(&brought))),
                Message::Found(found) => self.found(found),
                Message::Gone(sessions) => self.gone(&sessions),
                Message::Tick(reply) => drop(reply.send(self.tick())),
            }
        }
    }

    fn tick(&mut self) -> Ticked {
        self.flush();
        self.flush_figures();
        self.registry.forget(now_ms());
        self.hooks.look_after();
        if let Some(crowd) = self.registry.news_of_crowd() {
            self.counters.trouble(crowd);
        }
        let snapshot = self.in_force.look(now_ms());
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
        let (config, masker) = self.in_force.for_event(
            event.envelope.at,
            now_ms,
            at,
            project.as_deref(),
            &event.envelope.variables,
        );
        let double_of = self
            .doubles
            .find(&event.envelope, &payload, head.as_ref().ok(), seq, at);
        let (mut told, mut applied, mut hooking) = (false, None, None);
        let mut launched_at = None;
        if let Ok(head) = &head {
            if double_of.is_none() {
                let prompt = now_ms - event.envelope.at < FIRST_WORD.as_millis() as i64;
                let heard = (prompt && !late).then(arrival_mark);
                applied = self.registry.apply(head, &event.envelope, heard, &masker);
                self.follow_switches(applied.as_ref());
            }
            let session = head.session_id.as_deref().unwrap_or_default();
            if double_of.is_none() && !late {
                let project = project.unwrap_or_else(|| PathBuf::from("/"));
                let slash = slash::parse(head, &event.envelope);
                hooking = self.hooking(slash, session, project, !config.hooks.is_empty());
            }
            told = self.registry.was_told(session, config.generation);
            if event.envelope.is_launched() {
                launched_at = self.registry.began(session);
            }
        }
        let display = applied.as_mut().and_then(|applied| applied.display.take());
        let minute = display
            .as_ref()
            .map_or(0, |_| notice::minute_of_day(now_ms));
        let acts = hooking
            .as_ref()
            .is_some_and(|hooking| hooking.slash.is_some());
        if acts {
            self.hooks.expect(seq, FIRST_WORD, Cancel::new());
        }
        let work = Work {
            seq,
            envelope: event.envelope,
            at,
            told,
            late,
            config,
            masker: Arc::clone(&masker),
            double_of,
            display,
            launched_at,
            minute,
            hooking,
        };
        if payload.len() <= LIGHT && !acts {
            let (record, verdict, held) = work.judge(&payload, &head);
            return self.judged(Judged {
                record,
                verdict,
                held,
                masker,
                at,
                applied,
                alone,
                answerer,
            });
        }
        drop(head);
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            let (record, verdict, held) = work.judge(&payload, &Head::read(&payload));
            if let Some(dispatcher) = myself.upgrade() {
                drop(dispatcher.blocking_send(Message::Judged(Box::new(Judged {
                    record,
                    verdict,
                    held,
                    masker,
                    at,
                    applied,
                    alone: false,
                    answerer,
                }))));
            }
        });
    }

    /// What the hooks of an event depend on; none where there is nothing to run and to switch.
    fn hooking(
        &mut self,
        slash: Option<Slash>,
        session: &str,
        project: PathBuf,
        has_hooks: bool,
    ) -> Option<Hooking> {
        if !has_hooks && slash.is_none() {
            return None;
        }
        Some(Hooking {
            place: self.hooks.place.clone(),
            project,
            switches: self.hooks.board.of(session),
            slash,
        })
    }

    fn judged(&mut self, judged: Judged) {
        if let Some((session, generation)) = &judged.verdict.told {
            self.registry.tell(session, *generation);
        }
        if judged.held.is_some() {
            // Without its answerer it gets `Busy`, and the shim goes standalone.
            if self.hooks.running.takes_no_more() {
                return self.counters.busy.add(1);
            }
            return self.hold(judged);
        }
        let Judged {
            mut record,
            verdict,
            applied,
            alone,
            answerer,
            ..
        } = judged;
        let output = match record.duplicate_of {
            None => verdict.output(),
            Some(first) => {
                self.counters.duplicates.add(1);
                match self.hooks.decision_of(first) {
                    Some(Decided::Not(for_ms)) => {
                        return self.wait_for(first, for_ms, record, answerer);
                    }
                    Some(Decided::So(output)) => output,
                    None => verdict.repeated(),
                }
            }
        };
        self.decided(record.seq, || verdict.repeated());
        let answer = Response::Answer {
            version: self.version,
            output,
        };
        let Ok(frame) = answer.to_frame() else { return };
        self.run_notice(verdict.notice.as_ref(), now_ms());
        let (session, news) = applied
            .map(|applied| self.keep_session(&verdict, applied))
            .unwrap_or_default();
        record.session = session;
        let then = Box::new(move || {
            answerer.send(frame);
            // Whoever looks on learns of it once it is kept, and after whoever waits for an answer.
            if let Some(news) = news {
                news.tell();
            }
        });
        self.keep(record, then, alone);
    }

    /// Has an event written, and then does this.
    pub(crate) fn keep(&self, record: Record, then: Then, alone: bool) {
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

    /// Sees to it that the event's session is written with it. Gives its row, if it is news.
    pub(crate) fn keep_session(
        &mut self,
        verdict: &Verdict,
        mut applied: Applied,
    ) -> (Option<Kept>, Option<News>) {
        if verdict.blocks_prompt() {
            self.registry.prompt_blocked(&mut applied);
        }
        let kept = self.registry.kept(&applied.session);
        let news = applied.changed;
        let news = news.then(|| self.registry.news(&applied.session, now_ms()));
        (kept, news.flatten())
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
