//! The scripted model: an HTTP server on 127.0.0.1 that speaks as much of the Messages API as the real
//! Claude Code needs, answers from a script, and keeps every request.

mod script;
mod serve;
mod turn;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::wait::PATIENCE;

pub use script::{Rule, Script};
pub use serve::{Request, RequestKind, ToolResult};
pub use turn::{
    Block, HALF_EMOJI, Pause, Turn, Usage, agent, bash, behind, error, gate, hang_up, pause, say,
    tool, tools, write,
};

/// A running scripted model. It ends when it is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// The state that the connections and the test share.
struct Shared {
    state: Mutex<ModelState>,
    changed: Condvar,
}

#[derive(Default)]
struct ModelState {
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
    /// Locks the state. A test that panicked with the lock must not stop the server.
    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(
        &self,
        bound: Duration,
        mut probe: impl FnMut(&ModelState) -> Option<T>,
    ) -> Option<T> {
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

    /// Waits until the test opens the gate or the server ends.
    fn wait_gate(&self, gate: &str) {
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

    /// Pauses, at most until the server ends.
    fn pause(&self, length: Duration) {
        self.wait(length, |state| state.over.then_some(()));
    }
}

impl Model {
    /// Returns an empty script; `start` makes it a running model.
    pub fn script() -> Script {
        Script::default()
    }

    fn start(script: Script) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen on 127.0.0.1");
        let address = listener.local_addr().expect("address of the listener");
        let shared = Arc::new(Shared {
            state: Mutex::new(ModelState {
                script,
                ..ModelState::default()
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

    /// Returns the value for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds turns to the script of a running model.
    pub fn on(&self, prompt: &str, turns: impl IntoIterator<Item = Turn>) {
        self.rule(Rule::on(prompt).turns(turns));
    }

    /// Adds a rule to the script of a running model.
    pub fn rule(&self, rule: Rule) {
        self.shared.state().script.push(rule);
    }

    /// Lets every reply behind this gate pass, now and later.
    pub fn open(&self, gate: &str) {
        self.shared.state().open.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// Waits until a reply is behind this gate: Claude Code is then within a turn.
    pub fn wait_at(&self, gate: &str) {
        let there = self.shared.wait(PATIENCE, |state| {
            state.waiting.iter().any(|name| name == gate).then_some(())
        });
        if there.is_none() {
            panic!("no reply reached the gate {gate:?}\n{}", self.summary());
        }
    }

    /// Returns all requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Returns the requests of the conversation: no titles, counts, probes or summaries.
    pub fn turns(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| {
            matches!(
                request.kind,
                RequestKind::Turn { .. } | RequestKind::PastTheEnd
            )
        });
        requests
    }

    /// Waits for a condition on all requests.
    pub fn wait_for<T>(&self, what: &str, probe: impl Fn(&[Request]) -> Option<T>) -> T {
        self.shared
            .wait(PATIENCE, |state| probe(&state.requests))
            .unwrap_or_else(|| panic!("the model never got {what}\n{}", self.summary()))
    }

    /// Formats one line per request for a failure message.
    pub fn summary(&self) -> String {
        let lines: Vec<String> = self.requests().iter().map(Request::line).collect();
        format!("requests that reached the model:\n  {}", lines.join("\n  "))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        // Wakes the accepting thread, so that it sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use serde_json::{Value, json};

    use super::*;

    /// Sends one request on a connection of its own and returns status and body of the reply.
    fn post(model: &Model, path: &str, body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(model.address).expect("connect");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Length: {}\r\nX-Api-Key: dummy\r\nX-Mark: here\r\n\r\n",
            body.len()
        );
        stream
            .write_all((head + &body).as_bytes())
            .expect("send a request");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("end the requests");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("read the reply");
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.unwrap_or_default(), body.to_owned())
    }

    fn conversation(messages: &Value) -> Value {
        json!({"model": "some-model", "tools": [{"name": "Bash"}], "messages": messages})
    }

    fn ask(model: &Model, messages: &Value) -> Value {
        let (status, body) = post(model, "/v1/messages?beta=true", &conversation(messages));
        assert_eq!(status, 200);
        serde_json::from_str(&body).expect("a message")
    }

    fn text(message: &Value) -> &str {
        message["content"][0]["text"].as_str().unwrap_or_default()
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": text}]})
    }

    fn assistant() -> Value {
        json!({"role": "assistant", "content": "…"})
    }

    #[test]
    fn turns_follow_the_replies_since_the_newest_known_prompt() {
        let model = Model::script()
            .on("apples", [say("a0"), say("a1")])
            .on("pears", [say("p0"), say("p1")])
            .start();
        let said = |messages: Value| text(&ask(&model, &messages)).to_owned();
        assert_eq!(said(json!([user("apples")])), "a0");
        assert_eq!(said(json!([user("apples"), assistant(), user("?")])), "a1");
        assert_eq!(
            said(json!([
                user("apples"),
                assistant(),
                user("pears then"),
                assistant(),
                user("unknown")
            ])),
            "p1"
        );
        assert_eq!(said(json!([user("apples, no, pears")])), "p0");
        assert_eq!(
            said(json!([user("apples"), assistant(), assistant()])),
            "done"
        );
        assert_eq!(said(json!([user("plums")])), "ok");
        let kinds: Vec<RequestKind> = model.requests().into_iter().map(|r| r.kind).collect();
        assert_eq!(kinds[4..], [RequestKind::PastTheEnd, RequestKind::Side]);
    }

    #[test]
    fn a_failure_is_no_reply_and_is_passed_over_once_spent() {
        let model = Model::script()
            .on(
                "apples",
                [
                    say("a0"),
                    error(529, "overloaded_error", "busy").times(2),
                    say("a1"),
                ],
            )
            .start();
        let second = conversation(&json!([user("apples"), assistant()]));
        let status = || post(&model, "/v1/messages", &second).0;
        assert_eq!([status(), status(), status()], [529, 529, 200]);
        let third = json!([user("apples"), assistant(), assistant()]);
        assert_eq!(text(&ask(&model, &third)), "done");
    }

    #[test]
    fn a_stream_says_what_the_whole_message_says() {
        let both = tools([say("look:"), bash("ls"), tool("Read", json!({"n": 1}))]);
        let model = Model::script().on("apples", [both]).start();
        let mut body = conversation(&json!([user("apples")]));
        let whole: Value =
            serde_json::from_str(&post(&model, "/v1/messages", &body).1).expect("a message");
        assert_eq!(whole["stop_reason"], "tool_use");
        assert_eq!(whole["content"][1]["input"]["command"], "ls");

        body["stream"] = json!(true);
        let stream = post(&model, "/v1/messages", &body).1;
        let data = stream
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data
            .map(|data| serde_json::from_str(data).expect("an event"))
            .collect();
        let deltas: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "content_block_delta")
            .map(|event| &event["delta"])
            .collect();
        assert_eq!(deltas[0]["text"], whole["content"][0]["text"]);
        for index in [1, 2] {
            let input = deltas[index]["partial_json"].as_str().unwrap_or_default();
            let input: Value = serde_json::from_str(input).expect("the input");
            assert_eq!(input, whole["content"][index]["input"]);
        }
        let last = events.iter().rev().nth(1).expect("a closing event");
        assert_eq!(last["delta"]["stop_reason"], "tool_use");
        assert_eq!(events.last().expect("an end")["type"], "message_stop");
    }

    #[test]
    fn a_gate_holds_the_reply_until_it_is_opened() {
        let model = Model::script()
            .on("apples", [gate("g").then(say("at last"))])
            .start();
        std::thread::scope(|scope| {
            let reply = scope.spawn(|| ask(&model, &json!([user("apples")])));
            model.wait_at("g");
            assert!(!reply.is_finished());
            model.open("g");
            assert_eq!(text(&reply.join().expect("a reply")), "at last");
        });
        assert_eq!(text(&ask(&model, &json!([user("apples")]))), "at last");
    }
}
