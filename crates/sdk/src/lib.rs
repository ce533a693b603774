//! Drive Claude Code from Rust, with your own callbacks as hooks.
//!
//! A [`Claude`] is a running Claude Code. [`Claude::ask`] gives it a prompt, and the [`Turn`] is the
//! stream of its messages. Callbacks run in your process: they get each event that they are registered
//! for, and can deny, rewrite, add context or stop.
//!
//! ```no_run
//! use std::time::Duration;
//! use becket_sdk::{Answer, Any, Claude, Permission, PostToolUse, PreToolUse, block_patterns};
//!
//! # async fn example() -> Result<(), becket_sdk::Error> {
//! let mut claude = Claude::builder()
//!     .on(PreToolUse, "Bash", block_patterns(["rm -rf"]))
//!     .on(PostToolUse, Any, |event, _ctx| async move {
//!         println!("{} is done", event.tool_name);
//!         Ok(Answer::context("noted"))
//!     })
//!     .can_use_tool(|request, _ctx| async move {
//!         match request.tool_name.as_str() {
//!             "Read" => Ok(Permission::allow()),
//!             _ => Ok(Permission::deny("only reading is allowed here")),
//!         }
//!     })
//!     .timeout(Duration::from_secs(30))
//!     .start()
//!     .await?;
//!
//! let mut turn = claude.ask("What is in this folder?").await?;
//! while let Some(message) = turn.next().await {
//!     println!("{}", message?.text());
//! }
//! claude.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Registration
//!
//! Callbacks are registered with the builder, before the client starts: none can be added later. An event
//! may have many callbacks. Claude Code runs all that match side by side, and a denial wins. Their ids
//! are `hook_1`, `hook_2`, … in order of registration.
//!
//! Claude Code never calls callbacks for SessionStart, SessionEnd and Setup. [`Builder::start`] refuses
//! them with an error that names an alternative.
//!
//! # Time, cancellation, failure
//!
//! A callback has 30 seconds, unless the [client](Builder::timeout), the [hook](Hook::timeout) or the
//! [turn](Ask::deadline) sets another limit: the shortest one that was set counts. Its future is dropped
//! when its time is up, when the turn is cancelled, when Claude Code takes the request back, or when the
//! client is dropped. The values that it holds are dropped with it. [`Context::ended`] distinguishes a
//! timeout from a cancellation.
//!
//! A callback must not block its thread: the runtime cannot drop a future that does not yield, and its
//! timers may not run meanwhile, on a multi-thread runtime too. Use
//! [`tokio::task::spawn_blocking`] for blocking work.
//!
//! Claude Code refuses a call whose callback does not answer, so a failed callback is answered too,
//! according to its policy: [`OnFailure`]. The function of [`Builder::on_callback_failure`] is called. A
//! panic is a failure of that one call; everything else goes on. The reasons have stable codes:
//! [`CallbackFailure`].
#![deny(missing_docs)]

/// The examples of the guide, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/sdk.md")]
struct Guide;

mod becket;
mod builder;
mod client;
mod error;
mod hooks;
mod message;
mod options;
mod permission;
mod process;
mod protocol;
mod turn;

pub use becket_wire::answer::Change;
pub use becket_wire::event::{self, Event, EventName, PermissionMode};
pub use builder::{Builder, query};
pub use client::{Claude, Control};
pub use error::Error;
pub use hooks::Matcher::Any;
pub use hooks::*;
pub use message::{Block, ChatMessage, Message, SystemMessage, TurnResult};
pub use permission::{Permission, PermissionResult, ToolRequest};
pub use tokio_util::sync::CancellationToken;
pub use turn::{Ask, Events, Turn};
