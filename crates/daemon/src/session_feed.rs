//! Sends sessions to `becket sessions`, and sessions and their changes to the live view and to tmux.

use std::sync::Arc;

use becket_engine::session::Session;
use becket_wire::rpc::{AskReply, Response, complete_session};
use becket_wire::session::{SessionQuery, SessionRow};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tracing::warn;

use crate::connection::Connection;
use crate::lifecycle::{now_ms, until_closing};
use crate::registry::RegistryRequest;
use crate::serve::{Server, daemon_ending_reply, take_in};
use crate::store::{self, SessionFilter};
use crate::tmux::TmuxRequest;

/// The number of ended sessions that are sent by default.
const ENDED: u32 = 200;

/// Sends every session and every change to the task that pushes into tmux.
pub(crate) async fn feed_tmux(server: Arc<Server>) {
    loop {
        let Some((rows, mut changes)) = subscribe(&server).await else {
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

type Subscription = (Vec<SessionRow>, broadcast::Receiver<Arc<SessionRow>>);

/// Gets the live sessions, and a subscription to every change from then on.
async fn subscribe(server: &Server) -> Option<Subscription> {
    server.ask_registry(RegistryRequest::Watch).await
}

/// Turns the colours of a tmux server's panes on or off.
pub(crate) async fn paint(server: &Server, tmux_socket: String, on: bool) -> AskReply {
    let (done, painted) = oneshot::channel();
    let request = TmuxRequest::Paint {
        tmux_socket,
        on,
        done,
    };
    drop(server.tmux.send(request).await);
    match painted.await {
        Ok(Ok(())) => AskReply::Done,
        Ok(Err(why)) => AskReply::Refused(why.to_string()),
        Err(_) => daemon_ending_reply(),
    }
}

/// Gets the live sessions, in no order.
pub(crate) async fn live_sessions(server: &Server) -> Vec<SessionRow> {
    let live = server.ask_registry(RegistryRequest::Live).await;
    live.unwrap_or_default()
}

/// Sends the sessions that match a query. Returns false if the connection is to be closed.
pub(crate) async fn send_sessions(
    connection: &Connection,
    query: SessionQuery,
    server: &Server,
) -> bool {
    // Events in the spool may change the state of a session.
    take_in(server).await;
    let live = live_sessions(server).await;
    let told = match &query.session {
        Some(prefix) => find_one(server, prefix.clone(), live).await,
        None if query.all => {
            let limit = query.limit.unwrap_or(ENDED);
            let ended =
                server.read(move |reader| store::sessions(reader, SessionFilter::Ended(limit)));
            AskReply::Sessions(with_ended(live, &ended.await))
        }
        None => AskReply::Sessions(live),
    };
    match told {
        AskReply::Sessions(rows) => send_rows(connection, rows).await,
        told => connection.reply(told).await,
    }
}

/// Sends as many sessions as fit into a frame.
async fn send_rows(connection: &Connection, rows: Vec<SessionRow>) -> bool {
    match to_frame(rows) {
        Some(frame) => connection.send(&frame).await,
        None => false,
    }
}

fn to_frame(mut rows: Vec<SessionRow>) -> Option<Vec<u8>> {
    loop {
        let count = rows.len();
        let told = Response::Reply(AskReply::Sessions(rows));
        if let Ok(frame) = told.to_frame() {
            return Some(frame);
        }
        let Response::Reply(AskReply::Sessions(all)) = told else {
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
async fn find_one(server: &Server, prefix: String, live: Vec<SessionRow>) -> AskReply {
    let wanted = prefix.clone();
    let known = server
        .read(move |reader| store::sessions(reader, SessionFilter::Like(&wanted)))
        .await;
    let mut found = with_ended(live, &known);
    match complete_session(&prefix, found.iter().map(|row| &*row.session_id)) {
        Ok(id) => {
            found.retain(|row| row.session_id == id);
            AskReply::Sessions(found)
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

/// Sends the live sessions, and then every change until one side ends.
pub(crate) async fn send_changes(connection: &Connection, server: &Server) -> bool {
    take_in(server).await;
    let mut closing = server.closing.subscribe();
    loop {
        let Some((rows, mut changes)) = subscribe(server).await else {
            return false;
        };
        if !send_rows(connection, rows).await {
            return false;
        }
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = connection.until_hang_up() => return false,
                () = until_closing(&mut closing) => return false,
            };
            match change {
                Ok(row) => {
                    let row = Box::new((*row).clone());
                    if !connection.reply(AskReply::Changed(row)).await {
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
    fn sessions_beyond_one_frame_are_cut_off() {
        let row = SessionRow {
            title: Some("x".repeat(10 << 20)),
            ..SessionRow::default()
        };
        let count = |rows| {
            let mut decoder = becket_wire::frame::Decoder::new();
            decoder.push(&to_frame(rows)?);
            let frame = decoder.next_frame().ok()??;
            match Response::from_frame(frame).ok()? {
                Response::Reply(AskReply::Sessions(rows)) => Some(rows.len()),
                _ => None,
            }
        };
        assert_eq!(count(vec![row.clone(); 3]), Some(3));
        assert_eq!(count(vec![row.clone(); 4]), Some(2));
        assert_eq!(count(Vec::new()), Some(0));
    }
}
