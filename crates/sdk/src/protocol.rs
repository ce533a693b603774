//! The control protocol: frames in both directions, by id.

mod early_interrupt;
pub(crate) mod frames;
mod handlers;
mod initialize;
pub(crate) mod link;
mod reader;
mod requests;
pub(crate) mod writer;

pub(crate) use link::{Exit, Link};
