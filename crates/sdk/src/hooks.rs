//! Callbacks as hooks: what a user registers, and how one call of it runs.

mod answer;
mod context;
mod events;
pub(crate) mod execute;
mod failure;
mod hook;
mod in_flight;
mod matcher;
mod panic;
mod patterns;
pub(crate) mod registry;
pub(crate) mod scope;
pub(crate) mod service;
mod types;

pub use answer::Answer;
pub use context::{Context, Ended};
pub use events::*;
pub use failure::CallbackFailure;
pub use hook::{Hook, OnFailure};
pub use matcher::Matcher;
pub use patterns::block_patterns;
pub(crate) use types::Boxed;
pub use types::{CallbackError, CallbackResult, On, Selector};
