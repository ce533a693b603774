//! Catches the panic of a callback, with the stack at that point.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

thread_local! {
    /// A callback is being polled on this thread.
    static POLLING: Cell<bool> = const { Cell::new(false) };
    static STACK: Cell<Option<Backtrace>> = const { Cell::new(None) };
}

/// Runs a future to its end. If it panics, the stack is logged, and the panic's message is the error.
pub(super) async fn catch_panic<T>(
    callback_id: &str,
    future: impl Future<Output = T>,
) -> Result<T, String> {
    keep_stacks();
    let mut future = pin!(future);
    let caught = poll_fn(|context| {
        POLLING.set(true);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        POLLING.set(false);
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        }
    });
    let caught = caught.await;
    if let (Err(message), Some(stack)) = (&caught, STACK.take()) {
        tracing::error!(
            callback = callback_id,
            "panicked: {message}\nstack:\n{stack}"
        );
    }
    caught
}

/// Keeps the stack of a callback's panic: it is gone once the panic is caught. Only a panic hook sees
/// it; the one before still runs.
fn keep_stacks() {
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

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
