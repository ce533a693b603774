//! Runs of named hooks as people and scripts see them: where they come from, what they cost, their
//! words and their JSON.

pub mod cost;
pub mod full;
pub mod json;
pub mod source;
pub mod table;
pub mod words;

#[cfg(test)]
mod tests;
