//! The hermetic world that becket is tested in: a scripted model, the real Claude Code
//! in a home of its own, a real terminal, and stories told with them.

pub mod claude;
pub mod corpus;
pub mod model;
pub mod skip;
pub mod story;
pub mod terminal;
pub mod tools;
pub mod wait;
pub mod world;
