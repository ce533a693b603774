//! One verb, one file, of the same name as its request, its handler and its test.

pub mod completions;
pub mod config;
pub mod daemon;
pub mod doctor;
pub mod events;
pub mod hook;
pub mod init;
pub mod tmux;
pub mod uninit;
pub mod up;
