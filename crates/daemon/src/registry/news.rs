//! What whoever looks on is told of a session, in order: what is told at once overtakes what waits
//! for its commit.

use std::sync::{Arc, Mutex, PoisonError};

use becket_wire::session::SessionRow;

use super::{Changes, Registry};

/// The number of the newest state of a session that was told.
pub(super) type Newest = Arc<Mutex<u64>>;

/// A session's row, to be told.
#[derive(Debug)]
pub(crate) struct News {
    row: Arc<SessionRow>,
    number: u64,
    newest: Newest,
    changes: Changes,
}

impl News {
    /// Tells it, unless something newer was told meanwhile.
    pub(crate) fn tell(self) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if *newest < self.number {
            *newest = self.number;
            drop(self.changes.send(self.row));
        }
    }
}

impl Registry {
    /// The row of a session that changed, if anybody looks on.
    pub(crate) fn news(&mut self, id: &str, now: i64) -> Option<News> {
        if self.changes.receiver_count() == 0 {
            return None;
        }
        self.news += 1;
        let live = self.sessions.get(id)?;
        Some(News {
            row: Arc::new(live.row(now)),
            number: self.news,
            newest: Arc::clone(&live.newest),
            changes: self.changes.clone(),
        })
    }

    /// Tells of a session at once.
    pub(crate) fn tell_of(&mut self, id: &str, now: i64) {
        if let Some(news) = self.news(id, now) {
            news.tell();
        }
    }
}
