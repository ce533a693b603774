//! Runs one call of a callback, within its time limit, and catches its panic.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::service::CallLimits;
use super::{CallbackError, CallbackFailure, Context, Ended};

/// One call of a callback: its context, its time limit and its cancellation.
pub(crate) struct CallbackCall {
    pub(crate) context: Context,
    /// The time that the call had at its start.
    time_limit: Duration,
    /// Cancelled when the answer is no longer needed. A timeout does not cancel it.
    cancelled: CancellationToken,
}

impl CallbackCall {
    /// Makes a call that is limited by its own timeout, if it has one, and by the turn's deadline.
    pub(crate) fn new(id: &str, timeout: Option<Duration>, limits: &CallLimits) -> Self {
        let now = Instant::now();
        let deadline = limits.deadline(now, timeout);
        Self {
            context: Context::new(id, deadline),
            time_limit: deadline.saturating_duration_since(now),
            cancelled: limits.token.clone(),
        }
    }

    /// Runs the callback to its end, its deadline or its cancellation, whichever is first.
    ///
    /// The callback runs as a task of its own, so that its panic stays there. At the end of this function
    /// the task is aborted, which drops the callback's future.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        callback: impl Future<Output = Result<T, CallbackError>> + Send + 'static,
    ) -> Result<T, CallbackFailure> {
        if self.time_limit.is_zero() {
            return Err(self.time_out());
        }
        let _cancel_at_end = self.context.cancellation.clone().drop_guard();
        let mut task = JoinSet::new();
        let id = self.context.callback_id.clone();
        task.spawn(async move {
            // The task also formats the error: its `Display` is the user's code.
            let callback = async { callback.await.map_err(|error| error.to_string()) };
            catch_panic(&id, callback).await
        });
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(self.cancel()),
            Some(joined) = task.join_next() => self.result(joined),
            () = sleep_until(self.context.deadline) => Err(self.time_out()),
        }
    }

    fn result<T>(
        &self,
        joined: Result<Result<Result<T, String>, String>, JoinError>,
    ) -> Result<T, CallbackFailure> {
        // On a runtime that was blocked, the timer fires late.
        if Instant::now() > self.context.deadline {
            return Err(self.time_out());
        }
        match joined {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(CallbackFailure::failed(error)),
            Ok(Err(panic)) => Err(self.panicked(panic)),
            Err(error) => Err(self.task_failed(error)),
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
            limit: self.time_limit,
        }
    }

    fn panicked(&self, message: String) -> CallbackFailure {
        let id = self.context.callback_id.clone();
        CallbackFailure::Panicked { id, message }
    }

    /// Returns the failure for a task that failed itself: a value that the callback held panicked when
    /// it was dropped, or the runtime is shutting down.
    fn task_failed(&self, error: JoinError) -> CallbackFailure {
        match error.try_into_panic() {
            Ok(panic) => self.panicked(panic_text(&*panic)),
            Err(_) => self.cancel(),
        }
    }
}

thread_local! {
    /// True while a callback is polled on this thread.
    static POLLING: Cell<bool> = const { Cell::new(false) };
    /// The stack of the last panic of a callback on this thread.
    static STACK: Cell<Option<Backtrace>> = const { Cell::new(None) };
}

/// Runs a future to its end. If it panics, logs the stack and returns the panic's message as the error.
async fn catch_panic<T>(callback_id: &str, future: impl Future<Output = T>) -> Result<T, String> {
    install_panic_hook();
    let mut future = pin!(future);
    let result = poll_fn(|context| {
        POLLING.set(true);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        POLLING.set(false);
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        }
    });
    let result = result.await;
    if let (Err(message), Some(stack)) = (&result, STACK.take()) {
        tracing::error!(
            callback = callback_id,
            "panicked: {message}\nstack:\n{stack}"
        );
    }
    result
}

/// Installs a panic hook that keeps the stack of a callback's panic: the stack is gone once the panic is
/// caught, and only a panic hook sees it. The previous hook still runs.
fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if POLLING.get() {
                STACK.set(Some(Backtrace::force_capture()));
            }
            previous(panic);
        }));
    });
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
