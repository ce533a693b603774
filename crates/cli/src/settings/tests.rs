//! What becket must never do to somebody's settings file.

mod any;
mod command;
mod line;
mod properties;
mod realistic;

use super::registration::{Registration, Strict};

fn registration() -> Registration {
    Registration {
        program: "/opt/becket/becket-hook".into(),
        home: "/home/user/.becket".into(),
        strict: Strict::Keep,
        status_line: true,
    }
}
