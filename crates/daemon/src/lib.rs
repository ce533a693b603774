//! Who is alive, what happened: the one process that owns live state and writes the database.

mod connection;
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
mod waiting_shim;
mod watch;
