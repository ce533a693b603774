//! Scenarios with the real Claude Code and the scripted model.

mod events;
mod guards;
mod launch;
mod notice;
mod status;
mod switch;
