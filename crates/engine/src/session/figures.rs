//! Context and cost: the status line's word counts for more than what is reckoned from a transcript.

use becket_wire::session::Figures;

use super::{Session, cut};

impl Session {
    /// Whether no status line tells its figures, so that its transcript has to.
    pub fn lacks_status_line(&self) -> bool {
        self.figures == Figures::default() || self.figures.from_transcript
    }

    /// Takes figures over. True if a person can see a difference.
    pub fn figure(&mut self, figures: &Figures) -> bool {
        let known = &self.figures;
        let better = *known != Figures::default() && !known.from_transcript;
        if *known == *figures || (figures.from_transcript && better) {
            return false;
        }
        self.figures.clone_from(figures);
        for text in [&mut self.figures.model_id, &mut self.figures.model_name] {
            *text = text.take().map(cut);
        }
        // A transcript tells of the last reply; events of an attended session know the model after it.
        let late = figures.from_transcript && self.attended && self.model.is_some();
        if figures.model_id.is_some() && !late {
            self.model.clone_from(&self.figures.model_id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_never_overrules_the_status_line() {
        let cost = |cost_usd, from_transcript| Figures {
            cost_usd: Some(cost_usd),
            from_transcript,
            ..Figures::default()
        };
        let mut session = Session::new("s", 0);
        assert!(session.figure(&cost(1.0, true)));
        assert!(session.figure(&cost(2.0, false)));
        assert!(!session.figure(&cost(2.0, false)), "nothing new");
        assert!(!session.figure(&cost(3.0, true)));
        assert_eq!(session.figures.cost_usd, Some(2.0));
    }

    #[test]
    fn a_transcript_does_not_take_a_switch_of_the_model_back() {
        let of = |model: &str, from_transcript| Figures {
            model_id: Some(model.to_owned()),
            from_transcript,
            ..Figures::default()
        };
        let mut session = Session::new("s", 0);
        session.figure(&of("opus", true));
        assert_eq!(session.model.as_deref(), Some("opus"));
        session.model = Some("sonnet".to_owned());
        let again = Figures {
            cost_usd: Some(1.0),
            ..of("opus", true)
        };
        assert!(session.figure(&again));
        assert_eq!(session.model.as_deref(), Some("sonnet"));
    }
}
