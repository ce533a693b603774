//! One verb, one file, of the same name as its request, its handler and its test.

pub mod adopt;
pub mod builtin;
pub mod checkpoint;
pub mod completions;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod disable;
pub mod doctor;
pub mod enable;
pub mod events;
pub mod gc;
pub mod hook;
pub mod hooks;
pub mod init;
pub mod name;
pub mod sessions;
pub mod show;
pub mod statusline;
pub mod tmux;
pub mod uninit;
pub mod up;
pub mod view;
pub mod wait;
