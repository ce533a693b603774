//! becket as a whole, in a hermetic world.

mod bad_input;
mod builtin;
mod chaos;
mod demo;
mod docs;
mod init;
mod notice;
mod path;
mod real;
mod statusline;
mod tmux;
mod view;
