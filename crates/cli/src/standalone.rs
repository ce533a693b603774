//! The standalone host: one event in this process, because no daemon answers. It calls the same pipeline as
//! the daemon and leaves the event in the spool for the next one. An event with named hooks is left before
//! they run and rewritten after them, so a kill in between loses the decision and not the event.

use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use becket_daemon::store::spool::{self, Left, SpoolError};
use becket_daemon::store::{self, Decision, mask_key, not_whole};
use becket_engine::config::ConfigCache;
use becket_engine::hooks::execute::{HooksRan, Kit, Plan};
use becket_engine::hooks::output;
use becket_engine::judge::Verdict;
use becket_engine::notice::{Change, minute_of_day};
use becket_engine::pipeline::{
    Context, Finished, PreparedEvent, Step, decide, finish, prepare, prepare_without_project,
    read_files, settle, switch, wants_files,
};
use becket_engine::run::Cancel;
use becket_wire::frame::{Decoder, HEAD, MAX_BODY};
use becket_wire::rpc::{EventRequest, Request, Source};
use becket_wire::run::RunRow;
use becket_wire::{Head, Output, Place};

use crate::leave;

/// How long the project's file system may take.
const PROJECT_TIME: Duration = Duration::from_secs(2);

/// How this process came to judge an event itself.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub why: &'a str,
    /// A daemon had begun to run the event's hooks: they run nowhere again.
    pub held: bool,
    /// Run only the async hooks, and answer nothing.
    pub behind: bool,
}

/// Judges the event on stdin, leaves it in the spool, then prints the answer.
pub fn run(place: &Place, call: Call<'_>) -> Result<ExitCode> {
    let began = Instant::now();
    let frame = read_stdin().context("could not read the event")?;
    let Request::Event(request) = read_frame(&frame)? else {
        bail!("stdin holds no event's frame");
    };
    // Without its key the masks of one secret differ; a key of zeros still masks.
    let key = mask_key(place).unwrap_or_default();
    let configs = ConfigCache::new(place, key, false).with_user_home(std::env::home_dir());
    let event = prepare_in_time(request, configs);
    let context = context(&event, place, call.held);
    let event = Arc::new(event);
    let host = Standalone {
        place,
        context: with_files(&event, context),
        event,
        why: call.why,
        began,
    };
    if call.behind {
        host.run_async_hooks();
        return Ok(ExitCode::SUCCESS);
    }
    let output = host.answer(&frame);
    let head = Head::read(&host.event.payload);
    if let Some(why) = not_whole(&head, host.event.envelope.cut) {
        eprintln!("becket: {why}");
    }
    Ok(becket_hook::print(&output))
}

/// Where the project's file system does not answer in time, the event is judged without the project.
fn prepare_in_time(request: EventRequest, configs: ConfigCache) -> PreparedEvent {
    let configs = Arc::new(configs);
    let (done, prepared) = mpsc::channel();
    let (theirs, looks) = (request.clone(), Arc::clone(&configs));
    std::thread::spawn(move || drop(done.send(prepare(theirs, &looks))));
    let prepared = prepared.recv_timeout(PROJECT_TIME).ok().flatten();
    prepared.unwrap_or_else(|| {
        eprintln!("becket: the project's folder does not answer: judged by your own config only");
        prepare_without_project(request, &configs)
    })
}

fn context(event: &PreparedEvent, place: &Place, held: bool) -> Context {
    let envelope = &event.envelope;
    let head = Head::read(&event.masked).unwrap_or_default();
    let began = |session: &str| {
        let database = store::open_to_read(&place.database()).ok().flatten()?;
        let found = store::sessions(&database, store::Which::Like(session)).ok()?;
        Some(found.first()?.started_at)
    };
    let session = head.session_id.as_deref().unwrap_or_default();
    Context {
        told: false,
        change: Change::alone(&head, envelope, event.project.as_deref()),
        launched_at: envelope.is_launched().then(|| began(session)).flatten(),
        minute: minute_of_day(envelope.at),
        judge_only: held,
        ran_denied: false,
        effort: becket_daemon::effort::standalone(event, place),
    }
}

/// Reads the files that an agent is given, if the project's file system answers in time.
fn with_files(event: &Arc<PreparedEvent>, context: Context) -> Context {
    if !wants_files(event, &context) {
        return context;
    }
    let (done, read) = mpsc::channel();
    let (theirs, mut with) = (Arc::clone(event), context.clone());
    std::thread::spawn(move || {
        read_files(&theirs, &mut with);
        drop(done.send(with));
    });
    read.recv_timeout(PROJECT_TIME).unwrap_or(context)
}

struct Standalone<'a> {
    place: &'a Place,
    event: Arc<PreparedEvent>,
    context: Context,
    /// Why no daemon has it.
    why: &'a str,
    began: Instant,
}

impl Standalone<'_> {
    fn answer(&self, frame: &[u8]) -> Output {
        let verdict = match decide(&self.event, &self.context) {
            Step::Done(verdict) => settle(&self.event, verdict, self.place),
            Step::Switch(verdict) => switch(&self.event, verdict, self.place),
            Step::Run(plan, verdict) => return self.run_hooks(*plan, verdict, frame),
        };
        let output = verdict.output();
        self.leave(&self.left(Some((&verdict, &output)), Vec::new()));
        output
    }

    fn run_hooks(&self, mut plan: Plan, verdict: Verdict, frame: &[u8]) -> Output {
        let async_hooks: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        self.leave(&Left {
            held: true,
            ..self.left(None, Vec::new())
        });
        let mut not_started = Vec::new();
        if !async_hooks.is_empty()
            && let Err(error) = self.start_async_hooks(frame)
        {
            let row = |hook| RunRow {
                outcome: "not started".to_owned(),
                note: Some(format!("the process for async hooks: {error}")),
                ..plan.went_behind(hook)
            };
            not_started.extend(async_hooks.iter().map(|hook| row(hook)));
        }
        let Finished { verdict, mut runs } = self.wait_for(plan, verdict);
        runs.extend(not_started);
        let output = verdict.output();
        // Claude Code hung up: it heard nothing of it.
        let heard = !runs.iter().any(RunRow::was_cancelled);
        self.leave(&self.left(heard.then_some((&verdict, &output)), runs));
        output
    }

    fn wait_for(&self, plan: Plan, verdict: Verdict) -> Finished {
        let begun: Vec<RunRow> = (plan.hooks.iter())
            .map(|hook| plan.went_behind(hook))
            .collect();
        let cancel = Cancel::new();
        let ending = cancel.clone();
        // Claude Code ends this process when its time is up: the hooks end with it.
        leave::when_asked(move || ending.cancel());
        let (done, answered) = mpsc::channel();
        let (kit, place, own) = (self.kit(), self.place.clone(), verdict.clone());
        let (event, context) = (Arc::clone(&self.event), self.context.clone());
        // On a thread of its own: a hook that goes on in the background is not waited for.
        std::thread::spawn(move || {
            let answer =
                |ran: HooksRan<'_>| drop(done.send(finish(&event, &context, own, ran, &place)));
            plan.run(&kit, &cancel, answer, |_| ());
        });
        let Ok(mut finished) = answered.recv() else {
            let runs = Vec::new();
            return Finished { verdict, runs };
        };
        for run in begun {
            if (finished.runs.iter()).all(|ended| ended.hook != run.hook) {
                finished.runs.push(run);
            }
        }
        finished
    }

    /// Async hooks run in a process of their own: this one has to end.
    fn start_async_hooks(&self, frame: &[u8]) -> io::Result<()> {
        let mut command = Command::new(self.kit().becket);
        command
            .args(["hook", "--alone", self.why, "--behind", "--home"])
            .arg(self.place.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let stdin = command.spawn()?.stdin;
        stdin.map_or(Ok(()), |mut stdin| stdin.write_all(frame))
    }

    /// That process: it records that they begin, and the end of each.
    fn run_async_hooks(&self) {
        let Some(mut plan) = self.event.plan() else {
            return;
        };
        plan.hooks.retain(|hook| hook.is_async);
        let event = &self.event;
        let record = |runs| {
            let left = Left {
                masked: event.secrets,
                ..Left::of_runs(output::masked(runs, &event.masker))
            };
            report(spool::add(
                self.place,
                &event.envelope,
                &event.masked,
                &left,
            ));
        };
        let begun = plan.hooks.iter().map(|hook| plan.went_behind(hook));
        record(begun.collect());
        let later = |run| record(vec![run]);
        plan.run(&self.kit(), &Cancel::new(), |_| (), later);
    }

    fn kit(&self) -> Kit {
        Kit {
            becket: std::env::current_exe().unwrap_or_else(|_| "becket".into()),
            home: self.place.home().to_path_buf(),
            environment: std::env::vars_os().collect(),
        }
    }

    /// What is known of the event now; without an answer it is not decided yet.
    fn left(&self, answer: Option<(&Verdict, &Output)>, runs: Vec<RunRow>) -> Left {
        let took_us = i64::try_from(self.began.elapsed().as_micros()).ok();
        let decision = answer.and_then(|(verdict, output)| {
            let said = verdict.decision().filter(|_| !output.is_silent());
            Decision::new(said, output)
        });
        Left {
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

    /// Leaves the event in the spool, or rewrites what was left of it.
    fn leave(&self, left: &Left) {
        let event = &self.event;
        let kept = spool::leave(self.place, &event.envelope, &event.masked, left);
        let is_lost = matches!(kept, Err(SpoolError::Write { .. })) && !left.held;
        if is_lost && !self.place.spooled(event.envelope.id).exists() {
            spool::count_refusal(self.place);
        }
        report(kept);
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
    let stdin = io::stdin().lock();
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
