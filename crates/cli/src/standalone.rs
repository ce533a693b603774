//! The standalone host: judges one event in this process, because no daemon answers. It calls the same pipeline
//! as the daemon and writes the event into the spool for the next daemon. An event with named hooks is written
//! before they run and rewritten after them, so a kill in between loses the decision and not the event.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use becket_daemon::store::spool::{self, SpoolDetails, SpoolError};
use becket_daemon::store::{self, Decision, lost, mask_key, not_whole};
use becket_engine::config::ConfigCache;
use becket_engine::hooks::plan::{self, HookPlan, HookSetup};
use becket_engine::judge::Verdict;
use becket_engine::notice::{DisplayChange, minute_of_day};
use becket_engine::pipeline::{
    Context, FinishedEvent, PreparedEvent, Step, decide, finish, prepare, prepare_without_project,
    read_files, settle, switch, wants_files,
};
use becket_engine::process::{Cancel, ThreadFile};
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::rpc::{EventRequest, Request, Source, read_environment};
use becket_wire::{Head, Output, Place};

use crate::client::print_answer;
use crate::signals;

/// The time limit for the project's file system.
const PROJECT_TIME: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 2000 });

/// The options of `becket hook --alone`.
#[derive(Debug, Clone, Copy)]
pub struct StandaloneCall<'a> {
    /// The reason why no daemon judges the event.
    pub why: &'a str,
    /// True if a daemon had begun to run the event's hooks. They are not run a second time.
    pub held: bool,
    /// True to run only the async hooks, and to answer nothing.
    pub behind: bool,
}

/// Judges the event on stdin, writes it into the spool, then prints the answer.
pub fn run(place: &Place, call: StandaloneCall<'_>) -> Result<ExitCode> {
    let began = Instant::now();
    let input = read_stdin().context("could not read the event")?;
    let (request, environment) = read_event(&input)?;
    // Without its key the masks of one secret differ; a key of zeros still masks.
    let key = mask_key(place).unwrap_or_default();
    let configs = ConfigCache::new(place, key, false).with_user_home(std::env::home_dir());
    let event = Arc::new(prepare_in_time(request, configs));
    let context = context(&event, place, call.held);
    let host = Standalone {
        place,
        context: with_files(&event, context),
        event,
        environment: environment.into(),
        why: call.why,
        began,
    };
    if call.behind {
        host.run_async_hooks();
        return Ok(ExitCode::SUCCESS);
    }
    let output = host.answer(&input);
    let head = Head::read(&host.event.payload);
    if let Some(why) = not_whole(&head, host.event.envelope.cut) {
        eprintln!("becket: {why}");
    }
    Ok(print_answer(&output))
}

/// Prepares the event, without its project if the project's file system does not answer in time.
fn prepare_in_time(request: EventRequest, configs: ConfigCache) -> PreparedEvent {
    let shared = Arc::new((request, configs));
    let for_thread = Arc::clone(&shared);
    let prepared = in_time(move || prepare(for_thread.0.clone(), &for_thread.1));
    prepared.flatten().unwrap_or_else(|| {
        eprintln!("becket: the project's folder does not answer: judged by your own config only");
        prepare_without_project(shared.0.clone(), &shared.1)
    })
}

/// The pause between two looks at a thread that reads a project.
const LOOK: Duration = Duration::from_millis(100);
/// The greatest number of looks.
const LOOKS: usize = 300;

/// Runs work that may hang in a project's file system on a thread of its own. Returns none if that thread sleeps
/// for [`PROJECT_TIME`]; a thread that waits for a processor does not sleep.
fn in_time<T: Send + 'static>(work: impl Fn() -> T + Send + Sync + 'static) -> Option<T> {
    let work = Arc::new(work);
    let (begin, begun) = mpsc::channel();
    let (done, finished) = mpsc::channel();
    let for_thread = Arc::clone(&work);
    let spawned = thread::Builder::new().spawn(move || {
        drop(begin.send(ThreadFile::current()));
        drop(done.send(for_thread()));
    });
    if spawned.is_err() {
        // A late answer is better than none.
        return Some(work());
    }
    let thread = begun.recv().ok()?;
    let mut slept = Duration::ZERO;
    for _ in 0..LOOKS {
        match finished.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if thread.sleeps() => slept += LOOK,
            Err(RecvTimeoutError::Timeout) => {}
            result => return result.ok(),
        }
        if slept >= PROJECT_TIME {
            break;
        }
    }
    None
}

fn context(event: &PreparedEvent, place: &Place, held: bool) -> Context {
    let envelope = &event.envelope;
    let head = Head::read(&event.masked).unwrap_or_default();
    let launched_at = if envelope.is_launched() {
        session_start(place, head.session_id.as_deref().unwrap_or_default())
    } else {
        None
    };
    Context {
        told: false,
        change: DisplayChange::alone(&head, envelope, event.project.as_deref()),
        launched_at,
        minute: minute_of_day(envelope.at),
        judge_only: held,
        ran_denied: false,
        effort: becket_daemon::effort::standalone(event, place),
    }
}

/// Returns the time at which a session of the database began.
fn session_start(place: &Place, session: &str) -> Option<i64> {
    let database = store::open_to_read(&place.database()).ok().flatten()?;
    let sessions = store::sessions(&database, store::SessionFilter::Like(session)).ok()?;
    Some(sessions.first()?.started_at)
}

/// Reads the files that an agent is given, if the project's file system answers in time.
fn with_files(event: &Arc<PreparedEvent>, context: Context) -> Context {
    if !wants_files(event, &context) {
        return context;
    }
    let (event, before) = (Arc::clone(event), context.clone());
    let with_files = in_time(move || {
        let mut context = before.clone();
        read_files(&event, &mut context);
        context
    });
    with_files.unwrap_or(context)
}

/// One event that this process judges.
struct Standalone<'a> {
    place: &'a Place,
    event: Arc<PreparedEvent>,
    context: Context,
    /// The environment of the session, for named hooks.
    environment: Arc<[(OsString, OsString)]>,
    /// The reason why no daemon judges the event.
    why: &'a str,
    began: Instant,
}

impl Standalone<'_> {
    fn answer(&self, input: &[u8]) -> Output {
        let verdict = match decide(&self.event, &self.context) {
            Step::Done(verdict) => settle(&self.event, verdict, self.place),
            Step::Switch(verdict) => switch(&self.event, verdict, self.place),
            Step::Run(plan, verdict) => return self.run_hooks(*plan, verdict, input),
        };
        let output = verdict.output();
        self.spool(&self.record(Some((&verdict, &output)), Vec::new()));
        output
    }

    fn run_hooks(&self, mut plan: HookPlan, verdict: Verdict, input: &[u8]) -> Output {
        let async_hooks: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        self.spool(&SpoolDetails {
            held: true,
            ..self.record(None, Vec::new())
        });
        let mut not_started = Vec::new();
        if !async_hooks.is_empty()
            && let Err(error) = self.start_async_hooks(input)
        {
            not_started.extend(async_hooks.iter().map(|hook| RunRow {
                outcome: RunOutcome::NotStarted,
                note: Some(format!("the process for async hooks: {error}")),
                ..plan.background_row(hook)
            }));
        }
        let FinishedEvent { verdict, mut runs } = self.wait_for(plan, verdict);
        runs.extend(not_started);
        let output = verdict.output();
        // If Claude Code hung up, no answer reached it.
        let is_answered = !runs.iter().any(RunRow::was_cancelled);
        self.spool(&self.record(is_answered.then_some((&verdict, &output)), runs));
        output
    }

    /// Runs the hooks of the plan and merges their answers into the verdict.
    fn wait_for(&self, plan: HookPlan, verdict: Verdict) -> FinishedEvent {
        let begun = plan.hooks.iter().map(|hook| plan.background_row(hook));
        let begun: Vec<RunRow> = begun.collect();
        let cancel = Cancel::new();
        let on_signal = cancel.clone();
        // Claude Code ends this process at its time limit. The hooks end with it.
        signals::on_termination(move || on_signal.cancel());
        let run = Arc::new(HookRun {
            plan,
            verdict: verdict.clone(),
            setup: self.setup(),
            place: self.place.clone(),
            event: Arc::clone(&self.event),
            context: self.context.clone(),
            cancel,
        });
        let (done, answered) = mpsc::channel();
        let (on_thread, sender) = (Arc::clone(&run), done.clone());
        // On a thread of its own, since a hook that goes on in the background must not delay the answer.
        let spawned = thread::Builder::new().spawn(move || on_thread.run(&sender));
        if spawned.is_err() {
            run.run(&done);
        }
        drop(done);
        let Ok(mut finished) = answered.recv() else {
            let runs = Vec::new();
            return FinishedEvent { verdict, runs };
        };
        for run in begun {
            if finished.runs.iter().all(|ended| ended.hook != run.hook) {
                finished.runs.push(run);
            }
        }
        finished
    }

    /// Starts a process that runs the async hooks, since this one has to end with its answer.
    fn start_async_hooks(&self, input: &[u8]) -> io::Result<()> {
        let mut command = Command::new(self.setup().becket);
        command
            .args(["hook", "--alone", self.why, "--behind", "--home"])
            .arg(self.place.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let stdin = command.spawn()?.stdin;
        stdin.map_or(Ok(()), |mut stdin| stdin.write_all(input))
    }

    /// Runs the async hooks in the process that [`start_async_hooks`](Self::start_async_hooks) started, and records
    /// their start and the end of each.
    fn run_async_hooks(&self) {
        let Some(mut plan) = self.event.plan() else {
            return;
        };
        plan.hooks.retain(|hook| hook.is_async);
        let begun = plan.hooks.iter().map(|hook| plan.background_row(hook));
        self.spool_runs(begun.collect());
        let (setup, cancel) = (self.setup(), Cancel::new());
        let mut hooks = plan.runs(&setup, &cancel);
        drop(hooks.run_awaited());
        while let Some(run) = hooks.next_ended() {
            self.spool_runs(vec![run]);
        }
    }

    /// Adds the runs of hooks to the event in the spool.
    fn spool_runs(&self, runs: Vec<RunRow>) {
        let event = &self.event;
        let record = SpoolDetails {
            masked: event.secrets,
            ..SpoolDetails::with_runs(plan::masked(runs, &event.masker))
        };
        let kept = spool::add(self.place, &event.envelope, &event.masked, &record);
        report(kept);
    }

    fn setup(&self) -> HookSetup {
        HookSetup {
            becket: std::env::current_exe().unwrap_or_else(|_| "becket".into()),
            home: self.place.home().to_path_buf(),
            environment: Arc::clone(&self.environment),
        }
    }

    /// Makes the spool record of the event. Without an answer, the event counts as not decided yet.
    fn record(&self, answer: Option<(&Verdict, &Output)>, runs: Vec<RunRow>) -> SpoolDetails {
        let took_us = i64::try_from(self.began.elapsed().as_micros()).ok();
        let decision = answer.and_then(|(verdict, output)| {
            let decision = verdict.decision().filter(|_| !output.is_silent());
            Decision::new(decision, output)
        });
        SpoolDetails {
            took_us: took_us.filter(|_| answer.is_some()),
            decision: decision.map(|decision| decision.masked(&self.event.masker)),
            masked: self.event.secrets,
            source: Source::Alone,
            why: self.why.to_owned(),
            project: self.event.masked_project(),
            runs,
            held: false,
        }
    }

    /// Writes the event into the spool, or rewrites it there.
    fn spool(&self, record: &SpoolDetails) {
        let event = &self.event;
        let kept = spool::leave(self.place, &event.envelope, &event.masked, record);
        if record.held {
            // The event is written again after its hooks. A failure is reported then.
            return;
        }
        if kept.is_err() && !self.place.spooled(event.envelope.id).exists() {
            // Where it cannot be counted either, stderr says that it is lost.
            drop(lost::add(self.place, 1));
        }
        report(kept);
    }
}

/// The named hooks of one event, and the input of their run.
struct HookRun {
    plan: HookPlan,
    verdict: Verdict,
    setup: HookSetup,
    place: Place,
    event: Arc<PreparedEvent>,
    context: Context,
    cancel: Cancel,
}

impl HookRun {
    fn run(&self, done: &Sender<FinishedEvent>) {
        let mut hooks = self.plan.runs(&self.setup, &self.cancel);
        let (own, results) = (self.verdict.clone(), hooks.run_awaited());
        let finished = finish(&self.event, &self.context, own, results, &self.place);
        drop(done.send(finished));
        // A hook that goes on in the background gets its time limit from this thread.
        while hooks.next_ended().is_some() {}
    }
}

/// Reports an event that could not be kept. Claude Code shows the stderr of a hook that exits 0 in its debug log
/// only.
fn report(kept: Result<(), SpoolError>) {
    if let Err(error) = kept {
        eprintln!("becket: the event is not kept: {error}");
    }
}

/// Reads the shim's input: an event and an environment, a frame each.
pub fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let stdin = io::stdin().lock();
    stdin
        .take(2 * (HEAD + MAX_BODY) as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the first frame as a request.
pub fn read_frame(bytes: &[u8]) -> Result<Request> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    next_request(&mut decoder)
}

/// Reads the event and the environment for its hooks, which is not that of this process.
fn read_event(bytes: &[u8]) -> Result<(EventRequest, Vec<(OsString, OsString)>)> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let event = next_request(&mut decoder)?;
    let environment = next_request(&mut decoder)?;
    let (Request::Event(event), Request::Environment(block)) = (event, environment) else {
        bail!("stdin does not hold an event and an environment");
    };
    Ok((event, read_environment(&block)))
}

fn next_request(decoder: &mut Decoder) -> Result<Request> {
    let frame = decoder.next_frame()?.context("stdin holds no frame")?;
    Ok(Request::from_frame(frame)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_processor_is_not_a_project_that_does_not_answer() {
        let began = Instant::now();
        let computed = in_time(move || {
            while began.elapsed() < 2 * PROJECT_TIME {
                std::hint::spin_loop();
            }
        });
        assert_eq!(computed, Some(()));
        let (_never, waits) = mpsc::channel::<()>();
        let waits = std::sync::Mutex::new(waits);
        assert_eq!(in_time(move || waits.lock().unwrap().recv().is_ok()), None);
    }
}
