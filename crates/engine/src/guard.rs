//! Guards: rules that judge what a tool call would do.

pub mod act;
pub mod check;
pub mod command;
pub mod edit;
pub mod glob;
pub mod memory;
pub mod path;
pub mod rule;
mod schema;
pub mod sight;
pub mod zone;

#[cfg(test)]
mod tests;
