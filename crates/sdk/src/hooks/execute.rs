//! One call of a callback: its time, its cancellation, its panic.

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::panic::{catch_panic, panic_text};
use super::scope::Scope;
use super::{CallbackError, CallbackFailure, Context, Ended};

/// What bounds one call.
pub(crate) struct Call {
    pub(crate) context: Context,
    /// The time that it had at the start.
    limit: Duration,
    /// Cancelled when the answer is no longer needed, not when the time is up.
    cancelled: CancellationToken,
}

impl Call {
    /// Bounded by its own timeout, if it has one, and by the turn's deadline.
    pub(crate) fn new(id: &str, timeout: Option<Duration>, scope: &Scope) -> Self {
        let now = Instant::now();
        let deadline = scope.deadline(now, timeout);
        Self {
            context: Context::new(id, deadline),
            limit: deadline.saturating_duration_since(now),
            cancelled: scope.token.clone(),
        }
    }

    /// Runs the callback to its end, its deadline or its cancellation, whichever is first.
    ///
    /// It runs as a task of its own, so that its panic stays there. On the way out the task is aborted,
    /// which drops the callback's future.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        callback: impl Future<Output = Result<T, CallbackError>> + Send + 'static,
    ) -> Result<T, CallbackFailure> {
        if self.limit.is_zero() {
            return Err(self.time_out());
        }
        let _cancel_at_end = self.context.cancellation.clone().drop_guard();
        let mut task = JoinSet::new();
        // The error's text is made in there too: its `Display` is the user's code.
        let id = self.context.callback_id.clone();
        task.spawn(async move {
            let callback = async { callback.await.map_err(|error| error.to_string()) };
            catch_panic(&id, callback).await
        });
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(self.cancel()),
            Some(joined) = task.join_next() => self.read(joined),
            () = sleep_until(self.context.deadline) => Err(self.time_out()),
        }
    }

    fn read<T>(
        &self,
        joined: Result<Result<Result<T, String>, String>, JoinError>,
    ) -> Result<T, CallbackFailure> {
        match joined {
            // On a runtime that was blocked, the timer fires late.
            _ if Instant::now() > self.context.deadline => Err(self.time_out()),
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(CallbackFailure::failed(error)),
            Ok(Err(panic)) => Err(self.panicked(panic)),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn cancel(&self) -> CallbackFailure {
        self.context.end(Ended::Cancelled);
        let id = self.context.callback_id.clone();
        CallbackFailure::Cancelled { id }
    }

    fn time_out(&self) -> CallbackFailure {
        self.context.end(Ended::TimedOut);
        CallbackFailure::TimedOut {
            id: self.context.callback_id.clone(),
            limit: self.limit,
        }
    }

    fn panicked(&self, message: String) -> CallbackFailure {
        let id = self.context.callback_id.clone();
        CallbackFailure::Panicked { id, message }
    }

    /// The task itself has failed: what the callback held panicked when it was dropped.
    fn lost(&self, error: JoinError) -> CallbackFailure {
        match error.try_into_panic() {
            Ok(panic) => self.panicked(panic_text(&*panic)),
            // The runtime is shutting down.
            Err(_) => self.cancel(),
        }
    }
}
