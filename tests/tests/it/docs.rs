//! What the documentation says is what becket does: command lines are run, tables are compared,
//! links are followed.

mod console;
mod page;
mod reference;
