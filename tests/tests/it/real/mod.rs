//! Scenarios with the real Claude Code and the scripted model.

mod commands;
mod events;
mod launch;
mod notice;
mod prd;
mod status;
mod switch;
