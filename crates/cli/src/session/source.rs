//! Reads sessions and their events from the daemon, or from the database without one.

use anyhow::{Context, Result};
use becket_daemon::lifecycle::now_ms;
use becket_daemon::store::{self, SessionFilter};
use becket_wire::rpc::{AskReply, EventQuery, EventRow, complete_session};
use becket_wire::session::{SessionQuery, SessionRow};

use crate::client::{self, Client};
use crate::failure::{Code, Failure};
use crate::world::World;

/// The daemon, or the database if there is none.
#[derive(Debug)]
pub struct SessionSource<'a> {
    world: &'a World,
    daemon: Option<Client>,
}

impl<'a> SessionSource<'a> {
    /// Opens the daemon, which is started if needed, or the database if the daemon is not reachable or
    /// not wanted.
    pub fn open(world: &'a World) -> Self {
        if world.no_daemon {
            return Self::open_quietly(world);
        }
        let daemon = Client::connect_or_start(world).inspect_err(|error| {
            anstream::eprintln!("warning: {error:#}; reading the database without it");
        });
        Self {
            world,
            daemon: daemon.ok(),
        }
    }

    /// Opens a running daemon, else the database. Starts and prints nothing.
    pub fn open_quietly(world: &'a World) -> Self {
        let daemon = if world.no_daemon {
            None
        } else {
            Client::connect(world).ok().flatten()
        };
        Self { world, daemon }
    }

    pub fn sessions(&mut self, query: &SessionQuery) -> Result<Vec<SessionRow>> {
        match &mut self.daemon {
            Some(client) => again(client, self.world, |client| client.sessions(query.clone())),
            None => sessions_without_daemon(self.world, query),
        }
    }

    pub fn events(&mut self, query: EventQuery) -> Result<Vec<EventRow>> {
        match &mut self.daemon {
            Some(client) => again(client, self.world, |client| client.events(query.clone())),
            None => crate::log::read(self.world, query),
        }
    }

    /// Finds one session: see [`find_session`].
    pub fn find(&mut self, meant: &str) -> Result<SessionRow> {
        find_session(meant, |query| self.sessions(&query))
    }
}

/// Asks a daemon, and once more the next one if this daemon ends before its answer.
fn again<T>(
    client: &mut Client,
    world: &World,
    mut ask: impl FnMut(&mut Client) -> Result<T>,
) -> Result<T> {
    match ask(client) {
        Err(error) if client::is_unreachable(&error) => {
            *client = Client::reconnect_with_retries(world)?.ok_or(error)?;
            ask(client)
        }
        answer => answer,
    }
}

/// Finds a session by its id, an unambiguous beginning of the id, or its title.
pub fn find_session(
    meant: &str,
    mut sessions: impl FnMut(SessionQuery) -> Result<Vec<SessionRow>>,
) -> Result<SessionRow> {
    let query = SessionQuery {
        session: Some(meant.to_owned()),
        all: true,
        limit: None,
    };
    match sessions(query) {
        Ok(mut rows) if rows.len() == 1 => return Ok(rows.remove(0)),
        Ok(rows) if rows.is_empty() => {}
        Ok(rows) => {
            let ids = rows.into_iter().map(|row| row.session_id).collect();
            return Err(client::refusal(AskReply::Ambiguous(ids)));
        }
        Err(error) if error.downcast_ref().is_some_and(Failure::is_missing) => {}
        Err(error) => return Err(error),
    }
    let everything = SessionQuery {
        all: true,
        ..SessionQuery::default()
    };
    titled(sessions(everything)?, meant)?.ok_or_else(|| {
        let what = format!("no session has the title `{meant}`, or an id that begins with it");
        let failure = Failure::new(Code::Missing, what);
        failure.hint("becket sessions --all shows the ids").into()
    })
}

/// Returns the id of the session with this title. Other text may begin an id, and is returned as it is.
pub fn id_of_title(world: &World, text: &str) -> Result<String> {
    let everything = SessionQuery {
        all: true,
        ..SessionQuery::default()
    };
    // Only an id is all of hexadecimal digits.
    let is_title = !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let mut found = None;
    if is_title {
        found = titled(sessions_without_daemon(world, &everything)?, text)?;
    }
    Ok(found.map_or_else(|| text.to_owned(), |row| row.session_id))
}

/// Finds the session with this title. A live session wins over ended ones.
fn titled(rows: Vec<SessionRow>, title: &str) -> Result<Option<SessionRow>> {
    let named = rows
        .into_iter()
        .filter(|row| row.title.as_deref() == Some(title));
    let (mut live, mut ended): (Vec<_>, Vec<_>) = named.partition(|row| row.ended_at.is_none());
    let found = if live.is_empty() {
        &mut ended
    } else {
        &mut live
    };
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => {
            let ids: Vec<String> = found.drain(..).map(|row| row.session_id).collect();
            let what = format!("several sessions have the title `{title}`");
            let failure = Failure::new(Code::Usage, what);
            Err(failure.hint(format!("one of: {}", ids.join(", "))).into())
        }
    }
}

/// The number of ended sessions, unless the query asks for more.
const ENDED_SESSIONS: u32 = 200;

/// Reads the sessions of a query from the database, which is not changed.
pub fn sessions_without_daemon(world: &World, query: &SessionQuery) -> Result<Vec<SessionRow>> {
    let mut found = match store::open_to_read(&world.place.database())? {
        Some(connection) => read(&connection, query).context("could not read the sessions")?,
        None => Vec::new(),
    };
    let Some(prefix) = &query.session else {
        return Ok(found);
    };
    let id = complete_session(prefix, found.iter().map(|row| &*row.session_id));
    let id = id.map_err(client::refusal)?;
    found.retain(|row| row.session_id == id);
    Ok(found)
}

fn read(
    connection: &rusqlite::Connection,
    query: &SessionQuery,
) -> rusqlite::Result<Vec<SessionRow>> {
    let mut sessions = match &query.session {
        Some(prefix) => store::sessions(connection, SessionFilter::Like(prefix))?,
        None => store::sessions(connection, SessionFilter::Live)?,
    };
    if query.all && query.session.is_none() {
        let limit = query.limit.unwrap_or(ENDED_SESSIONS);
        sessions.extend(store::sessions(connection, SessionFilter::Ended(limit))?);
    }
    let now = now_ms();
    Ok(sessions.iter().map(|session| session.row(now)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, title: &str, ended_at: Option<i64>) -> SessionRow {
        SessionRow {
            session_id: id.to_owned(),
            title: Some(title.to_owned()),
            ended_at,
            ..SessionRow::default()
        }
    }

    #[test]
    fn a_title_names_the_one_that_lives() {
        let rows = vec![
            row("a", "login", Some(1)),
            row("b", "login", None),
            row("c", "docs", Some(1)),
            row("d", "docs", Some(2)),
        ];
        let found = |title| titled(rows.clone(), title).map(|row| row.map(|row| row.session_id));
        assert_eq!(found("login").unwrap(), Some("b".to_owned()));
        assert_eq!(found("log").unwrap(), None, "a title is given whole");
        assert!(found("docs").is_err());
    }
}
