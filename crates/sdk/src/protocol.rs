//! The control protocol: frames in both directions, by id.

pub(crate) mod frames;
mod handlers;
mod initialize;
pub(crate) mod link;
mod reader;
mod requests;
pub(crate) mod writer;

pub(crate) use link::{Death, Link};
