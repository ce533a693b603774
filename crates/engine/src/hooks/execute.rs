//! Runs the hooks of one event: those that rewrite one after the other, then all others in parallel.
//! What they say becomes one answer. The daemon, the standalone process and `becket try` use it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::{EventName, Rest};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Place};

use super::switch::{Switches, is_due};
use super::{Action, Hook};
use crate::config::room_on;
use crate::judge::Verdict;
use crate::matcher::Subject;
use crate::merge::{Said, merge, unattended};
use crate::run::{
    Behind, Cancel, ENDING, Job, Listing, Occasion, Outcome, Program, Ran, run_before, run_beside,
};
use crate::trust::admit;

/// What hooks are started with.
#[derive(Debug, Clone)]
pub struct Kit {
    /// `becket` itself: built-ins are calls of it.
    pub becket: PathBuf,
    /// becket's home.
    pub home: PathBuf,
    /// The session's: the shim sends it.
    pub environment: Arc<[(OsString, OsString)]>,
}

/// What is to be run for one event.
#[derive(Debug, Clone)]
pub struct Plan {
    pub event_id: EventId,
    pub event: EventName,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// In the order in which they are declared.
    pub hooks: Vec<Arc<Hook>>,
    /// The event, as Claude Code gave it.
    pub payload: Arc<[u8]>,
    pub cwd: PathBuf,
    pub project: PathBuf,
    /// A user attends, who can be asked.
    attended: bool,
    /// When it was made: by then Claude Code waits already.
    made: Instant,
}

/// What the hooks of a plan did that the answer waits for.
#[derive(Debug)]
pub struct HooksRan<'a> {
    plan: &'a Plan,
    ran: Vec<Ran>,
}

/// One event, as the hooks are asked about it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub id: EventId,
    pub event: &'a EventName,
    pub head: &'a Head<'a>,
    pub payload: &'a [u8],
    pub project: &'a Path,
    /// A user attends, who can be asked.
    pub attended: bool,
}

impl Plan {
    /// The hooks that the event wants and that are on in its session; none if there are none.
    pub fn of(asked: &Asked<'_>, hooks: &[Arc<Hook>], switches: &Switches) -> Option<Self> {
        let Asked {
            event,
            head,
            payload,
            project,
            ..
        } = *asked;
        let subject = Subject::new(event, head, payload);
        let agent = head.agent_type.as_deref();
        let wanted: Vec<Arc<Hook>> = hooks
            .iter()
            .filter(|hook| subject.concerns(hook, project))
            .filter(|hook| is_due(hook, switches, agent))
            .cloned()
            .collect();
        let cwd = head.cwd.as_deref().map_or(project, Path::new);
        let text = |field: &Option<Cow<'_, str>>| field.as_deref().map(str::to_owned);
        (!wanted.is_empty()).then(|| Self {
            event_id: asked.id,
            event: event.clone(),
            session_id: text(&head.session_id),
            agent_id: text(&head.agent_id),
            hooks: wanted,
            payload: payload.into(),
            cwd: cwd.to_path_buf(),
            project: project.to_path_buf(),
            attended: asked.attended,
            made: Instant::now(),
        })
    }

    /// The longest that it may take, ends by force included.
    pub fn longest(&self) -> Duration {
        let bound = |hook: &Arc<Hook>| hook.timeout_on(&self.event) + ENDING;
        let waited = self.hooks.iter().filter(|hook| !hook.is_async);
        let (one_by_one, side_by_side): (Vec<_>, Vec<_>) = waited.partition(|hook| hook.rewrites);
        let first: Duration = one_by_one.into_iter().map(bound).sum();
        let rest = side_by_side.into_iter().map(bound).max();
        // Claude Code waits no longer, however many rewrite one after the other.
        (first + rest.unwrap_or_default()).min(room_on(&self.event))
    }

    /// Runs the hooks. `answered` gets those that the answer waits for, as soon as all of them have
    /// ended; `later` gets each run that goes on in the background, when it ends.
    pub fn run(
        &self,
        kit: &Kit,
        cancel: &Cancel,
        answered: impl FnOnce(HooksRan<'_>),
        mut later: impl FnMut(RunRow),
    ) {
        let mut stage = Stage {
            plan: self,
            kit,
            payload: Arc::clone(&self.payload),
            until: self.made + room_on(&self.event),
        };
        let (mut ran, mut behind) = (Vec::new(), Behind::default());
        for hook in self
            .hooks
            .iter()
            .filter(|hook| hook.rewrites && !hook.is_async)
        {
            let job = match stage.job(hook) {
                Ok(job) => job,
                Err(unstarted) => {
                    ran.push(*unstarted);
                    continue;
                }
            };
            let later = |late| later(self.row_behind(&late));
            let Some(of_this) = run_before(&mut behind, job, cancel, later) else {
                continue;
            };
            if let Some(input) = new_input(&of_this, &self.event)
                && let Some(payload) = with_input(&stage.payload, &input)
            {
                stage.payload = payload.into();
            }
            ran.push(of_this);
        }
        let others = self
            .hooks
            .iter()
            .filter(|hook| !hook.rewrites || hook.is_async);
        let mut jobs = Vec::new();
        for hook in others {
            match stage.job(hook) {
                Ok(job) => jobs.push(job),
                Err(unstarted) if hook.is_async => later(self.row_behind(&unstarted)),
                Err(unstarted) => ran.push(*unstarted),
            }
        }
        let finish = |rest: Vec<Ran>| {
            ran.extend(rest);
            answered(HooksRan { plan: self, ran });
        };
        let later = |late| later(self.row_behind(&late));
        run_beside(behind, jobs, cancel, finish, later);
    }

    /// Runs none of the hooks: each counts as not started.
    pub fn run_none(
        &self,
        why: &str,
        answered: impl FnOnce(HooksRan<'_>),
        mut later: impl FnMut(RunRow),
    ) {
        let unstarted =
            |hook: &Hook| Ran::unstarted(hook.name.clone(), Outcome::NotStarted(why.to_owned()));
        let (behind, waited): (Vec<_>, Vec<_>) = self.hooks.iter().partition(|it| it.is_async);
        let ran = waited.into_iter().map(|hook| unstarted(hook)).collect();
        answered(HooksRan { plan: self, ran });
        for hook in behind {
            later(self.row_behind(&unstarted(hook)));
        }
    }

    /// The row of a hook that goes on in the background.
    pub fn went_behind(&self, hook: &Hook) -> RunRow {
        self.row(&Ran::unstarted(hook.name.clone(), Outcome::WentAsync))
    }

    /// The row of a run in the background: what it said decides nothing.
    fn row_behind(&self, ran: &Ran) -> RunRow {
        let mut row = self.row(ran);
        if let Some(word) = row.decision.take() {
            row.note = Some(format!(
                "it said {word} when Claude Code no longer waited for it"
            ));
        }
        row
    }

    /// The answer of a hook that could not judge a tool call and is to deny it then.
    fn failed_closed(&self, hook: &str, why: &str) -> Option<Answer> {
        let hook = self.hooks.iter().find(|it| it.name == hook)?;
        let mut answer = Answer::silent(self.event.clone());
        let reason = format!("{} did not judge this call: {why}", hook.name);
        let denies = hook.fails_closed && self.event == EventName::PreToolUse;
        (denies && answer.give(Opinion::Deny { reason }).is_ok()).then_some(answer)
    }

    fn row(&self, ran: &Ran) -> RunRow {
        self.row_of(ran, &ran.answer(&self.event))
    }

    fn row_of(&self, ran: &Ran, read: &Result<Answer, String>) -> RunRow {
        let on = Occasion {
            event_id: self.event_id,
            event: &self.event,
            session_id: self.session_id.as_deref(),
            agent_id: self.agent_id.as_deref(),
        };
        ran.row(on, read)
    }
}

impl HooksRan<'_> {
    /// Merges what they said into `own`, becket's verdict on the event as it came. If hooks changed the
    /// input, `judge` judges the result too, and the stricter verdict holds. `shorten` fits the answer
    /// into Claude Code's limits.
    pub(crate) fn merge(
        self,
        mut own: Verdict,
        judge: impl FnOnce(&[u8]) -> Verdict,
        shorten: impl FnOnce(Answer) -> Answer,
    ) -> (Verdict, Vec<RunRow>) {
        let Self { plan, mut ran } = self;
        let place = |ran: &Ran| plan.hooks.iter().position(|hook| hook.name == ran.hook);
        ran.sort_by_key(place);
        let (mut runs, mut said) = (Vec::new(), Vec::new());
        for ran in ran {
            let read = ran.answer(&plan.event);
            let mut row = plan.row_of(&ran, &read);
            let read = read.or_else(|why| plan.failed_closed(&ran.hook, &why).ok_or(why));
            if let Some((word, _)) = read.as_ref().ok().and_then(Answer::decision) {
                row.decision = Some(word.to_owned());
            }
            // A hook that goes on in the background is recorded when it ends.
            if ran.outcome != Outcome::WentAsync {
                runs.push(row);
            }
            let hook = ran.hook;
            said.extend(read.ok().map(|answer| Said { hook, answer }));
        }
        let mut merged = merge(&plan.event, own.answer().clone(), &said);
        if let Some(input) = changed_input(&merged.answer) {
            if let Some(payload) = with_input(&plan.payload, input) {
                own = own.and_of_the_result(judge(&payload));
                merged = merge(&plan.event, own.answer().clone(), &said);
            } else {
                // What cannot be judged does not go out.
                merged.answer.leave(Change::Input(Rest::new()).key());
            }
        }
        if !plan.attended {
            unattended(&mut merged.answer);
        }
        (own.merged(shorten(merged.answer), merged.by), runs)
    }
}

/// What all jobs of a plan have in common.
struct Stage<'a> {
    plan: &'a Plan,
    kit: &'a Kit,
    /// The event, with the input as it was rewritten last.
    payload: Arc<[u8]>,
    until: Instant,
}

impl Stage<'_> {
    /// What is to be run for a hook, unless it must not run.
    fn job(&self, hook: &Hook) -> Result<Job, Box<Ran>> {
        let unstarted = |why: &str| {
            let outcome = Outcome::NotStarted(why.to_owned());
            Box::new(Ran::unstarted(hook.name.clone(), outcome))
        };
        let around = &self.kit.environment;
        let environment =
            admit(hook, around, &self.plan.project, &self.plan.cwd).map_err(unstarted)?;
        let timeout = self.timeout(hook);
        Ok(Job {
            hook: hook.name.clone(),
            program: program(hook, self.kit, &self.plan.project),
            cwd: self.plan.cwd.clone(),
            base: self.plan.project.clone(),
            environment,
            stdin: Arc::clone(&self.payload),
            timeout: timeout.ok_or_else(|| unstarted("there was no time left for it"))?,
            is_async: hook.is_async,
            listing: Some(Listing {
                folder: Place::new(&self.kit.home).running(),
                run: self.plan.went_behind(hook),
            }),
        })
    }

    /// None if it could not be ended in time any more.
    fn timeout(&self, hook: &Hook) -> Option<Duration> {
        if hook.is_async {
            return Some(hook.timeout_on(&self.plan.event));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let left = left.checked_sub(ENDING).filter(|left| !left.is_zero())?;
        Some(hook.timeout_on(&self.plan.event).min(left))
    }
}

/// What is started for a hook. A built-in is told the project: it is the one that was approved.
pub fn program(hook: &Hook, kit: &Kit, project: &Path) -> Program {
    match &hook.action {
        Action::Run(program) => program.clone(),
        Action::BuiltIn(builtin, options) => {
            let options = serde_json::to_string(options).unwrap_or_else(|_| "{}".to_owned());
            let path = |path: &Path| path.to_string_lossy().into_owned();
            Program::List(vec![
                path(&kit.becket),
                "builtin".to_owned(),
                builtin.name.to_owned(),
                "--options".to_owned(),
                options,
                "--project".to_owned(),
                path(project),
                "--home".to_owned(),
                path(&kit.home),
            ])
        }
    }
}

fn new_input(ran: &Ran, event: &EventName) -> Option<Rest> {
    changed_input(&ran.answer(event).ok()?).cloned()
}

fn changed_input(answer: &Answer) -> Option<&Rest> {
    answer.changes().iter().find_map(|change| match change {
        Change::Input(input) => Some(input),
        _ => None,
    })
}

/// The payload with another `tool_input`; all else stays as it came, byte for byte. None if it has
/// none that could be replaced.
fn with_input(payload: &[u8], input: &Rest) -> Option<Vec<u8>> {
    let head = Head::read(payload).ok()?;
    let old = head.tool_input?;
    let start = old.as_ptr().addr() - payload.as_ptr().addr();
    let new = serde_json::to_string(input).ok()?;
    Some(
        [
            &payload[..start],
            new.as_bytes(),
            &payload[start + old.len()..],
        ]
        .concat(),
    )
}

#[cfg(test)]
mod tests;
