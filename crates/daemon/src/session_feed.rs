//! Sends sessions to `becket sessions`, and sessions and their changes to the live view and to tmux.

use std::sync::Arc;

use becket_engine::session::Session;
use becket_wire::rpc::{Response, Told, complete_session};
use becket_wire::session::{SessionQuery, SessionRow};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tracing::warn;

use crate::connection::Connection;
use crate::core::Message;
use crate::lifecycle::{closes, now_ms};
use crate::registry::RegistryRequest;
use crate::serve::{Server, take_in};
use crate::store::{self, SessionFilter};
use crate::tmux::TmuxRequest;

/// The number of ended sessions that are sent by default.
const ENDED: u32 = 200;

/// Sends every session and every change to the task that pushes into tmux.
pub(crate) async fn tell_tmux(server: Arc<Server>) {
    loop {
        let Some((rows, mut changes)) = watch(&server).await else {
            return;
        };
        drop(server.tmux.send(TmuxRequest::All(rows)).await);
        loop {
            match changes.recv().await {
                Ok(row) => drop(server.tmux.send(TmuxRequest::Session(row)).await),
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

type Watched = (Vec<SessionRow>, broadcast::Receiver<Arc<SessionRow>>);

/// Gets the live sessions, and a subscription to every change from then on.
async fn watch(server: &Server) -> Option<Watched> {
    let (reply, watched) = oneshot::channel();
    let asked = Message::Registry(RegistryRequest::Watch(reply));
    server.core.send(asked).await.ok()?;
    watched.await.ok()
}

/// Turns the colours of a tmux server's panes on or off.
pub(crate) async fn paint(server: &Server, tmux_socket: String, on: bool) -> Told {
    let (done, painted) = oneshot::channel();
    let request = TmuxRequest::Paint {
        tmux_socket,
        on,
        done,
    };
    drop(server.tmux.send(request).await);
    match painted.await {
        Ok(Ok(())) => Told::Done,
        Ok(Err(why)) => Told::No(why.to_string()),
        Err(_) => Told::No("the daemon ends".to_owned()),
    }
}

/// Sends the registry a request. Every request gets an answer, unless the daemon ends.
pub(crate) async fn ask(
    server: &Server,
    asked: impl FnOnce(oneshot::Sender<Told>) -> RegistryRequest,
) -> Told {
    let (reply, answer) = oneshot::channel();
    drop(server.core.send(Message::Registry(asked(reply))).await);
    let ending = Told::No("the daemon ends".to_owned());
    answer.await.unwrap_or(ending)
}

/// Sends the sessions that match a query. Returns false if the connection is to be closed.
pub(crate) async fn sessions(
    connection: &Connection,
    query: SessionQuery,
    server: &Server,
) -> bool {
    // Events in the spool may change the state of a session.
    take_in(server).await;
    let (reply, live) = oneshot::channel();
    drop(
        server
            .core
            .send(Message::Registry(RegistryRequest::Live(reply)))
            .await,
    );
    let live = live.await.unwrap_or_default();
    let told = match &query.session {
        Some(prefix) => one(server, prefix.clone(), live).await,
        None if query.all => {
            let limit = query.limit.unwrap_or(ENDED);
            let ended = stored(server, move |reader| {
                store::sessions(reader, SessionFilter::Ended(limit))
            });
            Told::Sessions(with_ended(live, &ended.await))
        }
        None => Told::Sessions(live),
    };
    match told {
        Told::Sessions(rows) => say(connection, rows).await,
        told => connection.respond(&Response::Told(told)).await,
    }
}

/// Sends as many sessions as fit into a frame, the first ones.
async fn say(connection: &Connection, rows: Vec<SessionRow>) -> bool {
    match packed(rows) {
        Some(frame) => connection.send(&frame).await,
        None => false,
    }
}

fn packed(mut rows: Vec<SessionRow>) -> Option<Vec<u8>> {
    loop {
        let count = rows.len();
        let told = Response::Told(Told::Sessions(rows));
        if let Ok(frame) = told.to_frame() {
            return Some(frame);
        }
        let Response::Told(Told::Sessions(all)) = told else {
            return None;
        };
        warn!(count, "more sessions than one frame holds");
        rows = all;
        rows.truncate(count / 2);
        if rows.is_empty() {
            return None;
        }
    }
}

/// Finds the session whose id begins with `prefix`, live or ended.
async fn one(server: &Server, prefix: String, live: Vec<SessionRow>) -> Told {
    let begins = prefix.clone();
    let known = stored(server, move |reader| {
        store::sessions(reader, SessionFilter::Like(&begins))
    })
    .await;
    let mut found = with_ended(live, &known);
    match complete_session(&prefix, found.iter().map(|row| &*row.session_id)) {
        Ok(id) => {
            found.retain(|row| row.session_id == id);
            Told::Sessions(found)
        }
        Err(told) => told,
    }
}

/// Adds the sessions that are not among the live ones.
fn with_ended(mut live: Vec<SessionRow>, others: &[Session]) -> Vec<SessionRow> {
    let now = now_ms();
    for session in others {
        if live.iter().all(|row| row.session_id != session.session_id) {
            live.push(session.row(now));
        }
    }
    live
}

async fn stored<F>(server: &Server, read: F) -> Vec<Session>
where
    F: FnOnce(&rusqlite::Connection) -> rusqlite::Result<Vec<Session>> + Send + 'static,
{
    let database = server.place.database();
    let found = tokio::task::spawn_blocking(move || {
        let reader = store::open_to_read(&database).ok().flatten()?;
        read(&reader).ok()
    });
    found.await.ok().flatten().unwrap_or_default()
}

/// Sends the live sessions, and then every change until one side ends.
pub(crate) async fn changes(connection: &Connection, server: &Server) -> bool {
    take_in(server).await;
    let mut closing = server.closing.subscribe();
    loop {
        let Some((rows, mut changes)) = watch(server).await else {
            return false;
        };
        if !say(connection, rows).await {
            return false;
        }
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = connection.until_hang_up() => return false,
                () = closes(&mut closing) => return false,
            };
            match change {
                Ok(row) => {
                    let row = Box::new((*row).clone());
                    if !connection
                        .respond(&Response::Told(Told::Changed(row)))
                        .await
                    {
                        return false;
                    }
                }
                // The client was too slow and missed changes: send all sessions again.
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_frame_holds_is_cut_not_refused() {
        let row = SessionRow {
            title: Some("x".repeat(10 << 20)),
            ..SessionRow::default()
        };
        let count = |rows| {
            let mut decoder = becket_wire::frame::Decoder::new();
            decoder.push(&packed(rows)?);
            let frame = decoder.next_frame().ok()??;
            match Response::from_frame(frame).ok()? {
                Response::Told(Told::Sessions(rows)) => Some(rows.len()),
                _ => None,
            }
        };
        assert_eq!(count(vec![row.clone(); 3]), Some(3));
        assert_eq!(count(vec![row.clone(); 4]), Some(2));
        assert_eq!(count(Vec::new()), Some(0));
    }
}
