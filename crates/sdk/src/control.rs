//! Requests to Claude Code that can be made at any time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::protocol::Link;
use crate::{Error, PermissionMode};

/// How long Claude Code may take to answer a request.
const LIMIT: Duration = Duration::from_secs(60);

/// Requests to a running Claude Code. Clone it, and use it while a [`Turn`](crate::Turn) is read.
///
/// ```no_run
/// # async fn example(mut claude: becket_sdk::Claude) -> Result<(), becket_sdk::Error> {
/// let control = claude.control();
/// let mut turn = claude.ask("Count to a million").await?;
/// tokio::spawn(async move {
///     tokio::time::sleep(std::time::Duration::from_secs(5)).await;
///     control.interrupt().await
/// });
/// while let Some(message) = turn.next().await {
///     println!("{}", message?.text());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Control(Arc<Link>);

impl Control {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// Interrupts what Claude Code is doing. The turn's stream then ends with its result.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.0.early_interrupt.interrupted();
        let body = json!({"subtype": "interrupt"});
        self.request(body).await.map(drop)
    }

    /// Changes how much Claude Code may do without asking.
    pub async fn set_permission_mode(&self, mode: impl Into<PermissionMode>) -> Result<(), Error> {
        let mode = mode.into();
        let body = json!({"subtype": "set_permission_mode", "mode": mode.as_str()});
        self.request(body).await.map(drop)
    }

    /// Changes the model. PreModelSwitch callbacks may refuse it.
    pub async fn set_model(&self, model: &str) -> Result<(), Error> {
        let body = json!({"subtype": "set_model", "model": model});
        self.request(body).await.map(drop)
    }

    /// Sends a request of any subtype, and gives its answer. For requests that this crate has no
    /// function for: `{"subtype": "mcp_status"}`.
    pub async fn request(&self, body: Value) -> Result<Value, Error> {
        self.0.request(body, LIMIT).await
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}
