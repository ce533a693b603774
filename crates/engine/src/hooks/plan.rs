//! Runs the hooks of one event: first those that rewrite the input, one after the other, then all others
//! side by side. Their answers become one answer. The daemon, the standalone process and `becket hooks try` use it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::{EventName, Rest};
use becket_wire::hook_run::RunRow;
use becket_wire::{Actor, EventId, Head, Place};

use super::switch::{Switches, is_due};
use super::{Action, Hook};
use crate::config::longest_total_time;
use crate::judge::Verdict;
use crate::mask::Masker;
use crate::matcher::Subject;
use crate::merge::{HookAnswer, fit, merge, unattended};
use crate::process::{
    Cancel, ENDING, Job, JobResult, Listing, Occasion, Outcome, Program, RunningJobs,
};
use crate::replace;
use crate::trust::admit;

/// The length from which Claude Code puts a text into a file of its own, and shows the model only its beginning.
const LONGEST_TEXT: usize = 9_000;

/// The programs and the environment that hooks are started with.
#[derive(Debug, Clone)]
pub struct HookSetup {
    /// `becket` itself, which runs the built-in hooks.
    pub becket: PathBuf,
    /// becket's home.
    pub home: PathBuf,
    /// The environment of the session, as the shim sent it.
    pub environment: Arc<[(OsString, OsString)]>,
}

/// The hooks to run for one event.
#[derive(Debug, Clone)]
pub struct HookPlan {
    pub event_id: EventId,
    pub event: EventName,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// The hooks in the order of their declaration.
    pub hooks: Vec<Arc<Hook>>,
    /// The event as Claude Code sent it.
    pub payload: Arc<[u8]>,
    pub cwd: PathBuf,
    pub project: PathBuf,
    /// True if a user can be asked.
    attended: bool,
    /// The time when the plan was made. Claude Code has been waiting at least since then.
    made_at: Instant,
}

/// One event, as [`HookPlan::of`] sees it.
#[derive(Debug, Clone, Copy)]
pub struct HookEvent<'a> {
    pub id: EventId,
    pub event: &'a EventName,
    pub head: &'a Head<'a>,
    pub payload: &'a [u8],
    pub project: &'a Path,
    /// True if a user can be asked.
    pub attended: bool,
}

impl HookPlan {
    /// Collects the hooks that match the event and are on in its session. Returns none if there are none.
    pub fn of(event: &HookEvent<'_>, hooks: &[Arc<Hook>], switches: &Switches) -> Option<Self> {
        let HookEvent {
            event: name,
            head,
            payload,
            project,
            ..
        } = *event;
        let subject = Subject::new(name, head, payload);
        let agent = head.agent_type.as_deref();
        let due: Vec<Arc<Hook>> = hooks
            .iter()
            .filter(|hook| subject.concerns(hook, project))
            .filter(|hook| is_due(hook, switches, agent))
            .cloned()
            .collect();
        if due.is_empty() {
            return None;
        }
        let cwd = head.cwd.as_deref().map_or(project, Path::new);
        Some(Self {
            event_id: event.id,
            event: name.clone(),
            session_id: head.session_id.as_ref().map(Cow::to_string),
            agent_id: head.agent_id.as_ref().map(Cow::to_string),
            hooks: due,
            payload: payload.into(),
            cwd: cwd.to_path_buf(),
            project: project.to_path_buf(),
            attended: event.attended,
            made_at: Instant::now(),
        })
    }

    /// Returns the longest time that the awaited hooks may take, with the time to end them by force.
    pub fn longest(&self) -> Duration {
        let (mut rewriting, mut others) = (Duration::ZERO, Duration::ZERO);
        for hook in self.hooks.iter().filter(|hook| !hook.is_async) {
            let bound = hook.timeout_on(&self.event) + ENDING;
            if hook.rewrites {
                rewriting += bound;
            } else {
                others = others.max(bound);
            }
        }
        // Claude Code waits no longer than this, however many hooks rewrite.
        (rewriting + others).min(longest_total_time(&self.event))
    }

    /// Prepares the hooks to run. Nothing is started yet.
    pub fn runs<'a>(&'a self, setup: &'a HookSetup, cancel: &'a Cancel) -> HookRuns<'a> {
        HookRuns {
            plan: self,
            setup,
            payload: Arc::clone(&self.payload),
            until: self.made_at + longest_total_time(&self.event),
            jobs: RunningJobs::new(cancel),
            refusal: None,
            unstarted: Vec::new(),
        }
    }

    /// Makes the row of a hook that goes on in the background.
    pub fn background_row(&self, hook: &Hook) -> RunRow {
        self.row(&JobResult::unstarted(hook.name.clone(), Outcome::WentAsync))
    }

    /// Makes the row of a background hook that has ended. Its answer decides nothing.
    fn ended_row(&self, result: &JobResult) -> RunRow {
        let mut row = self.row(result);
        if let Some(word) = row.decision.take() {
            row.note = Some(format!(
                "it answered {word} when Claude Code no longer waited for it"
            ));
        }
        row
    }

    /// Makes the denial of a `fail = "closed"` hook that could not judge a tool call.
    fn failed_closed(&self, hook: &str, why: &str) -> Option<Answer> {
        let hook = self.hooks.iter().find(|it| it.name == hook)?;
        if !hook.fails_closed || self.event != EventName::PreToolUse {
            return None;
        }
        let mut answer = Answer::silent(self.event.clone());
        let reason = format!("{} did not judge this call: {why}", hook.name);
        answer.give(Opinion::Deny { reason }).ok()?;
        Some(answer)
    }

    fn row(&self, result: &JobResult) -> RunRow {
        self.row_with(result, &result.answer(&self.event))
    }

    fn row_with(&self, result: &JobResult, answer: &Result<Answer, String>) -> RunRow {
        let occasion = Occasion {
            event_id: self.event_id,
            event: &self.event,
            session_id: self.session_id.as_deref(),
            agent_id: self.agent_id.as_deref(),
        };
        result.row(occasion, answer)
    }
}

/// The hooks of one plan while they run: first [`run_awaited`](Self::run_awaited), then
/// [`next_ended`](Self::next_ended) until it returns none.
#[derive(Debug)]
pub struct HookRuns<'a> {
    plan: &'a HookPlan,
    setup: &'a HookSetup,
    /// The event with the input that the last hook rewrote.
    payload: Arc<[u8]>,
    until: Instant,
    jobs: RunningJobs<'a>,
    /// The reason for which no hook may start, if there is one.
    refusal: Option<&'static str>,
    /// Background hooks that could not be started.
    unstarted: Vec<JobResult>,
}

impl<'a> HookRuns<'a> {
    /// Starts no hook: each one counts as not started, for this reason.
    pub fn refuse(&mut self, why: &'static str) {
        self.refusal = Some(why);
    }

    /// Runs the hooks that the event waits for, and starts those in the background.
    pub fn run_awaited(&mut self) -> AwaitedResults<'a> {
        let plan = self.plan;
        let (rewriting, others): (Vec<_>, Vec<_>) = plan
            .hooks
            .iter()
            .partition(|hook| hook.rewrites && !hook.is_async);
        let mut results = Vec::new();
        for hook in rewriting {
            let result = match self.job(hook) {
                Ok(job) => self.jobs.run(vec![job]).pop(),
                Err(unstarted) => Some(*unstarted),
            };
            let Some(result) = result else { continue };
            if let Ok(answer) = result.answer(&plan.event)
                && let Some(input) = changed_input(&answer)
                && let Some(payload) = with_input(&self.payload, input)
            {
                self.payload = payload.into();
            }
            results.push(result);
        }
        let mut jobs = Vec::new();
        for hook in others {
            match self.job(hook) {
                Ok(job) => jobs.push(job),
                Err(unstarted) if hook.is_async => self.unstarted.push(*unstarted),
                Err(unstarted) => results.push(*unstarted),
            }
        }
        results.extend(self.jobs.run(jobs));
        AwaitedResults { plan, results }
    }

    /// Waits for the next background hook to end. Returns none when none runs any more.
    pub fn next_ended(&mut self) -> Option<RunRow> {
        let result = self.unstarted.pop().or_else(|| self.jobs.next_ended())?;
        Some(self.plan.ended_row(&result))
    }

    /// Makes the job of a hook, or the result of one that must not start.
    fn job(&self, hook: &Hook) -> Result<Job, Box<JobResult>> {
        self.try_job(hook).map_err(|why| {
            let outcome = Outcome::NotStarted(why);
            Box::new(JobResult::unstarted(hook.name.clone(), outcome))
        })
    }

    fn try_job(&self, hook: &Hook) -> Result<Job, String> {
        if let Some(why) = self.refusal {
            return Err(why.to_owned());
        }
        let HookPlan { project, cwd, .. } = self.plan;
        let environment = admit(hook, &self.setup.environment, project, cwd)?;
        let timeout = self.timeout(hook).ok_or("there was no time left for it")?;
        Ok(Job {
            hook: hook.name.clone(),
            program: program(hook, self.setup, project),
            cwd: cwd.clone(),
            base: project.clone(),
            environment,
            stdin: Arc::clone(&self.payload),
            timeout,
            is_async: hook.is_async,
            listing: Some(Listing {
                folder: Place::new(&self.setup.home).running(),
                run: self.plan.background_row(hook),
            }),
        })
    }

    /// Returns the time that the hook gets; none if it could not be ended in time any more.
    fn timeout(&self, hook: &Hook) -> Option<Duration> {
        let timeout = hook.timeout_on(&self.plan.event);
        if hook.is_async {
            return Some(timeout);
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let left = left.checked_sub(ENDING).filter(|left| !left.is_zero())?;
        Some(timeout.min(left))
    }
}

/// The results of the hooks that the event waits for.
#[derive(Debug)]
pub struct AwaitedResults<'a> {
    plan: &'a HookPlan,
    results: Vec<JobResult>,
}

impl AwaitedResults<'_> {
    /// Merges the answers of the hooks into `own`, becket's verdict on the event as it came. If hooks changed
    /// the input, `judge` judges the result too, and the stricter verdict holds. `shorten` fits the answer
    /// into Claude Code's limits.
    pub(crate) fn merge(
        self,
        mut own: Verdict,
        judge: impl FnOnce(&[u8]) -> Verdict,
        shorten: impl FnOnce(Answer) -> Answer,
    ) -> (Verdict, Vec<RunRow>) {
        let Self { plan, mut results } = self;
        results.sort_by_key(|result| plan.hooks.iter().position(|hook| hook.name == result.hook));
        let (mut rows, mut answers) = (Vec::new(), Vec::new());
        for result in results {
            let answer = result.answer(&plan.event);
            let mut row = plan.row_with(&result, &answer);
            let answer = answer.or_else(|why| plan.failed_closed(&result.hook, &why).ok_or(why));
            if let Some((word, _)) = answer.as_ref().ok().and_then(Answer::decision) {
                row.decision = Some(word.to_owned());
            }
            // A hook that goes on in the background is recorded when it ends.
            if result.outcome != Outcome::WentAsync {
                rows.push(row);
            }
            let hook = result.hook;
            answers.extend(answer.ok().map(|answer| HookAnswer { hook, answer }));
        }
        let mut merged = merge(&plan.event, own.answer(), &answers);
        if let Some(input) = changed_input(&merged.answer) {
            if let Some(payload) = with_input(&plan.payload, input) {
                own = own.judge_result(judge(&payload));
                merged = merge(&plan.event, own.answer(), &answers);
            } else {
                // An input that cannot be judged does not go out.
                merged
                    .answer
                    .remove_change(Change::Input(Rest::new()).key());
            }
        }
        if !plan.attended {
            unattended(&mut merged.answer);
        }
        (
            own.merged(shorten(merged.answer), merged.by.map(Actor::Hooks)),
            rows,
        )
    }
}

/// Returns the program of a hook. A built-in hook gets the project that was approved.
pub fn program(hook: &Hook, setup: &HookSetup, project: &Path) -> Program {
    match &hook.action {
        Action::Run(program) => program.clone(),
        Action::BuiltIn(builtin, options) => {
            let options = serde_json::to_string(options).unwrap_or_else(|_| "{}".to_owned());
            Program::List(vec![
                text(&setup.becket),
                "builtin".to_owned(),
                builtin.name.to_owned(),
                "--options".to_owned(),
                options,
                "--project".to_owned(),
                text(project),
                "--home".to_owned(),
                text(&setup.home),
            ])
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn changed_input(answer: &Answer) -> Option<&Rest> {
    answer.changes().iter().find_map(|change| match change {
        Change::Input(input) => Some(input),
        _ => None,
    })
}

/// Replaces `tool_input` in the payload; all other bytes stay as they came. Returns none if there is no
/// `tool_input`.
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

/// Shortens an answer that is too long, and writes all of it to a file that the answer names.
pub fn shorten(answer: Answer, place: &Place, event: EventId, masker: &Masker) -> Answer {
    let (answer, rest) = fit(answer, LONGEST_TEXT, || place.said(event));
    if let Some((file, text)) = rest {
        let text = masker.mask(text.as_bytes());
        // Without the file the shortened answer is still useful.
        drop(replace::store(&file, &text.bytes, u64::MAX));
    }
    answer
}

/// Masks the notes of runs.
pub fn masked(mut runs: Vec<RunRow>, masker: &Masker) -> Vec<RunRow> {
    for note in runs.iter_mut().filter_map(|run| run.note.as_mut()) {
        *note = masker.text(note);
    }
    runs
}

#[cfg(test)]
mod tests;
