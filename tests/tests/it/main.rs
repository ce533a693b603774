//! becket as a whole, in a hermetic world.

mod bad_input;
mod init;
mod path;
mod real;
