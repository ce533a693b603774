//! The box in which the user answers a question of a session. It belongs to the question whose number the list
//! showed when it was opened, and answers no other one.

use std::collections::{BTreeMap, BTreeSet};

use becket_wire::question::{AskedQuestion, PersonAnswer, QuestionRow};

use crate::tui::model::Target;

/// The reason why no key acts any more.
pub const OVER: &str = "this question is over: answered in the terminal, or elsewhere";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerBox {
    pub target: Target,
    /// The number of the question; none if only the terminal can answer it.
    pub question_id: Option<i64>,
    /// None until the daemon has sent it.
    pub question: Option<QuestionRow>,
    /// The reason why the question cannot be answered here, or not any more.
    pub over: Option<String>,
    /// The answers to the first questions of an AskUserQuestion.
    chosen: Vec<String>,
    /// The marked options of the current question, if it takes several.
    marked: BTreeSet<usize>,
    /// True once the user has asked for `always`: the next press confirms it.
    pub confirms_always: bool,
    /// The first visible line of the request.
    pub scroll: usize,
    pub drawn: DrawnBox,
}

/// The box as it was drawn last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrawnBox {
    pub state: BoxState,
    pub max_scroll: usize,
}

/// The things that a key can answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BoxState {
    #[default]
    Closed,
    /// There is nothing to answer.
    Passive,
    Asks(AnswerStep),
}

/// One step of an answer: a question has several if Claude asks several things, or if `always` is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerStep {
    pub question_id: i64,
    pub answered: usize,
    pub confirms_always: bool,
}

/// A key of the box that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKey {
    Yes,
    No,
    Always,
    /// The number of an option, from 1.
    Option(usize),
    /// Sends the marked options.
    Accept,
}

impl AnswerBox {
    pub fn new(target: Target, question_id: Option<i64>) -> Self {
        Self {
            target,
            question_id,
            ..Self::default()
        }
    }

    /// Returns the step that the user has to answer; none if there is nothing to answer.
    pub fn step(&self) -> Option<AnswerStep> {
        let row = self.question.as_ref()?;
        let is_open = self.over.is_none() && row.can_be_answered;
        is_open.then_some(AnswerStep {
            question_id: row.id,
            answered: self.chosen.len(),
            confirms_always: self.confirms_always,
        })
    }

    /// Returns the question of an AskUserQuestion whose turn it is, its place, and their number.
    pub fn current(&self) -> Option<(AskedQuestion, usize, usize)> {
        let mut asked = self.question.as_ref()?.asked();
        let (nth, count) = (self.chosen.len(), asked.len());
        (nth < count).then(|| (asked.swap_remove(nth), nth, count))
    }

    /// Returns true if an option, counted from 0, is marked.
    pub fn is_marked(&self, option: usize) -> bool {
        self.marked.contains(&option)
    }

    /// Returns true if `always` adds a rule.
    pub fn has_rules(&self) -> bool {
        let row = self.question.as_ref();
        row.is_some_and(|row| !row.suggestions.is_empty() && row.asked().is_empty())
    }

    /// Takes the question that the daemon has sent, or the reason why it did not.
    pub fn load(&mut self, found: Result<Option<QuestionRow>, String>) {
        match found {
            Ok(Some(row)) => self.question = Some(row),
            Ok(None) if self.question_id.is_some() => self.over = Some(OVER.to_owned()),
            Ok(None) => {
                self.over = Some("only the terminal of the session can answer this".to_owned());
            }
            Err(why) => self.over = Some(why),
        }
    }

    /// Handles a key that answers the step that was drawn last. Returns the answer once it is complete.
    pub fn press(&mut self, key: AnswerKey) -> Option<PersonAnswer> {
        let step = self.step()?;
        if self.drawn.state != BoxState::Asks(step) {
            return None;
        }
        match (key, self.current()) {
            (AnswerKey::No, _) => Some(PersonAnswer::No { reason: None }),
            (AnswerKey::Yes, None) => Some(PersonAnswer::Yes),
            (AnswerKey::Always, None) if step.confirms_always => Some(PersonAnswer::Always),
            (AnswerKey::Always, None) if self.has_rules() => {
                self.confirms_always = true;
                self.scroll = 0;
                None
            }
            (AnswerKey::Option(number), Some((asked, ..))) => self.choose(&asked, number),
            (AnswerKey::Accept, Some((asked, ..))) if !self.marked.is_empty() => {
                let marked = std::mem::take(&mut self.marked).into_iter();
                let labels = marked.map(|option| asked.options[option].label.clone());
                self.add_choice(labels.collect::<Vec<_>>().join(", "))
            }
            _ => None,
        }
    }

    fn choose(&mut self, asked: &AskedQuestion, number: usize) -> Option<PersonAnswer> {
        let option = number.checked_sub(1)?;
        let label = &asked.options.get(option)?.label;
        if !asked.multi_select {
            return self.add_choice(label.clone());
        }
        if !self.marked.remove(&option) {
            self.marked.insert(option);
        }
        None
    }

    /// Adds the answer to the current question. Returns all answers after the last one.
    fn add_choice(&mut self, answer: String) -> Option<PersonAnswer> {
        self.chosen.push(answer);
        self.scroll = 0;
        let asked = self.question.as_ref()?.asked();
        if self.chosen.len() < asked.len() {
            return None;
        }
        let questions = asked.into_iter().map(|asked| asked.question);
        let answers: BTreeMap<_, _> = questions.zip(self.chosen.clone()).collect();
        Some(PersonAnswer::Answers(answers))
    }

    /// Scrolls the request up by `by` lines, or down if it is negative.
    pub fn scroll(&mut self, by: isize) {
        let to = self.scroll.saturating_add_signed(by.saturating_neg());
        self.scroll = to.min(self.drawn.max_scroll);
    }
}

/// Returns the words for an answer that was sent.
pub fn answer_words(answer: &PersonAnswer) -> String {
    match answer {
        PersonAnswer::Yes => "yes".to_owned(),
        PersonAnswer::Always => "always".to_owned(),
        PersonAnswer::No { .. } => "no".to_owned(),
        PersonAnswer::Answers(answers) => {
            let answers: Vec<&str> = answers.values().map(String::as_str).collect();
            answers.join("; ")
        }
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub fn permission() -> QuestionRow {
        QuestionRow {
            id: 41,
            session_id: "a".to_owned(),
            tool: "Bash".to_owned(),
            input: json!({"command": "psql shop_dev -f 0042.sql"}),
            suggestions: vec![json!({"type": "addRules", "destination": "localSettings",
                "rules": [{"toolName": "Bash", "ruleContent": "psql:*"}]})],
            can_be_answered: true,
            ..QuestionRow::default()
        }
    }

    pub fn asked(questions: &Value) -> QuestionRow {
        QuestionRow {
            tool: "AskUserQuestion".to_owned(),
            input: json!({ "questions": questions }),
            suggestions: Vec::new(),
            ..permission()
        }
    }

    pub fn two_questions() -> QuestionRow {
        asked(&json!([
            {"question": "Which colour?", "options": [
                {"label": "Blue", "description": "calm"}, {"label": "Red", "description": "loud"}]},
            {"question": "Which pages?", "multiSelect": true, "options": [
                {"label": "Cart"}, {"label": "Checkout"}, {"label": "Account"}]},
        ]))
    }

    pub fn open(row: QuestionRow) -> AnswerBox {
        let mut open = AnswerBox::new(Target::default(), Some(row.id));
        open.load(Ok(Some(row)));
        open
    }

    /// Presses a key after the box was drawn.
    fn press(open: &mut AnswerBox, key: AnswerKey) -> Option<PersonAnswer> {
        open.drawn.state = open.step().map_or(BoxState::Passive, BoxState::Asks);
        open.press(key)
    }

    #[test]
    fn a_permission_takes_yes_no_and_always_twice() {
        let no = PersonAnswer::No { reason: None };
        assert_eq!(
            press(&mut open(permission()), AnswerKey::Yes),
            Some(PersonAnswer::Yes)
        );
        assert_eq!(press(&mut open(permission()), AnswerKey::No), Some(no));
        assert_eq!(press(&mut open(permission()), AnswerKey::Option(1)), None);
        let mut always = open(permission());
        assert_eq!(press(&mut always, AnswerKey::Always), None);
        // The rule has to be on the screen first.
        assert_eq!(always.press(AnswerKey::Always), None);
        assert_eq!(
            press(&mut always, AnswerKey::Always),
            Some(PersonAnswer::Always)
        );
        let mut without = open(QuestionRow {
            suggestions: Vec::new(),
            ..permission()
        });
        press(&mut without, AnswerKey::Always);
        assert!(!without.confirms_always);
    }

    #[test]
    fn questions_are_answered_one_after_the_other() {
        let mut open = open(two_questions());
        for key in [AnswerKey::Yes, AnswerKey::Option(3), AnswerKey::Always] {
            assert_eq!(press(&mut open, key), None);
        }
        assert_eq!(press(&mut open, AnswerKey::Option(2)), None);
        assert_eq!(open.current().unwrap().0.question, "Which pages?");
        // The next question was not drawn yet.
        assert_eq!(open.press(AnswerKey::Option(1)), None);
        assert_eq!(press(&mut open, AnswerKey::Accept), None);
        for number in [3, 2, 1, 2] {
            assert_eq!(press(&mut open, AnswerKey::Option(number)), None);
        }
        let Some(PersonAnswer::Answers(answers)) = press(&mut open, AnswerKey::Accept) else {
            panic!("{open:?}");
        };
        assert_eq!(answers["Which colour?"], "Red");
        assert_eq!(answers["Which pages?"], "Cart, Account");
    }

    #[test]
    fn keys_answer_nothing_once_the_question_is_over_and_before_it_was_drawn() {
        let mut gone = open(permission());
        gone.drawn.state = BoxState::Asks(gone.step().unwrap());
        gone.over = Some(OVER.to_owned());
        assert_eq!(gone.press(AnswerKey::Yes), None);
        assert_eq!(open(permission()).press(AnswerKey::Yes), None);
        let mut other = open(permission());
        let step = other.step().unwrap();
        other.drawn.state = BoxState::Asks(AnswerStep {
            question_id: 40,
            ..step
        });
        assert_eq!(other.press(AnswerKey::Yes), None);
        let mut plan = open(QuestionRow {
            can_be_answered: false,
            ..permission()
        });
        assert_eq!(press(&mut plan, AnswerKey::Yes), None);
    }

    /// Returns why a box says that nothing can be answered.
    fn loaded(id: Option<i64>, found: Result<Option<QuestionRow>, String>) -> String {
        let mut open = AnswerBox::new(Target::default(), id);
        open.load(found);
        open.over.unwrap()
    }

    #[test]
    fn a_question_that_is_gone_says_so() {
        assert_eq!(loaded(Some(4), Ok(None)), OVER);
        assert!(loaded(None, Ok(None)).contains("only the terminal"));
        assert_eq!(loaded(Some(4), Err("no daemon".into())), "no daemon");
    }
}
