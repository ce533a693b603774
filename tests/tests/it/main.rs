//! becket as a whole, in a hermetic world.

mod real;
