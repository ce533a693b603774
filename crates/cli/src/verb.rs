//! One verb, one file, of the same name as its request, its handler and its test.

pub mod completions;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod hook;
pub mod init;
pub mod name;
pub mod sessions;
pub mod show;
pub mod statusline;
pub mod tmux;
pub mod trust;
pub mod uninit;
pub mod up;
pub mod view;
pub mod wait;
