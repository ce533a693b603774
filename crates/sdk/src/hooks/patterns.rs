//! A callback that is ready to use.

use std::future::{Ready, ready};

use super::{Answer, CallbackResult, Context, PreToolUse};

/// A PreToolUse callback that denies Bash commands which contain one of the patterns. Patterns are
/// plain text.
///
/// It reads the command as text, so it stops mistakes, not intent: `rm -r -f` is another text than
/// `rm -rf`.
///
/// ```no_run
/// use becket_sdk::{Claude, PreToolUse, block_patterns};
///
/// # async fn example() -> Result<(), becket_sdk::Error> {
/// let claude = Claude::builder()
///     .on(PreToolUse, "Bash", block_patterns(["rm -rf", "git push --force"]))
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn block_patterns<P: Into<String>>(
    patterns: impl IntoIterator<Item = P>,
) -> impl Fn(PreToolUse, Context) -> Ready<CallbackResult> + Send + Sync + 'static {
    let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
    move |call, _| ready(Ok(judge(&patterns, &call)))
}

fn judge(patterns: &[String], call: &PreToolUse) -> Answer {
    if call.tool_name != "Bash" {
        return Answer::none();
    }
    let command = call.tool_input["command"].as_str().unwrap_or_default();
    match patterns.iter().find(|pattern| command.contains(*pattern)) {
        Some(pattern) => Answer::deny(format!("Command contains forbidden pattern: {pattern}")),
        None => Answer::none(),
    }
}
