//! Runs one hook on one event, to show the result to the user. Nothing is recorded or answered, but
//! the side effects of the hook are real.

pub mod report;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::hooks::Hook;
use becket_engine::hooks::name::{self, Match};
use becket_engine::hooks::plan::{HookSetup, program};
use becket_engine::hooks::switch::{HookState, Switches, state};
use becket_engine::matcher::concerns;
use becket_engine::merge::{HookAnswer, merge};
use becket_engine::process::{Cancel, Job, JobResult, Occasion, Outcome, RunningJobs};
use becket_engine::trust::admit;
use becket_wire::answer::Answer;
use becket_wire::event::EventName;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{EventQuery, EventRow};
use becket_wire::{EventId, Head, Output};
use tempfile::TempDir;

use crate::failure::{Code, Failure};
use crate::world::{World, project_of};
use crate::{hook_runs, log, signals, switch};

/// The setup of trials: the current project, its hooks, and a temporary home for the memory of
/// built-in hooks, so that no session's memory changes.
#[derive(Debug)]
pub struct TrialSetup<'a> {
    pub world: &'a World,
    pub project: PathBuf,
    pub hooks: Vec<Arc<Hook>>,
    setup: HookSetup,
    _memory: TempDir,
    cancel: Cancel,
}

/// The result of one trial.
#[derive(Debug, Clone)]
pub struct TrialResult {
    pub ran: JobResult,
    /// The answer as becket reads it, or the reason of the failure.
    pub answer: Result<Answer, String>,
    /// The row that would be recorded.
    pub row: RunRow,
}

impl<'a> TrialSetup<'a> {
    pub fn new(world: &'a World) -> Result<Self> {
        let cwd = world.cwd.canonicalize();
        let cwd = cwd.unwrap_or_else(|_| world.cwd.clone());
        let project = project_of(&cwd).to_path_buf();
        let memory = tempfile::Builder::new().prefix("becket-try").tempdir();
        let memory = memory.context("could not make a folder for what hooks remember")?;
        let becket = world.programs.join("becket");
        let setup = HookSetup {
            becket,
            home: memory.path().to_path_buf(),
            environment: environment(&project),
        };
        let cancel = Cancel::new();
        let ending = cancel.clone();
        signals::on_termination(move || ending.cancel());
        Ok(Self {
            hooks: switch::project_config(world, &project).hooks.clone(),
            world,
            project,
            setup,
            _memory: memory,
            cancel,
        })
    }

    /// Finds a hook by its name or an unambiguous part of it.
    pub fn named(&self, typed: &str) -> Result<&Arc<Hook>> {
        let names = self.hooks.iter().map(|hook| &*hook.name);
        let (code, what, hint) = match name::find(typed, names) {
            Match::One(name) => {
                let found = self.hooks.iter().find(|hook| hook.name == name);
                return found.context("a hook that was there is gone");
            }
            Match::Several(several) => {
                let what = format!("several hooks have `{typed}` in their name");
                (Code::Usage, what, format!("one of: {}", several.join(", ")))
            }
            Match::None { nearest } => {
                let what = format!("this project has no hook `{typed}`");
                let hint = nearest.map_or_else(
                    || "becket hooks lists them; becket hooks adopt takes over hooks of Claude Code's settings files".to_owned(),
                    |near| format!("did you mean {near}? becket hooks lists them"),
                );
                (Code::Missing, what, hint)
            }
        };
        Err(Failure::new(code, what).hint(hint).into())
    }

    /// Refuses a hook of a project that is not trusted.
    pub fn refuse_untrusted(&self, hook: &Hook) -> Result<()> {
        if !hook.untrusted {
            return Ok(());
        }
        let name = &hook.name;
        let what = format!("the hook {name} belongs to a project that is not trusted");
        let hint = "becket trust shows what it would run, and lets it";
        Err(Failure::new(Code::Failed, what).hint(hint).into())
    }

    /// Returns the reason why the hook would not run on this event in its session.
    pub fn obstacle(&self, hook: &Hook, sample: &Sample) -> Option<String> {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let session = head.session_id.as_deref().unwrap_or_default();
        let switches = Switches::read(&self.world.place, session).switches;
        match state(hook, &switches, head.agent_type.as_deref()) {
            HookState::Enabled if self.wants(hook, sample) => None,
            HookState::Enabled => Some("it does not want this event".to_owned()),
            state => Some(state.to_string()),
        }
    }

    pub fn wants(&self, hook: &Hook, sample: &Sample) -> bool {
        let head = Head::read(&sample.payload);
        head.is_ok_and(|head| concerns(hook, &sample.event, &head, &sample.payload, &self.project))
    }

    pub fn try_on(&self, hook: &Hook, sample: &Sample) -> Result<TrialResult> {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let cwd = head.cwd.as_deref().map(Path::new);
        let cwd = cwd.filter(|cwd| cwd.is_dir()).unwrap_or(&self.project);
        let admitted = admit(hook, &self.setup.environment, &self.project, cwd);
        let environment = admitted.map_err(|why| {
            let what = format!("{} must not run: {why}", hook.name);
            Failure::new(Code::Failed, what).hint("becket trust")
        })?;
        let job = Job {
            hook: hook.name.clone(),
            program: program(hook, &self.setup, &self.project),
            cwd: cwd.to_path_buf(),
            base: self.project.clone(),
            environment,
            stdin: sample.payload.clone().into(),
            timeout: hook.timeout_on(&sample.event),
            // Not async: the user wants to see the output.
            is_async: false,
            listing: None,
        };
        let mut running = RunningJobs::new(&self.cancel);
        let ran = running.run(vec![job]).pop();
        while running.next_ended().is_some() {}
        let ran = ran.context("the hook did not run")?;
        let answer = ran.answer(&sample.event);
        let on = Occasion {
            event_id: sample.id().unwrap_or(EventId::from_bytes([0; 16])),
            event: &sample.event,
            session_id: head.session_id.as_deref(),
            agent_id: head.agent_id.as_deref(),
        };
        let row = ran.row(on, &answer);
        Ok(TrialResult { ran, answer, row })
    }
}

impl TrialResult {
    pub fn was_cancelled(&self) -> bool {
        self.ran.outcome == Outcome::Cancelled
    }

    /// Returns the output for Claude Code, as if no other hook had run.
    pub fn output(&self, sample: &Sample) -> Output {
        let silent = Answer::silent(sample.event.clone());
        let said = self.answer.as_ref().ok().map(|answer| HookAnswer {
            hook: self.row.hook.clone(),
            answer: answer.clone(),
        });
        merge(&sample.event, &silent, said.as_slice())
            .answer
            .render()
    }

    /// Returns the number of characters that the model would get.
    pub fn chars_for_claude(&self) -> u64 {
        let Ok(answer) = &self.answer else {
            return 0;
        };
        let reason = answer.opinion().and_then(|opinion| opinion.reason());
        let texts = answer.contexts().iter().map(String::as_str).chain(reason);
        texts.map(|text| text.chars().count() as u64).sum()
    }
}

/// Returns becket's environment with the variable that Claude Code sets for its hooks.
fn environment(project: &Path) -> Arc<[(OsString, OsString)]> {
    const PROJECT: &str = "CLAUDE_PROJECT_DIR";
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    if !all.iter().any(|(name, _)| name == PROJECT) {
        all.push((PROJECT.into(), project.into()));
    }
    all.into()
}

/// The number of recorded events of a kind that are searched for one that a hook wants.
const SEARCHED_EVENTS: u32 = 200;
/// The longest event in bytes.
const LONGEST: u64 = 32 << 20;

#[derive(Debug, Clone)]
pub struct Sample {
    pub event: EventName,
    pub payload: Vec<u8>,
    pub from: SampleSource,
}

/// The source of a sample event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleSource {
    /// The log, in which secrets were masked.
    Log {
        id: EventId,
        at: i64,
        masked: i64,
    },
    File(PathBuf),
    BuiltIn,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// Events as Claude Code sent them, one or a few of each kind.
        const BUILT_IN: &[&str] = &[
            $(include_str!(concat!("../../wire/fixtures/", $name, ".json")),)*
        ];
    };
}

built_in![
    "PreToolUse.Bash",
    "PreToolUse.Write",
    "PreToolUse.Edit",
    "PreToolUse.Read",
    "PostToolUse.Write",
    "PostToolUse.Edit",
    "PostToolUse.Bash",
    "PostToolUse.Read",
    "PostToolUseFailure.Bash",
    "PostToolBatch",
    "PermissionRequest.Bash",
    "UserPromptSubmit",
    "SessionStart.startup",
    "SessionEnd.other",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact.manual",
    "PostCompact.manual",
    "Notification.idle_prompt.tui",
];

/// The folder in which the built-in events were recorded.
const RECORDED_IN: &str = "/home/user/project";

/// Returns the built-in events, as if they came from this project.
fn built_in(project: &Path) -> impl Iterator<Item = Sample> {
    let here = serde_json::to_string(&project.to_string_lossy()).unwrap_or_default();
    let here = here.trim_matches('"').to_owned();
    BUILT_IN.iter().filter_map(move |text| {
        let payload = text.replace(RECORDED_IN, &here).into_bytes();
        Sample::read(payload, SampleSource::BuiltIn)
    })
}

impl Sample {
    /// Reads a payload. Returns None if it has no event name.
    fn read(payload: Vec<u8>, from: SampleSource) -> Option<Self> {
        let event = Head::read(&payload).ok()?.event?.as_ref().into();
        Some(Self {
            event,
            payload,
            from,
        })
    }

    /// Makes a sample of a recorded event, or None if its payload was not kept.
    pub fn of(row: EventRow) -> Option<Self> {
        let from = SampleSource::Log {
            id: row.id,
            at: row.at,
            masked: row.masked,
        };
        Self::read(row.payload?, from)
    }

    pub fn id(&self) -> Option<EventId> {
        match self.from {
            SampleSource::Log { id, .. } => Some(id),
            _ => None,
        }
    }

    pub fn tool(&self) -> Option<String> {
        let head = Head::read(&self.payload).ok()?;
        head.tool.map(std::borrow::Cow::into_owned)
    }

    /// Formats the event and its tool.
    pub fn name(&self) -> String {
        hook_runs::event(Some(self.event.as_str()), self.tool().as_deref())
    }
}

impl TrialSetup<'_> {
    /// Reads the event in the file `meant`, else the recorded event whose id begins with it.
    pub fn sample(&self, meant: &str) -> Result<Sample> {
        let file = self.world.cwd.join(meant);
        if EventId::beginning(meant).is_some() && !file.exists() {
            return self.recorded(log::event_id(self.world, meant)?);
        }
        from_file(&file)
    }

    fn recorded(&self, id: EventId) -> Result<Sample> {
        let query = EventQuery {
            id: Some(id),
            duplicates: true,
            ..EventQuery::default()
        };
        let row = log::read(self.world, query)?.pop().ok_or_else(|| {
            let failure = Failure::new(Code::Missing, format!("no event has the id {id}"));
            failure.hint("becket events shows the ids")
        })?;
        let kept = row.payload.is_some();
        Sample::of(row).ok_or_else(|| {
            let why = if kept {
                "is no event of Claude Code's"
            } else {
                "was kept without its payload"
            };
            Failure::new(Code::Failed, format!("the event {id} {why}")).into()
        })
    }

    /// Returns the newest recorded event of this project that the hook wants, else a built-in one.
    pub fn sample_for(&self, hook: &Hook) -> Result<Option<Sample>> {
        let mut newest: Option<(i64, Sample)> = None;
        for event in &hook.on {
            let query = EventQuery {
                event: Some(event.as_str().to_owned()),
                limit: Some(SEARCHED_EVENTS),
                ..EventQuery::default()
            };
            let rows = log::read(self.world, query)?.into_iter().rev();
            let rows = rows.take_while(|row| newest.as_ref().is_none_or(|(at, _)| row.at > *at));
            let found = rows
                .filter_map(|row| Some((row.at, Sample::of(row)?)))
                .find(|(_, sample)| self.is_from_here(sample) && self.wants(hook, sample));
            newest = found.or(newest);
        }
        let built_in = || built_in(&self.project).find(|sample| self.wants(hook, sample));
        Ok(newest.map(|(_, sample)| sample).or_else(built_in))
    }

    fn is_from_here(&self, sample: &Sample) -> bool {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let cwd = head.cwd.as_deref().map(Path::new);
        cwd.is_some_and(|cwd| cwd.starts_with(&self.project))
    }
}

fn from_file(path: &Path) -> Result<Sample> {
    let unreadable = |why: io::Error| {
        let code = match why.kind() {
            ErrorKind::NotFound => Code::Missing,
            _ => Code::Failed,
        };
        let what = format!("could not read the event {}: {why}", path.display());
        Failure::new(code, what).hint("--event takes a file, or the id of a recorded event")
    };
    let mut payload = Vec::new();
    // Bounded while it is read: only a regular file tells its length before.
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(LONGEST + 1).read_to_end(&mut payload);
    if read.map_err(unreadable)? as u64 > LONGEST {
        let what = format!("{} is longer than any event (32 MiB)", path.display());
        let failure = Failure::new(Code::Failed, what);
        return Err(failure.hint("--event takes a file with one event").into());
    }
    Sample::read(payload, SampleSource::File(path.to_path_buf())).ok_or_else(|| {
        let what = format!("{} is no event: it has no hook_event_name", path.display());
        Failure::new(Code::Failed, what)
            .hint("becket events --raw prints events as they came")
            .into()
    })
}
