//! One event in this process alone, because no daemon answers: the same engine, the same config, the
//! same hooks. What came of it is left in the spool for the next daemon.

mod hooks;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_daemon::store::spool::{self, Left, SpoolError};
use becket_daemon::store::{Decision, mask_key, not_whole};
use becket_engine::config::{Loader, Snapshot, variables_among};
use becket_engine::hooks::carry::{Asked, Plan};
use becket_engine::hooks::kept;
use becket_engine::hooks::slash::{self, Scene};
use becket_engine::hooks::switch::Switches;
use becket_engine::judge::{Grounds, Verdict};
use becket_engine::mask::Masker;
use becket_engine::notice::{Change, minute_of_day};
use becket_engine::session::project_of;
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::head::HeadError;
use becket_wire::rpc::{Envelope, EventRequest, Request, Source};
use becket_wire::run::RunRow;
use becket_wire::{Head, Output, Place};

/// How this process came to judge alone.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub why: &'a str,
    /// A daemon had taken the event: its hooks ran there, and run nowhere again.
    pub held: bool,
    /// Only the hooks that nobody waits for, and nothing is answered.
    pub behind: bool,
}

/// Judges the event on stdin, leaves it in the spool, then prints.
pub fn run(place: &Place, call: Call<'_>) -> Result<ExitCode> {
    let began = Instant::now();
    let frame = read_stdin().context("could not read the event")?;
    let Request::Event(EventRequest {
        envelope, payload, ..
    }) = read_frame(&frame)?
    else {
        bail!("stdin holds no event's frame");
    };
    let head = Head::read(&payload);
    let project = project(&envelope, head.as_ref().ok());
    let variables = variables_among(&envelope.variables);
    let config = Loader::for_project(place, &project)
        .with_variables(variables)
        .current();
    // Without its key nothing could be masked alike; a key of zeros still masks.
    let key = mask_key(place).unwrap_or_default();
    let event = Event {
        place,
        envelope: &envelope,
        payload: &payload,
        head: &head,
        project: &project,
        masker: &Masker::from_config(key, &config.config),
        config: &config,
        why: call.why,
        began,
    };
    if call.behind {
        event.run_behind();
        return Ok(ExitCode::SUCCESS);
    }
    let output = event.answer(call.held, frame);
    if let Some(why) = not_whole(&head, envelope.cut) {
        eprintln!("becket: {why}");
    }
    Ok(becket_hook::print(&output))
}

fn project(envelope: &Envelope, head: Option<&Head<'_>>) -> PathBuf {
    let cwd = head.and_then(|head| head.cwd.as_deref()).unwrap_or("/");
    let claude = envelope.variable("CLAUDE_PROJECT_DIR");
    project_of(cwd, claude, is_git_root).into()
}

fn is_git_root(folder: &Path) -> bool {
    folder.join(".git").exists()
}

/// One event with all that its judgement depends on.
struct Event<'a> {
    place: &'a Place,
    envelope: &'a Envelope,
    payload: &'a [u8],
    head: &'a Result<Head<'a>, HeadError>,
    project: &'a Path,
    config: &'a Arc<Snapshot>,
    masker: &'a Masker,
    /// Why no daemon has it.
    why: &'a str,
    began: Instant,
}

impl Event<'_> {
    /// What is to be said, once it is left in the spool.
    fn answer(&self, held: bool, frame: Vec<u8>) -> Output {
        let verdict = self.judge();
        if let Some(switched) = self.switched(&verdict) {
            return self.answered(&switched);
        }
        let plan = (!held && !verdict.refuses()).then(|| self.plan());
        match plan.flatten() {
            Some(plan) => self.carry_out(plan, verdict, frame),
            None => self.answered(&verdict),
        }
    }

    /// Nothing more is asked: the event is left with its answer.
    fn answered(&self, verdict: &Verdict) -> Output {
        let output = verdict.output();
        report(self.leave(self.left(Some((verdict, &output)), Vec::new())));
        output
    }

    fn judge(&self) -> Verdict {
        self.grounds().judge(self.payload)
    }

    fn grounds(&self) -> Grounds {
        let head = self.head.as_ref().ok();
        Grounds {
            envelope: self.envelope.clone(),
            config: Arc::clone(self.config),
            told: false,
            change: head.and_then(|head| Change::alone(head, self.envelope, is_git_root)),
            // Only a daemon knows the session.
            launched_at: None,
            minute: minute_of_day(self.envelope.at),
        }
    }

    /// What the person typed to switch a hook, done and said.
    fn switched(&self, verdict: &Verdict) -> Option<Verdict> {
        let head = self.head.as_ref().ok()?;
        let slash = slash::parse(head, self.envelope)?;
        let session = head.session_id.as_deref().unwrap_or_default();
        let cwd = head.cwd.as_deref().unwrap_or_default();
        let scene = Scene {
            place: self.place,
            session,
            cwd: cwd.as_ref(),
            agent_type: None,
            hooks: &self.config.hooks,
        };
        let acted = slash::act(slash.verb, &slash.argument, &scene);
        let answer = slash::answer(verdict.event().clone(), &acted.lines);
        Some(verdict.clone().switched(answer))
    }

    fn plan(&self) -> Option<Plan> {
        let head = self.head.as_ref().ok()?;
        let event = head.event.as_deref().unwrap_or_default().into();
        let asked = Asked {
            id: self.envelope.id,
            event: &event,
            head,
            payload: self.payload,
            project: self.project,
            attended: self.envelope.attended(),
        };
        let session = head.session_id.as_deref().unwrap_or_default();
        Plan::of(&asked, &self.config.hooks, || {
            Arc::new(Switches::read(self.place, session).switches)
        })
    }

    /// What there is to say of the event now; without an answer nobody knows it yet.
    fn left(&self, answer: Option<(&Verdict, &Output)>, runs: Vec<RunRow>) -> Left {
        let took_us = i64::try_from(self.began.elapsed().as_micros()).ok();
        let decision = answer.and_then(|(verdict, output)| {
            let said = verdict.decision().filter(|_| !output.is_silent());
            Decision::new(said, output)
        });
        Left {
            took_us: took_us.filter(|_| answer.is_some()),
            decision: decision.map(|decision| decision.masked(self.masker)),
            masked: 0,
            source: Source::Alone,
            why: self.why.to_owned(),
            runs: kept::masked(runs, self.masker),
            held: false,
        }
    }

    /// Leaves the event in the spool, or rewrites what was left of it.
    fn leave(&self, left: Left) -> Result<(), SpoolError> {
        let payload = self.masker.mask(self.payload);
        let left = Left {
            masked: payload.count,
            ..left
        };
        spool::leave(self.place, self.envelope, &payload.bytes, &left)
    }
}

/// Claude Code shows the stderr of a hook that exits 0 in its debug log only.
fn report(kept: Result<(), SpoolError>) {
    if let Err(error) = kept {
        eprintln!("becket: the event is not kept: {error}");
    }
}

/// What the shim left on stdin.
pub fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin
        .take((HEAD + MAX_BODY) as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The frame that it is.
pub fn read_frame(bytes: &[u8]) -> Result<Request> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let frame = decoder.next_frame()?.context("stdin holds no frame")?;
    Ok(Request::from_frame(frame)?)
}
