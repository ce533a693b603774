//! Sessions that are written without an event, and the way from what was written lately to their rows.

use rusqlite::{Connection, Transaction};
use tracing::warn;

use super::WriterThread;
use crate::store::session::{Kept, Lately};

/// So many states are settled at once.
const SLICE: usize = 64;

/// What was written lately, to be put back when what is done with it is committed.
pub(super) fn lately(
    at_hand: &mut Option<Lately>,
    connection: &Connection,
) -> rusqlite::Result<Lately> {
    at_hand
        .take()
        .map_or_else(|| Lately::in_database(connection), Ok)
}

impl WriterThread {
    /// Sessions that changed without an event: a restart changes nothing then either.
    pub(super) fn write_sessions(&mut self, sessions: &[Kept]) {
        self.change_lately(|lately, transaction| lately.write(transaction, sessions.iter()));
    }

    /// While nobody writes, what was written lately reaches its rows: a slice at least, and all of it
    /// unless somebody comes.
    pub(super) fn settle_sessions(&mut self, nobody_comes: impl Fn() -> bool) {
        if !self.lately.as_mut().is_some_and(Lately::is_quiet) {
            return;
        }
        while self.lately.as_ref().is_some_and(|lately| lately.len() > 0) {
            self.change_lately(|lately, transaction| lately.settle(transaction, SLICE));
            if !nobody_comes() {
                return;
            }
        }
    }

    /// Nobody comes any more.
    pub(super) fn settle_all_sessions(&mut self) {
        self.change_lately(|lately, transaction| lately.settle(transaction, lately.len()));
    }

    fn change_lately(
        &mut self,
        change: impl FnOnce(&mut Lately, &Transaction<'_>) -> rusqlite::Result<()>,
    ) {
        let written = self.connection.transaction().and_then(|transaction| {
            let mut lately = lately(&mut self.lately, &transaction)?;
            change(&mut lately, &transaction)?;
            transaction.commit()?;
            Ok(lately)
        });
        match written {
            Ok(lately) => self.lately = Some(lately),
            Err(why) => {
                warn!(%why, "could not write sessions");
                self.look_for_damage(&why);
            }
        }
    }
}
