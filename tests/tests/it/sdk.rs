//! becket-sdk against the real Claude Code and the scripted model.

mod answers;
mod becket;
mod control;
mod examples;
mod failures;
mod life;

use std::future::Future;

use becket_sdk::{Builder, Claude, Message, Turn, TurnResult};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Recorder, Story};
use becket_tests::wait::PATIENCE;

/// Begins a story without becket: the recorder alone is registered in the settings.
fn begin(given: Given) -> Result<Story, Unavailable> {
    given.registered(Recorder::witness()).begin()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let bounded = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.block_on(bounded).expect("it never came to an end")
}

/// A client of the story's Claude Code, in the story's home.
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

/// Every message of a turn. None of them may be an error.
async fn all(mut turn: Turn<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = turn.next().await {
        messages.push(message.expect("a message"));
    }
    messages
}

/// Asks, and reads to the result.
async fn ask(claude: &mut Claude, prompt: &str) -> TurnResult {
    let turn = claude.ask(prompt).await.expect("ask");
    turn.result().await.expect("a result")
}
