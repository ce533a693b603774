//! The daemon: the one process that owns live state and writes the database.

mod connection;
mod core;
mod counters;
pub mod effort;
mod efforts;
mod event_log;
mod inference;
pub mod lifecycle;
mod notice;
mod registry;
mod serve;
mod session_feed;
pub mod store;
pub mod tmux;
pub mod transcript_calls;
mod waiting_shim;
