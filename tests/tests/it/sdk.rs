//! becket-sdk against the real Claude Code and the scripted model.

mod answers;
mod background;
mod becket;
mod life;

use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use becket_sdk::{Builder, Claude, Message, Turn, TurnResult};
use becket_tests::model::{bash, say, tools};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Recorder, Story, story};
use becket_tests::wait::PATIENCE;

/// Starts a story without becket: only the recorder is registered.
fn begin(given: Given) -> Result<Story, Unavailable> {
    given.registered(Recorder::witness()).begin()
}

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let bounded = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.block_on(bounded).expect("it never came to an end")
}

/// Returns a client for the story's Claude Code, in the story's home.
fn claude(story: &Story) -> Builder {
    let [program] = story.claude.command() else {
        panic!("the SDK starts the native program");
    };
    let env = story.home.env().iter();
    let builder = Claude::builder()
        .program(program)
        .env_clear()
        .cwd(story.home.project())
        .permission_mode("bypassPermissions");
    env.fold(builder, |builder, (name, value)| builder.env(name, value))
}

/// Returns every message of a turn. None of them may be an error.
async fn all(mut turn: Turn<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = turn.next().await {
        messages.push(message.expect("a message"));
    }
    messages
}

/// Sends a prompt, and reads to the result.
pub(super) async fn ask(claude: &mut Claude, prompt: &str) -> TurnResult {
    let turn = claude.ask(prompt).await.expect("ask");
    turn.result().await.expect("a result")
}

/// Returns an example, which Cargo builds beside the folder of the test binaries on request.
#[track_caller]
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a file");
    let folder = test.ancestors().nth(2).expect("a folder").join("examples");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "becket-sdk", "--example", name])
        .status();
    let file = folder.join(name);
    assert!(built.is_ok_and(|built| built.success()), "build {name}");
    file
}

/// Returns the example in the story's home, with the story's Claude Code on its PATH.
fn example_command(story: &Story, name: &str, prompt: &str) -> Command {
    let programs = story.home.root().join("bin");
    std::fs::create_dir_all(&programs).expect("a folder");
    symlink(&story.claude.command()[0], programs.join("claude")).expect("a link");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let mut command = Command::new(example(name));
    command
        .args(prompt.split(' '))
        .env_clear()
        .envs(story.home.env().iter().map(|(name, value)| (name, value)))
        .env("PATH", path)
        .current_dir(story.home.project());
    command
}

/// Runs an example, and returns its output.
fn run_example(story: &Story, name: &str, prompt: &str) -> Result<String, Unavailable> {
    let output = example_command(story, name, prompt).output();
    let output = output.expect("run the example");
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn block_patterns_forbids_rm_rf() {
    story(|given| {
        let story = begin(given.on("tidy up", [bash("rm -rf build"), say("I may not")]))?;
        story.home.file("build/keep", "x");
        let printed = run_example(&story, "block_patterns", "please tidy up")?;
        assert!(
            printed.contains("Command contains forbidden pattern: rm -rf"),
            "{printed}"
        );
        assert!(printed.contains("I may not"), "{printed}");
        assert!(story.home.project().join("build/keep").exists());
        Ok(())
    });
}

#[test]
fn log_tools_logs_each_call() {
    story(|given| {
        let story = begin(given.on(
            "look",
            [bash("echo hello"), bash("cat missing"), say("done")],
        ))?;
        let printed = run_example(&story, "log_tools", "look")?;
        assert!(printed.contains("log: Bash begins: {"), "{printed}");
        assert!(printed.contains("log: Bash is done after "), "{printed}");
        assert!(
            printed.contains("log: Bash failed: Exit code 1"),
            "{printed}"
        );
        Ok(())
    });
}

#[test]
fn approve_by_rule_allows_calls_that_match_its_rule() {
    story(|given| {
        let calls = tools([bash("mkdir made"), bash("touch file; mkdir other")]);
        let story = begin(given.on("work", [calls, say("done")]))?;
        let printed = run_example(&story, "approve_by_rule", "work")?;
        assert!(printed.contains("allowed: mkdir made\n"), "{printed}");
        assert!(
            printed.contains("denied: touch file; mkdir other\n"),
            "{printed}"
        );
        assert!(printed.contains("only mkdir is allowed here"), "{printed}");
        let there = |name: &str| story.home.project().join(name).exists();
        assert_eq!(["made", "file"].map(there), [true, false]);
        Ok(())
    });
}

#[test]
fn query_prints_the_result() {
    story(|given| {
        let story = begin(given.on("how are you", [say("fine, thank you")]))?;
        let printed = run_example(&story, "query", "how are you")?;
        assert!(printed.starts_with("fine, thank you\n[done] "), "{printed}");
        Ok(())
    });
}
