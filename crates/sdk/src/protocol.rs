//! The control protocol: frames in both directions, by id.

pub(crate) mod background;
mod early_interrupt;
pub(crate) mod frames;
mod handlers;
pub(crate) mod inbox;
mod initialize;
pub(crate) mod link;
mod reader;
mod requests;
pub(crate) mod writer;

pub(crate) use link::{Exit, Link};
