//! The one path of an event: [`prepare`] → [`decide`] → run → [`finish`] → record.
//!
//! The daemon and the standalone process (`becket hook`) are its two hosts. They call these functions in this
//! order and record the results, so a rule is written once and holds in both. `run` is [`HookPlan::runs`];
//! recording belongs to the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use becket_wire::event::EventName;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{Envelope, EventRequest};
use becket_wire::{Account, Actor, Head, Place};

use crate::config::{ConfigCache, Snapshot};
use crate::effort::{EffortContext, directive, skill};
use crate::guard::memory::Ends;
use crate::guard::sight::{Around, Sight};
use crate::hooks::plan::{self, AwaitedResults, HookEvent, HookPlan};
use crate::hooks::slash::{self, SlashCommand, SlashContext};
use crate::hooks::switch::Switches;
use crate::judge::{Verdict, judge};
use crate::mask::Masker;
use crate::notice::DisplayChange;
use crate::trust::Trust;

/// An event with everything that its judgement needs. Making it reads files; using it does not.
#[derive(Debug, Clone)]
pub struct PreparedEvent {
    /// The envelope, with its variables masked.
    pub envelope: Envelope,
    pub event: EventName,
    /// The payload as Claude Code sent it. Guards and named hooks see it; it is never stored.
    pub payload: Arc<[u8]>,
    /// The payload with secrets masked, for the database and the session.
    pub masked: Arc<[u8]>,
    /// The number of masked secrets.
    pub secrets: u32,
    /// The project; none if the payload names no folder.
    pub project: Option<PathBuf>,
    pub config: Arc<Snapshot>,
    pub masker: Arc<Masker>,
    switches: Switches,
    /// The slash command of becket that the user typed.
    slash: Option<SlashCommand>,
    user_home: Arc<Path>,
    /// The findings of the guards.
    sight: Option<Sight>,
    /// The passes that end with this event.
    ends: Option<Ends>,
}

/// The facts for the judgement that only the host knows.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// True if the user was told of the config's problems already.
    pub told: bool,
    /// The change that the event made to the session's display.
    pub change: Option<DisplayChange>,
    /// The start of the session, if `becket run` started it.
    pub launched_at: Option<i64>,
    /// The local time of day, in minutes.
    pub minute: u16,
    /// True if no hook runs and no switch is set: the event repeats another one, comes too late to be answered,
    /// or its hooks ran elsewhere.
    pub judge_only: bool,
    /// True for the result of a call that becket had denied.
    pub ran_denied: bool,
    /// The session's effort, if it has one.
    pub effort: Option<Box<EffortContext>>,
}

/// The next step after [`decide`].
#[derive(Debug)]
pub enum Step {
    /// Answer with this verdict.
    Done(Verdict),
    /// Run these hooks, then [`finish`].
    Run(Box<HookPlan>, Verdict),
    /// Call [`switch`], then answer with its verdict.
    Switch(Verdict),
}

/// The verdict after hooks, and their runs.
#[derive(Debug)]
pub struct FinishedEvent {
    pub verdict: Verdict,
    pub runs: Vec<RunRow>,
}

/// Parses and masks an event, and reads the files for its judgement. It may block on the project's file system.
/// Returns none if an earlier event hangs there.
pub fn prepare(request: EventRequest, configs: &ConfigCache) -> Option<PreparedEvent> {
    let payload: Arc<[u8]> = request.payload.into();
    let head = Head::read(&payload).unwrap_or_default();
    let envelope = request.envelope;
    let Some(cwd) = head.cwd.as_deref() else {
        return Some(prepare_in(None, envelope, &payload, &head, configs));
    };
    let _look = configs.look_into(Path::new(cwd), Instant::now())?;
    let project = project_of(cwd, envelope.variable("CLAUDE_PROJECT_DIR")).into();
    let project = Some(project);
    Some(prepare_in(project, envelope, &payload, &head, configs))
}

/// Prepares an event without its project: only the user's own files judge it.
pub fn prepare_without_project(request: EventRequest, configs: &ConfigCache) -> PreparedEvent {
    let payload: Arc<[u8]> = request.payload.into();
    let head = Head::read(&payload).unwrap_or_default();
    prepare_in(None, request.envelope, &payload, &head, configs)
}

fn prepare_in(
    project: Option<PathBuf>,
    mut envelope: Envelope,
    payload: &Arc<[u8]>,
    head: &Head<'_>,
    configs: &ConfigCache,
) -> PreparedEvent {
    let event = head.event.as_deref().or(envelope.event.as_deref());
    let event = EventName::from(event.unwrap_or_default());
    let slash = slash::parse(head, &envelope);
    let ends = Ends::of(&event, head);
    let (config, masker) = configs.current(project.as_deref());
    let session = head.session_id.as_deref().unwrap_or_default();
    let switches = if config.hooks.is_empty() {
        Switches::default()
    } else {
        Switches::read(configs.place(), session).switches
    };
    masker.envelope(&mut envelope);
    let found = masker.mask(payload);
    let masked = match found.count {
        0 => Arc::clone(payload),
        _ => found.bytes.into(),
    };
    let mut event = PreparedEvent {
        envelope,
        event,
        payload: Arc::clone(payload),
        masked,
        secrets: found.count,
        project,
        config,
        masker,
        switches,
        slash,
        user_home: Arc::clone(configs.user_home()),
        sight: None,
        ends,
    };
    event.sight = event.look(&event.payload, configs.place());
    event
}

/// Judges an event. It reads no file.
pub fn decide(event: &PreparedEvent, context: &Context) -> Step {
    let verdict = judge(event, &event.payload, event.sight.as_ref(), context);
    if context.judge_only {
        return Step::Done(verdict);
    }
    if event.slash.is_some() {
        return Step::Switch(verdict);
    }
    if verdict.refuses() {
        return Step::Done(verdict);
    }
    match event.plan() {
        Some(plan) => Step::Run(Box::new(plan), verdict),
        None => Step::Done(verdict),
    }
}

/// Returns true if [`read_files`] must be called before the event is decided.
pub fn wants_files(event: &PreparedEvent, context: &Context) -> bool {
    let effort = context.effort.as_ref().filter(|_| !context.judge_only);
    effort.is_some_and(|effort| directive::is_wanted(effort, &event.event))
}

/// Reads the files that the session's effort gives its agent with this event. It may block.
pub fn read_files(event: &PreparedEvent, context: &mut Context) {
    if let Some(effort) = &mut context.effort {
        let skill = skill::find(&event.config, &effort.facts.skill).unwrap_or_default();
        let project = event.config.project.as_ref();
        let trusted = project.is_some_and(|project| project.trust == Trust::Yes);
        effort.read = Some(directive::read(effort, &skill, &event.event, trusted));
    }
}

/// Sets the switch that the user asked for, and answers with the result. It writes a file, and may wait for its
/// lock.
pub fn switch(event: &PreparedEvent, verdict: Verdict, place: &Place) -> Verdict {
    let head = Head::read(&event.payload).unwrap_or_default();
    let Some(slash) = &event.slash else {
        return verdict;
    };
    let context = SlashContext {
        place,
        session: head.session_id.as_deref().unwrap_or_default(),
        cwd: head.cwd.as_deref().unwrap_or_default().as_ref(),
        agent_type: None,
        hooks: &event.config.hooks,
        guards: &event.config.guards,
    };
    let reply = slash::act(slash.verb, &slash.argument, &context);
    let answer = slash::answer(verdict.event().clone(), &reply.lines);
    verdict.merged(answer, Some(Actor::Becket(Account::Switch)))
}

/// Merges the hooks' answers into the verdict. If they changed the input, the result is judged too, and the
/// stricter of both verdicts holds.
pub fn finish(
    event: &PreparedEvent,
    context: &Context,
    own: Verdict,
    results: AwaitedResults,
    place: &Place,
) -> FinishedEvent {
    let (verdict, runs) = results.merge(
        own,
        |payload| {
            let sight = event.look(payload, place);
            let sight = sight.map(|sight| sight.after(event.sight.as_ref()));
            judge(event, payload, sight.as_ref(), context)
        },
        |answer| plan::shorten(answer, place, event.envelope.id, &event.masker),
    );
    let verdict = settle(event, verdict, place);
    let runs = plan::masked(runs, &event.masker);
    FinishedEvent { verdict, runs }
}

/// Stores the guards' decisions: a call that they denied can be allowed once, and a pass is bound to its call.
/// Ends the passes whose call, turn or session is over. Each host calls it on the final verdict of an event;
/// [`finish`] does so itself. It writes or removes only small files in becket's home.
pub fn settle(event: &PreparedEvent, verdict: Verdict, place: &Place) -> Verdict {
    if let Some(ends) = &event.ends {
        ends.remove(place);
    }
    let mut verdict = verdict.spend(place);
    if let Some((key, rule)) = verdict.denied()
        && let Err(why) = key.deny(place, event.envelope.id, rule)
    {
        verdict = verdict.with_note(format!("becket: the denied call is not remembered: {why}"));
    }
    verdict
}

impl Step {
    pub fn verdict(&self) -> &Verdict {
        match self {
            Self::Done(verdict) | Self::Run(_, verdict) | Self::Switch(verdict) => verdict,
        }
    }
}

impl PreparedEvent {
    /// Returns the findings of the guards for this payload. It reads files.
    fn look(&self, payload: &[u8], place: &Place) -> Option<Sight> {
        let head = Head::read(payload).ok()?;
        let around = Around {
            rules: &self.config.guards,
            place,
            home: &self.user_home,
            project: self.project.as_deref().unwrap_or(Path::new("/")),
            registered_by_settings: self.envelope.from.as_deref() == Some("settings"),
            // `prepare` takes a project from every folder; `prepare_without_project` takes none.
            stalled: self.project.is_none() && head.cwd.is_some(),
        };
        Sight::of(&self.event, self.envelope.id, &head, payload, &around)
    }

    /// Returns the project with secrets masked, for the database.
    pub fn masked_project(&self) -> Option<String> {
        let project = self.project.as_ref()?.to_string_lossy();
        Some(self.masker.text(&project))
    }

    /// Reads the session's switches again.
    pub fn read_switches(&mut self, place: &Place) {
        let head = Head::read(&self.payload).unwrap_or_default();
        let session = head.session_id.as_deref().unwrap_or_default();
        self.switches = Switches::read(place, session).switches;
    }

    /// Returns true for a slash command that becket answers itself.
    pub fn is_slash(&self) -> bool {
        self.slash.is_some()
    }

    /// Returns the hooks that are switched off in the session.
    pub fn disabled_hooks(&self) -> &[String] {
        self.switches.disabled()
    }

    /// Plans the hooks that match this event and are on in its session.
    pub fn plan(&self) -> Option<HookPlan> {
        if self.config.hooks.is_empty() {
            return None;
        }
        let head = Head::read(&self.payload).ok()?;
        let root = Path::new("/");
        let asked = HookEvent {
            id: self.envelope.id,
            event: &self.event,
            head: &head,
            payload: &self.payload,
            project: self.project.as_deref().unwrap_or(root),
            attended: self.envelope.attended(),
        };
        HookPlan::of(&asked, &self.config.hooks, &self.switches)
    }
}

/// Returns the git root above `cwd`, else `CLAUDE_PROJECT_DIR`, else `cwd` itself.
fn project_of(cwd: &str, claude_project_dir: Option<&str>) -> String {
    let mut above = Path::new(cwd).ancestors();
    let root = above.find(|folder| folder.is_absolute() && folder.join(".git").exists());
    match (root.and_then(Path::to_str), claude_project_dir) {
        (Some(root), _) => root.to_owned(),
        (None, Some(project)) if !project.is_empty() => project.to_owned(),
        (None, _) => cwd.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_git_root_else_the_project_of_claude_code_else_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for made in ["p/.git", "p/src/deep", "other"] {
            std::fs::create_dir_all(path(made)).unwrap();
        }
        assert_eq!(project_of(&path("p/src/deep"), Some("/x")), path("p"));
        assert_eq!(project_of(&path("p"), None), path("p"));
        for (said, project) in [
            (Some("/x"), "/x".into()),
            (Some(""), path("other")),
            (None, path("other")),
        ] {
            assert_eq!(project_of(&path("other"), said), project);
        }
        assert_eq!(project_of("not/absolute", None), "not/absolute");
    }
}
