//! What changes live state without being answered here: the spool, what was inferred, what a person
//! says of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use becket_engine::notice::{self, Change, Notice};
use becket_engine::session::Moment;
use becket_wire::Head;
use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;

use super::Dispatcher;
use crate::infer::Found;
use crate::life::now_ms;
use crate::registry::{Asked, News, Process};
use crate::store::{Brought, Kept, Record, Then};

/// Nobody is told of what happened longer ago: milliseconds.
const FRESH: i64 = 60_000;

impl Dispatcher {
    /// What somebody else answered changes live state too, as far as it is news.
    pub(super) fn took_in(&mut self, brought: &Brought) -> (Vec<Kept>, Then) {
        let masker = self.in_force.masker();
        let mut changed = BTreeSet::new();
        let is_first = |record: &&Record| record.duplicate_of.is_none();
        for record in brought.new.iter().filter(is_first) {
            let payload = record.payload();
            if let Ok(head) = Head::read(&payload) {
                let envelope = record.envelope();
                let Some(mut applied) = self.registry.apply(&head, envelope, None, &masker) else {
                    continue;
                };
                self.follow_switches(Some(&applied));
                if record.is_kept_from_stopping() {
                    self.registry.stop_judged(&mut applied, record);
                } else {
                    let event = Moment::new(&head, envelope).event;
                    let by = Some((&event, envelope));
                    self.tell_of(applied.display.as_ref(), by, now_ms());
                }
                if record.blocks_prompt() {
                    self.registry.prompt_blocked(&mut applied);
                }
                changed.insert(applied.session);
            }
        }
        for (session, at) in &brought.blocked {
            if self.registry.prompt_was_blocked(session, *at) {
                changed.insert(session.clone());
            }
        }
        for through in &brought.let_through {
            let (news, display) = self.registry.stop_was_let_through(through);
            if news {
                changed.insert(through.session.clone());
            }
            self.tell_of(display.as_ref(), None, now_ms());
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

    pub(super) fn gone(&mut self, sessions: &[(String, Process)]) {
        self.registry.gone(sessions, now_ms());
        self.flush();
    }

    pub(super) fn found(&mut self, found: Vec<Found>) {
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
            if let Some(tokens) = one.tokens {
                self.registry.tokens(&one.session, tokens);
            }
            self.registry.trouble(&one.session, one.trouble, now);
        }
        self.flush();
    }

    /// The person may want to know of what was not answered here.
    fn tell_of(&mut self, display: Option<&Change>, by: Option<(&EventName, &Envelope)>, now: i64) {
        let Some(display) = display.filter(|display| now - display.at < FRESH) else {
            return;
        };
        let project = display.project.as_deref().map(Path::new);
        let nothing = BTreeMap::new();
        let variables = by.map_or(&nothing, |(_, envelope)| &envelope.variables);
        let at = Instant::now();
        let (config, _) = self.in_force.for_event(now, now, at, project, variables);
        let minute = notice::minute_of_day(now);
        let event = by.map(|(event, _)| event);
        let notice = notice::of(&config.config.notice, display, event, minute);
        self.run_notice(notice.as_ref(), now);
    }

    pub(crate) fn run_notice(&mut self, notice: Option<&Notice>, now: i64) {
        let Some(notice) = notice else { return };
        if let Some(row) = self.registry.row(&notice.session, now) {
            self.notices.run(notice, &row);
        }
    }

    /// A person's word is kept at once, like an event.
    pub(super) fn asked(&mut self, asked: Asked) {
        let said = matches!(asked, Asked::Name { .. } | Asked::Seen(..));
        self.registry.answer(asked, now_ms());
        if said {
            self.flush();
        }
    }

    /// Has written what the turns have come to.
    pub(super) fn flush_figures(&mut self) {
        let figures = self.registry.unwritten_figures();
        if figures.is_empty() {
            return;
        }
        if let Err(figures) = self.writer.figures(figures) {
            self.registry.figures_not_written(figures);
        }
    }

    /// Has written what changed without an event.
    pub(super) fn flush(&mut self) {
        let unwritten = self.registry.unwritten();
        if unwritten.is_empty() {
            return;
        }
        if let Err(unwritten) = self.writer.sessions(unwritten) {
            self.registry.not_written(&unwritten);
        }
    }
}
