//! Who is alive, what happened: the one process that owns live state and writes the database.

mod connection;
mod counters;
mod dispatch;
mod doubles;
mod follow;
mod hooks;
mod in_force;
mod infer;
pub mod life;
mod namespace;
mod notice;
mod registry;
mod serve;
mod statusline;
pub mod store;
pub mod tmux;
mod watch;
