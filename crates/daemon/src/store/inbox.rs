//! The inbox: where a few events are committed before their reply. A row in the log touches eight
//! pages or more, because of its indexes; a row here touches one. The writer settles the inbox into
//! the log when it has nobody to answer. Large groups go into the log at once: there the pages are
//! shared.

use becket_engine::mask::Masker;
use rusqlite::Connection;
use tracing::warn;

use super::record::{self, Record};
use super::{session, spool};

/// Groups smaller than this go through the inbox.
const SMALL_GROUP: usize = 8;
/// So many wait before they are settled. What they share of the log's pages is written once for all of
/// them: with 8, the pages of a large log made one event cost 1.4 times as much as with a small one.
pub(super) const FULL: usize = 32;

/// Whether these may go through the inbox.
pub(super) fn is_for<'r>(mut records: impl Iterator<Item = &'r Record> + Clone) -> bool {
    records.clone().count() < SMALL_GROUP
        && records.all(|record| record.is_small() && record.duplicate_of.is_none())
}

/// Puts an event in. False if the log has it already, by another road.
pub(super) fn put(connection: &Connection, record: &Record) -> rusqlite::Result<bool> {
    if record::is_known(connection, record.id())? {
        return Ok(false);
    }
    let Ok(frames) = spool::encode(record) else {
        return Ok(false);
    };
    session::put_in_inbox(connection, record.seq, &frames, record.session.as_ref())?;
    Ok(true)
}

/// Completes an event that is in the inbox still, now that its hooks have run. Gives it as it is now;
/// none if it has to go into the log.
pub(super) fn amend(
    connection: &Connection,
    before: &Record,
    decided: &Record,
) -> rusqlite::Result<Option<Record>> {
    let mut whole = decided.clone();
    whole.seq = before.seq;
    if whole.session.is_none() {
        whole.session.clone_from(&before.session);
    }
    let Ok(frames) = spool::encode(&whole) else {
        return Ok(None);
    };
    let amended = session::amend_in_inbox(connection, whole.seq, &frames, whole.session.as_ref())?;
    Ok(amended.then_some(whole))
}

/// Moves these into the log.
pub(super) fn settle(connection: &mut Connection, records: &[Record]) -> rusqlite::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for record in records {
        record.insert(&transaction)?;
        transaction
            .prepare_cached("DELETE FROM inbox WHERE seq = ?1")?
            .execute([record.seq])?;
    }
    session::write(
        &transaction,
        records.iter().filter_map(|record| record.session.as_ref()),
    )?;
    transaction.commit()
}

/// What is in the inbox: after a daemon was killed, whoever reads without one finds it here.
pub fn waiting(connection: &Connection, masker: &Masker) -> rusqlite::Result<Vec<Record>> {
    let mut select = connection.prepare_cached("SELECT seq, frames FROM inbox ORDER BY seq")?;
    let mut rows = select.query([])?;
    let mut sessions = session::in_inbox(connection)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        match spool::decode(row.get_ref(1)?.as_blob()?, masker) {
            Some(mut record) => {
                record.seq = seq;
                record.session = sessions.remove(&seq);
                records.push(record);
            }
            None => warn!(seq, "an event in the inbox cannot be read; it stays there"),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use becket_engine::session::Session;

    use super::super::sample::{Home, masker, record, rows};
    use super::super::session::{Kept, Which};
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_in_the_log() {
        let home = Home::new();
        let mut connection = home.open();
        let events = [record(7, 1), record(8, 2)];
        for event in &events {
            assert!(put(&connection, event).unwrap());
        }
        assert_eq!(rows(&connection).len(), 0);
        assert_eq!(waiting(&connection, &masker()).unwrap().len(), 2);
        let put_in = waiting(&connection, &masker()).unwrap();
        settle(&mut connection, &put_in).unwrap();
        let found = rows(&connection);
        let expected: Vec<_> = events.iter().map(Record::to_row).collect();
        assert_eq!(found, expected);
        assert!(waiting(&connection, &masker()).unwrap().is_empty());
        assert!(!put(&connection, &record(9, 1)).unwrap(), "the same event");
    }

    #[test]
    fn a_session_stands_beside_its_event_and_the_newest_state_counts() {
        let home = Home::new();
        let mut connection = home.open();
        let state = |title: &str, revision| {
            let mut session = Session::new("s", 5);
            session.title = Some(title.to_owned());
            Kept::new(&session, revision)
        };
        let titles = |connection: &Connection| -> Vec<String> {
            let found = session::sessions(connection, Which::Live).unwrap();
            found.into_iter().filter_map(|one| one.title).collect()
        };
        let mut events = [record(7, 1), record(8, 2)];
        events[0].session = state("old", 1);
        events[1].session = state("new", 2);
        for event in &events {
            assert!(put(&connection, event).unwrap());
        }
        assert_eq!(titles(&connection), ["new"], "in the inbox");
        assert_eq!(session::last_revision(&connection).unwrap(), 2);
        let left = waiting(&connection, &masker()).unwrap();
        settle(&mut connection, &left).unwrap();
        assert_eq!(titles(&connection), ["new"], "in the table");
        session::write(&connection, state("late", 1).iter()).unwrap();
        assert_eq!(
            titles(&connection),
            ["new"],
            "what is older changes nothing"
        );
    }
}
