//! A callback that is ready to use.

use std::future::{Ready, ready};

use becket_wire::tool::is_shell;

use super::{Answer, CallbackResult, Context, PreToolUse};

/// A PreToolUse callback that denies shell commands which contain one of the patterns. Patterns are
/// plain text. Register it for every tool that runs shell commands; besides Bash, Monitor does.
///
/// It reads the command as text, so it stops mistakes, not intent: `rm -r -f` is another text than
/// `rm -rf`.
///
/// ```no_run
/// use becket_sdk::{Claude, PreToolUse, block_patterns};
///
/// # async fn example() -> Result<(), becket_sdk::Error> {
/// let claude = Claude::builder()
///     .on(PreToolUse, "Bash|Monitor", block_patterns(["rm -rf", "git push --force"]))
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
    if !is_shell(&call.tool_name) {
        return Answer::none();
    }
    let command = call.tool_input["command"].as_str().unwrap_or_default();
    match patterns.iter().find(|pattern| command.contains(*pattern)) {
        Some(pattern) => Answer::deny(format!("Command contains forbidden pattern: {pattern}")),
        None => Answer::none(),
    }
}

#[cfg(test)]
mod tests {
    use becket_wire::event::Event;

    use super::*;

    #[test]
    fn every_tool_that_runs_shell_is_judged() {
        for (tool, is_denied) in [("Bash", true), ("Monitor", true), ("Task", false)] {
            let event = format!(
                r#"{{"hook_event_name": "PreToolUse", "tool_name": "{tool}", "tool_use_id": "t",
                    "session_id": "s", "tool_input": {{"command": "rm -rf x"}}}}"#
            );
            let Ok(Event::PreToolUse(call)) = Event::parse(&event) else {
                panic!("{event}");
            };
            let answer = judge(&["rm -rf".to_owned()], &call);
            assert_eq!(answer != Answer::none(), is_denied, "{tool}");
        }
    }
}
