//! Where sessions and their events come from: the daemon, or the database where there is none.

use anyhow::Result;
use becket_wire::rpc::{AskReply, EventQuery, EventRow};
use becket_wire::session::{SessionQuery, SessionRow};

use super::stored::sessions_without_daemon;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::log;
use crate::world::World;

#[derive(Debug)]
pub enum Source<'a> {
    Daemon(Client, &'a World),
    Database(&'a World),
}

impl<'a> Source<'a> {
    /// The daemon, started if need be; the database if it cannot be reached or must not be.
    pub fn open(world: &'a World) -> Self {
        if world.no_daemon {
            return Self::Database(world);
        }
        match Client::connect_or_start(world) {
            Ok(client) => Self::Daemon(client, world),
            Err(error) => {
                anstream::eprintln!("warning: {error:#}; reading the database without it");
                Self::Database(world)
            }
        }
    }

    /// The daemon that runs, else the database. Nothing is started, and nothing said.
    pub fn open_quietly(world: &'a World) -> Self {
        let running = (!world.no_daemon).then(|| Client::connect(world).ok().flatten());
        match running.flatten() {
            Some(client) => Self::Daemon(client, world),
            None => Self::Database(world),
        }
    }

    pub fn sessions(&mut self, query: &SessionQuery) -> Result<Vec<SessionRow>> {
        match self {
            Self::Daemon(client, world) => {
                again(client, world, |client| client.sessions(query.clone()))
            }
            Self::Database(world) => sessions_without_daemon(world, query),
        }
    }

    pub fn events(&mut self, query: EventQuery) -> Result<Vec<EventRow>> {
        match self {
            Self::Daemon(client, world) => {
                again(client, world, |client| client.events(query.clone()))
            }
            Self::Database(world) => log::read(world, query),
        }
    }

    /// The session that is meant: see [`one`].
    pub fn one(&mut self, meant: &str) -> Result<SessionRow> {
        one(meant, |query| self.sessions(&query))
    }
}

/// Asks the next daemon once, if this one ends in the middle of it.
fn again<T>(
    client: &mut Client,
    world: &World,
    mut ask: impl FnMut(&mut Client) -> Result<T>,
) -> Result<T> {
    let went_away = |error: &anyhow::Error| {
        let failure = error.downcast_ref::<Failure>();
        failure.is_some_and(Failure::is_unreachable)
    };
    match ask(client) {
        Err(error) if went_away(&error) => {
            *client = Client::next_daemon(world)?.ok_or(error)?;
            ask(client)
        }
        answer => answer,
    }
}

/// The session that is meant by its id, by a beginning that only it has, or by its title.
pub fn one(
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
            return Err(log::refusal(AskReply::Ambiguous(ids)));
        }
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(error),
    }
    let everything = SessionQuery {
        all: true,
        ..SessionQuery::default()
    };
    titled(sessions(everything)?, meant)?.ok_or_else(|| {
        let what = format!("no session has an id that begins with `{meant}`, nor that title");
        let failure = Failure::new(Code::Missing, what);
        failure.hint("becket sessions --all shows the ids").into()
    })
}

fn is_missing(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(Failure::is_missing)
}

/// The one that has this title; one that lives goes before those that have ended.
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
