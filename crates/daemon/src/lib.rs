//! Who is alive, what happened: the one process that owns live state and writes the database.

mod connection;
mod counters;
mod dispatch;
mod doubles;
mod follow;
mod in_force;
pub mod life;
mod namespace;
mod registry;
mod serve;
pub mod store;
pub mod tmux;
