//! Applies an action to the model, and returns the effect that it has outside of the view.

use becket_wire::question::PersonAnswer;
use becket_wire::session::SessionRow;

use super::model::{Focus, Mode, Model, Target, title};
use crate::session::words::question;
use crate::tmux::may_take_a_line;
use crate::tui::answer_box::{AnswerBox, AnswerKey};
use crate::tui::input::{Action, TextField};
use crate::tui::model::key;
use crate::ui::style::Glyphs;
use crate::ui::text::screen_line;

/// An effect outside of the view.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Jump(Box<SessionRow>),
    Interrupt(Box<SessionRow>),
    End(Box<SessionRow>),
    Line(Box<SessionRow>, String),
    Name {
        session: String,
        title: Option<String>,
    },
    /// Fetches the question of a session for the answer box.
    LoadQuestion {
        session: String,
        id: Option<i64>,
    },
    Answer {
        id: i64,
        answer: PersonAnswer,
        title: String,
    },
    Redraw,
    Quit,
}

impl Model {
    pub fn act(&mut self, action: Action) -> Option<Effect> {
        self.settle();
        self.status_message = None;
        let effect = self.apply(action);
        self.settle();
        effect
    }

    fn apply(&mut self, action: Action) -> Option<Effect> {
        let page = self.page.max(2) as isize - 1;
        match action {
            Action::Step(by) => self.step(by),
            Action::Page(by) => self.step(by.saturating_mul(page)),
            Action::Fold(folded) => self.fold(folded),
            Action::Scroll(by) => match &mut self.mode {
                Mode::Answer(open) => open.scroll(by),
                _ => self.events.scroll(by),
            },
            Action::OpenQuestion => return self.open_question(),
            Action::Answer(key) => return self.answer(key),
            Action::NextWaiting => {
                if !self.next_waiting() {
                    self.show_message("no session waits for you", false);
                }
            }
            Action::Filter => self.mode = Mode::Filter(TextField::new(&self.options.filter)),
            Action::Group => {
                self.options.grouped = !self.options.grouped;
                self.invalidate_tree();
            }
            Action::Focus => {
                self.focus = match self.focus {
                    Focus::List => Focus::Events,
                    Focus::Events => Focus::List,
                };
            }
            Action::Help => self.mode = Mode::Help,
            Action::Quit => return Some(Effect::Quit),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Jump => return self.effect_on_selection(Effect::Jump),
            Action::Interrupt if self.current().and_then(question).is_some() => {
                self.open_prompt(|target, _| Mode::Interrupt(target));
            }
            Action::Interrupt => return self.effect_on_selection(Effect::Interrupt),
            Action::End => self.open_prompt(|target, _| Mode::End(target, TextField::default())),
            Action::Name => self.open_prompt(|target, row| {
                Mode::Name(
                    target,
                    TextField::new(row.title.as_deref().unwrap_or_default()),
                )
            }),
            Action::Line => match self.current().map(may_take_a_line) {
                Some(Err(why)) => self.mode = Mode::Refused(format!("{why:#}")),
                _ => self.open_prompt(|target, _| Mode::Line(target, TextField::default())),
            },
            Action::Edit(edit) => {
                if let Mode::Filter(field)
                | Mode::Name(_, field)
                | Mode::Line(_, field)
                | Mode::End(_, field) = &mut self.mode
                {
                    field.edit(&edit);
                }
                if let Mode::Filter(field) = &self.mode {
                    self.options.filter = field.text();
                    self.invalidate_tree();
                }
            }
            Action::Accept => return self.accept(),
            Action::Confirm => return self.confirm(),
            Action::Cancel => self.cancel(),
        }
        None
    }

    fn effect_on_selection(&mut self, effect: fn(Box<SessionRow>) -> Effect) -> Option<Effect> {
        let row = self.current().cloned();
        if row.is_none() {
            self.show_message("no session is selected", true);
        }
        row.map(Box::new).map(effect)
    }

    fn fold(&mut self, folded: bool) {
        let Some(key) = self.current().map(|row| key(row).to_owned()) else {
            return;
        };
        if folded {
            self.options.folded.insert(key);
        } else {
            self.options.folded.remove(&key);
        }
        self.invalidate_tree();
    }

    fn open_prompt(&mut self, mode: impl Fn(Target, &SessionRow) -> Mode) {
        match self.current() {
            None => self.mode = Mode::Refused("no session is selected".to_owned()),
            Some(row) => {
                let target = Target {
                    key: key(row).to_owned(),
                    session_id: row.session_id.clone(),
                    title: screen_line(title(row), Glyphs::Unicode),
                };
                self.mode = mode(target, row);
            }
        }
    }

    /// Opens the answer box for the oldest question of the selected session, and asks for its content.
    fn open_question(&mut self) -> Option<Effect> {
        let Some(row) = self.current() else {
            self.show_message("no session is selected", true);
            return None;
        };
        if row.question.is_none() && question(row).is_none() {
            self.show_message("it asks you nothing", false);
            return None;
        }
        let (session, id) = (row.session_id.clone(), row.question);
        self.open_prompt(|target, row| {
            Mode::Answer(Box::new(AnswerBox::new(target, row.question)))
        });
        Some(Effect::LoadQuestion { session, id })
    }

    fn answer(&mut self, key: AnswerKey) -> Option<Effect> {
        let Mode::Answer(open) = &mut self.mode else {
            return None;
        };
        let (id, answer) = (open.question_id?, open.press(key)?);
        let title = std::mem::take(&mut open.target.title);
        self.mode = Mode::Normal;
        Some(Effect::Answer { id, answer, title })
    }

    fn accept(&mut self) -> Option<Effect> {
        match std::mem::take(&mut self.mode) {
            Mode::Filter(_) => {
                self.keep_selection();
                None
            }
            Mode::Normal | Mode::Help => None,
            mode @ (Mode::Refused(_) | Mode::Interrupt(_) | Mode::Answer(_)) => {
                self.mode = mode;
                None
            }
            Mode::Name(target, field) => {
                let text = field.text().trim().to_owned();
                Some(Effect::Name {
                    session: target.session_id,
                    title: (!text.is_empty()).then_some(text),
                })
            }
            Mode::Line(_, field) if field.text().trim().is_empty() => None,
            Mode::Line(target, field) => {
                let row = self.current_target(&target)?;
                Some(Effect::Line(row, field.text()))
            }
            Mode::End(target, field) if target.short_id() != Some(field.text().trim()) => {
                self.mode = Mode::End(target, field);
                None
            }
            Mode::End(target, _) => self.current_target(&target).map(Effect::End),
        }
    }

    fn confirm(&mut self) -> Option<Effect> {
        match std::mem::take(&mut self.mode) {
            Mode::End(target, _) => self.current_target(&target).map(Effect::End),
            Mode::Interrupt(target) => self.current_target(&target).map(Effect::Interrupt),
            mode => {
                self.mode = mode;
                None
            }
        }
    }

    /// Returns the session that a prompt was opened for, unless `/clear` has replaced it.
    fn current_target(&mut self, target: &Target) -> Option<Box<SessionRow>> {
        let row = self
            .row(&target.key)
            .filter(|row| row.session_id == target.session_id);
        let row = row.cloned().map(Box::new);
        if row.is_none() {
            self.show_message("that session has ended; nothing was done", true);
        }
        row
    }

    fn cancel(&mut self) {
        match std::mem::take(&mut self.mode) {
            Mode::Normal if self.focus == Focus::Events => {
                self.focus = Focus::List;
                self.events.scrolled_back = 0;
            }
            Mode::Normal | Mode::Filter(_) => {
                self.keep_selection();
                self.options.filter.clear();
                self.invalidate_tree();
            }
            Mode::End(..) | Mode::Interrupt(_) => self.show_message("nothing was done", false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use becket_wire::session::{Display, Status};

    use super::*;
    use crate::tui::input::Edit;

    fn row(id: &str) -> SessionRow {
        SessionRow {
            session_id: id.into(),
            line: "line".into(),
            title: Some(format!("title {id}")),
            display: Display::Working,
            tmux_pane: Some("%1".into()),
            tmux_socket: Some("/tmp/tmux".into()),
            ..SessionRow::default()
        }
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.put_all(vec![row("a")]);
        model.settle();
        model
    }

    fn type_in(model: &mut Model, text: &str) {
        for c in text.chars() {
            assert_eq!(model.act(Action::Edit(Edit::Insert(c))), None);
        }
    }

    #[test]
    fn ending_asks_and_no_leaves_it() {
        let mut model = model();
        assert_eq!(model.act(Action::End), None);
        assert!(matches!(&model.mode, Mode::End(target, _) if target.title == "title a"));
        assert_eq!(model.act(Action::Cancel), None);
        assert_eq!(model.mode, Mode::Normal);
        model.act(Action::End);
        let ends = Some(Effect::End(Box::new(row("a"))));
        assert_eq!(model.act(Action::Confirm), ends);
        model.act(Action::End);
        type_in(&mut model, "y");
        assert_eq!(model.act(Action::Accept), None);
        assert!(matches!(&model.mode, Mode::End(..)), "it asks on");
        model.act(Action::Edit(Edit::Clear));
        type_in(&mut model, "a");
        assert_eq!(model.act(Action::Accept), ends);
    }

    #[test]
    fn a_launch_without_an_id_is_not_ended_by_enter() {
        let mut model = Model::default();
        model.put_all(vec![row("")]);
        model.act(Action::End);
        assert_eq!(model.act(Action::Accept), None);
        assert!(matches!(&model.mode, Mode::End(..)));
        assert!(model.act(Action::Confirm).is_some());
    }

    #[test]
    fn an_interrupt_asks_only_while_a_dialog_is_open() {
        let interrupts = |row: SessionRow| Some(Effect::Interrupt(Box::new(row)));
        let mut model = model();
        assert_eq!(model.act(Action::Interrupt), interrupts(row("a")));
        let mut asks = row("a");
        asks.status = Status::Attention {
            reason: "Permission for Bash".into(),
        };
        for display in [Display::Attention, Display::Checked] {
            asks.display = display;
            model.put(asks.clone());
            assert_eq!(model.act(Action::Interrupt), None);
            assert!(matches!(&model.mode, Mode::Interrupt(_)));
            assert_eq!(model.act(Action::Cancel), None);
            model.act(Action::Interrupt);
            assert_eq!(model.act(Action::Confirm), interrupts(asks.clone()));
        }
    }

    #[test]
    fn what_was_begun_for_one_session_is_not_done_to_the_next() {
        for begin in [Action::End, Action::Line] {
            let mut model = model();
            let accept = match begin {
                Action::End => Action::Confirm,
                _ => Action::Accept,
            };
            model.act(begin);
            type_in(&mut model, "x");
            model.put(row("b"));
            assert_eq!(model.act(accept), None);
            assert!(model.status_message.as_ref().unwrap().is_error);
            assert_eq!(model.mode, Mode::Normal);
        }
    }

    #[test]
    fn a_line_goes_out_as_it_was_typed_and_an_empty_one_does_not() {
        let mut model = model();
        model.act(Action::Line);
        assert_eq!(model.act(Action::Accept), None);
        model.act(Action::Line);
        type_in(&mut model, " yes, go on");
        let sent = model.act(Action::Accept);
        assert_eq!(
            sent,
            Some(Effect::Line(Box::new(row("a")), " yes, go on".into()))
        );
    }

    #[test]
    fn a_line_is_refused_before_it_is_typed_but_not_for_a_failure() {
        let mut asks = row("a");
        asks.status = Status::Attention {
            reason: "Permission for Bash".into(),
        };
        (asks.display, asks.doing) = (Display::Attention, Some("wants to run: make".into()));
        let mut nowhere = row("a");
        nowhere.tmux_pane = None;
        for (refused, why) in [(asks, "wants to run: make"), (nowhere, "no tmux pane")] {
            let mut model = model();
            model.put(refused);
            model.act(Action::Line);
            type_in(&mut model, "use the proxy");
            assert_eq!(model.act(Action::Accept), None);
            match &model.mode {
                Mode::Refused(said) => assert!(said.contains(why), "{said}"),
                mode => panic!("{mode:?}"),
            }
            model.act(Action::Cancel);
            assert_eq!(model.mode, Mode::Normal);
        }
        let mut failed = row("a");
        (failed.display, failed.error) = (Display::Error, Some("overloaded".into()));
        failed.waiting_reason = Some("overloaded".into());
        let mut model = model();
        model.put(failed);
        model.act(Action::Line);
        assert!(matches!(model.mode, Mode::Line(..)));
    }

    #[test]
    fn the_selection_stays_where_a_search_put_it() {
        let other = SessionRow {
            line: "other".into(),
            ..row("b")
        };
        for leave in [vec![Action::Accept, Action::Cancel], vec![Action::Cancel]] {
            let mut model = Model::default();
            model.put_all(vec![row("a"), other.clone()]);
            model.act(Action::Filter);
            type_in(&mut model, "title b");
            leave.into_iter().for_each(|action| drop(model.act(action)));
            assert_eq!(model.options.filter, "");
            assert_eq!(model.current().unwrap().session_id, "b");
        }
    }

    #[test]
    fn a_name_begins_with_the_old_one_and_an_empty_one_takes_it_away() {
        let mut model = model();
        model.act(Action::Name);
        type_in(&mut model, "!");
        let name = |title: Option<&str>| {
            Some(Effect::Name {
                session: "a".into(),
                title: title.map(str::to_owned),
            })
        };
        assert_eq!(model.act(Action::Accept), name(Some("title a!")));
        model.act(Action::Name);
        model.act(Action::Edit(Edit::Clear));
        assert_eq!(model.act(Action::Accept), name(None));
    }

    #[test]
    fn the_filter_works_as_it_is_typed_and_escape_clears_it() {
        let mut model = model();
        model.act(Action::Filter);
        type_in(&mut model, "nothing");
        assert!(model.current().is_none());
        assert_eq!(model.act(Action::Jump), None);
        model.act(Action::Accept);
        assert_eq!(model.options.filter, "nothing");
        model.act(Action::Cancel);
        assert!(model.current().is_some());
    }
}
