//! The only writer of Claude Code's stdin: a task that frames are sent to.

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

enum Command {
    Line(Vec<u8>),
    Close,
}

/// Sends frames to the task. Never waits, so that `Drop` can use it.
#[derive(Debug, Clone)]
pub(crate) struct Writer(mpsc::UnboundedSender<Command>);

impl Writer {
    /// Starts the task. It ends, and closes the stream, with `close` or when the client is cancelled.
    pub(crate) fn start(
        stream: impl AsyncWrite + Send + Unpin + 'static,
        client: CancellationToken,
    ) -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        // A peer that does not read must not keep the task: it ends with the client.
        tokio::spawn(async move {
            client.run_until_cancelled(write(stream, commands)).await;
        });
        Self(sender)
    }

    /// Sends one frame. It is lost if the stream is closed; the reader notices that Claude Code ended.
    pub(crate) fn send(&self, frame: &Value) {
        let mut line = frame.to_string().into_bytes();
        line.push(b'\n');
        let _ = self.0.send(Command::Line(line));
    }

    pub(crate) fn close(&self) {
        let _ = self.0.send(Command::Close);
    }
}

async fn write(
    mut stream: impl AsyncWrite + Send + Unpin,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    while let Some(Command::Line(line)) = commands.recv().await {
        if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}
