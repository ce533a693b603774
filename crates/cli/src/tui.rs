//! The live view: a model of the sessions, keys that change it, a pure drawing of it, and the
//! terminal around all that.

mod draw;
pub mod feed;
mod input;
mod look;
mod model;
mod paste;
mod run;
mod update;

pub use crate::ui::time::lasted;
pub use run::{Still, open, still, suits_terminal};
