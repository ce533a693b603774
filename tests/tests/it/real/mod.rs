//! Scenarios with the real Claude Code and the scripted model.

mod agents;
mod answers;
mod broken;
mod commands;
mod dialogs;
mod failures;
mod hostile;
mod limit;
mod notice;
mod old;
mod rarer;
mod sessions;
mod status;
mod statusline;
mod switch;
mod tools;
mod untold;
