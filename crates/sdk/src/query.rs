//! One prompt, one result.

use crate::{Builder, Claude, Error, TurnResult};

/// Starts Claude Code, gives it one prompt, and returns the result.
///
/// ```no_run
/// # async fn example() -> Result<(), becket_sdk::Error> {
/// let result = becket_sdk::query("What does this project do?").await?;
/// println!("{}", result.text());
/// # Ok(())
/// # }
/// ```
pub async fn query(prompt: impl Into<String>) -> Result<TurnResult, Error> {
    Claude::builder().query(prompt).await
}

impl Builder {
    /// Starts Claude Code with these options and callbacks, gives it one prompt, and returns the
    /// result. If background tasks still run then, it waits for them, at most for
    /// [`background_wait`](Self::background_wait), and returns the last result.
    ///
    /// ```no_run
    /// use becket_sdk::{Claude, PermissionMode};
    ///
    /// # async fn example() -> Result<(), becket_sdk::Error> {
    /// let result = Claude::builder()
    ///     .permission_mode(PermissionMode::Plan)
    ///     .query("How would you add a test for the parser?")
    ///     .await?;
    /// println!("{}", result.text());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query(self, prompt: impl Into<String>) -> Result<TurnResult, Error> {
        let mut claude = self.start().await?;
        let result = claude.ask(prompt).await?.result().await?;
        let waited = claude.wait_for_background().await;
        let result = claude.link.inbox.last_result().unwrap_or(result);
        // The result is there: how the process ends after it changes nothing.
        let _ = claude.end().await;
        match waited {
            Ok(()) => Ok(result),
            Err(Error::BackgroundTasks { tasks, limit, .. }) => Err(Error::BackgroundTasks {
                tasks,
                limit,
                result: Some(Box::new(result)),
            }),
            Err(error) => Err(error),
        }
    }
}
