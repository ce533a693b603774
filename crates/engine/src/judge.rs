//! The one door of the engine: daemon and alone mode judge every event here, so that what holds in
//! the one holds in the other.

use std::sync::Arc;

use becket_wire::answer::{Answer, Opinion};
use becket_wire::event::EventName;
use becket_wire::head::HeadError;
use becket_wire::rpc::{DecisionRow, Envelope};
use becket_wire::{Account, Head, Output};

use crate::config::Snapshot;
use crate::merge::weight;
use crate::notice::{self, Change, Notice};
use crate::trust::{Project, Trust};

/// One event with everything that its judgement depends on.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    pub envelope: &'a Envelope,
    /// As Claude Code gave it, secrets and all.
    pub payload: &'a [u8],
    pub head: Result<&'a Head<'a>, &'a HeadError>,
    pub config: &'a Snapshot,
    /// Whether this session's person knows of the config's troubles already.
    pub told: bool,
    /// What the event changed for whoever looks at the session.
    pub change: Option<&'a Change>,
    /// When the session began, if `becket run` started it.
    pub launched_at: Option<i64>,
    /// The local time of day, in minutes.
    pub minute: u16,
}

/// What the judgement of an event depends on besides its payload: kept while its hooks run, because
/// they may change that.
#[derive(Debug, Clone)]
pub struct Grounds {
    pub envelope: Envelope,
    pub config: Arc<Snapshot>,
    pub told: bool,
    pub change: Option<Change>,
    pub launched_at: Option<i64>,
    pub minute: u16,
}

impl Grounds {
    /// Judges the event as if it had come with this payload.
    pub fn judge(&self, payload: &[u8]) -> Verdict {
        let head = Head::read(payload);
        judge(&Case {
            envelope: &self.envelope,
            payload,
            head: head.as_ref(),
            config: &self.config,
            told: self.told,
            change: self.change.as_ref(),
            launched_at: self.launched_at,
            minute: self.minute,
        })
    }
}

/// What becket says to one event, and on whose account.
#[derive(Debug, Clone)]
pub struct Verdict {
    answer: Answer,
    by: Option<String>,
    /// The session whose person was told of the config's troubles, and which state of it.
    pub told: Option<(String, u64)>,
    /// What the person is to be told, and not by the answer.
    pub notice: Option<Notice>,
}

impl Verdict {
    pub fn silent(event: EventName) -> Self {
        Self {
            answer: Answer::silent(event),
            by: None,
            told: None,
            notice: None,
        }
    }

    pub fn output(&self) -> Output {
        self.answer.render()
    }

    /// For an event that comes a second time from another registration: the same refusal, but
    /// nothing that would reach the model or the person twice.
    pub fn repeated(&self) -> Output {
        let mut again = Answer::silent(self.answer.event().clone());
        if let Some(opinion) = self.answer.opinion() {
            drop(again.give(opinion.clone()));
        }
        if let Some(reason) = self.answer.stopped() {
            again.stop(reason);
        }
        again.render()
    }

    pub fn event(&self) -> &EventName {
        self.answer.event()
    }

    /// What holds where hooks have changed the input: nobody gets round a word about the one by
    /// making it the other. Of both opinions the stricter one, and of the words each once.
    pub fn and_of_the_result(self, mut result: Self) -> Self {
        let strength = |verdict: &Self| verdict.answer.opinion().map(weight);
        if strength(&self) > strength(&result)
            && let Some(opinion) = self.answer.opinion()
        {
            drop(result.answer.give(opinion.clone()));
            result.by = self.by;
        }
        if let Some(reason) = self.answer.stopped() {
            result.answer.stop(reason);
        }
        for context in self.answer.contexts() {
            if !result.answer.contexts().contains(context) {
                drop(result.answer.add_context(context.clone()));
            }
        }
        for message in self.answer.messages() {
            if !result.answer.messages().contains(message) {
                result.answer.tell(message.clone());
            }
        }
        result
    }

    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The same with what others said besides, and on whose account.
    pub fn merged(self, answer: Answer, by: Option<String>) -> Self {
        Self {
            answer,
            by: by.or(self.by),
            ..self
        }
    }

    /// The same where the person switches a hook: this is said of it.
    pub fn switched(self, answer: Answer) -> Self {
        self.merged(answer, Some(Account::Switch.by()))
    }

    /// Whether becket itself says no, so that nobody else need be asked.
    pub fn refuses(&self) -> bool {
        let refused = matches!(
            self.answer.opinion(),
            Some(Opinion::Deny { .. } | Opinion::Block { .. } | Opinion::Decline { .. })
        );
        refused || self.answer.stopped().is_some()
    }

    /// Whether it keeps a prompt from being sent: nothing follows then.
    pub fn blocks_prompt(&self) -> bool {
        let blocks = self.answer.stopped().is_some()
            || matches!(self.answer.opinion(), Some(Opinion::Block { .. }));
        let event = self.answer.event();
        blocks
            && matches!(
                event,
                EventName::UserPromptSubmit | EventName::UserPromptExpansion
            )
    }

    /// Whether an agent has to go on though it wanted to stop.
    pub fn blocks_stop(&self) -> bool {
        self.answer.blocks_stop()
    }

    /// The decision for the log; none for silence.
    pub fn decision(&self) -> Option<DecisionRow> {
        let (answer, reason) = self.answer.decision()?;
        Some(DecisionRow {
            answer: answer.to_owned(),
            by: self.by.clone(),
            reason: reason.map(str::to_owned),
        })
    }
}

/// Judges one event.
pub fn judge(case: &Case<'_>) -> Verdict {
    let name = match case.head {
        Ok(Head {
            event: Some(name), ..
        }) => EventName::from(&**name),
        _ => EventName::from(case.envelope.event.as_deref().unwrap_or_default()),
    };
    let mut verdict = Verdict::silent(name);
    tell_of_troubles(case, &mut verdict);
    name_session(case, &mut verdict);
    ring(case, &mut verdict);
    verdict
}

/// Tells the model of a launched session which one it is, with each prompt.
fn name_session(case: &Case<'_>, verdict: &mut Verdict) {
    let (Some(began), Ok(head), true) = (
        case.launched_at,
        case.head,
        case.config.config.launch.context,
    ) else {
        return;
    };
    let Some(session) = head.session_id.as_deref() else {
        return;
    };
    if *verdict.answer.event() != EventName::UserPromptSubmit {
        return;
    }
    let began = jiff::Timestamp::from_second(began.div_euclid(1000)).unwrap_or_default();
    let line = format!("Current session: {session} (started {began})");
    drop(verdict.answer.add_context(line));
    verdict.by.get_or_insert_with(|| Account::Launch.by());
}

/// A notice goes by the answer if the terminal shows it. That is no opinion: nothing is decided.
fn ring(case: &Case<'_>, verdict: &mut Verdict) {
    let wishes = &case.config.config.notice;
    let event = Some(verdict.answer.event());
    let notice = case
        .change
        .and_then(|change| notice::of(wishes, change, event, case.minute));
    match notice {
        Some(Notice {
            sequence: Some(sequence),
            ..
        }) => {
            verdict.answer.ring(&sequence);
            verdict.by.get_or_insert_with(|| Account::Notice.by());
        }
        other => verdict.notice = other,
    }
}

/// A config that does not parse, and a project that nobody trusts, are told where the person looks
/// anyway: when a session starts or a prompt is sent, once a session and state of the config.
fn tell_of_troubles(case: &Case<'_>, verdict: &mut Verdict) {
    let (false, Ok(head)) = (case.told, case.head) else {
        return;
    };
    let starts = *verdict.answer.event() == EventName::SessionStart;
    if !starts && *verdict.answer.event() != EventName::UserPromptSubmit {
        return;
    }
    let errors: Vec<String> = case.config.errors().map(ToString::to_string).collect();
    let config = (!errors.is_empty()).then(|| {
        let errors = errors.join("\n");
        format!("becket: {errors}\nRun `becket config check` to see it all.")
    });
    // Where nobody looks, nobody is asked; and what was trusted a moment ago is missed at once.
    let asks = |project: &&Project| starts || project.trust == Trust::Changed;
    let project = case.config.project.as_ref();
    let project = project.filter(|_| case.envelope.attended()).filter(asks);
    let trust = project.and_then(Project::says);
    let account = match (&config, trust) {
        (None, None) => return,
        (Some(_), _) => Account::Config,
        (None, Some(_)) => Account::Trust,
    };
    let Some(session) = head.session_id.as_deref() else {
        return;
    };
    let trust = trust.map(|says| format!("becket: {says}"));
    let told: Vec<String> = config.into_iter().chain(trust).collect();
    verdict.answer.tell(told.join("\n"));
    verdict.by = Some(account.by());
    verdict.told = Some((session.to_owned(), case.config.generation));
}

#[cfg(test)]
mod tests {
    use becket_wire::session::Display;

    use super::*;
    use crate::config::{Files, Loader};
    use crate::session::Session;

    #[test]
    fn a_notice_decides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = becket_wire::Place::new(folder.path());
        let file = |name: &str| folder.path().join(name);
        let files = Files {
            system: file("none"),
            user: file("config.toml"),
            project: None,
            managed: file("none"),
        };
        std::fs::write(&files.user, "[notice]\non = \"all\"\nafter = \"0s\"\n").unwrap();
        let config = Loader::with_files(&files, &place, false).current();
        let envelope: Envelope = serde_json::from_value(serde_json::json!({
            "id": becket_wire::EventId::new(5, [7; 2]), "at": 5,
            "version": becket_wire::Version::current(), "home": "/h", "pid": 4,
        }))
        .unwrap();
        for (event, before, after) in [
            ("PermissionRequest", Display::Working, Display::Attention),
            ("Elicitation", Display::Working, Display::Attention),
            ("PreToolUse", Display::Working, Display::Attention),
            ("Stop", Display::Working, Display::Done),
        ] {
            let payload = format!(r#"{{"hook_event_name": "{event}", "session_id": "s"}}"#);
            let head = Head::read(payload.as_bytes()).unwrap();
            let mut session = Session::new("s", 1);
            session.prompted_at = Some(1);
            let change = Change::of(before, &session, 5);
            let change = change.map(|change| Change { after, ..change });
            let case = Case {
                envelope: &envelope,
                payload: payload.as_bytes(),
                head: Ok(&head),
                config: &config,
                told: false,
                change: change.as_ref(),
                launched_at: None,
                minute: 0,
            };
            let verdict = judge(&case);
            let output = verdict.output();
            assert_eq!(output.exit, 0, "{event}");
            assert_eq!(
                output.stdout, br#"{"terminalSequence":"\u0007"}"#,
                "{event}"
            );
            assert!(verdict.repeated().is_silent(), "{event} twice");
            let unchanged = Case {
                change: None,
                ..case
            };
            assert!(judge(&unchanged).output().is_silent(), "{event}");
        }
    }
}
