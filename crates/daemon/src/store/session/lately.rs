//! The states of sessions that were written last stand one behind another, in pages that they share.
//! Most are overtaken by a newer one before they are old, and go; the others reach their rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::super::open;
use super::{COLUMNS, Kept, Which, newest_of};

/// So many stand here. With some hundred sessions at work, hardly one grows so old without a newer
/// state; and whoever asks for sessions reads all of these.
const ROOM: usize = 2048;
/// More at once go to their rows.
const MANY: usize = 256;

/// Which states stand in the database's `session_log`.
#[derive(Debug)]
pub(in crate::store) struct Lately {
    /// By revision, so the oldest first.
    all: BTreeMap<i64, Arc<str>>,
    newest: HashMap<Arc<str>, i64>,
    room: usize,
    /// The last one when somebody asked whether it is quiet.
    last: Option<i64>,
}

impl Lately {
    /// As this database has it: what another daemon left.
    pub(in crate::store) fn in_database(connection: &Connection) -> rusqlite::Result<Self> {
        let mut lately = Self {
            all: BTreeMap::new(),
            newest: HashMap::new(),
            room: ROOM,
            last: None,
        };
        let mut select =
            connection.prepare_cached("SELECT revision, session_id FROM session_log")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            lately.stands(row.get(0)?, row.get::<_, String>(1)?.into());
        }
        Ok(lately)
    }

    /// Writes sessions, in the transaction of their events. If that fails, this is not what the
    /// database has any more.
    pub(in crate::store) fn write<'k>(
        &mut self,
        connection: &Connection,
        sessions: impl Iterator<Item = &'k Kept>,
    ) -> rusqlite::Result<()> {
        let newest = newest_of(sessions);
        if newest.len() > MANY {
            return super::write(connection, newest.into_values());
        }
        let mut insert = connection.prepare_cached(&format!(
            "INSERT OR IGNORE INTO session_log ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5)"
        ))?;
        for kept in newest.into_values() {
            insert.execute(params![
                kept.session_id,
                kept.revision,
                kept.last_activity,
                kept.ended_at,
                kept.state
            ])?;
            self.stands(kept.revision, kept.session_id.as_str().into());
        }
        self.settle(connection, self.all.len().saturating_sub(self.room))
    }

    /// Takes away the oldest so many: those that are their session's newest reach its row.
    pub(in crate::store) fn settle(
        &mut self,
        connection: &Connection,
        count: usize,
    ) -> rusqlite::Result<()> {
        let mut upsert = connection.prepare_cached(&format!(
            "INSERT INTO sessions ({COLUMNS}) SELECT {COLUMNS} FROM session_log WHERE revision = ?1
             {}",
            super::IF_NEWER
        ))?;
        let mut last = None;
        for _ in 0..count {
            let Some((revision, session)) = self.all.pop_first() else {
                break;
            };
            if self.newest.get(&session) == Some(&revision) {
                self.newest.remove(&session);
                upsert.execute([revision])?;
            }
            last = Some(revision);
        }
        if let Some(last) = last {
            connection
                .prepare_cached("DELETE FROM session_log WHERE revision <= ?1")?
                .execute([last])?;
        }
        Ok(())
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nothing was written since this was last asked.
    pub(in crate::store) fn is_quiet(&mut self) -> bool {
        let last = self.all.last_key_value().map(|(revision, _)| *revision);
        std::mem::replace(&mut self.last, last) == last
    }

    fn stands(&mut self, revision: i64, session: Arc<str>) {
        let newest = self.newest.entry(Arc::clone(&session)).or_insert(revision);
        *newest = revision.max(*newest);
        self.all.insert(revision, session);
    }
}

/// The states that stand here and may be wanted.
pub(super) fn select(connection: &Connection, which: Which<'_>) -> rusqlite::Result<Vec<Kept>> {
    if open::user_version(connection)? < 5 {
        return Ok(Vec::new());
    }
    let (condition, prefix) = match which {
        Which::Like(prefix) => (super::BEGINS_SO, prefix),
        Which::Live | Which::Ended(_) => ("?1 = ?1", ""),
    };
    let query = format!("SELECT {COLUMNS} FROM session_log WHERE {condition}");
    let mut select = connection.prepare_cached(&query)?;
    select.query_map([prefix], Kept::read)?.collect()
}

#[cfg(test)]
mod tests;
