//! Who is at hand: sessions that are found again or made, and let go of for others.

use becket_engine::session::{Moment, Session};
use becket_wire::Place;
use rusqlite::Connection;
use tracing::warn;

use super::{AT_HAND, Live, Registry};
use crate::store::{self, Which};

impl Registry {
    /// Finds a session that was here before, or makes a new one.
    pub(super) fn admit(&mut self, id: &str, moment: &Moment<'_>, makes: bool) -> Option<()> {
        let session = match self.stored(id) {
            Some(session) => session,
            None if makes => Session::new(id, moment.at),
            None => return None,
        };
        if self.sessions.len() >= self.room {
            self.make_room()?;
        }
        self.sessions.insert(id.to_owned(), Live::new(session));
        Some(())
    }

    /// Lets go of whoever was quiet longest, of the ended ones first.
    fn make_room(&mut self) -> Option<()> {
        let written = self.sessions.iter().filter(|(_, live)| !live.unwritten);
        // Of two that spoke in the same millisecond always the same one goes.
        let (_, id) = written
            .map(|(id, Live { session, .. })| {
                let is_live = session.ended_at.is_none();
                ((is_live, session.last_activity), id)
            })
            .min()?;
        let id = id.clone();
        let gone = self.sessions.remove(&id)?;
        self.crowded |= gone.session.ended_at.is_none();
        Some(())
    }

    /// That live sessions are not shown; once.
    pub(crate) fn news_of_crowd(&mut self) -> Option<String> {
        let told = std::mem::replace(&mut self.told_of_crowd, self.crowded);
        (self.crowded && !told).then(|| {
            let room = self.room;
            format!("more than {room} sessions live; those that were quiet longest are not shown")
        })
    }

    pub(super) fn stored(&mut self, id: &str) -> Option<Session> {
        let found = self.like(id);
        found.into_iter().find(|session| session.session_id == id)
    }

    /// The sessions in the database whose id begins so. A damaged file is set aside, and then it is
    /// another one that is read.
    pub(super) fn like(&mut self, prefix: &str) -> Vec<Session> {
        let inode = store::inode(&self.place.database());
        if self.reader.as_ref().map(|(inode, _)| *inode) != inode {
            self.reader = open_reader(&self.place);
        }
        let Some((_, reader)) = &self.reader else {
            return Vec::new();
        };
        store::sessions(reader, Which::Like(prefix)).unwrap_or_else(|why| {
            warn!(%why, "could not read a session");
            Vec::new()
        })
    }

    /// Lets go of what ended a while ago: the database has it.
    pub(crate) fn forget(&mut self, now: i64) {
        self.sessions.retain(|_, live| {
            let ended = live.session.ended_at;
            live.unwritten || ended.is_none_or(|end| now - end < AT_HAND)
        });
    }
}

pub(super) fn open_reader(place: &Place) -> Option<(u64, Connection)> {
    let database = place.database();
    let inode = store::inode(&database)?;
    let reader = store::open_to_read(&database).ok().flatten()?;
    Some((inode, reader))
}
