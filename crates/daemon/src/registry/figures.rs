//! Cost and tokens by turn: what is written of them, and when.

use becket_engine::transcript::TurnTokens;

use super::{Live, Registry};
use crate::store::TurnFigures;

/// A session's turn, as far as its figures go.
#[derive(Debug, Default)]
pub(super) struct Turn {
    tokens: TurnTokens,
    written: Option<TurnFigures>,
}

impl Live {
    /// The figures of the turn that goes on, or was the last; none where nothing is known.
    fn turn_figures(&self) -> Option<TurnFigures> {
        let session = &self.session;
        let began = session.prompted_at?;
        let tokens = Some(self.turn.tokens).filter(|tokens| tokens.since == began);
        let tokens = tokens.unwrap_or_default();
        let cost_usd = session.figures.cost_usd;
        (cost_usd.is_some() || tokens != TurnTokens::default()).then(|| TurnFigures {
            session_id: session.session_id.clone(),
            began,
            at: session.last_activity,
            model: session.model.clone(),
            cost_usd,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
        })
    }

    /// Figures that are not written yet. They count as written from now on.
    pub(super) fn unwritten_figures(&mut self) -> Option<TurnFigures> {
        let figures = self.turn_figures()?;
        let written = self.turn.written.as_ref();
        if written.is_some_and(|written| written.says_the_same(&figures)) {
            return None;
        }
        self.turn.written = Some(figures.clone());
        Some(figures)
    }
}

impl Registry {
    /// The tokens of a session's turn, as its transcript tells them.
    pub(crate) fn tokens(&mut self, id: &str, tokens: TurnTokens) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.turn.tokens = tokens;
        }
    }

    /// A prompt comes: what is known until then belongs to the turn before it.
    pub(super) fn turn_over(&mut self, id: &str) {
        let live = self.sessions.get_mut(id);
        let figures = live.and_then(Live::unwritten_figures);
        self.turns_over.extend(figures);
    }
}
