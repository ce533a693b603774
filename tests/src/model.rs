//! The scripted model: an HTTP server on 127.0.0.1 that speaks the Messages API well enough
//! for the real Claude Code, answers from a script, and keeps every request it got.

mod compose;
mod http;
mod request;
mod script;
mod serve;
mod turn;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use request::{Kind, Request, ToolResult};
pub use script::{Rule, Script};
pub use turn::{
    Block, Pause, Turn, Usage, agent, bash, behind, error, gate, hang_up, pause, say, tool, tools,
    write,
};

use crate::wait::PATIENCE;

/// A running scripted model. It ends when it is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What the connections and the test share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    script: Script,
    requests: Vec<Request>,
    open: BTreeSet<String>,
    waiting: Vec<String>,
    over: bool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// A test that panicked while it looked at the requests must not take the server with it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(&self, bound: Duration, mut probe: impl FnMut(&State) -> Option<T>) -> Option<T> {
        let end = Instant::now() + bound;
        let mut state = self.state();
        loop {
            if let Some(found) = probe(&state) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(broken) => broken.into_inner().0,
            };
        }
    }

    /// Holds a reply back until the test opens the gate (or the server ends).
    fn pass(&self, gate: &str) {
        self.state().waiting.push(gate.to_owned());
        self.changed.notify_all();
        self.wait(Duration::from_secs(600), |state| {
            (state.over || state.open.contains(gate)).then_some(())
        });
        let mut state = self.state();
        if let Some(at) = state.waiting.iter().position(|name| name == gate) {
            state.waiting.remove(at);
        }
    }

    /// A pause that ends early when the server does.
    fn rest(&self, length: Duration) {
        self.wait(length, |state| state.over.then_some(()));
    }
}

impl Model {
    /// Begins a script; `start` makes it a running model.
    pub fn script() -> Script {
        Script::default()
    }

    fn start(script: Script) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen on 127.0.0.1");
        let address = listener.local_addr().expect("address of the listener");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                script,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || serve::accept(&listener, &of_thread));
        Self {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// What `ANTHROPIC_BASE_URL` gets.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds to the script of a model that already runs.
    pub fn on(&self, prompt: &str, turns: impl IntoIterator<Item = Turn>) {
        self.rule(Rule::on(prompt).turns(turns));
    }

    /// Adds a rule to the script of a model that already runs.
    pub fn rule(&self, rule: Rule) {
        self.shared.state().script.push(rule);
    }

    /// Lets every reply behind this gate go, now and later.
    pub fn open(&self, gate: &str) {
        self.shared.state().open.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// Waits until a reply stands behind this gate: the program is then in the middle of a turn.
    pub fn wait_at(&self, gate: &str) {
        let there = self.shared.wait(PATIENCE, |state| {
            state.waiting.iter().any(|name| name == gate).then_some(())
        });
        if there.is_none() {
            panic!("no reply reached the gate {gate:?}\n{}", self.summary());
        }
    }

    /// Everything that reached the server so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The requests that belong to the conversation: no titles, counts, probes, summaries.
    pub fn turns(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| matches!(request.kind, Kind::Turn { .. } | Kind::PastTheEnd));
        requests
    }

    /// Waits for the first request that fits, also among those already here.
    pub fn wait_request(&self, what: &str, fits: impl Fn(&Request) -> bool) -> Request {
        self.wait_for(what, |requests| requests.iter().find(|r| fits(r)).cloned())
    }

    /// Waits for a condition on all requests.
    pub fn wait_for<T>(&self, what: &str, probe: impl Fn(&[Request]) -> Option<T>) -> T {
        self.shared
            .wait(PATIENCE, |state| probe(&state.requests))
            .unwrap_or_else(|| panic!("the model never got {what}\n{}", self.summary()))
    }

    /// One line a request, for a person who wonders why a test failed.
    pub fn summary(&self) -> String {
        let lines: Vec<String> = self.requests().iter().map(Request::line).collect();
        format!("requests that reached the model:\n  {}", lines.join("\n  "))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        // Wakes the thread that accepts, so that it sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

#[cfg(test)]
mod tests;
