//! What the documentation says is what becket does: command lines are run, tables are compared,
//! links are followed.

mod builtin;
mod console;
mod events;
mod page;
mod reference;
