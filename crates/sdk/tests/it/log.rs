//! Failures are logged, by `tracing`.

use std::io::Write;
use std::sync::{Arc, Mutex};

use becket_sdk::{Any, Claude, PreToolUse};

use crate::failures::failing;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn failures_are_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer({
        let log = log.clone();
        move || log.clone()
    });
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    let panics = Claude::builder().on(PreToolUse, Any, |_, _| async { a_function_that_panics() });
    failing(panics).await;
    let log = String::from_utf8(log.0.lock().expect("the log").clone()).expect("text");
    let line = "hook_panicked: hook_1 panicked: by the test";
    assert!(log.contains("ERROR") && log.contains(line), "{log}");
    let (_, stack) = log.split_once("stack:").expect("the stack of the panic");
    assert!(stack.contains("a_function_that_panics"), "{stack}");
}

#[inline(never)]
fn a_function_that_panics() -> becket_sdk::CallbackResult {
    panic!("by the test")
}
