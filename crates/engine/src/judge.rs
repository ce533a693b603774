//! becket's own verdict on an event: problems of the configuration, the name of a launched session, notices,
//! guards. Pure, except `Verdict::spend`, which deletes the files of passes.

use becket_wire::answer::{Answer, Opinion};
use becket_wire::event::EventName;
use becket_wire::question::AnsweredIn;
use becket_wire::rpc::DecisionRow;
use becket_wire::{Account, Actor, Head, Output, Place};

use crate::config::Snapshot;
use crate::effort::{EffortSaid, rules, skill};
use crate::guard::memory::Key;
use crate::guard::rule::Say;
use crate::guard::sight::{Found, Sight, Spend, judge_prompt, unreadable};
use crate::merge::{unattended, weight};
use crate::notice::{self, Notice};
use crate::pipeline::{Context, PreparedEvent};
use crate::trust::{Project, Trust};

/// becket's answer to one event, and its author.
#[derive(Debug, Clone)]
pub struct Verdict {
    answer: Answer,
    by: Option<Actor>,
    /// The session whose user was told of the config's problems, and the generation of the config.
    pub told: Option<(String, u64)>,
    /// The notice that the answer does not carry.
    pub notice: Option<Notice>,
    /// The judgement of the session's effort.
    pub effort: Option<Box<EffortSaid>>,
    /// The reason of the guard that has Claude Code ask the user.
    pub asked: Option<String>,
    /// The call that guards judge.
    key: Option<Key>,
    /// The passes and first tries that the verdict uses up.
    spends: Vec<Spend>,
}

impl Verdict {
    pub fn silent(event: EventName) -> Self {
        Self {
            answer: Answer::silent(event),
            by: None,
            told: None,
            notice: None,
            effort: None,
            asked: None,
            key: None,
            spends: Vec::new(),
        }
    }

    /// Sets this opinion, unless the one before is as strict. An opinion that the event does not take is
    /// dropped.
    fn give(&mut self, opinion: Opinion, by: Actor) {
        let is_weaker = |before: &Opinion| weight(before) < weight(&opinion);
        if self.answer.opinion().is_none_or(is_weaker) && self.answer.give(opinion).is_ok() {
            self.by = Some(by);
        }
    }

    /// Refuses the event, with the opinion that it takes.
    fn refuse(&mut self, reason: &str, by: Actor) {
        let refusal = Answer::refusal(self.event().clone(), reason);
        if let Some(opinion) = refusal.as_ref().and_then(Answer::opinion) {
            self.give(opinion.clone(), by);
        }
    }

    /// Uses up the passes that the verdict relies on. If another call was faster, this one is denied.
    pub(crate) fn spend(mut self, place: &Place) -> Self {
        if self.refuses() {
            return self;
        }
        for spend in std::mem::take(&mut self.spends) {
            if !spend.spend(place) {
                self.refuse(&spend.reason, Actor::Guard(spend.rule));
            }
        }
        self
    }

    /// Returns the call that a guard has denied, and the guard.
    pub(crate) fn denied(&self) -> Option<(&Key, &str)> {
        let rule = self.by.as_ref()?.guard()?;
        self.refuses().then_some((self.key.as_ref()?, rule))
    }

    pub(crate) fn with_note(mut self, note: String) -> Self {
        self.answer.add_message(note);
        self
    }

    pub fn output(&self) -> Output {
        self.answer.render()
    }

    /// Returns the output for an event that arrives again from another registration: the same refusal, but
    /// nothing that would reach the model or the user twice.
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

    /// Combines the verdict on the original input with that on the input that hooks made of it. The stricter
    /// opinion holds, so no hook evades a refusal by changing the input; each context and message is kept once.
    pub fn judge_result(self, mut result: Self) -> Self {
        if self.answer.opinion().map(weight) > result.answer.opinion().map(weight)
            && let Some(opinion) = self.answer.opinion()
        {
            drop(result.answer.give(opinion.clone()));
            result.by = self.by;
        }
        result.spends.extend(self.spends);
        result.key = result.key.or(self.key);
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
                result.answer.add_message(message.clone());
            }
        }
        result
    }

    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Replaces the answer by one that hooks were merged into, and its author if a hook decided.
    pub fn merged(self, answer: Answer, by: Option<Actor>) -> Self {
        Self {
            answer,
            by: by.or(self.by),
            ..self
        }
    }

    /// Takes out the notice for the terminal, which got it already.
    pub fn without_notice(mut self) -> Self {
        self.answer.clear_terminal();
        self
    }

    /// Replaces the answer by that of a person.
    pub fn answered(self, answer: Answer, place: AnsweredIn) -> Self {
        self.merged(answer, Some(Actor::Person(place)))
    }

    /// Returns true if becket itself refuses, so that no hook needs to run.
    pub fn refuses(&self) -> bool {
        let refused = matches!(
            self.answer.opinion(),
            Some(Opinion::Deny { .. } | Opinion::Block { .. } | Opinion::Decline { .. })
        );
        refused || self.answer.stopped().is_some()
    }

    /// Returns true if the prompt is not sent. No event follows then.
    pub fn blocks_prompt(&self) -> bool {
        let blocks = self.answer.stopped().is_some()
            || matches!(self.answer.opinion(), Some(Opinion::Block { .. }));
        let prompts = [EventName::UserPromptSubmit, EventName::UserPromptExpansion];
        blocks && prompts.contains(self.event())
    }

    /// Returns true if an agent that wanted to stop has to go on.
    pub fn blocks_stop(&self) -> bool {
        self.answer.blocks_stop()
    }

    /// Returns the decision for the log; none for a silent answer.
    pub fn decision(&self) -> Option<DecisionRow> {
        let (answer, reason) = self.answer.decision()?;
        Some(DecisionRow {
            answer: answer.into(),
            by: self.by.clone(),
            reason: reason.map(str::to_owned),
            effort: self
                .effort
                .as_ref()
                .and_then(|said| serde_json::to_value(said).ok()),
        })
    }
}

/// The input of the rules.
struct Case<'a> {
    event: &'a PreparedEvent,
    /// The head of the judged payload: after a rewriting hook it has the new `tool_input`. Rules use it, never
    /// `event.payload`.
    head: &'a Head<'a>,
    /// The findings of the guards.
    sight: Option<&'a Sight>,
    context: &'a Context,
}

/// The rules, in the order in which they add to the verdict.
const RULES: [fn(&Case<'_>, &mut Verdict); 6] = [
    report_problems,
    report_ran_denied,
    name_session,
    add_notice,
    guard,
    judge_effort,
];

/// Judges one event as if it had this payload, with the guards' findings in that.
pub(crate) fn judge(
    event: &PreparedEvent,
    payload: &[u8],
    sight: Option<&Sight>,
    context: &Context,
) -> Verdict {
    let mut verdict = Verdict::silent(event.event.clone());
    let head = match Head::read(payload) {
        Ok(head) => head,
        Err(why) => {
            let rules = &event.config.guards;
            let found = match event.event {
                EventName::PreToolUse => unreadable(rules, &why.to_string()),
                EventName::UserPromptSubmit => {
                    judge_prompt(&String::from_utf8_lossy(payload), rules)
                }
                _ => Vec::new(),
            };
            if let Some(strictest) = found.first() {
                answer(strictest, event, &mut verdict);
            }
            return verdict;
        }
    };
    let case = Case {
        event,
        head: &head,
        sight,
        context,
    };
    for rule in RULES {
        rule(&case, &mut verdict);
    }
    if !event.envelope.attended() {
        unattended(&mut verdict.answer);
    }
    verdict
}

/// Adds the guards' findings: the strictest one answers, and warnings go to the model.
fn guard(case: &Case<'_>, verdict: &mut Verdict) {
    let Some(sight) = case.sight else {
        return;
    };
    let ruling = sight.ruling();
    verdict.key = Some(sight.key.clone());
    verdict.spends.extend(ruling.spend);
    for found in ruling.warns.into_iter().chain(ruling.strictest) {
        answer(found, case.event, verdict);
    }
}

/// Adds the answer of one guard.
fn answer(found: &Found, event: &PreparedEvent, verdict: &mut Verdict) {
    let by = Actor::Guard(found.rule.id.clone());
    match (found.say, verdict.event()) {
        (Say::Warn, _) => {
            let warning = format!("becket's guard {} warns: {}", found.rule.id, found.reason);
            if verdict.answer.add_context(warning).is_ok() {
                verdict.by.get_or_insert(by);
            }
        }
        (Say::Ask, EventName::PreToolUse) => {
            let reason = found.reason.clone();
            verdict.give(Opinion::Ask { reason }, by);
        }
        // Claude Code's own dialog asks.
        (Say::Ask, EventName::PermissionRequest) if event.envelope.attended() => {
            verdict.asked = Some(found.reason.clone());
        }
        _ => verdict.refuse(&found.reason, by),
    }
}

/// Tells the user of a call that ran though becket had denied it.
fn report_ran_denied(case: &Case<'_>, verdict: &mut Verdict) {
    if case.context.ran_denied {
        verdict.answer.add_message(
            "becket denied this call, and it ran all the same. A mod of Claude Code can do that: becket doctor lists those that may.",
        );
    }
}

/// Tells the model of a launched session its id, with each prompt.
fn name_session(case: &Case<'_>, verdict: &mut Verdict) {
    let (event, head, context) = (case.event, case.head, case.context);
    let (Some(began), Some(session)) = (context.launched_at, head.session_id.as_deref()) else {
        return;
    };
    if event.event != EventName::UserPromptSubmit || !event.config.config.launch.context {
        return;
    }
    let began = jiff::Timestamp::from_second(began.div_euclid(1000)).unwrap_or_default();
    let line = format!("Current session: {session} (started {began})");
    drop(verdict.answer.add_context(line));
    verdict.by.get_or_insert(Actor::Becket(Account::Launch));
}

/// Adds the judgement of the session's effort.
fn judge_effort(case: &Case<'_>, verdict: &mut Verdict) {
    let (event, head, context) = (case.event, case.head, case.context);
    let Some(work) = &context.effort else {
        return;
    };
    // A slash command of becket's is answered by a block: nothing reaches the model.
    if event.is_slash() {
        return;
    }
    let skill = skill::find(&event.config, &work.facts.skill).unwrap_or_default();
    let limits = skill::limits(&event.config);
    let at = jiff::Timestamp::from_second(event.envelope.at.div_euclid(1000)).unwrap_or_default();
    let at = at.to_string();
    let Some(says) = rules::say(work, &skill, &limits, &event.event, head, &at) else {
        return;
    };
    let by = says.rule.map(Actor::Effort);
    if let (Some(opinion), Some(by)) = (says.opinion, &by) {
        verdict.give(opinion, by.clone());
    }
    for text in says.contexts {
        drop(verdict.answer.add_context(text));
    }
    if verdict.by.is_none() {
        verdict.by = by;
    }
    verdict.effort = Some(Box::new(says.said));
}

/// Adds a notice to the answer if the terminal shows it there. It decides nothing.
fn add_notice(case: &Case<'_>, verdict: &mut Verdict) {
    let Case { event, context, .. } = *case;
    let settings = &event.config.config.notice;
    let change = context.change.as_ref();
    let notice = change.and_then(|change| {
        notice::for_change(settings, change, Some(&event.event), context.minute)
    });
    match notice {
        Some(Notice {
            sequence: Some(sequence),
            ..
        }) => {
            verdict.answer.add_terminal(&sequence);
            verdict.by.get_or_insert(Actor::Becket(Account::Notice));
        }
        other => verdict.notice = other,
    }
}

/// A configuration that does not parse, and a project that is not trusted, are reported when a session
/// starts or a prompt is sent, once per session and state of the configuration.
fn report_problems(case: &Case<'_>, verdict: &mut Verdict) {
    let (event, head, context) = (case.event, case.head, case.context);
    let starts = event.event == EventName::SessionStart;
    let prompts = event.event == EventName::UserPromptSubmit;
    let Some(session) = head.session_id.as_deref() else {
        return;
    };
    if context.told || !(starts || prompts) {
        return;
    }
    let errors: Vec<String> = event.config.errors().map(ToString::to_string).collect();
    let config = (!errors.is_empty()).then(|| {
        let errors = errors.join("\n");
        format!("becket: {errors}\nRun `becket config check` to see it all.")
    });
    // An untrusted project is reported at the start only; lost trust with the next prompt too.
    let project = (event.config.project.as_ref())
        .filter(|_| event.envelope.attended())
        .filter(|project| starts || project.trust == Trust::Changed);
    let trust = project.and_then(|project| trust_message(project, &event.config, starts));
    let account = match (&config, &trust) {
        (None, None) => return,
        (Some(_), _) => Account::Config,
        (None, Some(_)) => Account::Trust,
    };
    let trust = trust.map(|says| format!("becket: {says}"));
    let told: Vec<String> = config.into_iter().chain(trust).collect();
    verdict.answer.add_message(told.join("\n"));
    verdict.by.get_or_insert(Actor::Becket(account));
    verdict.told = Some((session.to_owned(), event.config.generation));
}

/// Tells which hooks of an untrusted project do not run, and how to trust it.
fn trust_message(project: &Project, config: &Snapshot, starts: bool) -> Option<String> {
    let stopped: Vec<&str> = config.untrusted_hooks().collect();
    let hooks = if stopped.is_empty() {
        String::new()
    } else {
        format!(" These hooks do not run: {}.", stopped.join(", "))
    };
    match project.message() {
        Some(says) if project.trust == Trust::Changed => Some(format!("{says}{hooks}")),
        Some(says) => Some(says),
        None if stopped.is_empty() || !starts || !project.can_be_trusted() => None,
        None => Some(format!(
            "This project is not trusted.{hooks} Run `becket trust` to let them start its tools."
        )),
    }
}

#[cfg(test)]
mod tests {
    use becket_wire::Place;
    use becket_wire::rpc::{Envelope, EventRequest};
    use becket_wire::session::Display;

    use super::*;
    use crate::config::ConfigCache;
    use crate::notice::DisplayChange;
    use crate::pipeline::prepare;
    use crate::session::Session;

    #[test]
    fn a_notice_decides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        std::fs::write(place.config(), "[notice]\non = \"all\"\nafter = \"0s\"\n").unwrap();
        let cache = ConfigCache::new(&place, [7; 32], false);
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
            let request = EventRequest {
                envelope: envelope.clone(),
                payload: payload.into_bytes(),
                sent: 5,
            };
            let prepared = prepare(request, &cache).unwrap();
            let mut session = Session::new("s", 1);
            session.prompted_at = Some(1);
            let change = DisplayChange::of(before, &session, 5);
            let mut context = Context {
                change: change.map(|change| DisplayChange { after, ..change }),
                ..Context::default()
            };
            let verdict = judge(&prepared, &prepared.payload, None, &context);
            let output = verdict.output();
            assert_eq!(output.exit, 0, "{event}");
            assert_eq!(
                output.stdout, br#"{"terminalSequence":"\u0007"}"#,
                "{event}"
            );
            assert!(verdict.repeated().is_silent(), "{event} twice");
            context.change = None;
            let unchanged = judge(&prepared, &prepared.payload, None, &context);
            assert!(unchanged.output().is_silent(), "{event}");
        }
    }
}
