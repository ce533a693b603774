//! The only writer of Claude Code's stdin: a task that frames are sent to.

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

enum Order {
    Line(Vec<u8>),
    Close,
}

/// Sends frames to the task. Never waits, so that `Drop` can use it.
#[derive(Debug, Clone)]
pub(crate) struct Writer(mpsc::UnboundedSender<Order>);

impl Writer {
    /// Starts the task. It ends, and closes the stream, with `close` or with the last sender.
    pub(crate) fn start(stream: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, orders) = mpsc::unbounded_channel();
        tokio::spawn(write(stream, orders));
        Self(sender)
    }

    /// Sends one frame. A stream that is closed loses it: the reader learns of the end.
    pub(crate) fn send(&self, frame: &Value) {
        let mut line = frame.to_string().into_bytes();
        line.push(b'\n');
        let _ = self.0.send(Order::Line(line));
    }

    pub(crate) fn close(&self) {
        let _ = self.0.send(Order::Close);
    }
}

async fn write(
    mut stream: impl AsyncWrite + Send + Unpin,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    while let Some(Order::Line(line)) = orders.recv().await {
        if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}
