//! The test harness of becket: a hermetic world, a scripted model, the real Claude Code in a home of its
//! own, a real terminal, and stories that combine them.

pub mod claude;
pub mod corpus;
pub mod model;
pub mod skip;
pub mod story;
pub mod terminal;
pub mod tools;
pub mod wait;
pub mod world;
