//! One hook on one event, run for a person to look at: nothing is recorded, nobody is answered. What
//! the hook does outside, it really does.

pub mod sample;
pub mod show;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::hooks::Hook;
use becket_engine::hooks::carry::{Kit, program};
use becket_engine::hooks::name::{self, Match};
use becket_engine::hooks::switch::{State, Switches, state};
use becket_engine::matcher::concerns;
use becket_engine::merge::{Said, merge};
use becket_engine::run::{Cancel, Job, Keeper, Kept, Occasion, Outcome, Ran, run};
use becket_engine::trust::admit;
use becket_wire::answer::Answer;
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Output};
use tempfile::TempDir;

use crate::failure::{Code, Failure};
use crate::world::{World, project_of};
use crate::{leave, switch};
use sample::Sample;

/// Where hooks are tried: the project that we are in, its hooks, and a home of their own for what
/// built-ins remember, so that no session's memory is touched.
#[derive(Debug)]
pub struct Bench<'a> {
    pub world: &'a World,
    pub project: PathBuf,
    pub hooks: Vec<Arc<Hook>>,
    kit: Kit,
    _memory: TempDir,
    cancel: Cancel,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Tried {
    pub ran: Ran,
    /// As becket reads it, else in what way it failed.
    pub answer: Result<Answer, String>,
    /// As it would be recorded.
    pub row: RunRow,
}

impl<'a> Bench<'a> {
    pub fn set_up(world: &'a World) -> Result<Self> {
        let cwd = world.cwd.canonicalize();
        let cwd = cwd.unwrap_or_else(|_| world.cwd.clone());
        let project = project_of(&cwd).to_path_buf();
        let memory = tempfile::Builder::new().prefix("becket-try").tempdir();
        let memory = memory.context("could not make a folder for what hooks remember")?;
        let becket = world.programs.join("becket");
        let kit = Kit {
            keeper: Arc::new(Keeper::of(becket.clone(), world.place.home().to_path_buf())),
            becket,
            home: memory.path().to_path_buf(),
            environment: environment(&project),
        };
        let cancel = Cancel::new();
        let ending = cancel.clone();
        leave::when_asked(move || ending.cancel());
        Ok(Self {
            hooks: switch::configured(world, &project),
            world,
            project,
            kit,
            _memory: memory,
            cancel,
        })
    }

    /// The hook that is meant: its name, or a part that only it has.
    pub fn named(&self, typed: &str) -> Result<&Arc<Hook>> {
        let names = self.hooks.iter().map(|hook| &*hook.name);
        let failure = match name::find(typed, names) {
            Match::One(name) => {
                let found = self.hooks.iter().find(|hook| hook.name == name);
                return found.context("a hook that was there is gone");
            }
            Match::Several(several) => Failure::new(
                Code::Usage,
                format!("several hooks have `{typed}` in their name"),
            )
            .hint(format!("one of: {}", several.join(", "))),
            Match::None { nearest } => {
                let what = format!("this project has no hook `{typed}`");
                Failure::new(Code::Missing, what).hint(nearest.map_or_else(
                    || "becket hooks lists them".to_owned(),
                    |near| format!("did you mean {near}? becket hooks lists them"),
                ))
            }
        };
        Err(failure.into())
    }

    /// Refuses a hook of a project that is not trusted.
    pub fn refuse_untrusted(&self, hook: &Hook) -> Result<()> {
        if !hook.untrusted {
            return Ok(());
        }
        let what = format!(
            "the hook {} belongs to a project that is not trusted",
            hook.name
        );
        let failure = Failure::new(Code::Failed, what);
        Err(failure
            .hint("becket trust shows what it would run, and lets it")
            .into())
    }

    /// Whether the hook would run on this event in its session, and why not.
    pub fn standing(&self, hook: &Hook, sample: &Sample) -> Option<String> {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let session = head.session_id.as_deref().unwrap_or_default();
        let switches = Switches::read(&self.world.place, session).switches;
        match state(hook, &switches, head.agent_type.as_deref()) {
            State::Enabled if self.wants(hook, sample) => None,
            State::Enabled => Some("it does not want this event".to_owned()),
            state => Some(state.to_string()),
        }
    }

    pub fn wants(&self, hook: &Hook, sample: &Sample) -> bool {
        let head = Head::read(&sample.payload);
        head.is_ok_and(|head| concerns(hook, &sample.event, &head, &sample.payload, &self.project))
    }

    pub fn try_on(&self, hook: &Hook, sample: &Sample) -> Result<Tried> {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let cwd = head.cwd.as_deref().map(Path::new);
        let cwd = cwd.filter(|cwd| cwd.is_dir()).unwrap_or(&self.project);
        let admitted = admit(hook, &self.kit.environment, &self.project, cwd);
        let environment = admitted.map_err(|why| {
            let what = format!("{} must not run: {why}", hook.name);
            Failure::new(Code::Failed, what).hint("becket trust")
        })?;
        let job = Job {
            hook: hook.name.clone(),
            program: program(hook, &self.kit, &self.project),
            cwd: cwd.to_path_buf(),
            base: self.project.clone(),
            environment,
            stdin: sample.payload.clone().into(),
            timeout: hook.timeout_on(&sample.event),
            // Here somebody wants to see what it says.
            is_async: false,
            kept: Kept {
                keeper: Arc::clone(&self.kit.keeper),
                run: None,
            },
        };
        let (mut answered, mut later) = (None, None);
        run(
            vec![job],
            &self.cancel,
            |mut ran| answered = ran.pop(),
            |ran| later = Some(ran),
        );
        let ran = answered.or(later).context("the hook did not run")?;
        let answer = ran.answer(&sample.event);
        let on = Occasion {
            event_id: sample.id().unwrap_or(EventId::from_bytes([0; 16])),
            event: &sample.event,
            session_id: head.session_id.as_deref(),
            agent_id: head.agent_id.as_deref(),
        };
        let row = ran.row(on, &answer);
        Ok(Tried { ran, answer, row })
    }
}

impl Tried {
    pub fn was_cancelled(&self) -> bool {
        self.ran.outcome == Outcome::Cancelled
    }

    /// What Claude Code would get if no other hook had run.
    pub fn output(&self, sample: &Sample) -> Output {
        let silent = Answer::silent(sample.event.clone());
        let said = self.answer.as_ref().ok().map(|answer| Said {
            hook: self.row.hook.clone(),
            answer: answer.clone(),
        });
        merge(&sample.event, silent, said.as_slice())
            .answer
            .render()
    }

    /// How many characters of it reach the model.
    pub fn for_claude(&self) -> u64 {
        let Ok(answer) = &self.answer else {
            return 0;
        };
        let reason = answer.opinion().and_then(|opinion| opinion.reason());
        let texts = answer.contexts().iter().map(String::as_str).chain(reason);
        texts.map(|text| text.chars().count() as u64).sum()
    }
}

/// Ours, with what Claude Code tells its hooks besides.
fn environment(project: &Path) -> Arc<[(OsString, OsString)]> {
    const PROJECT: &str = "CLAUDE_PROJECT_DIR";
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    if !all.iter().any(|(name, _)| name == PROJECT) {
        all.push((PROJECT.into(), project.into()));
    }
    all.into()
}
