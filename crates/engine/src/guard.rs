//! Guards: rules that judge what a tool call would do.

pub mod act;
pub mod command;
pub mod path;
