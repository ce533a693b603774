//! becket as a whole, in a hermetic world.

mod adopt;
mod bad_input;
mod builtin;
mod chaos;
mod checkpoint;
mod completions;
mod docs;
mod effort;
mod history;
mod hooks;
mod init;
mod launch;
mod layers;
mod notice;
mod path;
mod real;
mod replay;
mod runs;
mod sdk;
mod statusline;
mod switch;
mod tmux;
mod trust;
mod uninstall;
mod up;
mod view;
