//! Who is doing what, as becket shows it while the real Claude Code does it.

mod agents;
mod ends;
mod figures;
mod permissions;
mod turns;
mod waiting;

use becket_tests::story::Session;

/// Whether the main agent has this status, and whether no event said so.
fn is(status: &str, inferred: bool) -> impl Fn(&Session) -> bool {
    move |session| session.status() == status && session["inferred"] == inferred
}

fn is_done(session: &Session) -> bool {
    session.status() == "idle" && session.display() == "done"
}
