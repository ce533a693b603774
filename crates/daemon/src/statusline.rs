//! The status line: its figures go to the registry, and the line goes back. It is no event: nothing
//! is kept of it, so nothing waits for the database.

use becket_engine::statusline::{Line, answer, figures};
use becket_wire::rpc::Response;

use crate::dispatch::{Arrival, Dispatcher};

impl Dispatcher {
    pub(crate) fn status_line(&mut self, arrival: Arrival) {
        let envelope = &arrival.event.envelope;
        let read = figures(&arrival.event.payload);
        let session = read.as_ref().ok().and_then(|read| read.session_id.clone());
        let project = session.as_ref().and_then(|id| self.registry.project(id));
        let (config, _) = self.in_force.for_event(
            envelope.at,
            arrival.now_ms,
            arrival.at,
            project.as_deref(),
            &envelope.variables,
        );
        let mut line = Line::of(read);
        if let Some(session) = session {
            self.registry
                .figures(&session, &line.figures, arrival.now_ms);
            line.waiting = self.registry.waiting_besides(&session);
            line.off = self.hooks.board.of(&session).disabled().to_vec();
        }
        line.wrong.extend(self.counters.own_troubles());
        let answer = Response::Answer {
            version: self.version,
            output: answer(line, envelope, &config),
        };
        if let Ok(frame) = answer.to_frame() {
            arrival.answerer.send(frame);
        }
    }
}
