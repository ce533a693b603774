//! Who is alive, what happened: the one process that owns live state and writes the database.

mod connection;
mod core;
mod counters;
mod doubles;
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
