//! One event in this process alone, because no daemon answers: the same engine, the same config, the
//! same hooks. What came of it is left in the spool for the next daemon.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use becket_daemon::store::spool::{self, Left};
use becket_daemon::store::{Decision, fault, mask_key};
use becket_engine::config::{Loader, Snapshot};
use becket_engine::hooks::carry::{Asked, Kit, Plan};
use becket_engine::hooks::kept;
use becket_engine::hooks::slash::{self, Scene};
use becket_engine::hooks::switch::Switches;
use becket_engine::judge::{Case, Verdict, judge};
use becket_engine::mask::Masker;
use becket_engine::notice::{Change, minute_of_day};
use becket_engine::run::{Cancel, Keeper};
use becket_engine::session::project_of;
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::head::HeadError;
use becket_wire::rpc::{Envelope, EventRequest, Request, Source};
use becket_wire::run::RunRow;
use becket_wire::{Head, Place};

use crate::leave;

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
    let config = Loader::for_project(place, &project).current();
    let event = Event {
        place,
        envelope: &envelope,
        payload: &payload,
        head: &head,
        project: &project,
        config: &config,
    };
    if call.behind {
        event.run_behind();
        return Ok(ExitCode::SUCCESS);
    }
    let mut verdict = event.judge();
    let mut runs = Vec::new();
    if let Some(switched) = event.switched(&verdict) {
        verdict = switched;
    } else if !call.held && !verdict.refuses() {
        (verdict, runs) = event.with_hooks(verdict, call.why, &frame);
    }
    drop(frame);
    event.leave(&verdict, runs, call.why, began);
    if let Some(fault) = fault(&head, envelope.cut) {
        eprintln!("becket: {fault}");
    }
    Ok(becket_hook::print(&verdict.output()))
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
    config: &'a Snapshot,
}

impl Event<'_> {
    fn judge(&self) -> Verdict {
        let head = self.head.as_ref();
        let change = head
            .ok()
            .and_then(|head| Change::alone(head, self.envelope, is_git_root));
        judge(&Case {
            envelope: self.envelope,
            payload: self.payload,
            head,
            config: self.config,
            told: false,
            change: change.as_ref(),
            minute: minute_of_day(self.envelope.at),
        })
    }

    /// What the person typed to switch a hook, done and said.
    fn switched(&self, verdict: &Verdict) -> Option<Verdict> {
        let head = self.head.as_ref().ok()?;
        let slash = slash::parse(head)?;
        let session = head.session_id.as_deref().unwrap_or_default();
        let cwd = head.cwd.as_deref().unwrap_or_default();
        let scene = Scene {
            place: self.place,
            session,
            cwd: cwd.as_ref(),
            agent_type: None,
            hooks: &self.config.hooks,
        };
        let answer = slash::answer(&slash::act(slash.verb, &slash.argument, &scene).lines);
        Some(verdict.clone().merged(answer, Some("switch".to_owned())))
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

    /// Runs the hooks, and gives what they and becket say together.
    fn with_hooks(&self, verdict: Verdict, why: &str, frame: &[u8]) -> (Verdict, Vec<RunRow>) {
        let Some(mut plan) = self.plan() else {
            return (verdict, Vec::new());
        };
        let behind: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        let mut runs: Vec<RunRow> = behind.iter().map(|hook| plan.went_behind(hook)).collect();
        if !behind.is_empty() {
            self.start_behind(why, frame);
        }
        let (own, again) = (verdict.answer().clone(), verdict.answer().clone());
        let (kit, (tell, told)) = (self.kit(), mpsc::channel());
        let keeper = Arc::clone(&kit.keeper);
        let cancel = Cancel::new();
        let ending = cancel.clone();
        // Claude Code asks us to go when the time is up: nobody would end the hooks then.
        leave::when_asked(move || ending.cancel());
        // On a thread of its own: a hook that goes on in the background is not waited for, and
        // only the keeper watches it when this process has ended.
        std::thread::spawn(move || {
            let answered = |done| drop(tell.send(done));
            plan.carry_out(&kit, &cancel, own, |_| again, answered, |_| ());
        });
        let Ok(done) = told.recv() else {
            return (verdict, runs);
        };
        keeper.leave();
        runs.extend(done.runs);
        let answer = kept::shorten(
            done.merged.answer,
            self.place,
            self.envelope.id,
            &self.masker(),
        );
        (verdict.merged(answer, done.merged.by), runs)
    }

    fn kit(&self) -> Kit {
        let becket = std::env::current_exe().unwrap_or_else(|_| "becket".into());
        let home = self.place.home().to_path_buf();
        Kit {
            keeper: Arc::new(Keeper::of(becket.clone(), home.clone())),
            becket,
            home,
            environment: std::env::vars_os().collect(),
        }
    }

    /// The hooks that nobody waits for run in a process of their own: this one has to end.
    fn start_behind(&self, why: &str, frame: &[u8]) {
        let mut command = Command::new(self.kit().becket);
        command
            .args(["hook", "--alone", why, "--behind", "--home"])
            .arg(self.place.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let started = command.spawn().and_then(|mut child| {
            let stdin = child.stdin.take();
            stdin.map_or(Ok(()), |mut stdin| stdin.write_all(frame))
        });
        if let Err(error) = started {
            eprintln!("becket: could not start the hooks that nobody waits for: {error}");
        }
    }

    fn run_behind(&self) {
        let Some(mut plan) = self.plan() else { return };
        plan.hooks.retain(|hook| hook.is_async);
        let silent = self.judge().answer().clone();
        let again = silent.clone();
        plan.carry_out(
            &self.kit(),
            &Cancel::new(),
            silent,
            |_| again,
            |_| (),
            |_| (),
        );
    }

    fn masker(&self) -> Masker {
        // Without its key nothing could be masked alike; a key of zeros still masks.
        let key = mask_key(self.place).unwrap_or_default();
        Masker::from_config(key, &self.config.config)
    }

    fn leave(&self, verdict: &Verdict, runs: Vec<RunRow>, why: &str, began: Instant) {
        let masker = self.masker();
        let masked = masker.mask(self.payload);
        let decision = Decision::new(verdict.decision(), &verdict.output());
        let left = Left {
            took_us: i64::try_from(began.elapsed().as_micros()).ok(),
            decision: decision.map(|decision| decision.masked(&masker)),
            masked: masked.count,
            source: Source::Alone,
            why: why.to_owned(),
            runs: kept::masked(runs, &masker),
        };
        if let Err(error) = spool::leave(self.place, self.envelope, &masked.bytes, &left) {
            // Claude Code shows the stderr of a hook that exits 0 in its debug log only.
            eprintln!("becket: the event is not kept: {error}");
        }
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
