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
    /// result.
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
        // The result is there: how the process ends after it changes nothing.
        let _ = claude.close().await;
        Ok(result)
    }
}
