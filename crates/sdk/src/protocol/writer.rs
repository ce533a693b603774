//! The frames that the SDK sends, and the task that writes them to Claude Code's stdin. Nothing else
//! writes there.

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The SDK's answer to a control request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Success(Value),
    Error(String),
}

impl Reply {
    pub(crate) fn into_frame(self, id: &str) -> Value {
        let response = match self {
            Self::Success(response) => {
                json!({"subtype": "success", "request_id": id, "response": response})
            }
            Self::Error(error) => json!({"subtype": "error", "request_id": id, "error": error}),
        };
        json!({"type": "control_response", "response": response})
    }
}

pub(super) fn control_request(id: &str, body: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": body})
}

pub(super) fn user_message(prompt: &str, uuid: &str) -> Value {
    json!({
        "type": "user",
        "uuid": uuid,
        "session_id": "",
        "parent_tool_use_id": null,
        "message": {"role": "user", "content": prompt},
    })
}

enum WriterMessage {
    Line(Vec<u8>),
    Close,
}

/// Sends frames to the writer task. Never waits, so that `Drop` can use it.
#[derive(Debug, Clone)]
pub(crate) struct Writer(mpsc::UnboundedSender<WriterMessage>);

impl Writer {
    /// Starts the task. It closes the stream and ends with `close`, or when the client is cancelled.
    pub(crate) fn start(
        stream: impl AsyncWrite + Send + Unpin + 'static,
        client: CancellationToken,
    ) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        // A peer that does not read must not keep the task: it ends with the client.
        tokio::spawn(async move {
            client.run_until_cancelled(write(stream, messages)).await;
        });
        Self(sender)
    }

    /// Sends one frame. The frame is lost if the stream is closed; the reader notices that Claude Code
    /// ended.
    pub(crate) fn send(&self, frame: &Value) {
        let mut line = frame.to_string().into_bytes();
        line.push(b'\n');
        let _ = self.0.send(WriterMessage::Line(line));
    }

    pub(crate) fn close(&self) {
        let _ = self.0.send(WriterMessage::Close);
    }
}

async fn write(
    mut stream: impl AsyncWrite + Send + Unpin,
    mut messages: mpsc::UnboundedReceiver<WriterMessage>,
) {
    while let Some(WriterMessage::Line(line)) = messages.recv().await {
        if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}
