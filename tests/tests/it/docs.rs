//! The documentation against becket: command lines are run, tables are compared, links are followed.

mod console;
mod page;
mod reference;
