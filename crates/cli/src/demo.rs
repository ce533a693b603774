//! The demo: a day of made-up sessions, played into a throw-away home through the road that real
//! events take.

mod play;
mod rows;
mod script;
mod svg;

pub use play::{Player, Stage};
pub use rows::picture;
pub use script::{Beat, What, day};
