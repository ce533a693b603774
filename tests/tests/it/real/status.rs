//! The displayed state of sessions while the real Claude Code works.

mod agents;
mod ends;
mod figures;
mod permissions;
mod turns;
mod waiting;

use becket_tests::story::Session;

/// Returns a test for the main agent's status, and for `inferred`: true if no event reported it.
fn is(status: &str, inferred: bool) -> impl Fn(&Session) -> bool {
    move |session| session.status() == status && session["inferred"] == inferred
}

fn is_done(session: &Session) -> bool {
    session.status() == "idle" && session.display() == "done"
}
