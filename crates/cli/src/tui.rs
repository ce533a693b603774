//! The live view: a model of the sessions, the keys that change it, a pure function that draws it,
//! and the event loop that owns the terminal.

mod draw;
mod effect;
mod event_loop;
pub mod feed;
mod input;
mod model;
mod paste_detection;
mod theme;

pub use crate::ui::time::lasted;
pub use event_loop::{ViewSnapshot, open, render_snapshot, suits_terminal};
