//! Who is alive, what happened: the one process that owns live state and writes the database.

mod counters;
mod dispatch;
mod follow;
pub mod life;
mod namespace;
mod registry;
mod serve;
pub mod store;
