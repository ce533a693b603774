//! The daemon's life: one per home, started by the first client that needs it, ended by idleness,
//! by a newer build, or by its user.

mod lock;
mod setup;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use becket_engine::config::ConfigCache;
use becket_engine::process::Orphans;
use becket_engine::replace;
use becket_wire::process::{parent_and_start, process_state};
use becket_wire::{Place, StartReport, Version};
use rustix::process::{Resource, getrlimit, setrlimit};
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

pub use lock::{Holder, yield_to};

use crate::connection::Budget;
use crate::core::{self, Core, HookRunner, Message, RunningHooks, Ticked};
use crate::counters::Counters;
use crate::coverage::{self, EndedSession};
use crate::infer;
use crate::namespace::Namespaces;
use crate::registry::Process;
use crate::serve::{self, Door, End};
use crate::store::{self, OpenError, Store};
use crate::{tmux, watch as sessions_watch};
use setup::{inode, listen, make_folder, open_own, private};

/// How often the daemon looks after itself.
const TICK: Duration = Duration::from_secs(2);
/// How many committed events a slow onlooker may be behind before it reads them from the database.
const FEED: usize = 512;

#[derive(Debug, Clone)]
pub struct Options {
    pub place: Place,
    /// Cut loose from the terminal and from its starter; the notice goes to stdout.
    pub detached: bool,
    /// Tests pass for another version.
    pub version: Version,
    /// How long hooks may go on once it was told to end.
    pub drain: Duration,
}

#[derive(Debug, Error)]
pub enum LifeError {
    #[error("another daemon, of version {0}, serves this home")]
    Running(Version),
    #[error("could not make the folder {path}: {why}")]
    Folder { path: PathBuf, why: io::Error },
    #[error("could not take the lock {path}: {why}")]
    Lock { path: PathBuf, why: io::Error },
    #[error("another daemon holds the lock {0} and does not answer")]
    Hung(PathBuf),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("could not listen on {path}: {why}")]
    Listen { path: PathBuf, why: io::Error },
    #[error("could not read or make the key of masked secrets: {0}")]
    Key(io::Error),
    #[error("could not start: {0}")]
    Start(#[from] io::Error),
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// Runs the daemon until its end, and reports to its starter how the start went.
pub fn run(options: &Options) -> Result<(), LifeError> {
    if options.detached {
        setup::leave_the_starter()?;
    }
    // Whatever is made from here on is the owner's alone, SQLite's files too.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    no_core_files();
    allow_many_files();
    let started = start(options);
    let notice = match &started {
        Ok(_) => StartReport::Ready,
        Err(LifeError::Running(version)) => StartReport::Running(*version),
        Err(error) => StartReport::Failed(error.to_string()),
    };
    drop(writeln!(io::stdout(), "{notice}").and_then(|()| io::stdout().flush()));
    if options.detached {
        setup::close_the_notice();
    }
    if let Err(why) = &started {
        error!(%why, "the daemon did not start");
    }
    started?.live();
    Ok(())
}

/// A daemon that is ready to serve.
struct Daemon {
    options: Options,
    runtime: tokio::runtime::Runtime,
    door: Arc<Door>,
    listener: std::os::unix::net::UnixListener,
    socket: PathBuf,
    core: Core,
    messages: mpsc::Receiver<Message>,
    /// For the task that pushes into tmux.
    orders: mpsc::Receiver<tmux::Order>,
    /// Held for life.
    lock: File,
}

fn start(options: &Options) -> Result<Daemon, LifeError> {
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
    store::lost::begin(place);
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
        counters.trouble(aside.clone());
    }
    let unread = |why| OpenError::Sqlite {
        path: place.database(),
        why,
    };
    let key = store::mask_key(place).map_err(LifeError::Key)?;
    let (feed, _) = broadcast::channel(FEED);
    let store = Store::new(
        place,
        opened.connection,
        feed.clone(),
        Arc::clone(&counters),
    );
    let store = store.map_err(unread)?;
    let configs = Arc::new(ConfigCache::new(place, key, true).with_user_home(std::env::home_dir()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(32)
        .thread_keep_alive(Duration::from_secs(10))
        .build()?;
    let (to_core, messages) = mpsc::channel(core::QUEUE);
    let core = Core::new(
        place,
        options.version,
        store,
        Arc::clone(&configs),
        HookRunner::new(place, std::env::current_exe()?),
        Arc::clone(&counters),
        to_core.downgrade(),
    );
    let (tmux, orders) = mpsc::channel(core::QUEUE);
    let socket = place.socket(uid);
    let listener = listen(place, &socket)?;
    drop(fs::remove_file(place.stopped_mark()));
    let door = Arc::new(Door {
        place: place.clone(),
        version: options.version,
        socket: socket.to_string_lossy().into_owned(),
        started_at: now_ms(),
        core: to_core,
        configs,
        tmux,
        feed,
        counters,
        namespaces: Namespaces::ours(),
        uid,
        open: AtomicUsize::new(0),
        in_flight: AtomicUsize::new(0),
        requests: AtomicU64::new(0),
        budget: Budget::default(),
        end: watch::Sender::new(None),
        closing: watch::Sender::new(false),
    });
    Ok(Daemon {
        options: options.clone(),
        runtime,
        door,
        listener,
        socket,
        core,
        messages,
        orders,
        lock,
    })
}

impl Daemon {
    fn live(self) {
        let Self {
            options,
            runtime,
            door,
            listener,
            socket,
            core,
            messages,
            orders,
            lock,
        } = self;
        let inode = inode(&socket);
        let hooks = core.running_hooks();
        let handle = runtime.handle().clone();
        let core_thread = std::thread::Builder::new()
            .name("core".into())
            .spawn(move || {
                let _runtime = handle.enter();
                core.run(messages);
            });
        let end = runtime.block_on(async {
            let mut signals = Signals::listen();
            let helpers = [
                tokio::spawn(infer::look(Arc::clone(&door))),
                tokio::spawn(tmux::push(orders, Arc::clone(&door.counters))),
                tokio::spawn(sessions_watch::tell_tmux(Arc::clone(&door))),
            ];
            let accepting = tokio::spawn(serve::accept(listener, Arc::clone(&door)));
            let mut ending = door.end.subscribe();
            let end = tokio::select! {
                end = told_to_end(&mut ending) => end,
                end = look_after(&door, &options, inode) => end,
                () = signals.told() => End::Signal,
            };
            info!(?end, "ending");
            door.end.send_replace(Some(end));
            serve_on(&door, &hooks, options.drain, &mut signals).await;
            door.closing.send_replace(true);
            mark_stopped(&options.place, end);
            if self::inode(&socket) == inode {
                drop(fs::remove_file(&socket));
            }
            accepting.abort();
            answer_all(&door).await;
            helpers.iter().for_each(JoinHandle::abort);
            let tidy = end != End::Yielded;
            drop(door.core.send(Message::Close { tidy }).await);
            end
        });
        match core_thread {
            Ok(thread) => drop(thread.join()),
            Err(why) => error!(%why, "could not start the core thread"),
        }
        // From here on another daemon may serve this home.
        drop(lock);
        runtime.shutdown_timeout(Duration::from_millis(100));
        info!(?end, "ended");
    }
}

/// Every program that runs for an event takes five descriptors, and the usual limit is 1024. More
/// than is needed would only slow down programs that close them all.
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

/// A core file would hold payloads as they came.
pub fn no_core_files() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    let _ = setrlimit(Resource::Core, limit);
}

/// Comes back when the end was asked for.
async fn told_to_end(ending: &mut watch::Receiver<Option<End>>) -> End {
    match ending.wait_for(Option::is_some).await.map(|end| *end) {
        Ok(Some(end)) => end,
        Ok(None) | Err(_) => End::Broken,
    }
}

/// Comes back when the daemon stops serving.
pub(crate) async fn closes(closing: &mut watch::Receiver<bool>) {
    drop(closing.wait_for(|closes| *closes).await);
}

/// Has the core look after itself.
async fn tick(door: &Door) -> Option<Ticked> {
    let (reply, ticked) = oneshot::channel();
    drop(door.core.send(Message::Tick(reply)).await);
    ticked.await.ok()
}

/// Wakes now and then: takes in the spool, keeps retention, and ends when there is no reason to be.
async fn look_after(door: &Door, options: &Options, ours: Option<u64>) -> End {
    let mut quiet_since = Instant::now();
    let mut requests = 0;
    let mut orphans = Orphans::default();
    loop {
        let Some(Ticked {
            idle,
            problems,
            processes: sessions,
            ended,
            log_gone,
        }) = tick(door).await
        else {
            return End::Broken;
        };
        if log_gone {
            warn!("the database's log was deleted or replaced: the next daemon opens it again");
            return End::LogGone;
        }
        door.counters.set_config_troubles(problems);
        look_for_processes(door, sessions);
        compare_calls(door, ended);
        end_orphans(door, &mut orphans).await;
        sleep(TICK).await;
        if inode(Path::new(&door.socket)) != ours || !options.place.home().exists() {
            return End::HomeGone;
        }
        let now = door.requests.load(Ordering::Relaxed);
        if now != requests || door.open.load(Ordering::Relaxed) > 0 {
            requests = now;
            quiet_since = Instant::now();
        }
        if idle.is_some_and(|idle| quiet_since.elapsed() > idle) {
            return End::Idle;
        }
    }
}

/// Compares the calls in the transcripts of sessions that have ended with the log.
fn compare_calls(door: &Door, ended: Vec<EndedSession>) {
    if ended.is_empty() {
        return;
    }
    let (core, database) = (door.core.clone(), door.place.database());
    tokio::task::spawn_blocking(move || {
        let Ok(Some(database)) = store::open_to_read(&database) else {
            return;
        };
        let counted = coverage::of_ended(&database, &ended);
        drop(core.blocking_send(Message::Covered(counted)));
    });
}

/// Finds the sessions whose Claude Code is gone.
fn look_for_processes(door: &Door, processes: Vec<(String, Process)>) {
    if processes.is_empty() {
        return;
    }
    let core = door.core.clone();
    tokio::task::spawn_blocking(move || {
        let mut gone = processes;
        gone.retain(|(_, process)| !is_alive(*process));
        if !gone.is_empty() {
            drop(core.blocking_send(Message::Gone(gone)));
        }
    });
}

/// Ends hooks whose process was killed and whose time is over, and records what is over.
async fn end_orphans(door: &Door, orphans: &mut Orphans) {
    for (run, file) in orphans.look(&door.place.running()) {
        let recorded = door.core.send(Message::HookEnded(vec![run])).await;
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
        // Only a process that is not there is gone: anything else says nothing.
        Err(why) => why.kind() != io::ErrorKind::NotFound,
    }
}

/// How long hooks may go on once the daemon was told to end.
pub const DRAIN: Duration = Duration::from_secs(30);
/// How long the hooks that are cut off may take to end.
const HOOKS_END: Duration = Duration::from_secs(2);
/// How long the last answers may take to be sent.
const ANSWERS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// SIGTERM and SIGINT, which ask the daemon to end.
#[derive(Debug)]
struct Signals([Option<Signal>; 2]);

impl Signals {
    fn listen() -> Self {
        Self([SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).ok()))
    }

    /// Waits for the next signal.
    async fn told(&mut self) {
        let [term, int] = &mut self.0;
        tokio::select! { () = next_signal(term) => {}, () = next_signal(int) => {} }
    }
}

async fn next_signal(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Serves on until no hook runs; events that need hooks get `Busy`. After `at_most`, or with the next
/// signal, the hooks that still run are cut off.
async fn serve_on(door: &Door, hooks: &RunningHooks, at_most: Duration, signals: &mut Signals) {
    let (reply, drains) = oneshot::channel();
    drop(door.core.send(Message::Drain(reply)).await);
    let _ = drains.await;
    let ticks = async {
        loop {
            drop(tick(door).await);
            sleep(TICK).await;
        }
    };
    tokio::select! {
        biased;
        () = have_ended(hooks) => return,
        () = signals.told() => warn!("a second signal: hooks are cut off"),
        () = sleep(at_most) => warn!("hooks did not end in {at_most:?}, and are cut off"),
        () = ticks => {}
    }
    hooks.cut_off();
    drop(timeout(HOOKS_END, have_ended(hooks)).await);
}

async fn have_ended(hooks: &RunningHooks) {
    while hooks.any() {
        sleep(LOOK).await;
    }
}

/// Tells clients that follow that this end is wanted. It has to be there before the socket goes: they
/// look for it when they cannot connect.
fn mark_stopped(place: &Place, end: End) {
    if end.is_wanted()
        && let Err(why) = open_own(
            &place.stopped_mark(),
            OpenOptions::new().write(true).truncate(true),
        )
    {
        warn!(%why, "a client that follows may start the next daemon");
    }
}

/// Waits until everything that was taken is answered.
async fn answer_all(door: &Door) {
    let answered = async {
        while door.in_flight.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if timeout(ANSWERS, answered).await.is_err() {
        warn!("some answers were still on their way");
    }
}
