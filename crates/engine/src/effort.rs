//! Work that outlives a window: what an effort says to an event. Pure, but for `directive` and
//! `recovery`, which read the files that an agent is given.

pub mod skill;
