//! Scenarios with the real Claude Code and the scripted model.

mod answer;
mod effort;
mod events;
mod flows;
mod guards;
mod launch;
mod notice;
mod permission;
mod status;
mod switch;
mod view;
