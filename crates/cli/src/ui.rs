//! What every verb prints with: tables, styles, times, text.

pub mod style;
pub mod table;
pub mod text;
pub mod time;
