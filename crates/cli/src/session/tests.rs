//! Made-up sessions, how they are rendered, and how a made-up daemon is asked.

mod asked;
mod in_full;
pub mod made;
mod rendered;
mod scripts;
