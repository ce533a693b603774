//! Who is alive, what happened: the one process that owns live state and writes the database.

mod core;
mod counters;
pub mod coverage;
pub mod effort;
mod efforts;
mod follow;
mod infer;
pub mod life;
mod namespace;
mod notice;
mod registry;
mod serve;
pub mod store;
pub mod tmux;
mod watch;
