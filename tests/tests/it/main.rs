//! becket as a whole, in a hermetic world.

mod path;
mod real;
