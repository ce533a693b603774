//! The other end of the protocol: a Claude Code that the test controls.

use std::time::Duration;

use becket_sdk::{Builder, Claude, Context, Ended, Error};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The longest time that a test waits. It is also longer than the virtual times of tests.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Peer {
    /// Makes a peer, and a client that waits for its initialization.
    pub fn new(builder: Builder) -> (Self, JoinHandle<Result<Claude, Error>>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let client = tokio::spawn(builder.connect(read, write));
        let (read, output) = tokio::io::split(ours);
        let lines = BufReader::new(read).lines();
        (Self { lines, output }, client)
    }

    /// Makes a peer that has initialized its client. Also returns the client and its initialize request.
    pub async fn initialized(builder: Builder) -> (Self, Claude, Value) {
        let (mut peer, client) = Self::new(builder);
        let initialize = peer.receive().await;
        assert_eq!(initialize["request"]["subtype"], "initialize");
        peer.answer(&initialize, json!({"hooks_applied": true}))
            .await;
        let claude = client.await.expect("join").expect("start");
        (peer, claude, initialize["request"].clone())
    }

    /// Answers a request of the client.
    pub async fn answer(&mut self, request: &Value, answer: Value) {
        let id = &request["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        self.send(&json!({"type": "control_response", "response": response}))
            .await;
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&format!("{frame}\n")).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.expect("send");
    }

    /// Receives the client's next frame.
    pub async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("the client never sent the frame");
        let line = line.expect("read").expect("a frame");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Calls a PreToolUse callback for a Bash command.
    pub async fn call(&mut self, request: &str, callback: &str) {
        let input = json!({
            "session_id": "s1", "cwd": "/home/user", "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1",
        });
        self.call_with(request, callback, input).await;
    }

    pub async fn call_with(&mut self, request: &str, callback: &str, input: Value) {
        let body = json!({
            "subtype": "hook_callback", "callback_id": callback, "input": input,
            "tool_use_id": "toolu_1",
        });
        let frame = json!({"type": "control_request", "request_id": request, "request": body});
        self.send(&frame).await;
    }

    pub async fn cancel(&mut self, request: &str) {
        self.send(&json!({"type": "control_cancel_request", "request_id": request}))
            .await;
    }

    /// Asserts that the client has written nothing more: its next frame is the answer to this marker,
    /// which every client refuses at once.
    pub async fn silent_so_far(&mut self) {
        let body = json!({"subtype": "marker"});
        self.send(&json!({"type": "control_request", "request_id": "marker", "request": body}))
            .await;
        let frame = self.receive().await;
        assert_eq!(frame["response"]["request_id"], "marker", "{frame}");
    }

    /// Waits until the client has closed its stream. Asserts that it sends nothing before that.
    pub async fn input_closed(&mut self) {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("the client never closed its input");
        assert_eq!(line.expect("read"), None);
    }

    /// Waits until the client has dropped its end.
    pub async fn closed(&mut self) {
        while self.output.write_all(b"\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Ends the output, like a process that dies.
    pub async fn hang_up(mut self) {
        self.output.shutdown().await.expect("shut down");
    }
}

/// A call that never answers, and reports why it ended when it is dropped.
pub struct Hanging(Context, Option<oneshot::Sender<Option<Ended>>>);

impl Hanging {
    pub fn new(context: Context) -> (Self, oneshot::Receiver<Option<Ended>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(context, Some(sender)), receiver)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        if let Some(sender) = self.1.take() {
            let _ = sender.send(self.0.ended());
        }
    }
}
