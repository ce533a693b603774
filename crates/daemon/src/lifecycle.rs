//! The lifecycle of the daemon. There is one for each home. The first client that needs it starts it; it ends when
//! it is idle, for a newer build, or when the user stops it.

mod lock;
mod setup;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_engine::config::ConfigCache;
use becket_engine::process::Orphans;
use becket_engine::replace;
use becket_wire::process::{parent_and_start, process_state};
use becket_wire::{Place, StartReport, Version};
use rustix::process::{Resource, getrlimit, setrlimit};
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

pub use lock::{LockHolder, yield_to};

use crate::connection::{Budget, Namespaces};
use crate::core::{self, Core, HookRunner, Message, RunningHooks};
use crate::counters::Counters;
use crate::inference;
use crate::registry::Process;
use crate::serve::{self, Server, StopReason};
use crate::store::{self, OpenError, Store};
use crate::transcript_calls::{self, EndedSession};
use crate::{session_feed, tmux};
use setup::{listen, make_folder, open_own, private};

/// The time between two ticks, in which the daemon takes in the spool and keeps itself in order.
const TICK: Duration = Duration::from_secs(2);
/// The number of committed events that a slow follower may be behind before it reads them from the database.
const FEED: usize = 512;

#[derive(Debug, Clone)]
pub struct Options {
    pub place: Place,
    /// True to detach from the terminal and from the process that started it. The start is reported on stdout.
    pub detached: bool,
    /// The version of this daemon. Tests set another one.
    pub version: Version,
    /// The time for which hooks may go on once the daemon was told to end.
    pub drain: Duration,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error("another daemon, of version {0}, serves this home")]
    Running(Version),
    #[error("could not {doing} {path}: {why}")]
    Path {
        doing: &'static str,
        path: PathBuf,
        why: io::Error,
    },
    #[error("another daemon holds the lock {0} and does not answer")]
    Hung(PathBuf),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("could not read or make the key of masked secrets: {0}")]
    Key(io::Error),
    #[error("could not start: {0}")]
    Start(#[from] io::Error),
}

impl StartError {
    fn at(doing: &'static str, path: &Path, why: io::Error) -> Self {
        let path = path.to_owned();
        Self::Path { doing, path, why }
    }
}

/// Returns the time in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_millis() as i64
}

/// Reports the result of the start to the process that started the daemon, then serves until the end.
pub fn run(options: &Options) -> Result<(), StartError> {
    if options.detached {
        setup::leave_the_starter()?;
    }
    // All files from here on are private to the owner, SQLite's too.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    no_core_files();
    allow_many_files();
    let started = start(options);
    let notice = match &started {
        Ok(_) => StartReport::Ready,
        Err(StartError::Running(version)) => StartReport::Running(*version),
        Err(error) => StartReport::Failed(error.to_string()),
    };
    drop(writeln!(io::stdout(), "{notice}").and_then(|()| io::stdout().flush()));
    if options.detached {
        setup::close_the_notice();
    }
    if let Err(why) = &started {
        error!(%why, "the daemon did not start");
    }
    started?.serve();
    Ok(())
}

/// A daemon that is ready to serve.
struct ReadyDaemon {
    options: Options,
    runtime: tokio::runtime::Runtime,
    server: Arc<Server>,
    listener: std::os::unix::net::UnixListener,
    socket: PathBuf,
    core: Core,
    messages: mpsc::Receiver<Message>,
    /// The requests for the task that pushes into tmux.
    tmux_requests: mpsc::Receiver<tmux::TmuxRequest>,
    /// SIGTERM and SIGINT, which ask the daemon to end.
    signals: [Signal; 2],
    /// Locked until the daemon ends.
    lock: File,
}

fn start(options: &Options) -> Result<ReadyDaemon, StartError> {
    let place = &options.place;
    for folder in [
        place.home().to_owned(),
        place.run(),
        place.spool(),
        place.log(),
        place.sessions(),
    ] {
        make_folder(&folder)?;
    }
    let was_open = replace::close_to_others(place.home()).ok().flatten();
    let lock = lock::acquire(place, options.version)?;
    setup::begin_log(place);
    store::lost::make_file(place);
    info!(version = %options.version, pid = std::process::id(), "starting");
    if let Some(mode) = was_open {
        warn!("becket's home was open to others (mode {mode:o}): closed it");
    }
    let uid = rustix::process::getuid().as_raw();
    let counters = Arc::new(Counters::default());
    let opened = store::open(&place.database(), now_ms())?;
    private(&place.database());
    if let Some(aside) = &opened.set_aside {
        warn!("{aside}");
        counters.add_trouble(aside.clone());
    }
    let key = store::mask_key(place).map_err(StartError::Key)?;
    let (feed, _) = broadcast::channel(FEED);
    let store = Store::new(
        place,
        opened.connection,
        feed.clone(),
        Arc::clone(&counters),
    );
    let store = store.map_err(|why| OpenError::sqlite(&place.database(), why))?;
    let configs = Arc::new(ConfigCache::new(place, key, true).with_user_home(std::env::home_dir()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(32)
        .thread_keep_alive(Duration::from_secs(10))
        .build()?;
    let signals = {
        let _runtime = runtime.enter();
        [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        ]
    };
    let (to_core, messages) = mpsc::channel(core::QUEUE);
    let core = Core::new(
        place,
        options.version,
        store,
        Arc::clone(&configs),
        HookRunner::new(place, std::env::current_exe()?, to_core.downgrade()),
        Arc::clone(&counters),
        to_core.downgrade(),
    );
    let (tmux, tmux_requests) = mpsc::channel(core::QUEUE);
    let socket = place.socket(uid);
    let listener = listen(place, &socket)?;
    drop(fs::remove_file(place.stopped_mark()));
    let server = Arc::new(Server {
        place: place.clone(),
        version: options.version,
        socket: socket.to_string_lossy().into_owned(),
        started_at: now_ms(),
        core: to_core,
        configs,
        tmux,
        feed,
        counters,
        namespaces: Namespaces::current(),
        uid,
        open: AtomicUsize::new(0),
        in_flight: AtomicUsize::new(0),
        requests: AtomicU64::new(0),
        budget: Budget::default(),
        stop: watch::Sender::new(None),
        closing: watch::Sender::new(false),
    });
    Ok(ReadyDaemon {
        options: options.clone(),
        runtime,
        server,
        listener,
        socket,
        core,
        messages,
        tmux_requests,
        signals,
        lock,
    })
}

impl ReadyDaemon {
    /// Serves until the daemon ends.
    fn serve(self) {
        let (server, options) = (self.server, self.options);
        let inode = store::inode(&self.socket);
        let hooks = self.core.running_hooks();
        let handle = self.runtime.handle().clone();
        let core_thread = std::thread::Builder::new()
            .name("core".into())
            .spawn(move || {
                let _runtime = handle.enter();
                self.core.run(self.messages);
            });
        let end = self.runtime.block_on(async {
            let mut signals = self.signals;
            let helpers = [
                tokio::spawn(inference::run(Arc::clone(&server))),
                tokio::spawn(tmux::push(self.tmux_requests, Arc::clone(&server.counters))),
                tokio::spawn(session_feed::feed_tmux(Arc::clone(&server))),
            ];
            let accepting = tokio::spawn(serve::accept(self.listener, Arc::clone(&server)));
            let mut ending = server.stop.subscribe();
            let end = tokio::select! {
                end = stop_requested(&mut ending) => end,
                end = supervise(&server, &options, inode) => end,
                () = next_signal(&mut signals) => StopReason::Signal,
            };
            info!(?end, "ending");
            server.stop.send_replace(Some(end));
            drain(&server, &hooks, options.drain, &mut signals).await;
            server.closing.send_replace(true);
            mark_stopped(&options.place, end);
            if store::inode(&self.socket) == inode {
                drop(fs::remove_file(&self.socket));
            }
            accepting.abort();
            answer_all(&server).await;
            helpers.iter().for_each(JoinHandle::abort);
            let tidy = end != StopReason::Yielded;
            drop(server.core.send(Message::Close { tidy }).await);
            end
        });
        match core_thread {
            Ok(thread) => drop(thread.join()),
            Err(why) => error!(%why, "could not start the core thread"),
        }
        // From here on another daemon may serve this home.
        drop(self.lock);
        self.runtime.shutdown_timeout(Duration::from_millis(100));
        info!(?end, "ended");
    }
}

/// Raises the limit of open files. Every program that runs for an event takes five descriptors, and the usual limit
/// is 1024. A higher limit than needed would slow down programs that close all descriptors.
fn allow_many_files() {
    const ENOUGH: u64 = 8192;
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = Some(wanted);
        if let Err(why) = setrlimit(Resource::Nofile, limit) {
            warn!(%why, "could not raise the limit of open files");
        }
    }
}

/// Turns core files off: they would hold unmasked payloads.
pub fn no_core_files() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    let _ = setrlimit(Resource::Core, limit);
}

/// Waits until the daemon is asked to end.
async fn stop_requested(ending: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    match ending.wait_for(Option::is_some).await.map(|end| *end) {
        Ok(Some(end)) => end,
        Ok(None) | Err(_) => StopReason::Broken,
    }
}

/// Waits until the daemon stops serving.
pub(crate) async fn until_closing(closing: &mut watch::Receiver<bool>) {
    drop(closing.wait_for(|is_closing| *is_closing).await);
}

/// Does the periodic work of the daemon until there is a reason to end.
async fn supervise(server: &Server, options: &Options, ours: Option<u64>) -> StopReason {
    let mut quiet_since = Instant::now();
    let mut requests = 0;
    let mut orphans = Orphans::default();
    loop {
        let Some(ticked) = server.ask(Message::Tick).await else {
            return StopReason::Broken;
        };
        if ticked.wal_gone {
            warn!("the database's log was deleted or replaced: the next daemon opens it again");
            return StopReason::LogGone;
        }
        server.counters.set_config_troubles(ticked.problems);
        find_gone_processes(server, ticked.processes);
        compare_calls(server, ticked.ended);
        end_orphans(server, &mut orphans).await;
        sleep(TICK).await;
        if store::inode(Path::new(&server.socket)) != ours || !options.place.home().exists() {
            return StopReason::HomeGone;
        }
        let now = server.requests.load(Ordering::Relaxed);
        if now != requests || server.open.load(Ordering::Relaxed) > 0 {
            requests = now;
            quiet_since = Instant::now();
        }
        if ticked.idle.is_some_and(|idle| quiet_since.elapsed() > idle) {
            return StopReason::Idle;
        }
    }
}

/// Compares the calls in the transcripts of ended sessions with the log.
fn compare_calls(server: &Server, ended: Vec<EndedSession>) {
    if ended.is_empty() {
        return;
    }
    let (core, database) = (server.core.clone(), server.place.database());
    tokio::task::spawn_blocking(move || {
        let Ok(Some(database)) = store::open_to_read(&database) else {
            return;
        };
        let counted = transcript_calls::count_ended(&database, &ended);
        drop(core.blocking_send(Message::CallsCounted(counted)));
    });
}

/// Reports the sessions whose Claude Code process is gone.
fn find_gone_processes(server: &Server, processes: Vec<(String, Process)>) {
    if processes.is_empty() {
        return;
    }
    let core = server.core.clone();
    tokio::task::spawn_blocking(move || {
        let mut gone = processes;
        gone.retain(|(_, process)| !is_alive(*process));
        if !gone.is_empty() {
            drop(core.blocking_send(Message::ProcessesGone(gone)));
        }
    });
}

/// Ends hooks that outlived their becket process and their time limit, and records those that have ended.
async fn end_orphans(server: &Server, orphans: &mut Orphans) {
    for (run, file) in orphans.look(&server.place.running()) {
        let recorded = server.core.send(Message::HookEnded(vec![run])).await;
        if recorded.is_ok() {
            drop(fs::remove_file(file));
        }
    }
}

fn is_alive((pid, start): Process) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            let found = parent_and_start(&stat).map(|(_, start)| start);
            let dead = process_state(&stat).is_some_and(|state| matches!(state, 'Z' | 'X'));
            !dead && (start.is_none() || found == start)
        }
        // Other errors do not mean that the process is gone.
        Err(why) => why.kind() != io::ErrorKind::NotFound,
    }
}

/// The default time for which hooks may go on once the daemon was told to end.
pub const DRAIN: Duration = Duration::from_secs(30);
/// The time for hooks that were cut off to end.
const HOOKS_END: Duration = Duration::from_secs(2);
/// The time for the last answers to be sent.
const ANSWERS: Duration = Duration::from_secs(5);
/// The time between two looks whether hooks have ended.
const HOOKS_POLL: Duration = Duration::from_millis(10);

async fn next_signal([term, int]: &mut [Signal; 2]) {
    tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
}

/// Goes on serving until no hook runs. Events that need hooks get `Busy`. After `at_most`, or with the next signal,
/// the hooks that still run are cut off.
async fn drain(
    server: &Server,
    hooks: &RunningHooks,
    at_most: Duration,
    signals: &mut [Signal; 2],
) {
    server.ask(Message::Drain).await;
    let ticks = async {
        loop {
            drop(server.ask(Message::Tick).await);
            sleep(TICK).await;
        }
    };
    tokio::select! {
        biased;
        () = hooks_ended(hooks) => return,
        () = next_signal(signals) => warn!("a second signal: hooks are cut off"),
        () = sleep(at_most) => warn!("hooks did not end in {at_most:?}, and are cut off"),
        () = ticks => {}
    }
    hooks.cut_off();
    drop(timeout(HOOKS_END, hooks_ended(hooks)).await);
}

async fn hooks_ended(hooks: &RunningHooks) {
    while hooks.any() {
        sleep(HOOKS_POLL).await;
    }
}

/// Writes a mark that the user stopped the daemon, so that followers do not start another. It has to exist before
/// the socket is removed: followers look for it when they cannot connect.
fn mark_stopped(place: &Place, end: StopReason) {
    if end.is_wanted()
        && let Err(why) = open_own(
            &place.stopped_mark(),
            OpenOptions::new().write(true).truncate(true),
        )
    {
        warn!(%why, "a client that follows may start the next daemon");
    }
}

/// Waits until every event that was taken is answered.
async fn answer_all(server: &Server) {
    let answered = async {
        while server.in_flight.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if timeout(ANSWERS, answered).await.is_err() {
        warn!("some answers were still on their way");
    }
}
