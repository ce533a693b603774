//! The end of what the process writes to stderr, kept for errors.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio_util::sync::CancellationToken;

/// How much of it is kept.
const MAX_STDERR: usize = 16 << 10;

/// How long its end is waited for when the process has ended: a grandchild may hold it open.
const END_WAIT: Duration = Duration::from_millis(200);

/// The function that gets each line.
#[derive(Clone)]
pub(crate) struct StderrFunction(pub(crate) Arc<dyn Fn(&str) + Send + Sync>);

impl StderrFunction {
    /// Adds to the current line, and gives out the lines that have ended. A line that is too long is
    /// given out in pieces.
    fn take(&self, line: &mut Vec<u8>, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() > MAX_STDERR {
                self.call(&std::mem::take(line));
            }
        }
    }

    fn call(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if !line.is_empty() {
            // If it panics, stderr is read on: else Claude Code would wait for a reader.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(text.trim_end_matches('\n'))));
        }
    }
}

impl fmt::Debug for StderrFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrFunction")
    }
}

/// The last bytes of stderr.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stderr {
    kept: Arc<Mutex<VecDeque<u8>>>,
    ended: CancellationToken,
}

impl Stderr {
    /// Reads to the end, so that the process never waits for a reader.
    pub(super) fn collect(stream: Option<ChildStderr>, on_line: Option<StderrFunction>) -> Self {
        let kept = Self::default();
        if let Some(mut stream) = stream {
            let kept = kept.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let mut line = Vec::new();
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    kept.push(&buffer[..read]);
                    if let Some(function) = &on_line {
                        function.take(&mut line, &buffer[..read]);
                    }
                }
                if let Some(function) = &on_line {
                    function.call(&line);
                }
                kept.ended.cancel();
            });
        }
        kept
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(MAX_STDERR);
        kept.drain(..over);
    }

    /// The text after the process has ended.
    pub(super) async fn text_after_exit(&self) -> String {
        let _ = tokio::time::timeout(END_WAIT, self.ended.cancelled()).await;
        self.text()
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}
