//! becket as a whole, in a hermetic world.

mod adopt;
mod bad_input;
mod builtin;
mod chaos;
mod checkpoint;
mod completions;
mod demo;
mod docs;
mod doctor;
mod hooks;
mod init;
mod layers;
mod notice;
mod path;
mod real;
mod runs;
mod sdk;
mod statusline;
mod switch;
mod tmux;
mod trust;
mod uninstall;
mod up;
mod view;
