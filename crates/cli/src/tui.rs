//! The live view: a model of the sessions, keys that change it, a pure drawing of it, and the
//! terminal around all that.

mod draw;
mod events;
pub mod feed;
mod field;
mod hands;
mod keys;
mod look;
mod model;
mod mouse;
mod run;
mod still;
mod text;
mod tree;
mod update;

pub use crate::ui::time::lasted;
pub use run::{open, suits_terminal};
pub use still::{Still, still};
